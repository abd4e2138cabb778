"""The query blocks that a key block meets, in an order that keeps cube, vector unit and moves busy at once.

The cube computes S and dP of a unit as soon as the vector unit has taken in those before, across blocks of queries and
of keys too, and takes up the products of a unit's weights after the next unit's vector work: their operands are in L1
then, and no load to the cube holds up what is issued after it. dQ of a chunk is taken in a unit later still. A piece of
the next block is loaded where this block's has served.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.kernels.flash_attention.backward_context import BackwardContext, KeyTile, Unit, units
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
            scores(self.context, todo[0])

        self.on_first(act)

    def visit(self, aside: Callable[[], None] | None, then: OnNext | None) -> None:
        """Adds every block's part to dV and dK in L0C and to dQ in global memory.

        ``aside`` is done once, early on, beside the products. ``then`` does something with the first block of what is
        visited next, where that is to be begun here.
        """
        tik = self.context.tik
        if self.whole:
            with tik.for_range(self.start, self.end_of_whole, name="query_block") as number:
                following = _Following(
                    self.context, self._units(number), partial(self._with_block, number + 1, then=then)
                )
                before = (number > self.start, self._units(number - 1))
                self._visit(following, number == self.start, before, aside)
        if not self.rest:
            self._end_after_whole()
        elif self.end is None:
            self._visit_rest(aside, then)
        else:
            with tik.if_scope(self.end > self.whole):
                self._visit_rest(aside, then)
            if self.whole:
                with tik.else_scope():
                    self._end_after_whole()

    def _visit_rest(self, aside: Callable[[], None] | None, then: OnNext | None) -> None:
        following = _Following(self.context, self._rest_units(), then or (lambda act: None))
        before = (self.start < self.whole, self._units(self.whole - 1))
        self._visit(following, self.start == self.whole, before, aside)
        add_query_gradient(self.context, self._rest_units()[-1])

    def _end_after_whole(self) -> None:
        add_query_gradient(self.context, self._units(self.end_of_whole - 1)[-1])

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

    def _visit(
        self, following: _Following, first: Any, before: tuple[Any, Units], aside: Callable[[], None] | None
    ) -> None:
        """The units of a block. first: whether no block came before; else dQ of the one before is still to be taken."""
        context, todo = self.context, following.todo
        weighed: list[tuple[Any, Any]] = []

        def finish(number: int) -> None:
            unit = todo[number]
            if number == 0:
                with context.tik.if_scope(before[0]):
                    add_query_gradient(context, before[1][-1])
            elif todo[number - 1].last_of_chunk:
                add_query_gradient(context, todo[number - 1])
            p, ds = weighed[number]
            accumulate(context, unit, p, ds, first if unit.first_of_part else False)
            if unit.last_of_piece:
                following.load(unit.piece)

        for number, unit in enumerate(todo):
            weighed.append(weights(context, unit))
            if number + 1 < len(todo):
                scores(context, todo[number + 1])
            else:
                following.score()
            if number:
                finish(number - 1)
            if aside and number == min(1, len(todo) - 1):
                with context.tik.if_scope(first):
                    aside()
        finish(len(todo) - 1)
        following.finish()


class _Following:
    """What can be done for the next block while the units ``todo`` of one are being worked on.

    ``with_next`` does something with the next block's units, where there is a next block. Its pieces lie where this
    block's of the same number do.
    """

    def __init__(self, context: BackwardContext, todo: Units, with_next: OnNext) -> None:
        self.context, self.todo, self.with_next = context, todo, with_next
        self.loaded = 0
        self.score_is_due = False

    def score(self) -> None:
        """S and dP of the first unit, as soon as its queries are there."""
        self.score_is_due = True
        if self.loaded:
            self._score()

    def _score(self) -> None:
        self.with_next(lambda units: scores(self.context, units[0]))

    def load(self, piece: int) -> None:
        """Loads a piece over this block's, which has served."""
        self.with_next(lambda units: self._load(units, lambda number: number == piece))
        self.loaded = piece + 1
        if piece == 0 and self.score_is_due:
            self._score()

    def finish(self) -> None:
        """After all units: the pieces that only the next block has."""
        if self.loaded < len(self.context.geometry.pieces):
            self.with_next(lambda units: self._load(units, lambda number: number >= self.loaded))

    def _load(self, units: Units, chosen: Callable[[int], bool]) -> None:
        for unit in units:
            if unit.last_of_piece and chosen(unit.piece):
                load_queries(self.context, unit)
