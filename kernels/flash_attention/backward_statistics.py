"""What the backward kernel needs of every query, prepared once per core and head and kept in the core's own workspace.

Per tile of 16 queries two fp16 fractals: rows 0 to 2 of the first are terms of (log(weights) - log-sum-exp) / rest; the
16 columns of the second are terms of -rowsum(dO O) / weights, 8 partial sums as their fp16 values and what these lack.
With dropout, which dP has to meet before anything is subtracted, there is no second fractal: -rowsum(dO O) / weights in
fp16 is row 3 of the first. Where dP is fp32, -rowsum(dO O) is too, in a workspace of its own.
"""

from __future__ import annotations

import math
from typing import Any

from autotune.kernels.flash_attention.backward_context import BackwardContext, products_of, statistics_of
from autotune.kernels.flash_attention.backward_products import LOG_SUM_TERMS, PRODUCTS_ROW
from autotune.kernels.flash_attention.backward_range import find_factors
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import load
from autotune.kernels.flash_attention.products import FRACTAL_BLOCKS
from autotune.kernels.flash_attention.vectors import BLOCKS_PER_ROW, ROW, apply, apply_packed, narrow, spans
from autotune.kernels.flash_attention.windows import some_see_nothing
from autotune.plan import TILE, pad

LANES = 64
"""fp32 elements of a repeat: 4 queries of 16 columns, or the 8 partial sums of 8 queries."""
MOST_MINUS_LOG_SUM = 30000.0
"""Of a query that sees no key, whose log-sum-exp is -inf: a number whose terms are fp16, and that leaves what a window
takes off a score as it is."""


def prepare(context: BackwardContext, head: Any) -> None:
    """The statistics of all queries of a head to the core's workspace."""
    if context.geometry.exact:
        find_factors(context, head)
    step, tiles = context.geometry.prepared, pad(context.problem.Nq) // TILE
    whole, rest = divmod(tiles, step)
    with context.tik.for_range(0, whole, name="prepared") as number:
        _prepare(context, head, number * step, step)
    if rest:
        _prepare(context, head, whole * step, rest)


def _prepare(context: BackwardContext, head: Any, first: Any, tiles: int) -> None:
    log_sums, products = context.buffers.p.next(), context.buffers.p.next()
    apply(context.tik.vec_dup, tiles * TILE_ELEMENTS, (log_sums,), 0.0)
    _sum_products(context, head, first, tiles)
    if context.geometry.exact:
        _pack_products(context, tiles)
        context.tik.data_move(
            products_of(context, head, first), context.buffers.packed, 0, 1, tiles * BLOCKS_PER_ROW, 0, 0
        )
    elif context.geometry.dropout:
        _pack_products(context, tiles)
        _narrow_products(context, log_sums, tiles)
    else:
        _split_products(context, products, tiles)
        _store(context, products, head, first, tiles, 1)
    _split_log_sums(context, log_sums, head, first, tiles)
    _store(context, log_sums, head, first, tiles, 0)


def _sum_products(context: BackwardContext, head: Any, first: Any, tiles: int) -> None:
    """-dO O summed over the tiles of the head dimension, [queries][16] in fp32, without the padding's columns."""
    tik, buffers, depth = context.tik, context.buffers, context.geometry.depth
    length, rows = pad(context.problem.Nq), tiles * TILE
    start = head * depth * length + first * TILE
    o, do = buffers.ds.next(), buffers.ds.next()
    load(tik, o, context.globals.o, start, depth, length, rows)
    load(tik, do, context.globals.do, start, depth, length, rows)
    sums = buffers.sums
    apply(tik.vec_dup, tiles * TILE_ELEMENTS, (sums,), 0.0)
    repeats = tiles * TILE_ELEMENTS // LANES
    for strip in range(depth):
        at = strip * tiles * TILE_ELEMENTS
        mask = _columns(min(TILE, context.problem.head_dim - strip * TILE))
        tik.vmla(mask, sums, o[at:], do[at:], repeats, 1, 1, 1, 8, 4, 4)
    apply(tik.vec_muls, tiles * TILE_ELEMENTS, (sums, sums), -context.scale.values)


