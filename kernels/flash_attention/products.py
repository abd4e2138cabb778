"""The two products of a block on the cube, and what carries their operands and results.

S^T = K Q^T has queries on the 16-lane axis, so that a number per query is a packed vector; masks and windows are added
by the cube too, as mask^T times its value on a diagonal, exact in fp32, and so is what fp16 scores lack: ones times
-base.
O^T = [1 | V]^T P^T has the row sums of P as its first 16 rows. Padded keys and head dimensions are left out by the
exact k of every product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS, Ring
from autotune.kernels.flash_attention.context import Context, KeyBlock, QueryBlock, QuerySlice, load
from autotune.kernels.flash_attention.plans import Chunk
from autotune.kernels.flash_attention.vectors import apply
from autotune.kernels.flash_attention.windows import Strip, some_see_nothing
from autotune.plan import TILE, pad

FRACTAL_BLOCKS = 16
"""32-byte blocks in an fp16 fractal."""


def load_queries(context: Context, block: QueryBlock) -> None:
    """Q of a block as it is to L1, as [depth][queries][16]."""
    length, depth = pad(context.problem.Nq), context.geometry.depth
    start = block.head * depth * length + block.first * TILE
    load(context.tik, context.buffers.q_raw, context.globals.q, start, depth, length, block.tiles * TILE)


def scale_queries(context: Context, block: QueryBlock) -> None:
    """Q of a block, times what the scale has for it, through UB, as [depth][queries][16] for each slice."""
    tik, buffers, geometry = context.tik, context.buffers, context.geometry
    for queries in block.slices(geometry):
        step = geometry.passing_tiles // queries.tiles
        for first in range(0, geometry.depth, step):
            strips = min(step, geometry.depth - first)
            staging, tiles = buffers.half.next(), strips * queries.tiles
            source = buffers.q_raw[(first * block.tiles + queries.offset) * TILE_ELEMENTS]
            burst, gap = (count * FRACTAL_BLOCKS for count in (queries.tiles, block.tiles - queries.tiles))
            tik.data_move(staging, source, 0, strips, burst, gap, 0)
            apply(tik.vec_muls, tiles * TILE_ELEMENTS, (staging, staging), context.scale.exact)
            target = buffers.q[(queries.offset * geometry.depth + first * queries.tiles) * TILE_ELEMENTS]
            tik.data_move(target, staging, 0, 1, tiles * FRACTAL_BLOCKS, 0, 0)


def load_keys(context: Context, head: Any, keys: KeyBlock) -> None:
    """A block of K to L1, and its ALiBi biases as the first rows of a fractal for each tile of keys."""
    _load_tile(context, context.buffers.k.at(keys.number)[0], context.globals.k, head, keys)
    if context.geometry.alibi_terms:
        source = context.globals.alibi[head * pad(context.problem.N) + keys.first * TILE]
        for term in range(context.geometry.alibi_terms):
            target = context.buffers.alibi.at(keys.number)[term * TILE]
            context.tik.data_move(target, source, 0, keys.tiles, 1, 0, FRACTAL_BLOCKS - 1)


def load_values(context: Context, block: QueryBlock, keys: KeyBlock) -> None:
    """A block of V to L1, and of the dropout mask, where there is one, as [keys / 16][queries][16]."""
    _load_tile(context, context.buffers.v.at(keys.number)[0], context.globals.v, block.head, keys)
    if context.geometry.dropout:
        _load_mask(context, context.buffers.dropout, context.globals.dropout, block.head, block, keys)


def _load_tile(context: Context, target: Any, source: Any, head: Any, keys: KeyBlock) -> None:
    """A block of K or V to L1 as [depth][keys][16]."""
    length, depth = pad(context.problem.N), context.geometry.depth
    start = head * depth * length + keys.first * TILE
    load(context.tik, target, source, start, depth, length, keys.tiles * TILE)


def load_mask(context: Context, block: QueryBlock, keys: KeyBlock) -> None:
    """A block of the attention mask, where there is one, to L1 as [keys / 16][queries][16]."""
    problem = context.problem
    if context.geometry.has_mask_tile:
        batch = block.head // problem.heads if problem.attn_mask == "full" else 0
        _load_mask(context, context.buffers.mask, context.globals.mask, batch, block, keys)


def _load_mask(context: Context, ring: Ring, source: Any, matrix: Any, block: QueryBlock, keys: KeyBlock) -> None:
    length = pad(context.problem.Nq)
    start = (matrix * (pad(context.problem.N) // TILE) + keys.first) * length + block.first * TILE
    load(context.tik, ring.at(keys.number)[0], source, start, keys.tiles, length, block.tiles * TILE)


def first_tile_scores(context: Context, queries: QuerySlice, keys: KeyBlock) -> Any:
    """S^T of the first tile of keys in L0C, [queries / 16][16][16], with a causal mask, without base."""
    target = context.buffers.s_cube[queries.index % context.geometry.ring]
    chunk = Chunk(queries.index, 0, 1, min(TILE, keys.keys))
    _multiply(context, target, queries, keys, chunk)
    _add_alibi(context, target, queries, keys, chunk)
    for strip in context.geometry.strips:
        with context.tik.if_scope(queries.first == 0):
            _add_border(context, queries, keys, [chunk], strip)
    return target


def scores(context: Context, block: QueryBlock, queries: QuerySlice, keys: KeyBlock, chunks: Iterable[Chunk]) -> None:
    """S^T of chunks of a block, masked, in L0C: [queries / 16][keys][16]. It still lacks the scale's ``rest``."""
    geometry, buffers = context.geometry, context.buffers
    chunks = list(chunks)
    for chunk in chunks:
        target = buffers.s_cube[chunk.index % geometry.ring]
        left = _multiply(context, target, queries, keys, chunk)
        if geometry.half:
            tiles = queries.tiles
            context.tik.mmad(target, left, buffers.base_cube, chunk.tiles * TILE, 1, tiles * TILE, 1)
        _add_alibi(context, target, queries, keys, chunk)
        if geometry.has_mask_tile:
            column = _tile_column(context, block, queries, keys, chunk)
            _add_mask(context, queries, chunk, column, range(geometry.mask_terms))
    for strip in geometry.strips:
        with context.tik.if_scope(strip.border.crosses(keys.first, keys.tiles, queries.first, queries.tiles)):
            _add_border(context, queries, keys, chunks, strip)


