"""The forward flash-attention kernel for TIK: block loops and core split after a plan.

FlashAttention-2 (Dao, 2023, arXiv 2307.08691): for a block of queries, key block after key block, the running maximum
and sum of every row and an output rescaled when the maximum grows. While the vector unit works on one key block, the
cube computes the scores of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from autotune.hardware import Hardware
from autotune.kernels.flash_attention import softmax
from autotune.kernels.flash_attention.buffers import Buffers
from autotune.kernels.flash_attention.constants import prepare
from autotune.kernels.flash_attention.context import Context, Globals, KeyBlock, QueryBlock, QuerySlice
from autotune.kernels.flash_attention.plans import Scale, check, check_work, work_runs
from autotune.kernels.flash_attention.products import (
    load_keys,
    load_mask,
    load_operand,
    load_queries,
    load_values,
    scale_queries,
    scores,
)
from autotune.plan import TILE, TilingPlan, pad
from autotune.problem import AttentionProblem


def flash_attention(
    problem: AttentionProblem, plan: TilingPlan, kernel_name: str = "flash_attention", disable_debug: bool = False
) -> Any:
    """The recorded kernel (a Tik container) for the toolkit's current chip.

    Inputs q, k, v and, where the problem has them, attn_mask, dropout_mask and alibi; outputs o and lse. All are NZ
    fp16 as ``layout.to_nz`` makes them, q unscaled, but for lse, which is (batch * heads, padded Nq) in fp32, and
    alibi, which is (batch * heads, padded N) in fp16 with zeros for padded keys.
    Raises PlanRejected, and RuntimeError where TIK itself refuses a statement.
    """
    from tbe import tik as module

    geometry = check(problem, plan, current_hardware())
    check_work(problem, plan)
    tik = module.Tik(disable_debug=disable_debug)
    tensors = _globals(module, tik, problem)
    row_blocks = plan.tiling(problem).Tr
    runs = work_runs(plan, row_blocks)
    with tik.for_range(0, len(runs), name="core", block_num=len(runs)) as core:
        context = Context(
            tik, problem, geometry, Scale.of(problem.head_dim, geometry.half), tensors, Buffers(module, tik, geometry)
        )
        prepare(context)
        _share(context, module, core, runs, row_blocks, plan)
    inputs = (tensors.q, tensors.k, tensors.v, tensors.mask, tensors.dropout, tensors.alibi)
    given = [tensor for tensor in inputs if tensor is not None]
    tik.BuildCCE(kernel_name=kernel_name, inputs=given, outputs=[tensors.o, tensors.lse])
    return tik


def current_hardware() -> Hardware:
    """The chip that the toolkit compiles for, from get_soc_spec; the clock is not asked for."""
    from tbe.common.platform import get_soc_spec

    sizes = {f"{name.lower()}_bytes": get_soc_spec(f"{name}_SIZE") for name in ("UB", "L1", "L0A", "L0B", "L0C")}
    return Hardware(get_soc_spec("SOC_VERSION"), get_soc_spec("CORE_NUM"), 0, **sizes)


def _globals(module: Any, tik: Any, problem: AttentionProblem) -> Globals:
    def fractals(name: str, *lead: int, rows: int, columns: int) -> Any:
        shape = (*lead, pad(columns) // TILE, pad(rows) // TILE, TILE, TILE)
        return tik.Tensor("float16", shape, module.scope_gm, name)

    batch, heads, nq, n, head_dim = problem.shape
    q, k, v = (
        fractals(name, batch, heads, rows=rows, columns=head_dim) for name, rows in (("q", nq), ("k", n), ("v", n))
    )
    masks = {"full": batch, "shared": 1}.get(problem.attn_mask)
    mask = fractals("attn_mask", masks, rows=nq, columns=n) if masks else None
    dropout = fractals("dropout_mask", batch, heads, rows=nq, columns=n) if problem.dropout else None
    alibi = tik.Tensor("float16", (batch * heads, pad(n)), module.scope_gm, "alibi") if problem.alibi else None
    o = fractals("o", batch, heads, rows=nq, columns=head_dim)
    lse = tik.Tensor("float32", (batch * heads, pad(nq)), module.scope_gm, "lse")
    return Globals(q, k, v, mask, dropout, alibi, o, lse)


def _share(
    context: Context, module: Any, core: Any, runs: list[list[tuple[int, int]]], row_blocks: int, plan: TilingPlan
) -> None:
    """The row blocks of the core that runs this: a share is a constant of the program, chosen by the core's number."""
    tik = context.tik
    with tik.for_range(0, max(map(len, runs)), name="run") as run:
        start, stop = tik.Scalar("int32", "start", 0), tik.Scalar("int32", "stop", 0)
        for number, own in enumerate(runs):
            for index, (first, end) in enumerate(own):
                with tik.if_scope(module.all(core == number, run == index)):
                    start.set_as(first)
                    stop.set_as(end)
        with tik.if_scope(start < stop):
            _load_ahead(context, start, row_blocks, plan)
        with tik.for_range(start, stop, name="position") as position:
            _row_block(context, position, stop, row_blocks, plan)


