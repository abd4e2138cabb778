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

from autotune.kernels.flash_attention.backward_context import BackwardContext, KeyTile, Unit, statistics_of
from autotune.kernels.flash_attention.backward_plans import Cut, cuts
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.constants import fill
from autotune.kernels.flash_attention.context import KeyBlock, QueryBlock, load
from autotune.kernels.flash_attention.products import FRACTAL_BLOCKS
from autotune.kernels.flash_attention.vectors import apply
from autotune.kernels.flash_attention.windows import Strip
from autotune.plan import TILE, pad

LOG_SUM_TERMS = 3
"""fp16 terms of a log-sum-exp: 33 bits, more than fp32 has."""
PRODUCTS_ROW = LOG_SUM_TERMS
"""Row of -rowsum(dO O) in a fractal of statistics, with dropout: the one after those terms."""


def load_keys(context: BackwardContext, tile: KeyTile, head: Any, keys: KeyBlock) -> None:
    """K and V of a block, scaled, to L1: [keys / 16][depth] tiles, as the cube takes them."""
    for part in cuts(keys.keys, context.geometry.part):
        _load_part(context, tile.k, context.globals.k, head, keys, part, context.scale.scores.exact)
        _load_part(context, tile.v, context.globals.v, head, keys, part, context.scale.values)
    if context.geometry.alibi_terms:
        _load_alibi(context, tile.alibi, head, keys)


def _load_alibi(context: BackwardContext, target: Any, head: Any, keys: KeyBlock) -> None:
    """The biases of a block as the first rows, one for each term, of a fractal for each tile of keys."""
    fill(context.tik, context.buffers.p.next(), context.geometry.wide, target, 0, keys.tiles, 0.0)
    source = context.globals.alibi[head * pad(context.problem.N) + keys.first * TILE]
    for term in range(context.geometry.alibi_terms):
        context.tik.data_move(target[term * TILE], source, 0, keys.tiles, 1, 0, FRACTAL_BLOCKS - 1)


