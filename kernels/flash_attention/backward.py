"""The backward flash-attention kernel for TIK: block loops and core split after a plan.

FlashAttention-2 (Dao, 2023, arXiv 2307.08691), backward pass: P is recomputed from the log-sum-exp. A core takes one
key block after another and keeps its dK and dV on the chip while it visits the query blocks; dQ of a chunk of queries
is added to global memory in fp32 (set_atomic_add), because other cores add to the same rows. The alternative, query
blocks outside, adds dK and dV instead: twice the bytes moved and drained for blocks of one size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from autotune.kernels.flash_attention import backward_statistics
from autotune.kernels.flash_attention.backward_context import BackwardBuffers, BackwardContext, BackwardGlobals
from autotune.kernels.flash_attention.backward_plans import BackwardGeometry, BackwardScale, check
from autotune.kernels.flash_attention.backward_products import load_keys
from autotune.kernels.flash_attention.backward_softmax import add_key_gradients
from autotune.kernels.flash_attention.backward_visits import QueryBlocks
from autotune.kernels.flash_attention.constants import (
    fill,
    prepare_alibi_factor,
    prepare_diagonals,
    prepare_strip,
)
from autotune.kernels.flash_attention.context import KeyBlock
from autotune.kernels.flash_attention.forward import current_hardware
from autotune.kernels.flash_attention.plans import check_work, work_runs
from autotune.plan import TILE, TilingPlan, pad
from autotune.problem import AttentionProblem

FP32_ADD, OVERWRITE = 1, 0
"""Modes of set_atomic_add."""


def flash_attention_grad(
    problem: AttentionProblem, plan: TilingPlan, kernel_name: str = "flash_attention_grad", disable_debug: bool = False
) -> Any:
    """The recorded kernel (a Tik container) for the toolkit's current chip.

    Inputs q, k, v, o, do (NZ fp16 as ``layout.to_nz`` makes them, q unscaled), lse (batch * heads, padded Nq) in fp32
    and, where the problem has them, attn_mask, dropout_mask and alibi as in the forward; outputs dq, dk, dv in NZ fp32,
    which must be zero at the start: gradients are added to them. The plan's core split deals key blocks. Raises
    PlanRejected, and RuntimeError where TIK itself refuses a statement.
    """
    from tbe import tik as module

    geometry = check(problem, plan, current_hardware())
    check_work(problem, plan)
    tik = module.Tik(disable_debug=disable_debug)
    key_blocks = plan.dealt_blocks(problem)
    runs = work_runs(plan, key_blocks)
    tensors = _globals(module, tik, problem, geometry, len(runs))
    with tik.for_range(0, len(runs), name="core", block_num=len(runs)) as core:
        buffers, scale = BackwardBuffers(module, tik, geometry), BackwardScale.of(problem)
        context = BackwardContext(tik, problem, geometry, scale, tensors, buffers, core)
        _prepare_constants(context)
        _share(context, module, runs, key_blocks, plan)
    inputs = [tensors.q, tensors.k, tensors.v, tensors.o, tensors.do, tensors.lse]
    inputs += [tensor for tensor in (tensors.mask, tensors.dropout, tensors.alibi) if tensor is not None]
    tik.BuildCCE(kernel_name=kernel_name, inputs=inputs, outputs=[tensors.dq, tensors.dk, tensors.dv])
    return tik


def _globals(
    module: Any, tik: Any, problem: AttentionProblem, geometry: BackwardGeometry, cores: int
) -> BackwardGlobals:
    batch, heads, nq, n, head_dim = problem.shape
    scope = module.scope_gm

    def fractals(name: str, rows: int, dtype: str = "float16", **options: bool) -> Any:
        shape = (batch, heads, pad(head_dim) // TILE, pad(rows) // TILE, TILE, TILE)
        return tik.Tensor(dtype, shape, scope, name, **options)

    def mask(name: str, *lead: int) -> Any:
        return tik.Tensor("float16", (*lead, pad(n) // TILE, pad(nq) // TILE, TILE, TILE), scope, name)

    masks = {"full": batch, "shared": 1}.get(problem.attn_mask)
    return BackwardGlobals(
        q=fractals("q", nq),
        k=fractals("k", n),
        v=fractals("v", n),
        o=fractals("o", nq),
        do=fractals("do", nq),
        lse=tik.Tensor("float32", (batch * heads, pad(nq)), scope, "lse"),
        mask=mask("attn_mask", masks) if masks else None,
        dropout=mask("dropout_mask", batch, heads) if problem.dropout else None,
        alibi=tik.Tensor("float16", (batch * heads, pad(n)), scope, "alibi") if problem.alibi else None,
        dq=fractals("dq", nq, "float32", is_atomic_add=True),
        dk=fractals("dk", n, "float32", is_atomic_add=True),
        dv=fractals("dv", n, "float32", is_atomic_add=True),
        statistics=tik.Tensor(
            "float16", (cores, pad(nq) // TILE, geometry.statistics, TILE, TILE), scope, "statistics", is_workspace=True
        ),
    )


def _prepare_constants(context: BackwardContext) -> None:
    """Fills the ones that add statistics, and what the problem's mask needs."""
    tik, buffers, geometry, room = context.tik, context.buffers, context.geometry, context.geometry.wide
    fill(tik, buffers.p.next(), room, buffers.ones_l1, 0, geometry.part, 1.0)
    tik.load2dv1(buffers.ones, buffers.ones_l1, 0, geometry.part, 1, 0, False)
    for strip in geometry.strips:
        prepare_strip(tik, buffers.p.next, room, buffers.strip, strip)
    prepare_diagonals(tik, buffers.p.next, buffers, context.scale.scores, geometry)
    if geometry.alibi_terms:
        prepare_alibi_factor(tik, buffers.p.next, room, buffers, context.scale.scores, geometry.chunk)