def _row_block(context: Context, position: Any, stop: Any, row_blocks: int, plan: TilingPlan) -> None:
    """One block of queries."""

    def attend(block: QueryBlock) -> None:
        with _attend(context, block, plan), context.tik.if_scope(position + 1 < stop):
            _load_ahead(context, position + 1, row_blocks, plan)

    _with_block(context, position, row_blocks, plan, attend)


def _load_ahead(context: Context, position: Any, row_blocks: int, plan: TilingPlan) -> None:
    """Q and the first block of K to L1, for the block of queries at a position, before the one before it has ended."""
    _with_block(context, position, row_blocks, plan, partial(load_queries, context))
    head, first = position // row_blocks, position % row_blocks * (plan.Br // TILE)
    blocks = _KeyBlocks(context, plan)
    blocks.act_on(blocks.begin(first), partial(load_keys, context, head))


def _with_block(
    context: Context, position: Any, row_blocks: int, plan: TilingPlan, act: Callable[[QueryBlock], None]
) -> None:
    """Does something with the block of queries at a position; the last of a head may be shorter."""
    tiling, head, number = plan.tiling(context.problem), position // row_blocks, position % row_blocks
    first = number * (plan.Br // TILE)
    last = QueryBlock(head, first, pad(tiling.last_Br) // TILE, tiling.last_Br)
    if row_blocks == 1 or tiling.last_Br == plan.Br:
        act(last)
        return
    with context.tik.if_scope(number < row_blocks - 1):
        act(QueryBlock(head, first, plan.Br // TILE, plan.Br))
    with context.tik.else_scope():
        act(last)


@contextmanager
def _attend(context: Context, block: QueryBlock, plan: TilingPlan) -> Iterator[None]:
    """Attention of a block of queries; inside, what is done when its last scores are there and its output is not."""
    keys = _Visits(context, block, plan)
    keys.on_first(partial(load_mask, context, block))
    scale_queries(context, block)
    keys.on_first(partial(softmax.begin, context, block))
    keys.on_first(keys.first_scores)
    if keys.blocks.whole:
        with context.tik.for_range(keys.begin, keys.end, name="key_block") as number:
            keys.visit(keys.blocks.whole_block(number))
    if keys.blocks.rest:
        with keys.if_rest_is_seen():
            keys.visit(keys.blocks.rest_block())
    yield
    slices = block.slices(context.geometry)
    softmax.take_output(context, slices[-1])
    for queries in slices:
        softmax.finish(context, queries)


class _KeyBlocks:
    """The key blocks that there are: ``whole`` ones and a shorter one of ``rest`` keys after them, 0 where none is."""

    def __init__(self, context: Context, plan: TilingPlan) -> None:
        self.context, self.tiles = context, plan.Bc // TILE
        self.whole, self.rest = divmod(context.problem.N, plan.Bc)

    def whole_block(self, number: Any) -> KeyBlock:
        """The whole key block of a number."""
        return KeyBlock(number * self.tiles, self.tiles * TILE, number)

    def rest_block(self) -> KeyBlock:
        """The shorter key block after the whole ones."""
        return KeyBlock(self.whole * self.tiles, self.rest, self.whole)

    def act_on(self, number: Any, act: Callable[[KeyBlock], None]) -> None:
        """Does something with the key block of a number, which may be symbolic."""
        if not self.rest:
            act(self.whole_block(number))
        elif not self.whole:
            act(self.rest_block())
        elif isinstance(number, int):
            act(self.whole_block(number) if number < self.whole else self.rest_block())
        else:
            with self.context.tik.if_scope(number < self.whole):
                act(self.whole_block(number))
            with self.context.tik.else_scope():
                act(self.rest_block())

    def begin(self, first: Any) -> Any:
        """The number of the first block that queries from tile ``first`` on visit: windows leave out those before.

        Queries that see no key at all visit the last block.
        """
        tik, below = self.context.tik, [border for border in self.context.geometry.borders if not border.above]
        if not below:
            return 0
        begin = tik.Scalar("int32", "begin", 0)
        for border in below:
            tik.scalar_max(begin, begin, border.tile(first))
        tik.scalar_min(begin, begin // self.tiles, self.whole - 1 + int(self.rest > 0))
        return begin


class _Visits:
    """The key blocks that a block of queries visits: whole ones from number ``begin`` to ``end``, and the shorter one.

    Masks and windows leave out the key blocks that no query sees.
    """

    def __init__(self, context: Context, block: QueryBlock, plan: TilingPlan) -> None:
        self.context, self.block = context, block
        self.slices = block.slices(context.geometry)
        self.blocks = _KeyBlocks(context, plan)
        self.begin = self.blocks.begin(block.first)
        last = block.first + (block.tiles - 1)
        self.tiles_before_end = [border.end_of_keys(last) for border in context.geometry.borders if border.above]
        self.end = self._end() if self.tiles_before_end and self.blocks.whole else self.blocks.whole

    def _end(self) -> Any:
        tik, tiles = self.context.tik, self.blocks.tiles
        end = tik.Scalar("int32", "end")
        end.set_as(self.blocks.whole)
        for tile in self.tiles_before_end:
            tik.scalar_min(end, end, (tile + (tiles - 1)) // tiles)
        return end

    @contextmanager
    def if_rest_is_seen(self) -> Iterator[None]:
        """The block of statements that runs where some query sees keys after the whole blocks."""
        whole_tiles = self.blocks.whole * self.blocks.tiles
        with ExitStack() as conditions:
            for tile in self.tiles_before_end:
                conditions.enter_context(self.context.tik.if_scope(tile > whole_tiles))
            yield

    def on_first(self, act: Callable[[KeyBlock], None]) -> None:
        """Does something with the first key block that is visited."""
        self.blocks.act_on(self.begin, act)

    def first_scores(self, keys: KeyBlock) -> None:
        """The scores of the first slice and key block, before any loop; with two buffers, V is loaded ahead too."""
        if self.context.geometry.buffers > 1:
            load_values(self.context, self.block, keys)
        self._begin_scores(self.slices[0], keys)

    def visit(self, keys: KeyBlock) -> None:
        """One key block, slice by slice. The scores that come next are computed beside the softmax of these, and the
        output of the slice before is taken in only now, when its product has had the time to end."""
        ahead = self.context.geometry.buffers > 1
        if not ahead:
            load_values(self.context, self.block, keys)
        for queries in self.slices:
            if queries.index == 0 and ahead:
                self._with_next(keys, self._load_ahead)
            self._turn(queries, keys)

    def _load_ahead(self, keys: KeyBlock) -> None:
        self._load_keys(keys)
        load_values(self.context, self.block, keys)

    def _load_keys(self, keys: KeyBlock) -> None:
        load_keys(self.context, self.block.head, keys)
        load_mask(self.context, self.block, keys)

    def _turn(self, queries: QuerySlice, keys: KeyBlock) -> None:
        context = self.context
        self._take_scores(queries, keys)
        softmax.find_peaks(context, queries, keys)
        self._next_scores(queries, keys)
        goes_on = keys.number > self.begin
        if queries.index:
            softmax.take_output(context, self.slices[queries.index - 1])
        with context.tik.if_scope(goes_on):
            if not queries.index:
                softmax.take_output(context, self.slices[-1])
            softmax.rescale_output(context, queries)
        softmax.weigh_values(context, queries, keys, goes_on)

    def _take_scores(self, queries: QuerySlice, keys: KeyBlock) -> None:
        """All chunks to UB; where L0C holds fewer, a place is used again as soon as it is free."""
        chunks, ring = self.context.geometry.chunks(keys.keys), self.context.geometry.ring
        for chunk in chunks:
            softmax.take_scores(self.context, queries, chunk)
            scores(self.context, self.block, queries, keys, chunks[chunk.index + ring :][:1])

    def _next_scores(self, queries: QuerySlice, keys: KeyBlock) -> None:
        if queries.index + 1 < len(self.slices):
            self._begin_scores(self.slices[queries.index + 1], keys)
        else:
            self._with_next(keys, self._begin_block)

    def _begin_block(self, keys: KeyBlock) -> None:
        if self.context.geometry.buffers == 1:
            self._load_keys(keys)
        self._begin_scores(self.slices[0], keys)

    def _begin_scores(self, queries: QuerySlice, keys: KeyBlock) -> None:
        load_operand(self.context, queries)
        chunks = self.context.geometry.chunks(keys.keys)
        scores(self.context, self.block, queries, keys, chunks[: self.context.geometry.ring])

    def _with_next(self, keys: KeyBlock, act: Callable[[KeyBlock], None]) -> None:
        """Does something with the key block after a whole one, where there is one to be visited."""
        number = keys.number
        if isinstance(number, int):
            return
        with self.context.tik.if_scope(number + 1 < self.end):
            act(self.blocks.whole_block(number + 1))
        if self.blocks.rest:
            with self.context.tik.else_scope(), self.if_rest_is_seen():
                act(self.blocks.rest_block())
