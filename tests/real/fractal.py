"""The fractal layout NZ that the public kernels read and write: columns in groups of 16, each a tall 16-wide matrix."""

from __future__ import annotations

import numpy as np

FRACTAL = 16


def pack(matrices: np.ndarray, fill: float = 0.0) -> np.ndarray:
    """(..., rows, columns) to NZ (..., columns/16, rows/16, 16, 16), both rounded up and the rest set to ``fill``."""
    *outer, rows, columns = matrices.shape
    row_tiles, column_tiles = -(-rows // FRACTAL), -(-columns // FRACTAL)
    padded = np.full((*outer, row_tiles * FRACTAL, column_tiles * FRACTAL), fill, matrices.dtype)
    padded[..., :rows, :columns] = matrices
    tiles = padded.reshape(*outer, row_tiles, FRACTAL, column_tiles, FRACTAL)
    return np.ascontiguousarray(np.moveaxis(tiles, -2, -4))


def unpack(tiles: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The inverse of ``pack``: NZ to (..., rows, columns)."""
    *outer, column_tiles, row_tiles, _, _ = tiles.shape
    whole = np.moveaxis(tiles, -4, -2).reshape(*outer, row_tiles * FRACTAL, column_tiles * FRACTAL)
    return whole[..., :rows, :columns]
