"""Row-major arrays to the fractal layout NZ of the Da Vinci core and back, on the host.

NZ of a matrix (rows, columns) is (columns / 16, rows / 16, 16, 16): columns of 16 x 16 fractals, row-major inside a
fractal (tik_api.md 1.5 and 1.17). Both axes are padded to whole tiles with zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.plan import TILE, pad

Array = NDArray[Any]


def to_nz(matrices: Array) -> Array:
    """(..., rows, columns) to (..., columns / 16, rows / 16, 16, 16), C-contiguous, same data type."""
    *batch, rows, columns = matrices.shape
    padding = [(0, 0)] * len(batch) + [(0, pad(rows) - rows), (0, pad(columns) - columns)]
    tiles = np.pad(matrices, padding).reshape(*batch, pad(rows) // TILE, TILE, pad(columns) // TILE, TILE)
    return np.ascontiguousarray(np.moveaxis(tiles, -2, len(batch)))


def from_nz(fractals: Array, rows: int, columns: int) -> Array:
    """The inverse of ``to_nz``: (..., rows, columns), C-contiguous, without the padding."""
    *batch, column_tiles, row_tiles, _, _ = fractals.shape
    matrices = np.moveaxis(fractals, len(batch), -2).reshape(*batch, row_tiles * TILE, column_tiles * TILE)
    return np.ascontiguousarray(matrices[..., :rows, :columns])
