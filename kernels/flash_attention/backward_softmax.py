"""P^T and dS^T of a unit on the vector unit, and the way of finished gradients to global memory."""

from __future__ import annotations

from typing import Any

from autotune.kernels.flash_attention.backward_context import BackwardContext, Unit, products_of
from autotune.kernels.flash_attention.backward_plans import cuts
from autotune.kernels.flash_attention.backward_products import PRODUCTS_ROW
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import KeyBlock, store
from autotune.kernels.flash_attention.products import FRACTAL_BLOCKS
from autotune.kernels.flash_attention.vectors import BLOCKS_PER_ROW, across, apply, convert, narrow
from autotune.plan import TILE, pad


def weights(context: BackwardContext, unit: Unit) -> tuple[Any, Any]:
    """P^T = exp(S^T - log-sum-exp) and dS^T = P^T (dP^T - D) of a unit: two fp16 tensors in L1, tiled as in L0C.

    P is larger by the scale's ``weights``, dP smaller by it; where dP is fp32, dS is multiplied to fit fp16 instead.
    """
    tik, buffers, elements = context.tik, context.buffers, unit.tiles * TILE_ELEMENTS
    p, ds = buffers.p.next(), buffers.ds.next()
    p_l1, ds_l1 = buffers.p_l1.next(), buffers.ds_l1.next()
    s = buffers.s if context.geometry.single_exp else p
    dp = buffers.dp if context.geometry.exact else ds
    tik.tensor_mov(s, buffers.s_cube, "m", 1, unit.tiles, 0, 0)
    tik.tensor_mov(dp, buffers.dp_cube, "m", 1, unit.tiles, 0, 0)
    if context.scale.scores.rest != 1.0:
        apply(tik.vec_muls, elements, (s, s), context.scale.scores.rest)
    apply(tik.vec_exp, elements, (s, s))
    if context.geometry.single_exp:
        narrow(tik, elements, p, s)
    left = _drop(context, unit, p, dp) if context.geometry.dropout else p
    tik.data_move(p_l1, left, 0, 1, unit.tiles * FRACTAL_BLOCKS, 0, 0)
    if not context.geometry.cube_subtracts_products:
        _subtract_products(context, unit, dp)
    if context.geometry.exact:
        apply(tik.vec_mul, elements, (dp, dp, s))
        apply(tik.vec_muls, elements, (dp, dp), buffers.scaled_by)
        narrow(tik, elements, ds, dp)
    else:
        apply(tik.vec_mul, elements, (ds, ds, p))
    tik.data_move(ds_l1, ds, 0, 1, unit.tiles * FRACTAL_BLOCKS, 0, 0)
    return p_l1, ds_l1


def _drop(context: BackwardContext, unit: Unit, p: Any, dp: Any) -> Any:
    """What dropout leaves of P^T; dP^T meets the dropout mask too.

    The mask comes with queries along its rows, and is transposed here.
    """
    tik, buffers, elements = context.tik, context.buffers, unit.tiles * TILE_ELEMENTS
    rows, part, chunk = unit.queries.tiles, unit.part, unit.chunk
    source = unit.tile.dropout[(part.first * rows + chunk.first) * TILE_ELEMENTS]
    burst, gap = chunk.tiles * FRACTAL_BLOCKS, (rows - chunk.tiles) * FRACTAL_BLOCKS
    tik.data_move(buffers.kept, source, 0, part.tiles, burst, gap, 0)
    for column in range(chunk.tiles):
        turned = buffers.kept_turned[column * part.tiles * TILE_ELEMENTS :]
        tik.vec_trans(turned, buffers.kept[column * TILE_ELEMENTS :], part.tiles, 1, chunk.tiles)
    factor = buffers.kept_turned
    if context.geometry.exact:
        factor = buffers.kept_single
        convert(tik, elements, factor, buffers.kept_turned)
    apply(tik.vec_mul, elements, (dp, dp, factor))
    apply(tik.vec_mul, elements, (buffers.kept, p, buffers.kept_turned))
    return buffers.kept


def _subtract_products(context: BackwardContext, unit: Unit, dp: Any) -> None:
    """D of a chunk's queries leaves dP^T: fp32 from global memory, or fp16 from among the statistics."""
    tik, products, chunk, kinds = context.tik, context.buffers.products, unit.chunk, context.geometry.statistics
    if context.geometry.exact:
        source = products_of(context, unit.queries.head, unit.queries.first + chunk.first)
        tik.data_move(products, source, 0, 1, chunk.tiles * BLOCKS_PER_ROW, 0, 0)
    else:
        source = unit.tile.statistics[chunk.first * kinds * TILE_ELEMENTS + PRODUCTS_ROW * TILE]
        tik.data_move(products, source, 0, chunk.tiles, 1, kinds * FRACTAL_BLOCKS - 1, 0)
    across(tik.vadd, chunk.tiles, unit.part.tiles * TILE, dp, products)


def add_query_gradient(context: BackwardContext, unit: Unit) -> None:
    """dQ of a chunk from L0C, added to global memory."""
    start = unit.queries.first + unit.chunk.first
    tiles, tokens, head = unit.chunk.tiles, context.problem.Nq, unit.queries.head
    factor = context.buffers.dq_factor if context.geometry.exact else context.scale.scores.rest
    _add(context, context.globals.dq, context.buffers.dq, head, start, tiles, tokens, factor)


def add_key_gradients(context: BackwardContext, head: Any, keys: KeyBlock) -> None:
    """dK and dV of a key block from L0C, added to global memory."""
    buffers, depth, scale = context.buffers, context.geometry.depth, context.scale
    dk_factor = buffers.dk_factor if context.geometry.exact else scale.scores.exact * scale.scores.rest
    for part in cuts(keys.keys, context.geometry.part):
        at, start = part.first * depth * TILE_ELEMENTS, keys.first + part.first
        for target, source, factor in (
            (context.globals.dv, buffers.dv, 1 / scale.weights),
            (context.globals.dk, buffers.dk, dk_factor),
        ):
            _add(context, target, source[at], head, start, part.tiles, context.problem.N, factor)


def _add(
    context: BackwardContext, target: Any, source: Any, head: Any, first: Any, tiles: int, tokens: int, factor: Any
) -> None:
    """A gradient [depth][tokens][16] in L0C, times a factor, added to its place in NZ."""
    tik, gradient, depth = context.tik, context.buffers.gradient.next(), context.geometry.depth
    length = pad(tokens)
    tik.tensor_mov(gradient, source, "m", 1, depth * tiles, 0, 0)
    if not isinstance(factor, float) or factor != 1.0:
        apply(tik.vec_muls, depth * tiles * TILE_ELEMENTS, (gradient, gradient), factor)
    start = head * depth * length + first * TILE
    store(tik, target, start, gradient, depth, length, tiles * TILE, BLOCKS_PER_ROW)
