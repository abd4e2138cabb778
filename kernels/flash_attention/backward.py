"""The backward flash-attention kernel for TIK: block loops and core split after a plan.

FlashAttention-2 (Dao, 2023, arXiv 2307.08691), backward pass: P is recomputed from the log-sum-exp. A core takes one
key block after another and keeps its dK and dV on the chip while it visits the query blocks; dQ of a chunk of queries
is added to global memory in fp32 (set_atomic_add), because other cores add to the same rows. The alternative, query
blocks outside, adds dK and dV instead: twice the bytes moved and drained for blocks of one size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from autotune.kernels.flash_attention import backward_statistics
from autotune.kernels.flash_attention.backward_context import BackwardBuffers, BackwardContext, BackwardGlobals
from autotune.kernels.flash_attention.backward_plans import BackwardGeometry, BackwardScale, check
from autotune.kernels.flash_attention.backward_products import load_keys
from autotune.kernels.flash_attention.backward_range import take_factors
from autotune.kernels.flash_attention.backward_softmax import add_key_gradients
from autotune.kernels.flash_attention.backward_visits import OnUnits, QueryBlocks
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
        _share(_KeyBlocks(context, module, plan, key_blocks), runs)
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
            "float16",
            (cores, geometry.buffers, pad(nq) // TILE, geometry.statistics, TILE, TILE),
            scope,
            "statistics",
            is_workspace=True,
        ),
        products=tik.Tensor("float32", (cores, geometry.buffers, pad(nq)), scope, "products", is_workspace=True)
        if geometry.exact
        else None,
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


def _share(blocks: _KeyBlocks, runs: list[list[tuple[int, int]]]) -> None:
    """The key blocks of the core that runs this."""
    tik, core = blocks.context.tik, blocks.context.core
    with tik.for_range(0, max(map(len, runs)), name="run") as run:
        start, stop = tik.Scalar("int32", "start", 0), tik.Scalar("int32", "stop", 0)
        for number, own in enumerate(runs):
            for index, (first, end) in enumerate(own):
                with tik.if_scope(blocks.module.all(core == number, run == index)):
                    start.set_as(first)
                    stop.set_as(end)
        if blocks.run_on:
            with tik.if_scope(start < stop):
                blocks.begin(start, True)
        with tik.for_range(start, stop, name="position") as position:
            blocks.differentiate(position, start, stop)


class _KeyBlocks:
    """The blocks of keys of all heads, ``count`` a head, the last of which may be shorter, by their position.

    run_on: whether a block is begun while the one before is still worked on. That takes a second place for K and V, and
    that some query sees every block.
    """

    def __init__(self, context: BackwardContext, module: Any, plan: TilingPlan, count: int) -> None:
        self.context, self.module, self.plan, self.count = context, module, plan, count
        self.last_keys = plan.tiling(context.problem).last_Bc
        queries, last_key = pad(context.problem.Nq) // TILE, pad(context.problem.N) // TILE - 1
        self.unseen = [border for border in context.geometry.borders if border.above]
        self.unseen = [border for border in self.unseen if border.first_query(last_key) >= queries]
        self.run_on = context.geometry.buffers > 1 and not self.unseen

    def act_on(self, position: Any, act: Callable[[QueryBlocks], None]) -> None:
        """Does something with the query blocks of the key block at a position."""
        tik, number = self.context.tik, position % self.count
        tile = self.context.buffers.key_tile(position)

        def blocks(keys: int) -> QueryBlocks:
            block = KeyBlock(number * (self.plan.Bc // TILE), keys)
            return QueryBlocks(self.context, tile, position // self.count, block, self.plan)

        if self.count == 1 or self.last_keys == self.plan.Bc:
            act(blocks(self.last_keys))
            return
        with tik.if_scope(number < self.count - 1):
            act(blocks(self.plan.Bc))
        with tik.else_scope():
            act(blocks(self.last_keys))

    def load(self, position: Any, first: Any) -> None:
        """K and V of a block, before them what queries of a new head need. first: whether any head is a new one."""
        new = first if first is True else self.module.any(first, position % self.count == 0)
        with self.context.tik.if_scope(new):
            backward_statistics.prepare(self.context, position // self.count)
        self.act_on(position, lambda blocks: load_keys(self.context, blocks.tile, blocks.head, blocks.keys))

    def begin(self, position: Any, first: Any) -> None:
        """Everything up to the first scores."""
        self.load(position, first)
        self.act_on(position, QueryBlocks.begin)

    def differentiate(self, position: Any, start: Any, stop: Any) -> None:
        """dK and dV of the block at a position, and its part of dQ. One that no query sees keeps its zeros."""

        def act(blocks: QueryBlocks) -> None:
            with ExitStack() as conditions:
                for border in self.unseen:
                    seen = border.first_query(blocks.keys.first) < pad(self.context.problem.Nq) // TILE
                    conditions.enter_context(self.context.tik.if_scope(seen))
                self._visit(blocks, position, start, stop)

        self.act_on(position, act)

    def _visit(self, blocks: QueryBlocks, position: Any, start: Any, stop: Any) -> None:
        tik, following = self.context.tik, position + 1
        if not self.run_on:
            self.begin(position, position == start)
        if self.context.geometry.exact:
            take_factors(self.context, blocks.head)
        with _moving(tik, FP32_ADD, OVERWRITE):
            if self.run_on:
                blocks.visit(partial(self._load_next, following, stop), partial(self._on_next, following, stop))
            else:
                blocks.visit(None, None)
            add_key_gradients(self.context, blocks.head, blocks.keys)

    def _load_next(self, position: Any, stop: Any) -> None:
        tik = self.context.tik
        with tik.if_scope(position < stop), _moving(tik, OVERWRITE, FP32_ADD):
            self.load(position, False)

    def _on_next(self, position: Any, stop: Any, act: OnUnits) -> None:
        with self.context.tik.if_scope(position < stop):
            self.act_on(position, lambda blocks: blocks.on_first(act))


@contextmanager
def _moving(tik: Any, mode: int, after: int) -> Iterator[None]:
    """What moves to global memory do to what is there, inside and after it."""
    tik.set_atomic_add(mode)
    yield
    tik.set_atomic_add(after)
