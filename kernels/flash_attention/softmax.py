"""The online softmax of a block on the vector unit, in fp32, and the output that it accumulates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import Context, KeyBlock, QueryBlock, store
from autotune.kernels.flash_attention.plans import Chunk
from autotune.kernels.flash_attention.products import FRACTAL_BLOCKS, drain, weigh
from autotune.kernels.flash_attention.vectors import (
    BLOCKS_PER_TILE,
    apply,
    apply_packed,
    first_rows,
    fold_slab,
    narrow,
    spread,
)
from autotune.plan import TILE, ceil_div, pad

LEAST = -1.0e30
"""Below every score, and far enough from fp32's end that a difference with it stays finite."""


def begin(context: Context, block: QueryBlock) -> None:
    """No key seen yet: output and row sum 0, maximum below every score."""
    tik, buffers = context.tik, context.buffers
    slabs = context.geometry.depth + 1
    apply(tik.vec_dup, slabs * block.tiles * TILE_ELEMENTS, (buffers.o,), 0.0)
    tik.vec_dup(TILE, buffers.peak, LEAST, block.tiles, 2)


def take_later_scores(context: Context, block: QueryBlock, keys: KeyBlock) -> None:
    """S^T of all chunks but the first from L0C to UB."""
    for chunk in list(context.geometry.chunks(keys.keys))[1:]:
        _take_scores(context, block, chunk)


def take_first_scores(context: Context, block: QueryBlock, keys: KeyBlock) -> None:
    """S^T of the first chunk from L0C to UB, where it overwrites what ``update_output`` has received."""
    _take_scores(context, block, next(context.geometry.chunks(keys.keys)))


def _take_scores(context: Context, block: QueryBlock, chunk: Chunk) -> None:
    """A chunk of S^T as slabs; scores of padded keys become LEAST."""
    s = context.buffers.s[chunk.index]
    drain(context, s, context.buffers.s_cube[chunk.index], block, 0, chunk.tiles, chunk.tiles)
    if chunk.keys < chunk.tiles * TILE:
        _hide_padding(context, block, s[(chunk.tiles - 1) * block.tiles * TILE_ELEMENTS :], chunk.keys % TILE)


def _hide_padding(context: Context, block: QueryBlock, slab: Any, first: int) -> None:
    rows_per_repeat = 4
    for row in range(first, TILE, rows_per_repeat):
        lanes = min(rows_per_repeat, TILE - row) * TILE
        context.tik.vec_dup(lanes, slab[row * TILE :], LEAST, block.tiles, BLOCKS_PER_TILE)


def find_peaks(context: Context, block: QueryBlock, keys: KeyBlock) -> None:
    """The new running maximum of every query, and by what the old output shrinks because of it."""
    tik, buffers, rest = context.tik, context.buffers, context.scale.rest
    slab = _largest_slab(context, block, keys)
    scratch = buffers.scratch[block.tiles * TILE_ELEMENTS :]
    fold_slab(tik, block.tiles, buffers.new_peak, slab, scratch)
    apply_packed(tik.vec_max, block.tiles, (buffers.new_peak, buffers.new_peak, buffers.peak))
    apply_packed(tik.vec_sub, block.tiles, (buffers.decay, buffers.peak, buffers.new_peak))
    if rest != 1.0:
        apply_packed(tik.vec_muls, block.tiles, (buffers.decay, buffers.decay), rest)
    apply_packed(tik.vec_exp, block.tiles, (buffers.decay, buffers.decay))
    apply_packed(tik.vec_adds, block.tiles, (buffers.peak, buffers.new_peak), 0.0)


def _largest_slab(context: Context, block: QueryBlock, keys: KeyBlock) -> Any:
    """The element-wise maximum of all slabs of scores: the first slab of scratch, or of scores where it is alone."""
    tik, scratch = context.tik, context.buffers.scratch
    slab = block.tiles * TILE_ELEMENTS
    (first, width), *others = _windows(context, block, keys)
    if not others:
        return first
    source = first
    for window, slabs in others:
        apply(tik.vec_max, slabs * slab, (scratch, source, window))
        source = scratch
    while width > 1:
        half = ceil_div(width, 2)
        apply(tik.vec_max, half * slab, (scratch, scratch, scratch[(width - half) * slab :]))
        width = half
    return scratch


