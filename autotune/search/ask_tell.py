"""Which point to measure next: no point twice, none outside the set, and in the end every one of them.

After the points it is told to try first and a few that lie far apart, three ways to choose take turns: mostly, of some
random points and all neighbours of the best ones, the one whose improvement is expected to be the largest by a Gaussian
process; now and then a proposal of a Parzen estimator, which stands for the nearest unseen point, or a random point.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from random import Random
from typing import Generic

import numpy as np

from autotune.search.gaussian_process import GaussianProcess
from autotune.search.space import Indices, Key, Point, Space
from autotune.search.tpe import ParzenEstimator

STARTUP = 5
"""Observations, far apart beyond those tried first, before anything is inferred from them."""
BEST = 5
"""The best points whose neighbours are tried."""
SAMPLE = 300
"""Random points that are looked at for each choice, beside all neighbours of the best ones."""
LEAST_GAIN = 0.1
"""Standard deviations of the observed costs that an improvement has to exceed: expecting less of the known favours the
unknown."""


class Search(Generic[Key]):
    """Minimises a cost over ``points`` by ask and tell; deterministic for a seed and what it is told.

    first: keys to ask for before all others, in this order. rules_out(failed, other): whether a point that overflowed
    makes another one hopeless. Raises ValueError on no points, different axes, or a key in ``first`` that is no point.
    """

    def __init__(
        self,
        points: Mapping[Key, Point],
        first: Iterable[Key] = (),
        seed: int = 0,
        rules_out: Callable[[Point, Point], bool] = lambda failed, other: False,
    ) -> None:
        self._space = Space(points)
        self._first = deque(self._index(key) for key in first)
        self._rules_out = rules_out
        self._random = Random(seed)
        self._process = GaussianProcess(self._space, seed)
        self._estimator = ParzenEstimator(self._space.sizes, seed, STARTUP)
        # One choice in ten is not the process'. Recorded and synthetic spaces do as well without them, but there may be
        # spaces unlike its idea of them.
        model = [self._expected] * 9
        self._turns = cycle([*model, self._proposal, *model, self._at_random])
        self._unseen = np.ones(len(self._space.keys), np.bool_)
        self._open: dict[int, int] = {}
        self._costs: dict[int, float] = {}
        self._failed: list[int] = []

    def ask(self) -> Key | None:
        """A point that was neither asked for nor told before nor ruled out; None when there is none left."""
        if not self._unseen.any():
            return None
        index = self._next()
        self._begin(index)
        return self._space.keys[index]

    def tell(self, key: Key, cost: float | None, overflowed: bool = False) -> None:
        """The outcome of a point that was asked for, or one known from elsewhere; None where it failed.

        ``overflowed`` says that it failed for its size, so that ``rules_out`` applies. Raises ValueError for a point
        that was told already or that is none, and for a cost that is not finite.
        """
        index = self._index(key)
        if cost is not None and not math.isfinite(cost):
            raise ValueError(f"the cost of {key!r} is {cost}; tell None for a failure")
        if index in self._costs or index in self._failed:
            raise ValueError(f"{key!r} was told already")
        if index not in self._open:
            self._begin(index)
        self._estimator.finish(self._open.pop(index), cost)
        if cost is None:
            self._failed.append(index)
        else:
            self._costs[index] = cost
        if overflowed:
            self._rule_out(index)

    def _next(self) -> int:
        while self._first:
            index = self._first.popleft()
            if self._unseen[index]:
                return index
        if not self._costs or len(self._costs) + len(self._failed) < STARTUP:
            return self._apart()
        return next(self._turns)()

    def _apart(self) -> int:
        """Of some points the one that is farthest from all that were asked for."""
        some = self._some()
        asked = np.array([*self._costs, *self._failed, *self._open], np.int64)
        if not asked.size:
            return self._any_of(some)
        places = self._space.places
        return int(some[self._space.distance(places[some], places[asked]).min(axis=1).argmax()])

    def _expected(self) -> int:
        neighbours = [self._space.one_axis_away(best) for best in self._best()]
        near = np.unique(np.concatenate([self._some(), *neighbours]))
        near = near[self._unseen[near]]
        forecast = self._process.forecast(self._costs, self._failed, near)
        gain = forecast.success * forecast.gain(LEAST_GAIN * forecast.spread)
        return self._any_of(near[gain >= gain.max()])

    def _proposal(self) -> int:
        ranks = np.array(self._estimator.propose(), np.int64)
        return self._any_of(self._space.nearest(ranks, self._unseen))

    def _best(self) -> list[int]:
        return sorted(self._costs, key=self._costs.__getitem__)[:BEST]

    def _some(self) -> Indices:
        unseen = np.flatnonzero(self._unseen)
        return np.array(self._random.sample(unseen.tolist(), min(SAMPLE, unseen.size)), np.int64)

    def _at_random(self) -> int:
        return self._any_of(np.flatnonzero(self._unseen))

    def _any_of(self, indices: Indices) -> int:
        return int(self._random.choice(indices.tolist()))

    def _begin(self, index: int) -> None:
        self._unseen[index] = False
        self._open[index] = self._estimator.begin(self._space.ranks[index].tolist())

    def _rule_out(self, failed: int) -> None:
        points = self._space.points
        for index in np.flatnonzero(self._unseen).tolist():
            if self._rules_out(points[failed], points[index]):
                self._unseen[index] = False

    def _index(self, key: Key) -> int:
        if key not in self._space.index:
            raise ValueError(f"{key!r} is no point of this search")
        return self._space.index[key]
