"""The five products of a unit on the cube, and what carries their operands.

S^T = K Q^T and dP^T = V dO^T have queries on the 16-lane axis. What the vector unit would have to subtract per query is
subtracted by the cube: the log-sum-exp and D = rowsum(dO O) are fp16 terms whose sum is exact to fp32's rounding, and
[ones] [terms]^T adds them to every key. P^T and dS^T then need no number of their own row: their tiles are operands as
they are, of dV = P^T dO, dK = dS^T Q and, transposed while loading, dQ = dS K. Padded tokens and head dimensions are
left out by the exact k of every product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.flash_attention.backward_context import BackwardContext, QueryTile, Unit
from autotune.kernels.flash_attention.backward_plans import STATISTICS, cuts
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import KeyBlock, QueryBlock, load
from autotune.kernels.flash_attention.products import FRACTAL_BLOCKS
from autotune.kernels.flash_attention.vectors import apply
from autotune.plan import TILE, pad

LOG_SUM_TERMS = 3
"""fp16 terms of a log-sum-exp: 33 bits, more than fp32 has."""


def load_keys(context: BackwardContext, head: Any, keys: KeyBlock) -> None:
    """K of a block, times the exact part of the scale, and V to L1, part by part."""
    tik, buffers, depth = context.tik, context.buffers, context.geometry.depth
    length = pad(context.problem.N)
    for part in cuts(keys.keys, context.geometry.part):
        start = head * depth * length + (keys.first + part.first) * TILE
        target = part.first * depth * TILE_ELEMENTS
        load(tik, buffers.v[target], context.globals.v, start, depth, length, part.tiles * TILE)
        step = max(1, context.geometry.wide // part.tiles)
        for first in range(0, depth, step):
            strips, staging = min(step, depth - first), buffers.p.next()
            elements = strips * part.tiles * TILE_ELEMENTS
            load(tik, staging, context.globals.k, start + first * length, strips, length, part.tiles * TILE)
            apply(tik.vec_muls, elements, (staging, staging), context.scale.exact)
            place = buffers.k[target + first * part.tiles * TILE_ELEMENTS]
            tik.data_move(place, staging, 0, 1, strips * part.tiles * FRACTAL_BLOCKS, 0, 0)


def load_queries(context: BackwardContext, tile: QueryTile, block: QueryBlock, keys: KeyBlock) -> None:
    """Q, dO, the statistics and the mask of a block to L1."""
    tik, problem, depth = context.tik, context.problem, context.geometry.depth
    length, rows = pad(problem.Nq), block.tiles * TILE
    start = block.head * depth * length + block.first * TILE
    load(tik, tile.q, context.globals.q, start, depth, length, rows)
    load(tik, tile.do, context.globals.do, start, depth, length, rows)
    statistics = (context.core * (length // TILE) + block.first) * STATISTICS * TILE_ELEMENTS
    blocks = block.tiles * STATISTICS * FRACTAL_BLOCKS
    tik.data_move(tile.statistics, context.globals.statistics[statistics], 0, 1, blocks, 0, 0)
    if context.geometry.has_mask_tile:
        batch = block.head // problem.heads if problem.attn_mask == "full" else 0
        start = (batch * (pad(problem.N) // TILE) + keys.first) * length + block.first * TILE
        load(tik, tile.mask, context.globals.mask, start, keys.tiles, length, rows)


def scores(context: BackwardContext, tile: QueryTile, block: QueryBlock, keys: KeyBlock, unit: Unit) -> None:
    """S^T - log-sum-exp, masked and still without the scale's ``rest``, and dP^T - D of a unit, in L0C."""
    buffers = context.buffers
    _subtract_statistics(context, tile, unit, unit.s, 0, LOG_SUM_TERMS)
    if context.geometry.has_mask_tile:
        _add_mask(context, unit, _tile_column(context, tile, block, unit))
    if context.geometry.strip:
        with context.tik.if_scope(keys.first + unit.part.first + unit.part.tiles > block.first + unit.chunk.first):
            _add_mask(context, unit, _strip_column(context, block, keys, unit))
    _multiply(context, buffers.k, tile.q, block, unit, unit.s)
    _subtract_statistics(context, tile, unit, unit.dp, 1, TILE)
    _multiply(context, buffers.v, tile.do, block, unit, unit.dp)


def _subtract_statistics(
    context: BackwardContext, tile: QueryTile, unit: Unit, target: Any, kind: int, terms: int
) -> None:
    """``target`` = the terms of one kind (0: a term a row, to be transposed; 1: a term a column), for every key."""
    right, chunk = context.buffers.right.next(), unit.chunk
    source = tile.statistics[(chunk.first * STATISTICS + kind) * TILE_ELEMENTS]
    context.tik.load2dv1(right, source, 0, chunk.tiles, STATISTICS, 0, kind == 0)
    context.tik.mmad(target, context.buffers.ones, right, unit.part.tiles * TILE, terms, chunk.tiles * TILE, 0)


