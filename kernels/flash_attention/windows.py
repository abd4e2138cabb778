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

    def tile(self, query: Any) -> Any:
        """The tile of keys where the border lies for queries of a tile, which may be symbolic."""
        return self._rounded(query) + self.shift

    def crosses(self, first_key: Any, keys: int, first_query: Any, queries: int) -> Any:
        """Whether it hides some of so many tiles of keys from some of so many tiles of queries."""
        if self.above:
            return first_key + keys > self.tile(first_query)
        return self.tile(first_query + (queries - 1)) + len(self.limits) > first_key

    def across(self, number: int, key: int, query: int) -> bool:
        """Whether a key and a query of a tile that is hidden in part, the ``number``-th, do not see each other."""
        return (key - query if self.above else query - key) > self.limits[number]

    def end_of_keys(self, query: Any) -> Any:
        """The tile of keys from which on a border above hides all from the queries to a tile."""
        return self.tile(query) + len(self.limits)

    def first_query(self, key: Any) -> Any:
        """The first tile of queries from which a border above does not hide all of the keys from a tile on."""
        return self._rounded(key - self.shift - len(self.limits) + self.period)

    def end_of_queries(self, key: Any) -> Any:
        """The tile of queries from which on a border below hides all keys to a tile."""
        return self._rounded(key - self.shift + self.period)

    def _rounded(self, tile: Any) -> Any:
        return tile if self.period == 1 else tile // self.period * self.period


@dataclass(frozen=True)
class Strip:
    """Fractals in L1 along the keys across a border, from fractal ``start`` on: those that are seen, those that are
    hidden in part, and those that are hidden; below, the other way round. A column of tiles is read where its border
    meets the strip's. shown, hidden: how many there are of each."""

    border: Border
    start: int
    shown: int
    hidden: int

    @property
    def middle(self) -> int:
        """The fractal where the border lies."""
        return self.start + (self.shown if self.border.above else self.hidden)

    @property
    def end(self) -> int:
        """The fractal after its last."""
        return self.start + self.shown + len(self.border.limits) + self.hidden

    def index(self, key: Any, query: Any) -> Any:
        """The fractal of a tile of keys and one of queries, which may be symbolic."""
        return key - self.border.tile(query) + self.middle


def strips(borders: tuple[Border, ...], shown: int, above: int, below: int) -> list[Strip]:
    """Strips one behind the other. shown: most tiles that are seen of a block beside a border that crosses it, were it
    straight; above, below: most tiles beyond a border."""
    found: list[Strip] = []
    for border in borders:
        start, steps = found[-1].end if found else 0, border.period - 1
        found.append(Strip(border, start, shown + steps, (above if border.above else below) + steps))
    return found


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