def _load_part(
    context: BackwardContext, target: Any, source: Any, head: Any, keys: KeyBlock, part: Cut, factor: float
) -> None:
    tik, depth, length = context.tik, context.geometry.depth, pad(context.problem.N)
    start, rows = head * depth * length + (keys.first + part.first) * TILE, part.tiles * TILE
    step = max(1, context.geometry.wide // part.tiles)
    for first in range(0, depth, step):
        strips, staging = min(step, depth - first), context.buffers.p.next()
        load(tik, staging, source, start + first * length, strips, length, rows)
        apply(tik.vec_muls, strips * part.tiles * TILE_ELEMENTS, (staging, staging), factor)
        for strip in range(strips):
            place = target[(part.first * depth + first + strip) * TILE_ELEMENTS]
            gap = (depth - 1) * FRACTAL_BLOCKS
            tik.data_move(place, staging[strip * rows * TILE], 0, part.tiles, FRACTAL_BLOCKS, 0, gap)


def load_queries(context: BackwardContext, unit: Unit) -> None:
    """Q, dO, the statistics and the masks of the unit's piece of queries to L1."""
    tik, problem, depth, tile, queries = context.tik, context.problem, context.geometry.depth, unit.tile, unit.queries
    keys = unit.keys
    length, rows = pad(problem.Nq), queries.tiles * TILE
    start = queries.head * depth * length + queries.first * TILE
    load(tik, tile.q, context.globals.q, start, depth, length, rows)
    load(tik, tile.do, context.globals.do, start, depth, length, rows)
    blocks = queries.tiles * context.geometry.statistics * FRACTAL_BLOCKS
    tik.data_move(tile.statistics, statistics_of(context, queries.head, queries.first), 0, 1, blocks, 0, 0)
    if context.geometry.has_mask_tile:
        batch = queries.head // problem.heads if problem.attn_mask == "full" else 0
        _load_mask(context, tile.mask, context.globals.mask, batch, queries, keys)
    if context.geometry.dropout:
        _load_mask(context, tile.dropout, context.globals.dropout, queries.head, queries, keys)


def _load_mask(
    context: BackwardContext, target: Any, source: Any, matrix: Any, queries: QueryBlock, keys: KeyBlock
) -> None:
    """A mask of a piece of queries by a block of keys to L1 as [keys / 16][queries][16]."""
    length = pad(context.problem.Nq)
    start = (matrix * (pad(context.problem.N) // TILE) + keys.first) * length + queries.first * TILE
    load(context.tik, target, source, start, keys.tiles, length, queries.tiles * TILE)


def scores(context: BackwardContext, unit: Unit) -> None:
    """S^T - log-sum-exp, masked and still without the scale's ``rest``, and dP^T - D of a unit, in L0C.

    Without D where the vector unit subtracts it.
    """
    geometry, terms = context.geometry, context.geometry.mask_terms
    _subtract_statistics(context, unit, context.buffers.s_cube, 0, LOG_SUM_TERMS)
    if geometry.has_mask_tile:
        _add_mask(context, unit, _tile_column(context, unit), range(terms))
    first_key, first_query = unit.keys.first + unit.part.first, unit.queries.first + unit.chunk.first
    for strip in geometry.strips:
        with context.tik.if_scope(strip.border.crosses(first_key, unit.part.tiles, first_query, unit.chunk.tiles)):
            diagonals = range(terms, terms + 1) if strip.border.hides else range(terms)
            _add_mask(context, unit, _strip_column(context, unit, strip), diagonals)
    if geometry.alibi_terms:
        _add_alibi(context, unit)
    _multiply(context, unit.key_tile.k, unit.tile.q, unit, context.buffers.s_cube, adds=True)
    if geometry.cube_subtracts_products:
        _subtract_statistics(context, unit, context.buffers.dp_cube, 1, TILE)
    _multiply(
        context, unit.key_tile.v, unit.tile.do, unit, context.buffers.dp_cube, adds=geometry.cube_subtracts_products
    )


def _add_alibi(context: BackwardContext, unit: Unit) -> None:
    """A key's bias, over the scale's ``rest``, to its scores with all queries of a chunk, exact in fp32."""
    tik, part, left = context.tik, unit.part, context.buffers.left.next()
    tik.load2dv1(left, unit.key_tile.alibi[part.first * TILE_ELEMENTS], 0, part.tiles, 1, 0, True)
    terms, factor = context.geometry.alibi_terms, context.buffers.alibi_cube
    tik.mmad(context.buffers.s_cube, left, factor, part.tiles * TILE, terms, unit.chunk.tiles * TILE, 1)


def _subtract_statistics(context: BackwardContext, unit: Unit, target: Any, kind: int, terms: int) -> None:
    """``target`` = the terms of one kind (0: a term a row, to be transposed; 1: a term a column), for every key."""
    right, chunk = context.buffers.terms.next(), unit.chunk
    kinds = context.geometry.statistics
    source = unit.tile.statistics[(chunk.first * kinds + kind) * TILE_ELEMENTS]
    context.tik.load2dv1(right, source, 0, chunk.tiles, kinds, 0, kind == 0)
    context.tik.mmad(target, context.buffers.ones, right, unit.part.tiles * TILE, terms, chunk.tiles * TILE, 0)


def _multiply(context: BackwardContext, keys_side: Any, queries_side: Any, unit: Unit, target: Any, adds: bool) -> None:
    """``target``, or what is added to it, = a part of K or V times the transpose of a chunk of Q or dO."""
    tik, depth, part, chunk = context.tik, context.geometry.depth, unit.part, unit.chunk
    left, right = context.buffers.left.next(), context.buffers.right.next()
    tik.load2dv1(left, keys_side[part.first * depth * TILE_ELEMENTS], 0, part.tiles * depth, 1, 0, False)
    strips = 1 if chunk.tiles == unit.queries.tiles else depth  # a whole piece lies as the cube takes it
    for strip in range(strips):
        source = queries_side[(strip * unit.queries.tiles + chunk.first) * TILE_ELEMENTS]
        place = right[strip * chunk.tiles * TILE_ELEMENTS]
        tik.load2dv1(place, source, 0, chunk.tiles * depth // strips, 1, 0, False)
    tik.mmad(target, left, right, part.tiles * TILE, context.problem.head_dim, chunk.tiles * TILE, int(adds))


Column = Callable[[Any, int], int]
"""Loads the mask of a part's keys for one tile of a chunk's queries to L0A; returns how many queries of it are real."""


def _add_mask(context: BackwardContext, unit: Unit, column: Column, diagonals: range) -> None:
    """diagonals: numbers of those that the mask is multiplied with."""
    tik, buffers = context.tik, context.buffers
    for query_tile in range(unit.chunk.tiles):
        left = buffers.left.next()
        exact_k = column(left, query_tile)
        target = context.buffers.s_cube[query_tile * unit.part.tiles * TILE_ELEMENTS]
        for number in diagonals:
            diagonal = buffers.diagonal[number * TILE_ELEMENTS]
            tik.mmad(target, left, diagonal, unit.part.tiles * TILE, exact_k, TILE, 1)


def _tile_column(context: BackwardContext, unit: Unit) -> Column:
    def column(left: Any, query_tile: int) -> int:
        rows = unit.queries.tiles
        source = unit.tile.mask[(unit.part.first * rows + unit.chunk.first + query_tile) * TILE_ELEMENTS]
        context.tik.load2dv1(left, source, 0, unit.part.tiles, rows, 0, True)
        return min(TILE, unit.chunk.tokens - query_tile * TILE)

    return column


def _strip_column(context: BackwardContext, unit: Unit, strip: Strip) -> Column:
    """The strip's middle has to meet the tile of keys where the border lies."""

    def column(left: Any, query_tile: int) -> int:
        index = strip.index(unit.keys.first + unit.part.first, unit.queries.first + unit.chunk.first + query_tile)
        context.tik.load2dv1(left, context.buffers.strip, index, unit.part.tiles, 1, 0, False)
        return TILE

    return column


def accumulate(context: BackwardContext, unit: Unit, p: Any, ds: Any, fresh: Any) -> None:
    """Adds a unit's P^T and dS^T, [queries / 16][keys / 16] tiles in L1, to dV, dQ and dK in L0C.

    In this order: P^T is there first, and the vector unit waits for dQ.
    fresh: whether dV and dK of the part hold nothing yet (may be symbolic).
    """
    _add_to_keys(context, context.buffers.dv, p, unit.tile.do, unit, fresh)
    _add_to_queries(context, ds, unit)
    _add_to_keys(context, context.buffers.dk, ds, unit.tile.q, unit, fresh)


def _add_to_keys(context: BackwardContext, gradient: Any, weights: Any, values: Any, unit: Unit, fresh: Any) -> None:
    tik, depth, part, chunk = context.tik, context.geometry.depth, unit.part, unit.chunk
    left, right = context.buffers.left.next(), context.buffers.right.next()
    for row in range(part.tiles):
        source = weights[row * TILE_ELEMENTS]
        tik.load2dv1(left[row * chunk.tiles * TILE_ELEMENTS], source, 0, chunk.tiles, part.tiles, 0, False)
    for column in range(chunk.tiles):
        source = values[(chunk.first + column) * TILE_ELEMENTS]
        tik.load2dv1(right[column * depth * TILE_ELEMENTS], source, 0, depth, unit.queries.tiles, 0, True)
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
    tik.load2dv1(right, unit.key_tile.k[part.first * depth * TILE_ELEMENTS], 0, part.tiles * depth, 1, 0, True)
    add = int(part.index > 0)
    tik.mmad(context.buffers.dq, left, right, chunk.tiles * TILE, part.tokens, depth * TILE, add)
