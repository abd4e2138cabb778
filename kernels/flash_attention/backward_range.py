"""By what gradients in fp32 are multiplied to become fp16 operands of the cube, for whatever dO and V.

dS = P (dP - D) is at most ``weights`` times 2 head_dim max|dO| max|V|. Multiplied so that this bound is LARGEST, it can
neither overflow nor, where softmax is not far flatter than it can be with N keys, sink below what fp16 is exact for. dQ
and dK lose the factor at the end, in fp32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from autotune.kernels.flash_attention.backward_context import BackwardContext
from autotune.kernels.flash_attention.backward_plans import FACTORS
from autotune.kernels.flash_attention.buffers import TILE_ELEMENTS
from autotune.kernels.flash_attention.constants import ROWS_PER_REPEAT, lanes
from autotune.kernels.flash_attention.context import load
from autotune.kernels.flash_attention.vectors import apply, convert
from autotune.plan import TILE, pad

LARGEST = 32768.0
"""What a multiplied dS is at most: half of what fp16 holds."""
TINY = 1e-20
"""What the bound counts as at least, so that gradients of zero are zero."""


def find_factors(context: BackwardContext, head: Any) -> None:
    """The factors of a head to its place in UB: of dS, and of dQ and dK in L0C."""
    tik, buffers, scale = context.tik, context.buffers, context.scale
    largest = [
        _largest(context, source, head, tokens)
        for source, tokens in ((context.globals.do, context.problem.Nq), (context.globals.v, context.problem.N))
    ]
    bound, work = buffers.bound, buffers.bound_work
    for number, scalar in enumerate(largest):
        tik.vec_dup(TILE, buffers.largest, scalar, 1, 1)
        convert(tik, TILE, work[number * TILE :], buffers.largest)
    apply(tik.vec_mul, TILE, (bound, work, work[TILE:]))
    apply(tik.vec_dup, TILE, (work,), TINY)
    apply(tik.vec_max, TILE, (bound, bound, work))
    places = context.geometry.buffers
    place = (head % places if places > 1 else 0) * (FACTORS * TILE)
    inverse = scale.weights * 2 * context.problem.head_dim / LARGEST
    tik.vec_muls(TILE, work[TILE:], bound, inverse, 1, 1, 1)
    tik.vec_rec_high_preci(TILE, buffers.factors[place:], work[TILE:], buffers.reciprocal, 1, 1, 1)
    for number, factor in enumerate((scale.scores.rest, scale.scores.exact * scale.scores.rest), start=1):
        target = buffers.factors[place + number * TILE :]
        tik.vec_muls(TILE, target, work[TILE:], factor / scale.weights, 1, 1, 1)


def take_factors(context: BackwardContext, head: Any) -> None:
    """The factors of a head to scalars."""
    buffers, places = context.buffers, context.geometry.buffers
    place = (head % places if places > 1 else 0) * (FACTORS * TILE)
    for number, scalar in enumerate((buffers.scaled_by, buffers.dq_factor, buffers.dk_factor)):
        scalar.set_as(buffers.factors[place + number * TILE])


def _largest(context: BackwardContext, source: Any, head: Any, tokens: int) -> Any:
    """The largest magnitude of a head of dO or V, padding left out: a Scalar in fp16."""
    tik, step, tiles = context.tik, context.geometry.prepared, tokens // TILE
    tik.vec_dup(TILE, context.buffers.largest, 0.0, 1, 1)
    if tiles >= step:
        with tik.for_range(0, tiles // step, name="searched") as number:
            _search(context, source, head, number * step, step, tokens)
    if tiles % step:
        _search(context, source, head, tiles // step * step, tiles % step, tokens)
    if tokens % TILE:
        _search(context, source, head, tiles, 1, tokens, tokens % TILE)
    largest = tik.Scalar("float16", "largest")
    largest.set_as(context.buffers.largest[0])
    return largest


def _search(
    context: BackwardContext, source: Any, head: Any, first: Any, tiles: int, tokens: int, rows: int = TILE
) -> None:
    """Keeps the largest magnitude of some tiles of tokens, each with so many real rows, if it is larger."""
    tik, buffers, depth, length = context.tik, context.buffers, context.geometry.depth, pad(tokens)
    values = buffers.ds.next()
    load(tik, values, source, head * depth * length + first * TILE, depth, length, tiles * TILE)
    apply(tik.vec_abs, depth * tiles * TILE_ELEMENTS, (values, values))
    for strip in range(depth):
        columns = min(TILE, context.problem.head_dim - strip * TILE)
        for half, repeats in ((0, 2 * tiles),) if rows == TILE else ((0, 1), (ROWS_PER_REPEAT, 1)):
            mask = lanes(half, partial(_is_real, rows, columns))
            if any(mask):
                place = values[strip * tiles * TILE_ELEMENTS + half * TILE :]
                tik.vec_reduce_max(mask, buffers.found, place, buffers.scratch, repeats, 8)
                tik.vec_max(1, buffers.largest, buffers.largest, buffers.found, 1, 1, 1, 1)


def _is_real(rows: int, columns: int, row: int, column: int) -> bool:
    return row < rows and column < columns
