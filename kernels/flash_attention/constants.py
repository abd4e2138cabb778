"""Constant operands of the cube, made once per core: ones, the causal strip and the mask's value on a diagonal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import Context
from autotune.kernels.flash_attention.vectors import apply
from autotune.plan import TILE

BLOCKS_PER_TILE = 16
"""32-byte blocks in a 16 x 16 tile of fp16 elements."""
ROWS_PER_REPEAT = 8
"""Rows of 16 fp16 elements in a repeat."""


def prepare(context: Context) -> None:
    """Fills every constant that the problem's mask needs, and the ones that sum rows."""
    buffers, geometry = context.buffers, context.geometry
    _fill(context, buffers.ones, geometry.chunk, 1.0)
    for left in (buffers.left.next(), buffers.left.next()):
        context.tik.load2dv1(left, buffers.ones, 0, geometry.chunk, 1, 0, False)
    if geometry.half:
        _fill(context, buffers.base_l1, geometry.rows, 0.0)
    if geometry.strip:
        zeros = geometry.strip_zeros
        if zeros:
            _fill(context, buffers.strip, zeros, 0.0)
            _fill(context, buffers.strip[(zeros + 1) * TILE_ELEMENTS :], zeros, 1.0)
        _pattern(context, buffers.strip[zeros * TILE_ELEMENTS :], 1.0, lambda key, query: key > query)
    if geometry.mask_terms:
        for index, value in enumerate(context.scale.mask_terms):
            _pattern(context, buffers.diagonal_l1[index * TILE_ELEMENTS :], value, lambda key, query: key == query)
        context.tik.load2dv1(buffers.diagonal, buffers.diagonal_l1, 0, geometry.mask_terms, 1, 0, False)


def _fill(context: Context, target: Any, tiles: int, value: float) -> None:
    tik, staging = context.tik, context.buffers.half.next()
    room = min(tiles, context.geometry.passing_tiles)
    apply(tik.vec_dup, room * TILE_ELEMENTS, (staging,), value)
    for first in range(0, tiles, room):
        count = min(room, tiles - first)
        tik.data_move(target[first * TILE_ELEMENTS], staging, 0, 1, count * BLOCKS_PER_TILE, 0, 0)


def _pattern(context: Context, target: Any, value: float, chosen: Callable[[int, int], bool]) -> None:
    """One fractal: ``value`` where a (row, column) is chosen, 0 elsewhere."""
    tik, staging = context.tik, context.buffers.half.next()
    apply(tik.vec_dup, TILE_ELEMENTS, (staging,), 0.0)
    for first in (0, ROWS_PER_REPEAT):
        tik.vec_dup(_lanes(first, chosen), staging[first * TILE :], value, 1, 8)
    tik.data_move(target, staging, 0, 1, BLOCKS_PER_TILE, 0, 0)


def _lanes(first: int, chosen: Callable[[int, int], bool]) -> list[int]:
    """The bit mask, high word first, of the chosen elements in 8 rows of a fractal."""
    bits = 0
    for row in range(ROWS_PER_REPEAT):
        for column in range(TILE):
            bits |= chosen(first + row, column) << (row * TILE + column)
    return [bits >> 64, bits & (1 << 64) - 1]
