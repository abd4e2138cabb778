"""P^T and dS^T of a unit on the vector unit, and the way of finished gradients to global memory."""

from __future__ import annotations

from typing import Any

from autotune.kernels.flash_attention.backward_context import BackwardContext, Unit
from autotune.kernels.flash_attention.backward_plans import cuts
from autotune.kernels.flash_attention.backward_products import PRODUCTS_ROW
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.context import KeyBlock, store
from autotune.kernels.flash_attention.products import FRACTAL_BLOCKS
from autotune.kernels.flash_attention.vectors import BLOCKS_PER_ROW, across, apply, narrow
from autotune.plan import TILE, pad


def weights(context: BackwardContext, unit: Unit) -> tuple[Any, Any]:
    """P^T = exp(S^T - log-sum-exp) and dS^T = P^T (dP^T - D) of a unit: two fp16 tensors in L1, tiled as in L0C.

    P is larger by the scale's ``weights``, dP smaller by it.
    """
    tik, buffers, elements = context.tik, context.buffers, unit.tiles * TILE_ELEMENTS
    p, ds = buffers.p.next(), buffers.ds.next()
    p_l1, ds_l1 = buffers.p_l1.next(), buffers.ds_l1.next()
    s = buffers.s if context.geometry.single_exp else p
    tik.tensor_mov(s, buffers.s_cube, "m", 1, unit.tiles, 0, 0)
    tik.tensor_mov(ds, buffers.dp_cube, "m", 1, unit.tiles, 0, 0)
    if context.scale.scores.rest != 1.0:
        apply(tik.vec_muls, elements, (s, s), context.scale.scores.rest)
    apply(tik.vec_exp, elements, (s, s))
    if context.geometry.single_exp:
        narrow(tik, elements, p, s)
    left = _drop(context, unit, p, ds) if context.geometry.dropout else p
    tik.data_move(p_l1, left, 0, 1, unit.tiles * FRACTAL_BLOCKS, 0, 0)
    apply(tik.vec_mul, elements, (ds, ds, p))
    tik.data_move(ds_l1, ds, 0, 1, unit.tiles * FRACTAL_BLOCKS, 0, 0)
    return p_l1, ds_l1


def _drop(context: BackwardContext, unit: Unit, p: Any, dp: Any) -> Any:
    """What dropout leaves of P^T; dP^T meets the dropout mask too, and then loses D.

    The mask comes with queries along its rows, and is transposed here.
    """
    tik, buffers, kinds, elements = (
        context.tik,
        context.buffers,
        context.geometry.statistics,
        unit.tiles * TILE_ELEMENTS,
    )
    rows, part, chunk = unit.queries.tiles, unit.part, unit.chunk
    source = unit.tile.dropout[(part.first * rows + chunk.first) * TILE_ELEMENTS]
    burst, gap = chunk.tiles * FRACTAL_BLOCKS, (rows - chunk.tiles) * FRACTAL_BLOCKS
    tik.data_move(buffers.kept, source, 0, part.tiles, burst, gap, 0)
    for column in range(chunk.tiles):
        turned = buffers.kept_turned[column * part.tiles * TILE_ELEMENTS :]
        tik.vec_trans(turned, buffers.kept[column * TILE_ELEMENTS :], part.tiles, 1, chunk.tiles)
    products = unit.tile.statistics[chunk.first * kinds * TILE_ELEMENTS + PRODUCTS_ROW * TILE]
    tik.data_move(buffers.products, products, 0, chunk.tiles, 1, kinds * FRACTAL_BLOCKS - 1, 0)
    apply(tik.vec_mul, elements, (dp, dp, buffers.kept_turned))
    across(tik.vadd, chunk.tiles, part.tiles * TILE, dp, buffers.products)
    apply(tik.vec_mul, elements, (buffers.kept, p, buffers.kept_turned))
    return buffers.kept


def add_query_gradient(context: BackwardContext, unit: Unit) -> None:
    """dQ of a chunk from L0C, added to global memory."""
    start = unit.queries.first + unit.chunk.first
    tiles, tokens, head = unit.chunk.tiles, context.problem.Nq, unit.queries.head
    _add(context, context.globals.dq, context.buffers.dq, head, start, tiles, tokens, context.scale.scores.rest)


def add_key_gradients(context: BackwardContext, head: Any, keys: KeyBlock) -> None:
    """dK and dV of a key block from L0C, added to global memory."""
    buffers, depth, scale = context.buffers, context.geometry.depth, context.scale
    for part in cuts(keys.keys, context.geometry.part):
        at, start = part.first * depth * TILE_ELEMENTS, keys.first + part.first
        for target, source, factor in (
            (context.globals.dv, buffers.dv, 1 / scale.weights),
            (context.globals.dk, buffers.dk, scale.scores.exact * scale.scores.rest),
        ):
            _add(context, target, source[at], head, start, part.tiles, context.problem.N, factor)


def _add(
    context: BackwardContext, target: Any, source: Any, head: Any, first: Any, tiles: int, tokens: int, factor: float
) -> None:
    """A gradient [depth][tokens][16] in L0C, times a factor, added to its place in NZ."""
    tik, gradient, depth = context.tik, context.buffers.gradient.next(), context.geometry.depth
    length = pad(tokens)
    tik.tensor_mov(gradient, source, "m", 1, depth * tiles, 0, 0)
    if factor != 1.0:
        apply(tik.vec_muls, depth * tiles * TILE_ELEMENTS, (gradient, gradient), factor)
    start = head * depth * length + first * TILE
    store(tik, target, start, gradient, depth, length, tiles * TILE, BLOCKS_PER_ROW)
