"""Core splits: named rules that deal the row blocks of all heads to the cores.

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
    """The row blocks of a problem cut into blocks of Br query rows and Bc keys, counted exactly in tokens."""
    return RowBlocks(problem.heads_total, tuple(_load(problem, Br, Bc, i) for i in range(ceil_div(problem.Nq, Br))))


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


def block_num(problem: AttentionProblem, Br: int, hardware: Hardware) -> int:
    """Cores that get work: all of them, or one for each row block where those are fewer."""
    return min(hardware.cores, problem.heads_total * ceil_div(problem.Nq, Br))


def complete(plan: TilingPlan, problem: AttentionProblem, hardware: Hardware) -> TilingPlan:
    """The plan with its core split worked out for this problem and chip. Raises UnknownName for an unknown rule."""
    rule = plan.core_split.rule
    if rule not in RULES:
        raise UnknownName(f"no core split {rule!r}; known: {', '.join(sorted(RULES))}", field="core_split")
    blocks = row_blocks(problem, plan.Br, plan.Bc)
    cores = block_num(problem, plan.Br, hardware)
    ends = RULES[rule](blocks, cores)
    work = tuple(_runs(start, end, len(blocks.loads)) for start, end in zip([0, *ends], ends))
    return replace(plan, core_split=CoreSplit(rule, cores, work))


def distinct_rules(problem: AttentionProblem, Br: int, Bc: int) -> Tuple[str, ...]:
    """The rules that can differ on this problem: only ``even`` where all row blocks visit equally many key blocks."""
    return ("even",) if _uniform(problem, Br, Bc) else ("even", "balanced")


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


def _load(problem: AttentionProblem, Br: int, Bc: int, row_block: int) -> int:
    """Key blocks with a key that some row of the row block sees.

    A row before N sees at least the key of its own number, so the keys seen by neighbouring rows join up, and the
    first row's first key and the last row's last key bound them all.
    """
    first, last = _visible(problem, row_block * Br)
    if first > last:
        return 0
    last = _visible(problem, min(problem.Nq, (row_block + 1) * Br) - 1)[1]
    return last // Bc - first // Bc + 1


def _uniform(problem: AttentionProblem, Br: int, Bc: int) -> bool:
    last_row_block = ceil_div(problem.Nq, Br) - 1
    if (
        _visible(problem, last_row_block * Br)[0] == 0
        and _visible(problem, min(Br, problem.Nq) - 1)[1] == problem.N - 1
    ):
        return True
    load = _load(problem, Br, Bc, 0)
    return all(_load(problem, Br, Bc, row_block) == load for row_block in range(1, last_row_block + 1))


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
