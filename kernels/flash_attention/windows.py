"""Which keys a query sees, as borders in tiles of 16 keys and queries, and what lies across them.

A causal mask, a window in tokens and a window in blocks each hide the keys on one side of a border that runs along the
diagonal. Far from a border a tile of 16 x 16 scores is hidden whole or not at all; only the one or two tiles in which
it runs are hidden in part. The rules are those of ``reference.py``, in tokens, whatever the tiling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autotune.kernels.flash_attention.reference import WINDOW_BLOCK
from autotune.plan import TILE
from autotune.problem import AttentionProblem

BLOCK_TILES = WINDOW_BLOCK // TILE
"""Tiles of tokens in one block of ``block_window``."""


@dataclass(frozen=True)
class Border:
    """The border above or below the keys that are seen.

    above: whether it hides the keys after it, or those before it. shift and period: for queries of tile Q, the tile of
    keys where it lies is shift + Q, with Q rounded down to a multiple of ``period`` tiles. limits: one for each tile of
    keys, from that tile on, that is hidden in part. hides: whether what is across it counts for nothing; else it gets
    the mask's -10000, which a row that sees nothing else forgives.
    """

    above: bool
    shift: int
    period: int = 1
    limits: tuple[int, ...] = ()
    hides: bool = True

    def tile(self, first: Any, offset: int = 0) -> Any:
        """The tile of keys where the border lies for queries of tile ``first + offset``; ``first`` may be symbolic."""
        symbolic, constant = self.terms(first, offset)
        return symbolic + constant if constant else symbolic

    def terms(self, first: Any, offset: int) -> tuple[Any, int]:
        """Two numbers whose sum is ``tile``: one that follows ``first``, and a constant."""
        if self.period == 1:
            return first, offset + self.shift
        return (first + offset) // self.period * self.period, self.shift

    def across(self, number: int, key: int, query: int) -> bool:
        """Whether a key and a query of a tile that is hidden in part, the ``number``-th, do not see each other."""
        return (key - query if self.above else query - key) > self.limits[number]

    def reach(self, rows: int, keys: int) -> int:
        """Most tiles beyond its own that a block of so many tiles, which it crosses, lies to either side of it.

        A border below is met by blocks of queries after all keys too, which lie a tile further.
        """
        return keys + rows - 2 + self.period - 1 + (0 if self.above else 1)


CAUSAL = Border(above=True, shift=0, limits=(0,), hides=False)
"""A causal mask: the tile of keys of the queries' own number is the last that is seen."""


@lru_cache(maxsize=1024)
def borders(problem: AttentionProblem) -> tuple[Border, ...]:
    """Of a problem, those that some key lies across. Of a causal mask and windows, which show each query its own key or
    all, the mask is a window without later keys."""
    window, blocks, causal = problem.window, problem.block_window, problem.attn_mask == "causal"
    if window is None and blocks is None:
        return (CAUSAL,) if causal else ()
    found = []
    before, after = window or (problem.Nq, problem.N)
    if before < problem.Nq - 1:
        found.append(_below(before))
    if causal or after < problem.N - 1:
        found.append(_above(0 if causal else after))
    if blocks is not None:
        before, after = blocks
        if before < (problem.Nq - 1) // WINDOW_BLOCK:
            found.append(Border(above=False, shift=-before * BLOCK_TILES, period=BLOCK_TILES))
        if after < (problem.N - 1) // WINDOW_BLOCK:
            found.append(Border(above=True, shift=(after + 1) * BLOCK_TILES, period=BLOCK_TILES))
    return tuple(found)


def _above(tokens: int) -> Border:
    tiles, limits = _partly_hidden(tokens)
    return Border(above=True, shift=tiles + min(limits), limits=tuple(limits.values()))


def _below(tokens: int) -> Border:
    tiles, limits = _partly_hidden(tokens)
    return Border(above=False, shift=-tiles - max(limits), limits=tuple(reversed(limits.values())))


def _partly_hidden(tokens: int) -> tuple[int, dict[int, int]]:
    """Whole tiles of so many tokens, and the limits of the tiles hidden in part by how many tiles they lie further."""
    tiles, rest = divmod(tokens, TILE)
    return tiles, {further: rest - further * TILE for further in (0, 1) if -TILE < rest - further * TILE < TILE - 1}


def some_see_nothing(problem: AttentionProblem) -> bool:
    """Whether some query's window ends before it reaches the last key; such a query is later than every key."""
    last = problem.Nq - 1
    reaches = [last - problem.window[0]] if problem.window else []
    if problem.block_window:
        reaches.append((last // WINDOW_BLOCK - problem.block_window[0]) * WINDOW_BLOCK)
    return any(reach > problem.N - 1 for reach in reaches)


def first_tile(seen: tuple[Border, ...], first: Any) -> list[Any]:
    """Tiles of keys before each of which some border hides all from the queries from tile ``first`` on."""
    return [border.tile(first) for border in seen if not border.above]


def end_tile(seen: tuple[Border, ...], last: Any, offset: int) -> list[Any]:
    """Tiles of keys from each of which on some border hides all from the queries to tile ``last + offset``."""
    return [border.tile(last, offset + len(border.limits)) for border in seen if border.above]
