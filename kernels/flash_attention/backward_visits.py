"""The query blocks that a key block meets, in an order that keeps cube, vector unit and moves busy at once.

The cube is AHEAD units ahead of the vector unit with S and dP, across query blocks too: the last units of a block leave
the next block's first scores behind them. A piece of the next block is loaded where this block's has served. dQ of a
chunk is taken only after the next unit's vector work, when its product has had the time to end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from autotune.kernels.flash_attention.backward_context import BackwardContext, KeyTile, Unit, units
from autotune.kernels.flash_attention.backward_plans import AHEAD
from autotune.kernels.flash_attention.backward_products import accumulate, load_queries, scores
from autotune.kernels.flash_attention.backward_softmax import add_query_gradient, weights
from autotune.kernels.flash_attention.context import KeyBlock, QueryBlock
from autotune.plan import TILE, TilingPlan, pad

Units = list[Unit]
OnUnits = Callable[[Units], None]
"""Something done with the units of a query block."""


class QueryBlocks:
    """The query blocks of a key block: whole ones, ``start`` to ``end_of_whole``, and one of ``rest`` queries.

    Masks and windows leave out the query blocks that see none of the keys. end: how many there are with the shorter
    one, None where nothing is left out at the end.
    """

    def __init__(self, context: BackwardContext, tile: KeyTile, head: Any, keys: KeyBlock, plan: TilingPlan) -> None:
        self.context, self.tile, self.head, self.keys = context, tile, head, keys
        self.rows = plan.Br // TILE
        self.whole, self.rest = divmod(context.problem.Nq, plan.Br)
        self.start = self._start()
        self.end = self._end()
        self.end_of_whole = self.whole if self.end is None else self._whole_before_end()

    def _start(self) -> Any:
        tik, above = self.context.tik, [border for border in self.context.geometry.borders if border.above]
        if not above:
            return 0
        start = tik.Scalar("int32", "first_query", 0)
        for border in above:
            tik.scalar_max(start, start, border.first_query(self.keys.first))
        start.set_as(start // self.rows)
        return start

    def _end(self) -> Any:
        tik, below = self.context.tik, [border for border in self.context.geometry.borders if not border.above]
        if not below:
            return None
        end, last_key = tik.Scalar("int32", "end"), self.keys.first + (self.keys.tiles - 1)
        end.set_as(self.whole + (self.rest > 0))
        for border in below:
            tik.scalar_min(end, end, (border.end_of_queries(last_key) + (self.rows - 1)) // self.rows)
        return end

    def _whole_before_end(self) -> Any:
        end = self.context.tik.Scalar("int32", "end_of_whole")
        self.context.tik.scalar_min(end, self.end, self.whole)
        return end

    def visit(self) -> None:
        """Adds every block's part to dV and dK in L0C and to dQ in global memory."""
        tik = self.context.tik
        self._with_block(self.start, self._begin)
        if self.whole:
            with tik.for_range(self.start, self.end_of_whole, name="query_block") as number:
                following = _Following(self, self._units(number), partial(self._with_block, number + 1))
                self._visit(following, number == self.start, (number > self.start, self._units(number - 1)))
        if not self.rest:
            self._end_after_whole()
        elif self.end is None:
            self._visit_rest()
        else:
            with tik.if_scope(self.end > self.whole):
                self._visit_rest()
            if self.whole:
                with tik.else_scope():
                    self._end_after_whole()

    def _visit_rest(self) -> None:
        following = _Following(self, self._rest_units(), lambda act: None)
        self._visit(following, self.start == self.whole, (self.start < self.whole, self._units(self.whole - 1)))
        add_query_gradient(self.context, self._rest_units()[-1])

    def _end_after_whole(self) -> None:
        add_query_gradient(self.context, self._units(self.end_of_whole - 1)[-1])

    def _units(self, number: Any) -> Units:
        block = QueryBlock(self.head, number * self.rows, self.rows, self.rows * TILE)
        return units(self.context, block, self.keys)

    def _rest_units(self) -> Units:
        block = QueryBlock(self.head, self.whole * self.rows, pad(self.rest) // TILE, self.rest)
        return units(self.context, block, self.keys)

    def _with_block(self, number: Any, act: OnUnits) -> None:
        """Does something with the query block of a number, where there is one to be visited."""
        tik = self.context.tik
        with tik.if_scope(number < self.end_of_whole):
            act(self._units(number))
        if self.rest:
            with tik.else_scope(), nullcontext() if self.end is None else tik.if_scope(self.end > self.whole):
                act(self._rest_units())

    def _begin(self, todo: Units) -> None:
        """Before the first block: all of its pieces, and its first scores."""
        for unit in todo:
            if unit.last_of_piece:
                load_queries(self.context, unit, self.keys)
        for unit in todo[:AHEAD]:
            self.score(unit)

    def score(self, unit: Unit) -> None:
        """S and dP of a unit."""
        scores(self.context, self.tile, self.keys, unit)

    def _visit(self, following: _Following, first: Any, before: tuple[Any, Units]) -> None:
        """The units of a block. first: whether no block came before; else dQ of the one before is still to be taken."""
        context, todo = self.context, following.todo
        for number, unit in enumerate(todo):
            p, ds = weights(context, unit)
            if number + AHEAD < len(todo):
                self.score(todo[number + AHEAD])
            else:
                following.score_in_place_of(number % AHEAD)
            if number == 0:
                with context.tik.if_scope(before[0]):
                    add_query_gradient(context, before[1][-1])
            elif todo[number - 1].last_of_chunk:
                add_query_gradient(context, todo[number - 1])
            accumulate(context, self.tile, unit, p, ds, first if unit.first_of_part else False)
            if unit.last_of_piece:
                following.load(unit.piece)


class _Following:
    """What can be done for the next block while the units ``todo`` of one are being worked on.

    ``with_next`` does something with the next block's units, where there is a next block. Its pieces and first units
    lie where this block's of the same number do.
    """

    def __init__(self, blocks: QueryBlocks, todo: Units, with_next: Callable[[OnUnits], None]) -> None:
        self.blocks, self.todo, self.with_next = blocks, todo, with_next
        self.loaded = 0
        self.due: list[int] = []

    def score_in_place_of(self, place: int) -> None:
        """S and dP of the unit that takes this place in L0C, as soon as its queries are there."""
        self.due.append(place)
        self._score()

    def load(self, piece: int) -> None:
        """Loads a piece over this block's, which has served."""

        def act(units: Units) -> None:
            for unit in units:
                if unit.piece == piece and unit.last_of_piece:
                    load_queries(self.blocks.context, unit, self.blocks.keys)

        self.with_next(act)
        self.loaded = piece + 1
        self._score()

    def _score(self) -> None:
        ready = [place for place in self.due if self.todo[place].piece < self.loaded]
        self.due = [place for place in self.due if place not in ready]

        def act(units: Units) -> None:
            for place in ready:
                if place < len(units):
                    self.blocks.score(units[place])

        if ready:
            self.with_next(act)
