"""The row blocks of a problem and the key blocks that each of them has to visit.

All heads are alike, so one head's counts and arithmetic stand for a list of all row blocks. Standard library only,
Python 3.8 syntax.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Tuple

from autotune.plan import ceil_div
from autotune.problem import AttentionProblem

WINDOW_BLOCK = 128
"""Tokens in a block of ``block_window``, whatever the tiling."""


@dataclass(frozen=True)
class RowBlocks:
    """The row blocks of all heads, numbered head by head. loads: key blocks that each one of a head has to visit."""

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

    def least(self, cores: int) -> int:
        """Key blocks that the busiest of so many cores has to visit at least, however the row blocks are dealt."""
        heaviest = max(self.loads)
        if heaviest == min(self.loads):
            return heaviest * ceil_div(self.count, cores)
        return max(heaviest, ceil_div(self.heads * self.prefix[-1], cores))

    def folded(self) -> RowBlocks:
        """Pairs in place of row blocks: a head's first with its last, and so on; one in the middle stays alone."""
        half = ceil_div(len(self.loads), 2)
        mirrored = self.loads[::-1]
        pairs = [self.loads[i] + mirrored[i] for i in range(len(self.loads) // 2)]
        return RowBlocks(self.heads, (*pairs, *self.loads[len(pairs) : half]))


def row_blocks(problem: AttentionProblem, Br: int, Bc: int) -> RowBlocks:
    """The row blocks of a problem cut into blocks of Br query rows and Bc keys, counted exactly in tokens."""
    count = ceil_div(problem.Nq, Br)
    if problem.attn_mask != "causal" and not problem.window and not problem.block_window:
        return RowBlocks(problem.heads_total, (ceil_div(problem.N, Bc),) * count)
    return RowBlocks(problem.heads_total, tuple(_load(problem, Br, Bc, number) for number in range(count)))


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
