"""The online softmax of a slice of queries on the vector unit, and the output that it accumulates.

In fp32, scores come as they are. In fp16 they come relative to ``base``, the running maximum as it was when the cube
computed them, rounded to fp16: what is rounded then is small wherever the weight is not.
"""

from __future__ import annotations

from typing import Any

from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import Context, KeyBlock, QueryBlock, QuerySlice, store
from autotune.kernels.flash_attention.plans import Chunk
from autotune.kernels.flash_attention.products import (
    FRACTAL_BLOCKS,
    drain,
    first_tile_scores,
    load_operand,
    sum_rows,
    weigh,
)
from autotune.kernels.flash_attention.vectors import across, apply, convert, first_rows, fold_columns, fold_rows
from autotune.kernels.flash_attention.windows import some_see_nothing
from autotune.plan import TILE, pad

LEAST = {"float32": -1.0e30, "float16": -60000.0}
"""Below every score, and far enough from the end of the type that a difference with it stays finite."""
NOTHING_SEEN = -1.0e9
"""Between the maximum of a row that sees a key and that of one whose every key a window hides: -65504 ** 2 at most."""

SINGLE_TILE_BLOCKS = 32
"""32-byte blocks in a tile of fp32 elements."""


def vector(context: Context, name: str, queries: QuerySlice) -> Any:
    """A slice's part of a vector of the whole block."""
    return context.buffers.vectors[name][queries.offset * TILE :]


def begin(context: Context, block: QueryBlock, keys: KeyBlock) -> None:
    """No key seen yet: the maximum is below every score, or, for fp16 scores, that of the first tile of keys."""
    vectors, elements = context.buffers.vectors, block.tiles * TILE
    if not context.geometry.half:
        apply(context.tik.vec_dup, elements, (vectors["peak"],), LEAST["float32"])
        return
    tik, buffers = context.tik, context.buffers
    slices = block.slices(context.geometry)
    for queries in slices:
        load_operand(context, queries)
        ready = first_tile_scores(context, queries, keys)
        scores = buffers.largest[queries.offset * TILE_ELEMENTS :]
        drain(tik, scores, ready, queries.tiles)
        _hide_padding(context, scores, queries.tiles, Chunk(0, 0, 1, min(TILE, keys.keys)))
    fold_rows(tik, block.tiles, vectors["growth"], buffers.largest, buffers.fold)
    convert(tik, elements, vectors["peak"], vectors["growth"])
    apply(tik.vec_muls, elements, (vectors["negated"], vectors["growth"]), -1.0)
    convert(tik, elements, vectors["base"], vectors["growth"])
    for queries in slices:
        _refer(context, queries)


def _refer(context: Context, queries: QuerySlice) -> None:
    """Hands -base of a slice to the cube: the first row of a fractal for each tile of queries."""
    target = context.buffers.base_l1[queries.offset * TILE_ELEMENTS]
    context.tik.data_move(target, vector(context, "negated", queries), 0, queries.tiles, 1, 0, FRACTAL_BLOCKS - 1)


def take_scores(context: Context, queries: QuerySlice, chunk: Chunk) -> None:
    """A chunk of S^T from L0C to UB; scores of padded keys become LEAST."""
    s = context.buffers.s[chunk.index]
    drain(context.tik, s, context.buffers.s_cube[chunk.index % context.geometry.ring], queries.tiles * chunk.tiles)
    _hide_padding(context, s, queries.tiles, chunk)


def _hide_padding(context: Context, s: Any, columns: int, chunk: Chunk) -> None:
    height, least = chunk.tiles * TILE, LEAST[s.dtype]
    if chunk.keys < height:
        for column in range(columns):
            first = column * height + chunk.keys
            apply(context.tik.vec_dup, (height - chunk.keys) * TILE, (s[first * TILE :],), least)


def find_peaks(context: Context, queries: QuerySlice, keys: KeyBlock) -> None:
    """The new running maximum of every query, and by what the old output shrinks because of it."""
    if context.geometry.half:
        _find_growth(context, queries, keys)
        return
    tik, vectors, rest = context.tik, context.buffers.vectors, context.scale.rest
    peak, new_peak, decay = vector(context, "peak", queries), vectors["new_peak"], vectors["decay"]
    elements = queries.tiles * TILE
    _find_largest(context, queries, keys, new_peak)
    apply(tik.vec_max, elements, (new_peak, new_peak, peak))
    apply(tik.vec_sub, elements, (decay, peak, new_peak))
    if rest != 1.0:
        apply(tik.vec_muls, elements, (decay, decay), rest)
    apply(tik.vec_exp, elements, (decay, decay))
    apply(tik.vec_adds, elements, (peak, new_peak), 0.0)