def _windows(context: Context, block: QueryBlock, keys: KeyBlock) -> Iterator[tuple[Any, int]]:
    """All slabs of scores in windows of (tensor, slabs), half a chunk long; no later one is longer than the first.

    Windows overlap where a count is odd: a maximum may take an element twice.
    """
    chunks = list(context.geometry.chunks(keys.keys))
    half = ceil_div(chunks[0].tiles, 2)
    for chunk in chunks:
        width = min(half, chunk.tiles)
        for first in range(0, chunk.tiles, width):
            start = min(first, chunk.tiles - width)
            yield context.buffers.s[chunk.index][start * block.tiles * TILE_ELEMENTS :], width


def weigh_values(context: Context, v: Any, block: QueryBlock, keys: KeyBlock) -> None:
    """P^T = exp(S^T - maximum) of a block, chunk by chunk to L1 in fp16, and its product with V."""
    tik, buffers = context.tik, context.buffers
    slab = block.tiles * TILE_ELEMENTS
    spread(tik, block.tiles, buffers.scratch, buffers.peak)
    for chunk in context.geometry.chunks(keys.keys):
        s, p, elements = buffers.s[chunk.index], buffers.half.next(), chunk.tiles * slab
        for index in range(chunk.tiles):
            part = s[index * slab :]
            apply(tik.vec_sub, slab, (part, part, buffers.scratch))
        if context.scale.rest != 1.0:
            apply(tik.vec_muls, elements, (s, s), context.scale.rest)
        apply(tik.vec_exp, elements, (s, s))
        narrow(tik, elements, p, s)
        tik.data_move(buffers.p[chunk.index], p, 0, 1, chunk.tiles * block.tiles * FRACTAL_BLOCKS, 0, 0)
        weigh(context, v, block, keys, chunk)


def update_output(context: Context, block: QueryBlock) -> None:
    """O^T = O^T * decay + the block's product. The scores' first chunk is free to receive the product."""
    tik, buffers, slabs = context.tik, context.buffers, context.geometry.depth + 1
    slab, received = block.tiles * TILE_ELEMENTS, buffers.s[0]
    room = context.geometry.chunk
    spread(tik, block.tiles, buffers.scratch, buffers.decay)
    for first in range(0, slabs, room):
        count = min(room, slabs - first)
        drain(context, received, buffers.o_cube, block, first, count, slabs)
        for index in range(first, first + count):
            part = buffers.o[index * slab :]
            apply(tik.vec_mul, slab, (part, part, buffers.scratch))
        part = buffers.o[first * slab :]
        apply(tik.vec_add, count * slab, (part, part, received))


def finish(context: Context, block: QueryBlock) -> None:
    """Writes O = O^T / row sum, transposed to NZ, and the log-sum-exp."""
    tik, buffers, tiles = context.tik, context.buffers, block.tiles
    slab = tiles * TILE_ELEMENTS
    total, inverse, work = buffers.new_peak, buffers.decay, buffers.scratch[slab:]
    first_rows(tik, tiles, total, buffers.o)
    tik.vec_rec_high_preci(TILE, inverse[0:], total[0:], work, tiles, 2, 2)
    _write_log_sum(context, block, total)
    spread(tik, tiles, buffers.scratch, inverse)
    for first in range(0, context.geometry.depth, context.geometry.chunk):
        count = min(context.geometry.chunk, context.geometry.depth - first)
        _write_output(context, block, first, count)


def _write_log_sum(context: Context, block: QueryBlock, total: Any) -> None:
    tik, buffers, tiles = context.tik, context.buffers, block.tiles
    apply_packed(tik.vec_ln, tiles, (total, total))
    if context.scale.rest != 1.0:
        apply_packed(tik.vec_muls, tiles, (buffers.peak, buffers.peak), context.scale.rest)
    apply_packed(tik.vec_add, tiles, (total, total, buffers.peak))
    target = context.globals.lse[block.head * pad(context.problem.Nq) + block.first * TILE]
    tik.data_move(target, total, 0, 1, tiles * 2, 0, 0)


def _write_output(context: Context, block: QueryBlock, first: int, count: int) -> None:
    """Some slabs of O^T: divided, rounded, transposed, stored as [count][queries][16]."""
    tik, buffers, problem = context.tik, context.buffers, context.problem
    slab = block.tiles * TILE_ELEMENTS
    values = buffers.o[(1 + first) * slab :]
    for index in range(count):
        part = values[index * slab :]
        apply(tik.vec_mul, slab, (part, part, buffers.scratch))
    upright, turned = buffers.half.next(), buffers.half.next()
    narrow(tik, count * slab, upright, values)
    tik.vec_trans(turned, upright, count * block.tiles, 1, 1)
    length = pad(problem.Nq)
    start = (block.head * context.geometry.depth + first) * length + block.first * TILE
    store(tik, context.globals.o, start, turned, count, length, block.tiles * TILE)
