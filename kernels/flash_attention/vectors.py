"""Vector instructions on contiguous fp32 or fp16 elements and on packed vectors of one number per query.

A slab (rows x 16 x 16 elements) has the queries of a block on its last axis; a packed vector (rows x 16) has one
number per query. ``tik`` is the Tik container everywhere; tensors are views of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

MOST_REPEATS = 255
"""Repeats of one vector instruction."""
LANES = {"float16": 128, "float32": 64}
"""Elements in a repeat of 256 bytes."""
ROW = 16
"""Elements in a row of a fractal."""
BLOCKS_PER_ROW = 2
"""32-byte blocks in a row of 16 fp32 elements."""
BLOCKS_PER_TILE = 32
"""32-byte blocks in a 16 x 16 tile of fp32 elements."""


def spans(repeats: int) -> Iterator[tuple[int, int]]:
    """(first repeat, repeats) of the instructions that make up so many repeats."""
    for first in range(0, repeats, MOST_REPEATS):
        yield first, min(MOST_REPEATS, repeats - first)


def apply(call: Callable[..., None], elements: int, tensors: tuple[Any, ...], *scalars: float) -> None:
    """``call`` (a vec_* method) on the first ``elements`` (whole repeats) of contiguous tensors, target first."""
    lanes = LANES[tensors[0].dtype]
    for first, count in spans(elements // lanes):
        call(lanes, *(tensor[first * lanes :] for tensor in tensors), *scalars, count, *(8 for _ in tensors))


def apply_packed(call: Callable[..., None], rows: int, tensors: tuple[Any, ...], *scalars: float) -> None:
    """``call`` on packed vectors of rows x 16 fp32 numbers: one repeat per row of 16."""
    call(ROW, *tensors, *scalars, rows, *(BLOCKS_PER_ROW for _ in tensors))


def narrow(tik: Any, elements: int, half: Any, single: Any) -> None:
    """fp32 to fp16, rounded to nearest even; whole repeats of 64."""
    lanes = LANES["float32"]
    for first, count in spans(elements // lanes):
        tik.vec_conv(lanes, "none", half[first * lanes :], single[first * lanes :], count, 4, 8)


def spread(tik: Any, rows: int, slab: Any, packed: Any) -> None:
    """A packed vector on every row of a slab. A repeat writes half a row (8 queries) of 8 rows of a tile."""
    for half in range(BLOCKS_PER_ROW):
        for first_row in (0, 8):
            target = slab[first_row * ROW + half * 8 :]
            tik.vadds(64, target, packed[half * 8 :], 0.0, rows, BLOCKS_PER_ROW, 0, BLOCKS_PER_TILE, BLOCKS_PER_ROW)


def first_rows(tik: Any, rows: int, packed: Any, slab: Any) -> None:
    """The first row of every tile of a slab, packed."""
    tik.vec_adds(ROW, packed, slab, 0.0, rows, BLOCKS_PER_ROW, BLOCKS_PER_TILE)


def fold_slab(tik: Any, rows: int, packed: Any, slab: Any, scratch: Any) -> None:
    """The largest of the 16 rows of every tile, packed: 16 rows to 8, 4, 2 and 1. ``scratch`` is another slab."""
    eight, four, two = scratch, scratch[rows * 128 :], scratch[rows * 192 :]
    tik.vec_max(64, eight, slab, slab[64:], 2 * rows, 8, 16, 16)
    tik.vec_max(64, four, eight, eight[64:], rows, 8, 16, 16)
    tik.vec_max(32, two, four, four[32:], rows, 4, 8, 8)
    tik.vec_max(16, packed, two, two[16:], rows, 2, 4, 4)