def _multiply(
    context: BackwardContext, keys_side: Any, queries_side: Any, block: QueryBlock, unit: Unit, target: Any
) -> None:
    """``target`` += a part of K or V times the transpose of a chunk of Q or dO."""
    tik, depth, part, chunk = context.tik, context.geometry.depth, unit.part, unit.chunk
    left, right = context.buffers.left.next(), context.buffers.right.next()
    for row in range(part.tiles):
        source = keys_side[(part.first * depth + row) * TILE_ELEMENTS]
        tik.load2dv1(left[row * depth * TILE_ELEMENTS], source, 0, depth, part.tiles, 0, False)
    for strip in range(depth):
        source = queries_side[(strip * block.tiles + chunk.first) * TILE_ELEMENTS]
        tik.load2dv1(right[strip * chunk.tiles * TILE_ELEMENTS], source, 0, chunk.tiles, 1, 0, False)
    tik.mmad(target, left, right, part.tiles * TILE, context.problem.head_dim, chunk.tiles * TILE, 1)


Column = Callable[[Any, int], int]
"""Loads the mask of a part's keys for one tile of a chunk's queries to L0A; returns how many queries of it are real."""


def _add_mask(context: BackwardContext, unit: Unit, column: Column) -> None:
    tik, buffers = context.tik, context.buffers
    for query_tile in range(unit.chunk.tiles):
        left = buffers.left.next()
        exact_k = column(left, query_tile)
        target = unit.s[query_tile * unit.part.tiles * TILE_ELEMENTS]
        for term in range(context.geometry.mask_terms):
            diagonal = buffers.diagonal[term * TILE_ELEMENTS]
            tik.mmad(target, left, diagonal, unit.part.tiles * TILE, exact_k, TILE, 1)


def _tile_column(context: BackwardContext, tile: QueryTile, block: QueryBlock, unit: Unit) -> Column:
    def column(left: Any, query_tile: int) -> int:
        source = tile.mask[(unit.part.first * block.tiles + unit.chunk.first + query_tile) * TILE_ELEMENTS]
        context.tik.load2dv1(left, source, 0, unit.part.tiles, block.tiles, 0, True)
        return min(TILE, unit.chunk.tokens - query_tile * TILE)

    return column


def _strip_column(context: BackwardContext, block: QueryBlock, keys: KeyBlock, unit: Unit) -> Column:
    """The strip's triangle has to meet the tile of keys whose number is that of the tile of queries."""

    def column(left: Any, query_tile: int) -> int:
        offset = context.geometry.strip_zeros + unit.part.first - unit.chunk.first - query_tile
        context.tik.load2dv1(
            left, context.buffers.strip, keys.first - block.first + offset, unit.part.tiles, 1, 0, False
        )
        return TILE

    return column


def accumulate(
    context: BackwardContext, tile: QueryTile, block: QueryBlock, unit: Unit, p: Any, ds: Any, first: Any
) -> None:
    """Adds a unit's P^T and dS^T, [queries / 16][keys / 16] tiles in L1, to dV, dK and dQ in L0C.

    first: whether this is the first query block that the key block meets (may be symbolic).
    """
    fresh = first if unit.chunk.index == 0 else False
    _add_to_keys(context, context.buffers.dv, p, tile.do, block, unit, fresh)
    _add_to_keys(context, context.buffers.dk, ds, tile.q, block, unit, fresh)
    _add_to_queries(context, ds, unit)


def _add_to_keys(
    context: BackwardContext, gradient: Any, weights: Any, values: Any, block: QueryBlock, unit: Unit, fresh: Any
) -> None:
    tik, depth, part, chunk = context.tik, context.geometry.depth, unit.part, unit.chunk
    left, right = context.buffers.left.next(), context.buffers.right.next()
    for row in range(part.tiles):
        source = weights[row * TILE_ELEMENTS]
        tik.load2dv1(left[row * chunk.tiles * TILE_ELEMENTS], source, 0, chunk.tiles, part.tiles, 0, False)
    for column in range(chunk.tiles):
        source = values[(chunk.first + column) * TILE_ELEMENTS]
        tik.load2dv1(right[column * depth * TILE_ELEMENTS], source, 0, depth, block.tiles, 0, True)
    target = gradient[part.first * depth * TILE_ELEMENTS]

    def multiply(add: int) -> None:
        tik.mmad(target, left, right, part.tiles * TILE, chunk.tokens, depth * TILE, add)

    if fresh is False:
        multiply(1)
        return
    with tik.if_scope(fresh):
        multiply(0)
    with tik.else_scope():
        multiply(1)


def _add_to_queries(context: BackwardContext, ds: Any, unit: Unit) -> None:
    tik, depth, part, chunk = context.tik, context.geometry.depth, unit.part, unit.chunk
    left, right = context.buffers.left.next(), context.buffers.right.next()
    tik.load2dv1(left, ds, 0, unit.tiles, 1, 0, True)
    for row in range(part.tiles):
        source = context.buffers.k[(part.first * depth + row) * TILE_ELEMENTS]
        tik.load2dv1(right[row * depth * TILE_ELEMENTS], source, 0, depth, part.tiles, 0, True)
    add = int(part.index > 0)
    tik.mmad(context.buffers.dq, left, right, chunk.tiles * TILE, part.tokens, depth * TILE, add)
