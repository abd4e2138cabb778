"""The two products of a block on the cube, and what carries their operands and results.

S^T = K Q^T has queries on the 16-lane axis, so that a number per query is a packed vector; the mask is added by the
cube too, as mask^T times its value on a diagonal, exact in fp32. O^T = [1 | V]^T P^T has the row sums of P as its first
16 rows. Padded keys and head dimensions are left out by the exact k of every product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS, KeyTile
from autotune.kernels.flash_attention.context import Context, KeyBlock, QueryBlock, load
from autotune.kernels.flash_attention.plans import Chunk
from autotune.kernels.flash_attention.vectors import apply
from autotune.plan import TILE, pad

FRACTAL_BLOCKS = 16
"""32-byte blocks in an fp16 fractal."""


def load_queries(context: Context, block: QueryBlock) -> None:
    """Q of a block, times the exact part of the scale, to L1 as [depth][queries][16], and to L0B if all of it fits."""
    tik, buffers, geometry = context.tik, context.buffers, context.geometry
    length, step = pad(context.problem.Nq), geometry.chunk
    for first in range(0, geometry.depth, step):
        strips = min(step, geometry.depth - first)
        staging, tiles = buffers.half.next(), strips * block.tiles
        start = (block.head * geometry.depth + first) * length + block.first * TILE
        load(tik, staging, context.globals.q, start, strips, length, block.tiles * TILE)
        apply(tik.vec_muls, tiles * TILE_ELEMENTS, (staging, staging), context.scale.exact)
        target = buffers.q[first * block.tiles * TILE_ELEMENTS]
        tik.data_move(target, staging, 0, 1, tiles * FRACTAL_BLOCKS, 0, 0)
    if geometry.part == geometry.depth:
        _load_query_part(context, block, 0)


def load_key_tile(context: Context, tile: KeyTile, block: QueryBlock, keys: KeyBlock) -> None:
    """A block of K, and of the mask where there is one, to L1."""
    _load_keys(context, tile.k, context.globals.k, block, keys)
    if context.geometry.has_mask_tile:
        _load_mask(context, tile.mask, block, keys)


def load_values(context: Context, v: Any, block: QueryBlock, keys: KeyBlock) -> None:
    """A block of V to L1."""
    _load_keys(context, v, context.globals.v, block, keys)


def _load_keys(context: Context, target: Any, source: Any, block: QueryBlock, keys: KeyBlock) -> None:
    """A block of K or V to L1 as [depth][keys][16]."""
    length, depth = pad(context.problem.N), context.geometry.depth
    start = block.head * depth * length + keys.first * TILE
    load(context.tik, target, source, start, depth, length, keys.tiles * TILE)


def _load_mask(context: Context, target: Any, block: QueryBlock, keys: KeyBlock) -> None:
    """A block of the mask to L1 as [keys / 16][queries][16]."""
    problem = context.problem
    length = pad(problem.Nq)
    batch = block.head // problem.heads if problem.attn_mask == "full" else 0
    start = (batch * (pad(problem.N) // TILE) + keys.first) * length + block.first * TILE
    load(context.tik, target, context.globals.mask, start, keys.tiles, length, block.tiles * TILE)


def scores(context: Context, tile: KeyTile, block: QueryBlock, keys: KeyBlock) -> None:
    """S^T of a block, masked, in L0C: per chunk [queries / 16][keys][16]. It still lacks the scale's ``rest``."""
    for chunk in context.geometry.chunks(keys.keys):
        _multiply(context, tile.k, block, keys, chunk)
        if context.geometry.has_mask_tile:
            _add_mask(context, block, chunk, _tile_column(context, tile.mask, block, chunk))
    if context.geometry.strip:
        with context.tik.if_scope(keys.first + keys.tiles > block.first):
            for chunk in context.geometry.chunks(keys.keys):
                _add_mask(context, block, chunk, _strip_column(context, block, keys, chunk))