def _columns(count: int) -> int | list[int]:
    """The mask of the first columns in 4 rows of 16 lanes."""
    if count == TILE:
        return LANES
    return [0, sum(((1 << count) - 1) << row * TILE for row in range(LANES // TILE))]


def _pack_products(context: BackwardContext, tiles: int) -> None:
    """The sums of all 16 columns, a number for each query."""
    tik, packed = context.tik, context.buffers.packed
    for first, count in spans(tiles * TILE):
        tik.vcadd(ROW, packed[first:], context.buffers.sums[first * ROW :], count, 1, 1, BLOCKS_PER_ROW)


def _narrow_products(context: BackwardContext, target: Any, tiles: int) -> None:
    """Row 3 of every fractal: these sums in fp16."""
    tik, packed = context.tik, context.buffers.packed
    tik.vec_conv(ROW, "none", target[PRODUCTS_ROW * ROW :], packed, tiles, FRACTAL_BLOCKS, BLOCKS_PER_ROW)


def _split_products(context: BackwardContext, target: Any, tiles: int) -> None:
    """Columns 0 to 7: the sums of columns c and c + 8 as fp16; columns 8 to 15: what these lack.

    Repeats take every second 32-byte block: 8 columns of 8 queries.
    """
    tik, buffers = context.tik, context.buffers
    sums, terms, half = buffers.sums, buffers.gradient.next(), buffers.ds.next()
    repeats = tiles * TILE // 8
    tik.vadd(LANES, sums, sums, sums[8:], repeats, 2, 2, 2, 16, 16, 16)
    tik.vadds(LANES, terms, sums, 0.0, repeats, 1, 2, 8, 16)
    narrow(tik, tiles * TILE * 8, half, terms)
    tik.vconv(LANES, "none", terms, half, repeats, 2, 1, 16, 4)
    tik.vsub(LANES, terms[8:], sums, terms, repeats, 2, 2, 2, 16, 16, 16)
    narrow(tik, tiles * TILE_ELEMENTS, target, terms)


def _split_log_sums(context: BackwardContext, target: Any, head: Any, first: Any, tiles: int) -> None:
    """Row t of every fractal: term t."""
    tik, buffers = context.tik, context.buffers
    left, rounded = buffers.packed, buffers.rounded
    source = context.globals.lse[head * pad(context.problem.Nq) + first * TILE]
    tik.data_move(left, source, 0, 1, tiles * BLOCKS_PER_ROW, 0, 0)
    rest = context.scale.scores.rest
    apply_packed(tik.vec_muls, tiles, (left, left), -1.0 / rest)
    apply_packed(tik.vec_adds, tiles, (left, left), math.log(context.scale.weights) / rest)
    if some_see_nothing(context.problem):
        apply(tik.vec_dup, tiles * TILE, (rounded,), MOST_MINUS_LOG_SUM)
        apply_packed(tik.vec_min, tiles, (left, left, rounded))
    for term in range(LOG_SUM_TERMS):
        row = target[term * ROW :]
        tik.vec_conv(ROW, "none", row, left, tiles, FRACTAL_BLOCKS, BLOCKS_PER_ROW)
        tik.vec_conv(ROW, "none", rounded, row, tiles, BLOCKS_PER_ROW, FRACTAL_BLOCKS)
        apply_packed(tik.vec_sub, tiles, (left, left, rounded))


def _store(context: BackwardContext, source: Any, head: Any, first: Any, tiles: int, kind: int) -> None:
    target, gap = statistics_of(context, head, first, kind), (context.geometry.statistics - 1) * FRACTAL_BLOCKS
    context.tik.data_move(target, source, 0, tiles, FRACTAL_BLOCKS, 0, gap)
