"""Core splits: named rules that deal the row blocks of all heads to the cores; in the backward op, the key blocks.

Row blocks are numbered head by head; every rule gives each core a contiguous run of them, so that a core reads one
head's keys again and again rather than many heads' once. All heads are alike, so a rule works on one head's counts
and on arithmetic, never on a list of all row blocks. Standard library only, Python 3.8 syntax.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Callable, Dict, List, Sequence, Tuple

from autotune.errors import UnknownName
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, TilingPlan, ceil_div
from autotune.problem import AttentionProblem

WINDOW_BLOCK = 128
"""Tokens in a block of ``block_window``, whatever the tiling."""


@dataclass(frozen=True)
class RowBlocks:
    """The row blocks of all heads. loads: key blocks that each row block of one head has to visit."""

    heads: int
    loads: Tuple[int, ...]

    @property
    def count(self) -> int:
        """Row blocks of all heads, B*H*Tr."""
        return self.heads * len(self.loads)

    @cached_property
    def prefix(self) -> Tuple[int, ...]:
        """Running sums of one head's loads, beginning with 0."""
        return (0, *accumulate(self.loads))

    def load_before(self, position: int) -> int:
        """Key blocks visited by all row blocks before ``position``."""
        head, row_block = divmod(position, len(self.loads))
        return head * self.prefix[-1] + self.prefix[row_block]

    def reach(self, start: int, limit: int) -> int:
        """The furthest end such that the row blocks from ``start`` up to it load at most ``limit``."""
        head, rest = divmod(self.load_before(start) + limit, self.prefix[-1])
        return min(self.count, head * len(self.loads) + bisect_right(self.prefix, rest) - 1)


def row_blocks(problem: AttentionProblem, Br: int, Bc: int) -> RowBlocks:
    """The blocks to be dealt of a problem cut into blocks of Br query rows and Bc keys, counted exactly in tokens.

    Backward they are key blocks, and their loads the query blocks that see some key of theirs.
    """
    axis = _axis(problem, Br, Bc)
    return RowBlocks(problem.heads_total, tuple(axis.load(i) for i in range(axis.blocks)))