def _find_growth(context: Context, queries: QuerySlice, keys: KeyBlock) -> None:
    """fp16 scores lack ``base`` already, so their maximum is by what it grows; a new base follows from it."""
    tik, vectors, elements = context.tik, context.buffers.vectors, queries.tiles * TILE
    peak, base, growth, negated = (vector(context, name, queries) for name in ("peak", "base", "growth", "negated"))
    new_peak, decay = vectors["new_peak"], vectors["decay"]
    _find_largest(context, queries, keys, growth)
    apply(tik.vec_relu, elements, (growth, growth))
    convert(tik, elements, decay, growth)
    apply(tik.vec_add, elements, (new_peak, base, decay))
    apply(tik.vec_sub, elements, (decay, peak, new_peak))
    convert(tik, elements, negated, new_peak)
    apply(tik.vec_exp, elements, (decay, decay))
    apply(tik.vec_adds, elements, (peak, new_peak), 0.0)
    convert(tik, elements, base, negated)
    apply(tik.vec_muls, elements, (negated, negated), -1.0)
    _refer(context, queries)


def _find_largest(context: Context, queries: QuerySlice, keys: KeyBlock, packed: Any) -> None:
    """The largest score of every query in a block of keys, packed."""
    tik, buffers, columns = context.tik, context.buffers, queries.tiles
    first, *others = context.geometry.chunks(keys.keys)
    source = buffers.s[first.index]
    for chunk in others:
        _larger(context, columns, source, first, chunk)
        source = buffers.largest
    single = fold_columns(tik, columns, first.tiles, source, buffers.largest, buffers.fold)
    fold_rows(tik, columns, packed, single, buffers.fold[context.geometry.slice * TILE_ELEMENTS :])


def _larger(context: Context, columns: int, source: Any, first: Chunk, chunk: Chunk) -> None:
    """Maxima of a chunk and of what is known; a shorter chunk is compared column by column, its end after the rest."""
    tik, largest, s = context.tik, context.buffers.largest, context.buffers.s[chunk.index]
    if chunk.tiles == first.tiles:
        apply(tik.vec_max, columns * first.tiles * TILE_ELEMENTS, (largest, source, s))
        return
    if source is not largest:
        apply(tik.vec_adds, columns * first.tiles * TILE_ELEMENTS, (largest, source), 0.0)
    for column in range(columns):
        target = largest[column * first.tiles * TILE_ELEMENTS :]
        taken = s[column * chunk.tiles * TILE_ELEMENTS :]
        apply(tik.vec_max, chunk.tiles * TILE_ELEMENTS, (target, target, taken))


def rescale_output(context: Context, queries: QuerySlice) -> None:
    """O^T * decay to L0C, where the product of the next block is added to it."""
    tik, buffers = context.tik, context.buffers
    o, height = buffers.o[queries.index], (context.geometry.depth + 1) * TILE
    across(tik.vmul, queries.tiles, height, o, buffers.vectors["decay"])
    tik.data_move(buffers.o_cube, o, 0, 1, queries.tiles * (context.geometry.depth + 1), 0, 0)
    if context.geometry.dropout:
        gap = context.geometry.depth * SINGLE_TILE_BLOCKS
        tik.data_move(buffers.total_cube, o, 0, queries.tiles, 1, gap, 0)


def take_output(context: Context, queries: QuerySlice) -> None:
    """O^T of a slice from L0C, below its row sums."""
    tiles, o = queries.tiles * (context.geometry.depth + 1), context.buffers.o[queries.index]
    drain(context.tik, o, context.buffers.o_cube, tiles)
    if context.geometry.dropout:
        gap = context.geometry.depth * SINGLE_TILE_BLOCKS
        context.tik.tensor_mov(o, context.buffers.total_cube, "m", queries.tiles, 1, gap, 0)


def weigh_values(context: Context, queries: QuerySlice, keys: KeyBlock, goes_on: Any) -> None:
    """P^T = exp(S^T - maximum) of a block, chunk by chunk to L1 in fp16, and its product with V.

    goes_on: whether the product is added to what L0C holds; may be symbolic.
    """
    tik, buffers, half = context.tik, context.buffers, context.geometry.half
    chunks = context.geometry.chunks(keys.keys)
    for chunk in chunks:
        subtrahend = vector(context, "growth" if half else "peak", queries)
        across(tik.vsub, queries.tiles, chunk.tiles * TILE, buffers.s[chunk.index], subtrahend)
    for chunk in chunks:
        s, elements = buffers.s[chunk.index], chunk.tiles * queries.tiles * TILE_ELEMENTS
        if context.scale.rest != 1.0:
            apply(tik.vec_muls, elements, (s, s), context.scale.rest)
        apply(tik.vec_exp, elements, (s, s))
        p = s
        if not half:
            p = buffers.half.next()
            convert(tik, elements, p, s)
        adds = goes_on if chunk.index == 0 else True
        _store_weights(context, queries, chunk, p, buffers.p)
        if context.geometry.dropout:
            sum_rows(context, queries, chunk, adds)
            _drop(context, queries, keys, chunk, p)
        weigh(context, queries, keys, chunk, adds)