def load_operand(context: Context, queries: QuerySlice) -> None:
    """Q^T of a slice to L0B if all of it fits, and -base."""
    geometry, buffers = context.geometry, context.buffers
    if geometry.part == geometry.depth:
        _load_query_part(context, queries, 0)
    if geometry.half:
        source = buffers.base_l1[queries.offset * TILE_ELEMENTS]
        context.tik.load2dv1(buffers.base_cube, source, 0, queries.tiles, 1, 0, True)


def _multiply(context: Context, target: Any, queries: QuerySlice, keys: KeyBlock, chunk: Chunk) -> Any:
    """S^T of a chunk; the left operand that was used, which begins with ones."""
    tik, buffers, geometry = context.tik, context.buffers, context.geometry
    k = buffers.k.at(keys.number)
    for first in range(0, geometry.depth, geometry.part):
        tiles = min(geometry.part, geometry.depth - first)
        ones = buffers.left.next()
        left = ones[geometry.chunk * TILE_ELEMENTS :]
        for row in range(chunk.tiles):
            strip = k[(first * keys.tiles + chunk.first + row) * TILE_ELEMENTS]
            tik.load2dv1(left[row * tiles * TILE_ELEMENTS], strip, 0, tiles, keys.tiles, 0, False)
        if geometry.part < geometry.depth:
            _load_query_part(context, queries, first)
        exact_k = min(tiles * TILE, context.problem.head_dim - first * TILE)
        tik.mmad(target, left, buffers.q_cube, chunk.tiles * TILE, exact_k, queries.tiles * TILE, int(first > 0))
    return ones


def _add_alibi(context: Context, target: Any, queries: QuerySlice, keys: KeyBlock, chunk: Chunk) -> None:
    """Adds a key's bias, over the scale's ``rest``, to its scores with all queries of a slice, exact in fp32."""
    geometry, buffers = context.geometry, context.buffers
    if not geometry.alibi_terms:
        return
    left = buffers.left.next()[geometry.chunk * TILE_ELEMENTS :]
    source = buffers.alibi.at(keys.number)[chunk.first * TILE_ELEMENTS]
    context.tik.load2dv1(left, source, 0, chunk.tiles, 1, 0, True)
    operands = (target, left, buffers.alibi_cube, chunk.tiles * TILE, geometry.alibi_terms, queries.tiles * TILE)
    context.tik.mmad(*operands, 1)


def _load_query_part(context: Context, queries: QuerySlice, first: int) -> None:
    """Q^T to L0B, from one tile of the head dimension on, as much of it as there is room for."""
    geometry, buffers = context.geometry, context.buffers
    tiles = min(geometry.part, geometry.depth - first)
    source = buffers.q[(queries.offset * geometry.depth + first * queries.tiles) * TILE_ELEMENTS]
    context.tik.load2dv1(buffers.q_cube, source, 0, tiles * queries.tiles, 1, 0, False)


Column = Callable[[Any, int], int]
"""Loads the mask of a chunk's keys for one tile of queries to L0A and returns how many queries of it are real."""