def even(blocks: RowBlocks, cores: int) -> List[int]:
    """Where each core's run ends: as many row blocks for one core as for another, give or take one."""
    return [blocks.count * core // cores for core in range(1, cores + 1)]


def balanced(blocks: RowBlocks, cores: int) -> List[int]:
    """Where each core's run ends: the busiest core has as few key blocks as any contiguous split can give it.

    The least load is found by bisection, a greedy walk telling whether a load suffices. Where ``even`` is as good,
    the result is that of ``even``.
    """
    ends = even(blocks, cores)
    heaviest = max(blocks.loads)
    least = max(heaviest, ceil_div(blocks.load_before(blocks.count), cores))
    enough = min(busiest(blocks, ends), least + heaviest)
    if busiest(blocks, ends) == least:
        return ends
    while least < enough:
        limit = (least + enough) // 2
        least, enough = (least, limit) if _walk(blocks, cores, limit)[-1] == blocks.count else (limit + 1, enough)
    return ends if busiest(blocks, ends) == enough else _walk(blocks, cores, enough)


RULES: Dict[str, Callable[[RowBlocks, int], List[int]]] = {"even": even, "balanced": balanced}


def busiest(blocks: RowBlocks, ends: Sequence[int]) -> int:
    """Key blocks that the busiest core has to visit."""
    sums = [blocks.load_before(end) for end in ends]
    return max(after - before for before, after in zip([0, *sums], sums))


def block_num(problem: AttentionProblem, Br: int, Bc: int, hardware: Hardware) -> int:
    """Cores that get work: all of them, or one for each row block (backward: key block) where those are fewer."""
    return min(hardware.cores, problem.heads_total * _axis(problem, Br, Bc).blocks)


def complete(plan: TilingPlan, problem: AttentionProblem, hardware: Hardware) -> TilingPlan:
    """The plan with its core split worked out for this problem and chip. Raises UnknownName for an unknown rule."""
    rule = plan.core_split.rule
    if rule not in RULES:
        raise UnknownName(f"no core split {rule!r}; known: {', '.join(sorted(RULES))}", field="core_split")
    blocks = row_blocks(problem, plan.Br, plan.Bc)
    cores = block_num(problem, plan.Br, plan.Bc, hardware)
    ends = RULES[rule](blocks, cores)
    work = tuple(_runs(start, end, len(blocks.loads)) for start, end in zip([0, *ends], ends))
    return replace(plan, core_split=CoreSplit(rule, cores, work))


def distinct_rules(problem: AttentionProblem, Br: int, Bc: int) -> Tuple[str, ...]:
    """The rules that can differ on this problem: only ``even`` where all row blocks visit equally many key blocks."""
    return ("even",) if _axis(problem, Br, Bc).uniform() else ("even", "balanced")


def _visible(problem: AttentionProblem, row: int) -> Tuple[int, int]:
    """First and last key that a query row sees; first > last where it sees none. Both grow with the row.

    Full and shared masks are data, so their rows count as seeing every key.
    """
    first, last = 0, problem.N - 1
    if problem.attn_mask == "causal":
        last = min(last, row)
    if problem.window:
        first, last = max(first, row - problem.window[0]), min(last, row + problem.window[1])
    if problem.block_window:
        block = row // WINDOW_BLOCK
        first = max(first, (block - problem.block_window[0]) * WINDOW_BLOCK)
        last = min(last, (block + problem.block_window[1] + 1) * WINDOW_BLOCK - 1)
    return first, last


def _visible_from(problem: AttentionProblem, key: int) -> Tuple[int, int]:
    """First and last query row that sees a key; first > last where none does. Both grow with the key."""
    first, last = 0, problem.Nq - 1
    if problem.attn_mask == "causal":
        first = max(first, key)
    if problem.window:
        first, last = max(first, key - problem.window[1]), min(last, key + problem.window[0])
    if problem.block_window:
        block = key // WINDOW_BLOCK
        first = max(first, (block - problem.block_window[1]) * WINDOW_BLOCK)
        last = min(last, (block + problem.block_window[0] + 1) * WINDOW_BLOCK - 1)
    return first, last


@dataclass(frozen=True)
class _Axis:
    """The tokens that are dealt in blocks, and the tokens that each of them has to do with.

    length, block: tokens and tokens in a block. other_length, other_block: those of the other axis. partners: first and
    last token of the other axis that one token sees (forward) or is seen by (backward).
    """

    length: int
    block: int
    other_length: int
    other_block: int
    partners: Callable[[int], Tuple[int, int]]

    @property
    def blocks(self) -> int:
        """Blocks of one head."""
        return ceil_div(self.length, self.block)

    def load(self, number: int) -> int:
        """Blocks of the other axis with a partner of some token of a block.

        A token before the other axis' end has at least the token of its own number for a partner, so the partners of
        neighbouring tokens join up, and the first token's first and the last token's last bound them all.
        """
        first, last = self.partners(number * self.block)
        if first > last:
            return 0
        last = self.partners(min(self.length, (number + 1) * self.block) - 1)[1]
        return last // self.other_block - first // self.other_block + 1

    def uniform(self) -> bool:
        """Whether all blocks have one load."""
        last_block, last_token = self.blocks - 1, self.other_length - 1
        starts_at_0 = self.partners(last_block * self.block)[0] == 0
        if starts_at_0 and self.partners(min(self.block, self.length) - 1)[1] == last_token:
            return True
        load = self.load(0)
        return all(self.load(number) == load for number in range(1, last_block + 1))


def _axis(problem: AttentionProblem, Br: int, Bc: int) -> _Axis:
    if problem.op == "flash_attention_grad":
        return _Axis(problem.N, Bc, problem.Nq, Br, lambda key: _visible_from(problem, key))
    return _Axis(problem.Nq, Br, problem.N, Bc, lambda row: _visible(problem, row))


def _walk(blocks: RowBlocks, cores: int, limit: int) -> List[int]:
    """Ends of the cores' runs, each as long as ``limit`` allows while every later core keeps one row block."""
    ends = [0]
    for core in range(1, cores + 1):
        ends.append(min(blocks.reach(ends[-1], limit), blocks.count - (cores - core)))
    return ends[1:]


def _runs(start: int, end: int, per_head: int) -> Tuple[Tuple[int, int, int], ...]:
    """The row blocks from ``start`` to ``end`` as (batch*head, first q block, end q block)."""
    heads = range(start // per_head, ceil_div(end, per_head))
    return tuple((h, max(start - h * per_head, 0), min(end - h * per_head, per_head)) for h in heads)