def _drop(context: Context, queries: QuerySlice, keys: KeyBlock, chunk: Chunk, p: Any) -> None:
    """P^T of a chunk times its dropout mask, which comes with queries along its rows, to L1 beside P^T."""
    tik, buffers, rows = context.tik, context.buffers, queries.block_tiles
    source = buffers.dropout.at(keys.number)[(chunk.first * rows + queries.offset) * TILE_ELEMENTS]
    burst, gap = queries.tiles * FRACTAL_BLOCKS, (rows - queries.tiles) * FRACTAL_BLOCKS
    tik.data_move(buffers.kept, source, 0, chunk.tiles, burst, gap, 0)
    for column in range(queries.tiles):
        turned = buffers.kept_turned[column * chunk.tiles * TILE_ELEMENTS :]
        tik.vec_trans(turned, buffers.kept[column * TILE_ELEMENTS :], chunk.tiles, 1, queries.tiles)
    apply(tik.vec_mul, chunk.tiles * queries.tiles * TILE_ELEMENTS, (p, p, buffers.kept_turned))
    _store_weights(context, queries, chunk, p, buffers.dropped)


def _store_weights(context: Context, queries: QuerySlice, chunk: Chunk, p: Any, place: list[Any]) -> None:
    """P^T of a chunk to L1, from columns of queries to [keys / 16][queries / 16][16][16]."""
    for column in range(queries.tiles):
        target = place[chunk.index][column * TILE_ELEMENTS]
        source = p[column * chunk.tiles * TILE_ELEMENTS]
        gap = (queries.tiles - 1) * FRACTAL_BLOCKS
        context.tik.data_move(target, source, 0, chunk.tiles, FRACTAL_BLOCKS, 0, gap)


def finish(context: Context, queries: QuerySlice) -> None:
    """Writes O = O^T / row sum, transposed to NZ, and the log-sum-exp."""
    tik, vectors, elements = context.tik, context.buffers.vectors, queries.tiles * TILE
    o, height = context.buffers.o[queries.index], context.geometry.depth + 1
    total, inverse = vectors["new_peak"], vectors["decay"]
    first_rows(tik, queries.tiles, height * TILE, total, o)
    tik.vec_rec_high_preci(TILE, inverse[0:], total[0:], vectors["work"], queries.tiles, 2, 2)
    if some_see_nothing(context.problem):
        _forget_rows_without_keys(context, queries, (total, inverse))
    _write_log_sum(context, queries, total, elements)
    across(tik.vmul, queries.tiles, height * TILE, o, inverse)
    room = context.geometry.passing_tiles // height
    for first in range(0, queries.tiles, room):
        _write_output(context, queries, first, min(room, queries.tiles - first))


def _forget_rows_without_keys(context: Context, queries: QuerySlice, factors: tuple[Any, ...]) -> None:
    """Row sums and their inverses become 0 where a row saw no key: its output is 0 then, its log-sum-exp -inf."""
    tik, work, elements = context.tik, context.buffers.vectors["work"], queries.tiles * TILE
    seen, bound = work[0:], work[elements:]
    apply(tik.vec_adds, elements, (seen, vector(context, "peak", queries)), -NOTHING_SEEN)
    for nearer, value in ((tik.vec_min, 1.0), (tik.vec_max, 0.0)):
        apply(tik.vec_dup, elements, (bound,), value)
        apply(nearer, elements, (seen, seen, bound))
    for factor in factors:
        apply(tik.vec_mul, elements, (factor, factor, seen))


def _write_log_sum(context: Context, queries: QuerySlice, total: Any, elements: int) -> None:
    tik, peak = context.tik, vector(context, "peak", queries)
    apply(tik.vec_ln, elements, (total, total))
    if context.scale.rest != 1.0:
        apply(tik.vec_muls, elements, (peak, peak), context.scale.rest)
    apply(tik.vec_add, elements, (total, total, peak))
    target = context.globals.lse[queries.head * pad(context.problem.Nq) + queries.first * TILE]
    tik.data_move(target, total, 0, 1, queries.tiles * 2, 0, 0)


def _write_output(context: Context, queries: QuerySlice, first: int, count: int) -> None:
    """O^T of some tiles of queries: rounded, transposed, stored as [depth][queries][16]."""
    tik, problem, depth = context.tik, context.problem, context.geometry.depth
    height = depth + 1
    upright, turned = context.buffers.half.next(), context.buffers.half.next()
    values = context.buffers.o[queries.index][first * height * TILE_ELEMENTS :]
    convert(tik, count * height * TILE_ELEMENTS, upright, values)
    for column in range(count):
        source = upright[(column * height + 1) * TILE_ELEMENTS :]
        tik.vec_trans(turned[column * TILE_ELEMENTS :], source, depth, count, 1)
    length = pad(problem.Nq)
    start = queries.head * depth * length + (queries.first + first) * TILE
    store(tik, context.globals.o, start, turned, depth, length, count * TILE)
