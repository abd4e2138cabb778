"""Constant operands of the cube, made once per core: ones, strips across borders, and the mask's value on diagonals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import Context
from autotune.kernels.flash_attention.plans import HIDDEN, Scale
from autotune.kernels.flash_attention.vectors import apply
from autotune.kernels.flash_attention.windows import Strip
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
        prepare_strip(tik, buffers.half.next, room, buffers.strip, strip)
    if geometry.alibi_terms:
        fill(tik, buffers.half.next(), room, buffers.alibi.at(0), 0, geometry.buffers * geometry.keys, 0.0)
        prepare_alibi_factor(tik, buffers.half.next, room, buffers, context.scale, geometry.slice)
    prepare_diagonals(tik, buffers.half.next, buffers, context.scale, geometry)


def prepare_strip(tik: Any, staging: Callable[[], Any], room: int, target: Any, strip: Strip) -> None:
    """A strip in L1: zeros where the border hides nothing, else 1 for a mask, 65504 for a window.

    ``staging()`` is a tensor in UB that holds ``room`` fractals.
    """
    border, value = strip.border, HIDDEN if strip.border.hides else 1.0
    behind = strip.middle + len(border.limits)
    first, second = (0.0, value) if border.above else (value, 0.0)
    fill(tik, staging(), room, target, strip.start, strip.middle - strip.start, first)
    fill(tik, staging(), room, target, behind, strip.end - behind, second)
    for number in range(len(border.limits)):
        place = target[(strip.middle + number) * TILE_ELEMENTS :]
        pattern(tik, staging(), place, value, partial(border.across, number))


def prepare_diagonals(tik: Any, staging: Callable[[], Any], buffers: Any, scale: Scale, geometry: Any) -> None:
    """What masks and windows are multiplied with, on the diagonals of fractals in L0B; for either kernel."""
    values = (*scale.mask_terms[: geometry.mask_terms], *[-HIDDEN] * geometry.hides)
    for index, value in enumerate(values):
        pattern(tik, staging(), buffers.diagonal_l1[index * TILE_ELEMENTS :], value, on_diagonal)
    if values:
        tik.load2dv1(buffers.diagonal, buffers.diagonal_l1, 0, len(values), 1, 0, False)


def prepare_alibi_factor(
    tik: Any, staging: Callable[[], Any], room: int, buffers: Any, scale: Scale, tiles: int
) -> None:
    """What multiplies biases, in L0B: a row for each term of fractals that are 0 otherwise, one for a tile of queries.

    ``staging()`` is a tensor in UB that holds ``room`` fractals; ``buffers`` are those of either kernel.
    """
    fill(tik, staging(), room, buffers.alibi_factor, 0, tiles, 0.0)
    for term, value in enumerate(scale.alibi_terms):
        row = staging()
        apply(tik.vec_dup, tiles * TILE, (row,), value)
        tik.data_move(buffers.alibi_factor[term * TILE], row, 0, tiles, 1, 0, BLOCKS_PER_TILE - 1)
    tik.load2dv1(buffers.alibi_cube, buffers.alibi_factor, 0, tiles, 1, 0, True)


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
        mask = lanes(first, chosen)
        if any(mask):
            tik.vec_dup(mask, staging[first * TILE :], value, 1, 8)
    tik.data_move(target, staging, 0, 1, BLOCKS_PER_TILE, 0, 0)


def on_diagonal(row: int, column: int) -> bool:
    """Whether a tile of an identity matrix holds a 1."""
    return row == column


def lanes(first: int, chosen: Callable[[int, int], bool]) -> list[int]:
    """The bit mask, high word first, of the chosen elements in 8 rows of a fractal."""
    bits = 0
    for row in range(ROWS_PER_REPEAT):
        for column in range(TILE):
            bits |= chosen(first + row, column) << (row * TILE + column)
    return [bits >> 64, bits & (1 << 64) - 1]