def _multiply(context: Context, k: Any, block: QueryBlock, keys: KeyBlock, chunk: Chunk) -> None:
    tik, buffers, geometry = context.tik, context.buffers, context.geometry
    for first in range(0, geometry.depth, geometry.part):
        tiles = min(geometry.part, geometry.depth - first)
        left = buffers.left.next()[geometry.chunk * TILE_ELEMENTS :]
        for row in range(chunk.tiles):
            strip = k[(first * keys.tiles + chunk.first + row) * TILE_ELEMENTS]
            tik.load2dv1(left[row * tiles * TILE_ELEMENTS], strip, 0, tiles, keys.tiles, 0, False)
        if geometry.part < geometry.depth:
            _load_query_part(context, block, first)
        exact_k = min(tiles * TILE, context.problem.head_dim - first * TILE)
        columns = block.tiles * TILE
        tik.mmad(
            buffers.s_cube[chunk.index], left, buffers.q_cube, chunk.tiles * TILE, exact_k, columns, int(first > 0)
        )


def _load_query_part(context: Context, block: QueryBlock, first: int) -> None:
    """Q^T to L0B, from one tile of the head dimension on, as much of it as there is room for."""
    geometry, buffers = context.geometry, context.buffers
    tiles = min(geometry.part, geometry.depth - first)
    source = buffers.q[first * block.tiles * TILE_ELEMENTS]
    context.tik.load2dv1(buffers.q_cube, source, 0, tiles * block.tiles, 1, 0, False)


Column = Callable[[Any, int], int]
"""Loads the mask of a chunk's keys for one tile of queries to L0A and returns how many queries of it are real."""


def _add_mask(context: Context, block: QueryBlock, chunk: Chunk, column: Column) -> None:
    tik, buffers = context.tik, context.buffers
    for query_tile in range(block.tiles):
        left = buffers.left.next()[context.geometry.chunk * TILE_ELEMENTS :]
        exact_k = column(left, query_tile)
        target = buffers.s_cube[chunk.index][query_tile * chunk.tiles * TILE_ELEMENTS]
        for term in range(context.geometry.mask_terms):
            diagonal = buffers.diagonal[term * TILE_ELEMENTS]
            tik.mmad(target, left, diagonal, chunk.tiles * TILE, exact_k, TILE, 1)


def _tile_column(context: Context, mask: Any, block: QueryBlock, chunk: Chunk) -> Column:
    def column(left: Any, query_tile: int) -> int:
        source = mask[(chunk.first * block.tiles + query_tile) * TILE_ELEMENTS]
        context.tik.load2dv1(left, source, 0, chunk.tiles, block.tiles, 0, True)
        return min(TILE, block.queries - query_tile * TILE)

    return column


def _strip_column(context: Context, block: QueryBlock, keys: KeyBlock, chunk: Chunk) -> Column:
    """The strip's triangle has to meet the tile of keys whose number is that of the tile of queries."""

    def column(left: Any, query_tile: int) -> int:
        index = keys.first - block.first + (context.geometry.strip_zeros + chunk.first - query_tile)
        context.tik.load2dv1(left, context.buffers.strip, index, chunk.tiles, 1, 0, False)
        return TILE

    return column


def drain(context: Context, target: Any, source: Any, block: QueryBlock, first: int, tiles: int, height: int) -> None:
    """Tiles of rows of a product in L0C, [queries / 16][height x 16][16], to UB as slabs."""
    for index in range(tiles):
        slab, fractals = target[index * block.tiles * TILE_ELEMENTS], source[(first + index) * TILE_ELEMENTS]
        context.tik.tensor_mov(slab, fractals, "m", block.tiles, 1, 0, height - 1)


def weigh(context: Context, v: Any, block: QueryBlock, keys: KeyBlock, chunk: Chunk) -> None:
    """Adds a chunk's part of [1 | V]^T P^T to O^T in L0C, [queries / 16][16 + depth x 16][16].

    The ones are in L0A already: ``constants.prepare`` left them at the head of both left operands.
    """
    tik, buffers, depth = context.tik, context.buffers, context.geometry.depth
    left, right = buffers.left.next(), buffers.right.next()
    for part in range(depth):
        target = left[(context.geometry.chunk + part * chunk.tiles) * TILE_ELEMENTS]
        tik.load2dv1(target, v[(part * keys.tiles + chunk.first) * TILE_ELEMENTS], 0, chunk.tiles, 1, 0, True)
    ones_and_values = left[(context.geometry.chunk - chunk.tiles) * TILE_ELEMENTS :]
    tik.load2dv1(right, buffers.p[chunk.index], 0, chunk.tiles * block.tiles, 1, 0, True)
    rows, columns = (depth + 1) * TILE, block.tiles * TILE
    tik.mmad(buffers.o_cube, ones_and_values, right, rows, chunk.keys, columns, int(chunk.index > 0))