def _share(
    context: BackwardContext, module: Any, runs: list[list[tuple[int, int]]], key_blocks: int, plan: TilingPlan
) -> None:
    """The key blocks of the core that runs this. The statistics of a head are prepared when its first block comes."""
    tik = context.tik
    with tik.for_range(0, max(map(len, runs)), name="run") as run:
        start, stop = tik.Scalar("int32", "start", 0), tik.Scalar("int32", "stop", 0)
        for number, own in enumerate(runs):
            for index, (first, end) in enumerate(own):
                with tik.if_scope(module.all(context.core == number, run == index)):
                    start.set_as(first)
                    stop.set_as(end)
        with tik.for_range(start, stop, name="position", thread_num=context.geometry.buffers) as position:
            head, block = position // key_blocks, position % key_blocks
            with tik.if_scope(module.any(position == start, block == 0)):
                backward_statistics.prepare(context, head)
            _key_block(context, head, block, key_blocks, plan)


def _key_block(context: BackwardContext, head: Any, number: Any, key_blocks: int, plan: TilingPlan) -> None:
    """One block of keys; the last of a head may be shorter."""
    tik, tiling = context.tik, plan.tiling(context.problem)
    first = number * (plan.Bc // TILE)
    last = KeyBlock(first, tiling.last_Bc)
    if key_blocks == 1 or tiling.last_Bc == plan.Bc:
        _differentiate_if_seen(context, head, last, plan)
        return
    with tik.if_scope(number < key_blocks - 1):
        _differentiate_if_seen(context, head, KeyBlock(first, plan.Bc), plan)
    with tik.else_scope():
        _differentiate_if_seen(context, head, last, plan)


def _differentiate_if_seen(context: BackwardContext, head: Any, keys: KeyBlock, plan: TilingPlan) -> None:
    """A key block that no query sees, before a border that is never above it: its gradients stay zero."""
    queries, last_key = pad(context.problem.Nq) // TILE, pad(context.problem.N) // TILE - 1
    with ExitStack() as conditions:
        for border in context.geometry.borders:
            if border.above and border.first_query(last_key) >= queries:
                conditions.enter_context(context.tik.if_scope(border.first_query(keys.first) < queries))
        _differentiate(context, head, keys, plan)


def _differentiate(context: BackwardContext, head: Any, keys: KeyBlock, plan: TilingPlan) -> None:
    """dK and dV of a key block, and its part of dQ."""
    tile = context.buffers.key_tile(context.tik, context.geometry)
    load_keys(context, tile, head, keys)
    with _adding(context.tik):
        QueryBlocks(context, tile, head, keys, plan).visit()
        add_key_gradients(context, head, keys)


@contextmanager
def _adding(tik: Any) -> Iterator[None]:
    """Moves to global memory add to what is there."""
    tik.set_atomic_add(FP32_ADD)
    yield
    tik.set_atomic_add(OVERWRITE)
