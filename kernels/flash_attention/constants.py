"""Constant operands of the cube, made once per core: ones, strips across borders, and the mask's value on diagonals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import Context
from autotune.kernels.flash_attention.plans import HIDDEN, Strip
from autotune.kernels.flash_attention.vectors import apply
from autotune.plan import TILE

BLOCKS_PER_TILE = 16
"""32-byte blocks in a 16 x 16 tile of fp16 elements."""
ROWS_PER_REPEAT = 8
"""Rows of 16 fp16 elements in a repeat."""


def prepare(context: Context) -> None:
    """Fills every constant that the problem's mask needs, and the ones that sum rows."""
    tik, buffers, geometry = context.tik, context.buffers, context.geometry
    room = geometry.passing_tiles
    fill(tik, buffers.half.next(), room, buffers.ones, 0, geometry.chunk, 1.0)
    for left in (buffers.left.next(), buffers.left.next()):
        tik.load2dv1(left, buffers.ones, 0, geometry.chunk, 1, 0, False)
    if geometry.half:
        fill(tik, buffers.half.next(), room, buffers.base_l1, 0, geometry.rows, 0.0)
    for strip in geometry.strips:
        _prepare_strip(context, strip)
    if geometry.alibi_terms:
        _prepare_alibi(context)
    values = context.scale.mask_terms[: geometry.mask_terms] + (-HIDDEN,) * int(geometry.hides)
    for index, value in enumerate(values):
        pattern(tik, buffers.half.next(), buffers.diagonal_l1[index * TILE_ELEMENTS :], value, on_diagonal)
    if values:
        tik.load2dv1(buffers.diagonal, buffers.diagonal_l1, 0, len(values), 1, 0, False)


def _prepare_strip(context: Context, strip: Strip) -> None:
    """Zeros where the border hides nothing, ``value`` where it hides."""
    tik, buffers, room, border = context.tik, context.buffers, context.geometry.passing_tiles, strip.border
    value = HIDDEN if border.hides else 1.0
    ends = (0.0, value) if border.above else (value, 0.0)
    for start, filler in zip((strip.start, strip.end - strip.reach), ends):
        fill(tik, buffers.half.next(), room, buffers.strip, start, strip.reach, filler)
    for number in range(len(border.limits)):
        target = buffers.strip[(strip.middle + number) * TILE_ELEMENTS :]
        pattern(tik, buffers.half.next(), target, value, partial(border.across, number))


def _prepare_alibi(context: Context) -> None:
    """Biases are rows of fractals that are 0 otherwise; what multiplies them are rows of another, for every query."""
    tik, buffers, geometry = context.tik, context.buffers, context.geometry
    room, staging = geometry.passing_tiles, buffers.half.next()
    fill(tik, staging, room, buffers.alibi.at(0), 0, geometry.buffers * geometry.keys, 0.0)
    fill(tik, buffers.half.next(), room, buffers.alibi_factor, 0, geometry.slice, 0.0)
    for term, value in enumerate(context.scale.alibi_terms):
        staging = buffers.half.next()
        apply(tik.vec_dup, geometry.slice * TILE, (staging,), value)
        tik.data_move(buffers.alibi_factor[term * TILE], staging, 0, geometry.slice, 1, 0, BLOCKS_PER_TILE - 1)
    tik.load2dv1(buffers.alibi_cube, buffers.alibi_factor, 0, geometry.slice, 1, 0, True)


def fill(tik: Any, staging: Any, room: int, target: Any, start: int, tiles: int, value: float) -> None:
    """So many fractals (or none) of one value in L1, from fractal ``start`` on; ``staging`` in UB holds ``room``."""
    if not tiles:
        return
    apply(tik.vec_dup, min(tiles, room) * TILE_ELEMENTS, (staging,), value)
    for first in range(0, tiles, room):
        place = target[(start + first) * TILE_ELEMENTS]
        tik.data_move(place, staging, 0, 1, min(room, tiles - first) * BLOCKS_PER_TILE, 0, 0)


def pattern(tik: Any, staging: Any, target: Any, value: float, chosen: Callable[[int, int], bool]) -> None:
    """One fractal in L1: ``value`` where a (row, column) is chosen, 0 elsewhere; ``staging`` is a fractal in UB."""
    apply(tik.vec_dup, TILE_ELEMENTS, (staging,), 0.0)
    for first in (0, ROWS_PER_REPEAT):
        lanes = _lanes(first, chosen)
        if any(lanes):
            tik.vec_dup(lanes, staging[first * TILE :], value, 1, 8)
    tik.data_move(target, staging, 0, 1, BLOCKS_PER_TILE, 0, 0)


def above_diagonal(key: int, query: int) -> bool:
    """Whether a causal mask hides a key of a diagonal tile."""
    return key > query


def on_diagonal(row: int, column: int) -> bool:
    """Whether a tile of an identity matrix holds a 1."""
    return row == column


def _lanes(first: int, chosen: Callable[[int, int], bool]) -> list[int]:
    """The bit mask, high word first, of the chosen elements in 8 rows of a fractal."""
    bits = 0
    for row in range(ROWS_PER_REPEAT):
        for column in range(TILE):
            bits |= chosen(first + row, column) << (row * TILE + column)
    return [bits >> 64, bits & (1 << 64) - 1]
