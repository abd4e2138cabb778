"""The discipline of measuring: pure functions over a clock, for every target whose time is real.

A *run* is one launch; it returns its time in microseconds. Noise multiplies (a slow moment slows all alike), so times
are compared by their logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from autotune.errors import ImplausibleTime

Run = Callable[[], float]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MAD = 1.4826
"""Standard deviations in a median distance, of normally distributed numbers."""
LEAST_NOISE = 0.005
"""No clock is trusted to tell less apart in one run."""
LONGEST_US = 3.6e9
"""An hour: no launch of one kernel takes that long, and sentinels such as 1e17 have been stored as times elsewhere."""


@dataclass(frozen=True)
class Rules:
    """How a race is run. runs_each: runs that may be spent, for each starter on average.

    noise: standard deviation of the logarithm of a time, until the race knows its own. drop: standard errors by which a
    starter must be slower than the leader to be dropped; crown: by which the leader must be faster than the incumbent.
    The defaults are those that lost least in benchmarks/measure.py.
    """

    runs_each: float = 5.0
    noise: float = 0.10
    drop: float = 4.0
    crown: float = 1.0


@dataclass(frozen=True)
class Raced(Generic[Key]):
    """How a race ended. times_us: every starter's samples, one for each round that it took part in."""

    winner: Key
    times_us: Mapping[Key, tuple[float, ...]]

    @property
    def runs(self) -> int:
        """Launches of all starters."""
        return sum(len(samples) for samples in self.times_us.values())


def warm_up(run: Run, window: int = 3, agreement: float = 0.03, most: int = 30) -> int:
    """Runs until the medians of two neighbouring windows agree, or ``most`` runs; returns how many it took."""
    before = math.inf
    for runs in range(window, most + 1, window):
        now = statistics.median(run() for _ in range(window))
        if abs(now - before) <= agreement * now:
            return runs
        before = now
    return most - most % window


@dataclass(frozen=True)
class Sentinel:
    """A run that is always the same: when its time changes, the machine has changed.

    pulse: runs whose median is one reading. most_drift: change of a reading that is still noise, as a share; blocks:
    how often a block is measured at most.
    """

    run: Run
    pulse: int = 5
    most_drift: float = 0.08
    blocks: int = 3

    def watch(self, block: Callable[[], Value]) -> tuple[Value, float]:
        """What a block of measurements gives, and the drift over it; a block that drifted is measured again.

        Where the last one drifted too, its drift says so.
        """
        before = self._read()
        for _ in range(self.blocks):
            found, after = block(), self._read()
            drift = after / before - 1.0
            if abs(drift) <= self.most_drift:
                break
            before = after
        return found, drift

    def _read(self) -> float:
        return statistics.median(self.run() for _ in range(self.pulse))


def affordable(runs: int, one_us: float, seconds: float, least: int = 3) -> int:
    """As many runs as the seconds allow, at most ``runs``, at least ``least``."""
    return max(least, min(runs, int(seconds * 1e6 / one_us)))


def undisturbed(samples: Sequence[float]) -> float:
    """The mean of the fastest two thirds: what disturbs a run makes it slower, so the slow ones say least."""
    ordered = sorted(samples)
    return statistics.fmean(ordered[: max(1, round(len(ordered) * 2 / 3))])


def spread(samples: Sequence[float]) -> float:
    """The distance between the quartiles; 0 of a single sample."""
    if len(samples) < 2:
        return 0.0
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return high - low


def check_plausible(samples: Sequence[float], least_us: float) -> None:
    """least_us: what the machine's peak rate allows. Raises ImplausibleTime for a sample that cannot be true."""
    for sample in samples:
        if not (math.isfinite(sample) and sample > 0.0 and least_us <= sample <= LONGEST_US):
            raise ImplausibleTime(
                f"a run took {sample:g} us; it must be from {least_us:.3g} us, what this machine's peak rate allows, "
                f"to {LONGEST_US:.0e} us"
            )


def race(runs: Mapping[Key, Run], incumbent: Key, random: Random, rules: Rules = Rules()) -> Raced[Key]:
    """Races candidates against the incumbent until the runs are spent or one is left.

    Each round runs every starter that is left once, in random order: so drift slows all alike. A starter is dropped as
    soon as it is surely slower than the leader, and most runs go to those that are hard to tell apart. The incumbent
    keeps its place against a leader that is not surely faster.
    """
    course = _Race(runs, incumbent, random, rules)
    while len(course.left) > 1 and course.runs_left() >= len(course.left):
        course.round()
        course.drop()
    return Raced(course.winner(), {key: tuple(map(math.exp, logs)) for key, logs in course.logs.items()})


class _Race(Generic[Key]):
    """A race going on. logs: the logarithm of every time so far; those of ``left`` are equally many."""

    def __init__(self, starters: Mapping[Key, Run], incumbent: Key, random: Random, rules: Rules) -> None:
        self._starters, self._incumbent, self._random, self._rules = starters, incumbent, random, rules
        self.left = list(starters)
        self.logs: dict[Key, list[float]] = {key: [] for key in starters}

    def runs_left(self) -> float:
        """What the rules allow, less what was spent."""
        return self._rules.runs_each * len(self._starters) - sum(map(len, self.logs.values()))

    def round(self) -> None:
        """One sample of each that is left."""
        self._random.shuffle(self.left)
        for key in self.left:
            self.logs[key].append(math.log(self._starters[key]()))

    def drop(self) -> None:
        """Leaves out those that are surely slower than the leader."""
        leader, most = self._leader(), self._rules.drop * self._error()
        self.left = [key for key in self.left if self._behind(key, leader) <= most]

    def winner(self) -> Key:
        """The leader, or the incumbent where it is still there and not surely slower."""
        leader = self._leader()
        if self._incumbent in self.left and self._behind(self._incumbent, leader) <= self._rules.crown * self._error():
            return self._incumbent
        return leader

    def _leader(self) -> Key:
        return min(self.left, key=lambda key: undisturbed(self.logs[key] or [0.0]))

    def _behind(self, key: Key, leader: Key) -> float:
        return undisturbed(self.logs[key] or [0.0]) - undisturbed(self.logs[leader] or [0.0])

    def _error(self) -> float:
        """Of the difference between two that are left."""
        return self._noise() / math.sqrt(max(1, len(self.logs[self.left[0]])))

    def _noise(self) -> float:
        """From the median distance of a ratio to the leader, round by round, from its starter's own."""
        leader = self.logs[self._leader()]
        ratios = [[one - two for one, two in zip(self.logs[key], leader)] for key in self.left]
        distances = [
            abs(ratio - statistics.median(own)) for own in ratios if len(own) > 2 and any(own) for ratio in own
        ]
        return max(MAD * statistics.median(distances), LEAST_NOISE) if len(distances) > 5 else self._rules.noise
