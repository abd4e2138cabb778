"""All rows of the instruction table."""

from __future__ import annotations

from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.rows_cube import LOAD_ROWS, MATMUL_ROW, MMAD_ROW
from autotune.kernels.davinci.rows_moves import (
    BROADCAST_ROW,
    CONVERTING_MOVE_ROWS,
    MOVE_ROWS,
    RELU_MOVE_ROW,
)
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS, WHOLE_ROWS

ROWS: tuple[Row, ...] = (
    *VECTOR_ROWS.values(),
    *WHOLE_ROWS.values(),
    *MOVE_ROWS.values(),
    *CONVERTING_MOVE_ROWS.values(),
    RELU_MOVE_ROW,
    BROADCAST_ROW,
    MMAD_ROW,
    MATMUL_ROW,
    *LOAD_ROWS.values(),
    STORE_ELEMENT,
)
"""Calls with several routes have one row for each."""
