"""Vector instructions on contiguous elements, on packed vectors of one number per query, and on tiles of columns.

Queries lie on the last axis, 16 to a row: a column of tiles has one tile of queries, (height, 16); a packed vector
(tiles x 16) has one number per query. ``tik`` is the Tik container everywhere; tensors are views of it.
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
ROW_BLOCKS = {"float16": 1, "float32": BLOCKS_PER_ROW}
"""32-byte blocks in a row of 16 elements."""
ROWS_PER_REPEAT = 8
"""Rows of 16 elements that an instruction of ``across`` takes in a repeat."""
TILE = ROW * ROW
"""Elements in a tile."""


def spans(repeats: int) -> Iterator[tuple[int, int]]:
    """(first repeat, repeats) of the instructions that make up so many repeats."""
    for first in range(0, repeats, MOST_REPEATS):
        yield first, min(MOST_REPEATS, repeats - first)


def apply(call: Callable[..., None], elements: int, tensors: tuple[Any, ...], *scalars: float) -> None:
    """``call`` (a vec_* method) on the first ``elements`` (whole rows) of contiguous tensors, target first."""
    lanes = LANES[tensors[0].dtype]
    for first, count in spans(elements // lanes):
        call(lanes, *(tensor[first * lanes :] for tensor in tensors), *scalars, count, *(8 for _ in tensors))
    rest = elements % lanes
    if rest:
        call(rest, *(tensor[elements - rest :] for tensor in tensors), *scalars, 1, *(8 for _ in tensors))


def apply_packed(call: Callable[..., None], rows: int, tensors: tuple[Any, ...], *scalars: float) -> None:
    """``call`` on packed vectors of rows x 16 fp32 numbers: one repeat per row of 16."""
    call(ROW, *tensors, *scalars, rows, *(BLOCKS_PER_ROW for _ in tensors))


def narrow(tik: Any, elements: int, half: Any, single: Any) -> None:
    """fp32 to fp16, rounded to nearest even; whole repeats of 64."""
    convert(tik, elements, half, single)


def convert(tik: Any, elements: int, target: Any, source: Any) -> None:
    """fp32 to fp16, rounded to nearest even, or back; the first ``elements`` of contiguous tensors."""
    lanes = LANES["float32"]
    steps = [8 if tensor.dtype == "float32" else 4 for tensor in (target, source)]
    for first, count in spans(elements // lanes):
        tik.vec_conv(lanes, "none", target[first * lanes :], source[first * lanes :], count, *steps)
    rest = elements % lanes
    if rest:
        tik.vec_conv(rest, "none", target[elements - rest :], source[elements - rest :], 1, *steps)


def across(call: Callable[..., None], columns: int, height: int, target: Any, packed: Any) -> None:
    """``call`` (a v* method) in place on columns of ``height`` rows (a multiple of 8) and a packed vector on each row.

    A repeat takes 8 rows: in fp16 whole ones, in fp32 halves of 8 queries.
    """
    blocks = ROW_BLOCKS[target.dtype]
    lanes, repeats = LANES[target.dtype], height // ROWS_PER_REPEAT
    step = ROWS_PER_REPEAT * blocks
    for part in range(0, ROW, ROW // blocks):
        for column in range(columns):
            tile = target[column * height * ROW + part :]
            for first, count in spans(repeats):
                rows = tile[first * ROWS_PER_REPEAT * ROW :]
                call(lanes, rows, rows, packed[column * ROW + part :], count, blocks, blocks, 0, step, step, 0)


def first_rows(tik: Any, columns: int, height: int, packed: Any, source: Any) -> None:
    """The first row of every fp32 column, packed."""
    tik.vec_adds(ROW, packed, source, 0.0, columns, BLOCKS_PER_ROW, height * BLOCKS_PER_ROW)


def fold_columns(tik: Any, columns: int, tiles: int, source: Any, scratch: Any, target: Any) -> Any:
    """The largest tile of every column of ``tiles`` tiles: (columns, 16, 16) in ``target``, or the source of one tile.

    ``scratch`` is as large as the source, or the source itself.
    """
    height = tiles
    while tiles > 1:
        rest = tiles - tiles // 2
        count = tiles // 2 if source is scratch else rest
        goal, pitch = (target, 1) if rest == 1 else (scratch, height)
        for column in range(columns):
            first, other = source[column * height * TILE :], source[(column * height + tiles - count) * TILE :]
            apply(tik.vec_max, count * TILE, (goal[column * pitch * TILE :], first, other))
        source, tiles = goal, rest
    return source


def fold_rows(tik: Any, columns: int, packed: Any, tile: Any, scratch: Any) -> None:
    """The largest of the 16 rows of one tile a column, packed: 16 rows to 8, 4, 2 and 1. scratch: columns x 1 tile."""
    lanes, blocks = LANES[tile.dtype], ROW_BLOCKS[tile.dtype]
    source, room = tile, scratch
    for rows in (8, 4, 2, 1):
        target, elements = packed if rows == 1 else room, rows * ROW
        if elements > lanes:
            tik.vec_max(lanes, target, source, source[lanes:], 2 * columns, 8, 16, 16)
        else:
            step = rows * blocks
            tik.vec_max(elements, target, source, source[elements:], columns, step, 2 * step, 2 * step)
        source, room = target, room[columns * elements :] if rows > 1 else room