def _add_mask(context: Context, queries: QuerySlice, chunk: Chunk, column: Column, diagonals: range) -> None:
    """diagonals: numbers of those that the mask is multiplied with."""
    tik, buffers = context.tik, context.buffers
    for query_tile in range(queries.tiles):
        left = buffers.left.next()[context.geometry.chunk * TILE_ELEMENTS :]
        exact_k = column(left, query_tile)
        scores_of_chunk = buffers.s_cube[chunk.index % context.geometry.ring]
        target = scores_of_chunk[query_tile * chunk.tiles * TILE_ELEMENTS]
        for number in diagonals:
            diagonal = buffers.diagonal[number * TILE_ELEMENTS]
            tik.mmad(target, left, diagonal, chunk.tiles * TILE, exact_k, TILE, 1)


def _tile_column(context: Context, block: QueryBlock, queries: QuerySlice, keys: KeyBlock, chunk: Chunk) -> Column:
    mask = context.buffers.mask.at(keys.number)

    def column(left: Any, query_tile: int) -> int:
        source = mask[(chunk.first * block.tiles + queries.offset + query_tile) * TILE_ELEMENTS]
        context.tik.load2dv1(left, source, 0, chunk.tiles, block.tiles, 0, True)
        return min(TILE, queries.queries - query_tile * TILE)

    return column


def _add_border(context: Context, queries: QuerySlice, keys: KeyBlock, chunks: Iterable[Chunk], strip: Strip) -> None:
    terms = context.geometry.mask_terms
    diagonals = range(terms, terms + 1) if strip.border.hides else range(terms)
    for chunk in chunks:
        _add_mask(context, queries, chunk, _strip_column(context, queries, keys, chunk, strip), diagonals)


def _strip_column(context: Context, queries: QuerySlice, keys: KeyBlock, chunk: Chunk, strip: Strip) -> Column:
    """The strip's middle has to meet the tile of keys where the border lies."""
    beyond = not strip.border.above and some_see_nothing(context.problem)

    def column(left: Any, query_tile: int) -> int:
        index = strip.index(keys.first + chunk.first, queries.first + query_tile)
        if beyond:  # queries after all keys: however far, the strip's start hides everything
            inside = context.tik.Scalar("int32", "inside")
            context.tik.scalar_max(inside, index, strip.start)
            index = inside
        context.tik.load2dv1(left, context.buffers.strip, index, chunk.tiles, 1, 0, False)
        return TILE

    return column


def drain(tik: Any, target: Any, source: Any, tiles: int) -> None:
    """So many fp32 tiles of a product from L0C to UB, in the target's type."""
    tik.tensor_mov(target, source, "m", 1, tiles, 0, 0)


def sum_rows(context: Context, queries: QuerySlice, chunk: Chunk, goes_on: Any) -> None:
    """Adds a chunk's row sums, before dropout, to what L0C holds of them, [queries / 16][16][16]."""
    buffers = context.buffers
    left, right = buffers.left.next(), buffers.right.next()
    ones = left[(context.geometry.chunk - chunk.tiles) * TILE_ELEMENTS :]
    context.tik.load2dv1(right, buffers.p[chunk.index], 0, chunk.tiles * queries.tiles, 1, 0, True)
    _accumulate(context.tik, (buffers.total_cube, ones, right, TILE, chunk.keys, queries.tiles * TILE), goes_on)


def weigh(context: Context, queries: QuerySlice, keys: KeyBlock, chunk: Chunk, goes_on: Any) -> None:
    """Adds a chunk's part of [1 | V]^T P^T to O^T in L0C, [queries / 16][16 + depth x 16][16].

    goes_on: whether there is something to add to. The ones are in L0A already: ``constants.prepare`` left them at the
    head of both left operands. With dropout P is what is left of it, and its row sums count for nothing.
    """
    tik, buffers, depth = context.tik, context.buffers, context.geometry.depth
    left, right, v = buffers.left.next(), buffers.right.next(), buffers.v.at(keys.number)
    p = buffers.dropped if context.geometry.dropout else buffers.p
    for part in range(depth):
        target = left[(context.geometry.chunk + part * chunk.tiles) * TILE_ELEMENTS]
        tik.load2dv1(target, v[(part * keys.tiles + chunk.first) * TILE_ELEMENTS], 0, chunk.tiles, 1, 0, True)
    ones_and_values = left[(context.geometry.chunk - chunk.tiles) * TILE_ELEMENTS :]
    tik.load2dv1(right, p[chunk.index], 0, chunk.tiles * queries.tiles, 1, 0, True)
    operands = (buffers.o_cube, ones_and_values, right, (depth + 1) * TILE, chunk.keys, queries.tiles * TILE)
    _accumulate(tik, operands, goes_on)


def _accumulate(tik: Any, operands: tuple[Any, ...], goes_on: Any) -> None:
    """A product, added to its target where ``goes_on``, which may be symbolic."""
    if isinstance(goes_on, bool):
        tik.mmad(*operands, int(goes_on))
        return
    with tik.if_scope(goes_on):
        tik.mmad(*operands, 1)
    with tik.else_scope():
        tik.mmad(*operands, 0)
