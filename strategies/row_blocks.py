"""The row blocks of a problem and the key blocks that each of them has to visit; in the backward op, the reverse.

All heads are alike, so one head's counts and arithmetic stand for a list of all row blocks. Standard library only,
Python 3.8 syntax.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Callable, Tuple

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
    """The blocks to be dealt of a problem cut into blocks of Br query rows and Bc keys, counted exactly in tokens.

    Backward they are key blocks, and their loads the query blocks that see some key of theirs.
    """
    axis = _axis(problem, Br, Bc)
    if problem.attn_mask != "causal" and not problem.window and not problem.block_window:
        return RowBlocks(problem.heads_total, (axis.load(0),) * axis.blocks)
    return RowBlocks(problem.heads_total, tuple(axis.load(number) for number in range(axis.blocks)))


def count_of(problem: AttentionProblem, Br: int, Bc: int) -> int:
    """How many blocks ``row_blocks`` has of all heads."""
    return problem.heads_total * _axis(problem, Br, Bc).blocks


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


def _axis(problem: AttentionProblem, Br: int, Bc: int) -> _Axis:
    if problem.op == "flash_attention_grad":
        return _Axis(problem.N, Bc, problem.Nq, Br, lambda key: _visible_from(problem, key))
    return _Axis(problem.Nq, Br, problem.N, Bc, lambda row: _visible(problem, row))


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
