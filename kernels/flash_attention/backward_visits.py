"""The query blocks that a key block meets, in an order that keeps cube, vector unit and moves busy at once.

The cube is AHEAD units ahead of the vector unit with S and dP, across query blocks too: the last units of a block leave
the next block's first scores behind them. A piece of the next block is loaded where this block's has served. dQ of a
chunk is taken only after the next unit's vector work, when its product has had the time to end.
"""

from __future__ import annotations

from collections.abc import Callable
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
OnNext = Callable[[OnUnits], None]
"""Does something with the units of the query block that comes next, where there is one."""


class QueryBlocks:
    """The query blocks of a key block: whole ones, ``start`` to ``end_of_whole``, and one of ``rest`` queries.

    Masks and windows leave out the query blocks that see none of the keys. end: how many there are with the shorter
    one, None where nothing is left out at the end.
    """

    def __init__(self, context: BackwardContext, tile: KeyTile, head: Any, keys: KeyBlock, plan: TilingPlan) -> None:
        self.context, self.tile, self.head, self.keys = context, tile, head, keys
        self.rows = plan.Br // TILE
        self.lag = context.geometry.dq_turns
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

    def on_first(self, act: OnUnits) -> None:
        """Does something with the first block."""
        self._with_block(self.start, act)

    def begin(self) -> None:
        """Before ``visit``: all pieces of the first block, and its first scores."""

        def act(todo: Units) -> None:
            for unit in todo:
                if unit.last_of_piece:
                    load_queries(self.context, unit)
            for unit in todo[:AHEAD]:
                scores(self.context, unit)

        self.on_first(act)

    def visit(self, then: OnNext | None) -> None:
        """Adds every block's part to dV and dK in L0C and to dQ in global memory.

        ``then`` does something with the first block of what is visited next, where that is to be begun here.
        """
        tik = self.context.tik
        if self.whole:
            with tik.for_range(self.start, self.end_of_whole, name="query_block") as number:
                following = _Following(
                    self.context, self._units(number), partial(self._with_block, number + 1, then=then)
                )
                self._visit(following, number == self.start, (number > self.start, self._units(number - 1)))
        if not self.rest:
            self._end_after_whole()
        elif self.end is None:
            self._visit_rest(then)
        else:
            with tik.if_scope(self.end > self.whole):
                self._visit_rest(then)
            if self.whole:
                with tik.else_scope():
                    self._end_after_whole()

    def _add_pending(self, done: Units) -> None:
        """dQ of the chunks that ended too late in a block to be taken in it."""
        for unit in done[-self.lag :]:
            if unit.last_of_chunk:
                add_query_gradient(self.context, unit)

    def _visit_rest(self, then: OnNext | None) -> None:
        following = _Following(self.context, self._rest_units(), then or (lambda act: None))
        self._visit(following, self.start == self.whole, (self.start < self.whole, self._units(self.whole - 1)))
        self._add_pending(self._rest_units())

    def _end_after_whole(self) -> None:
        self._add_pending(self._units(self.end_of_whole - 1))

    def _units(self, number: Any) -> Units:
        block = QueryBlock(self.head, number * self.rows, self.rows, self.rows * TILE)
        return units(self.context, block, self.keys, self.tile)

    def _rest_units(self) -> Units:
        block = QueryBlock(self.head, self.whole * self.rows, pad(self.rest) // TILE, self.rest)
        return units(self.context, block, self.keys, self.tile)

    def _with_block(self, number: Any, act: OnUnits, then: OnNext | None = None) -> None:
        """Does something with the query block of a number, where there is one to visit, or else with ``then``'s."""
        tik = self.context.tik
        with tik.if_scope(number < self.end_of_whole):
            act(self._units(number))
        if not (self.rest or then):
            return
        with tik.else_scope():
            if self.rest and self.end is None:
                act(self._rest_units())
            elif self.rest:
                with tik.if_scope(self.end > self.whole):
                    act(self._rest_units())
                if then:
                    with tik.else_scope():
                        then(act)
            elif then:
                then(act)

    def _visit(self, following: _Following, first: Any, before: tuple[Any, Units]) -> None:
        """The units of a block. first: whether no block came before; else dQ of the one before is still to be taken."""
        context, todo = self.context, following.todo
        for number, unit in enumerate(todo):
            p, ds = weights(context, unit)
            if number + AHEAD < len(todo):
                scores(context, todo[number + AHEAD])
            else:
                following.score_in_place_of(number % AHEAD)
            if number == 0:
                with context.tik.if_scope(before[0]):
                    self._add_pending(before[1])
            elif number >= self.lag and todo[number - self.lag].last_of_chunk:
                add_query_gradient(context, todo[number - self.lag])
            accumulate(context, unit, p, ds, first if unit.first_of_part else False)
            if unit.last_of_piece:
                following.load(unit.piece)
        following.finish()


class _Following:
    """What can be done for the next block while the units ``todo`` of one are being worked on.

    ``with_next`` does something with the next block's units, where there is a next block. Its pieces and first units
    lie where this block's of the same number do.
    """

    def __init__(self, context: BackwardContext, todo: Units, with_next: OnNext) -> None:
        self.context, self.todo, self.with_next = context, todo, with_next
        self.loaded = 0
        self.due: list[int] = []
        self.scored: list[int] = []

    def score_in_place_of(self, place: int) -> None:
        """S and dP of the unit that takes this place in L0C, as soon as its queries are there."""
        self.due.append(place)
        self._score()

    def load(self, piece: int) -> None:
        """Loads a piece over this block's, which has served."""

        def act(units: Units) -> None:
            for unit in units:
                if unit.piece == piece and unit.last_of_piece:
                    load_queries(self.context, unit)

        self.with_next(act)
        self.loaded = piece + 1
        self._score()

    def _score(self) -> None:
        ready = [place for place in self.due if self.todo[place].piece < self.loaded]
        self.due = [place for place in self.due if place not in ready]
        self.scored += ready

        def act(units: Units) -> None:
            for place in ready:
                if place < len(units):
                    scores(self.context, units[place])

        if ready:
            self.with_next(act)

    def finish(self) -> None:
        """After all units: what is left to do where the next block may be longer than this one."""
        places = [place for place in range(AHEAD) if place not in self.scored]

        def act(units: Units) -> None:
            for unit in units:
                if unit.piece >= self.loaded and unit.last_of_piece:
                    load_queries(self.context, unit)
            for place in places:
                if place < len(units):
                    scores(self.context, units[place])

        if places or self.loaded < len(self.context.geometry.pieces):
            self.with_next(act)
