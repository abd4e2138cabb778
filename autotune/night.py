"""What sweeps brought since some instant: what was tuned, what changed, what failed and why, what is still wanted.

It is put together from the record alone, so that it covers a night in which a sweep was killed and started again.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autotune.outcome import BestPlan, Failed, Timed, Trial, outcome_to_json
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem

NUMBER = re.compile(r"\d[\d.,e+-]*")
"""What differs between two failures of one cause."""


class Wanted(Protocol):
    """A question that no finished sweep has answered; ``autotune.db.rows.Wanted``."""

    @property
    def problem(self) -> AttentionProblem: ...
    @property
    def device(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def last_at(self) -> str: ...


class Record(Protocol):
    """The part of the database that a report reads; ``autotune.db.store.Store`` has it."""

    def trials_since(self, at: str) -> Iterable[Trial]:
        """Trials of every problem from a UTC instant on, in the order they were recorded."""
        ...

    def history(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[BestPlan]:
        """What was published, the oldest first."""
        ...

    def best(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """What is served."""
        ...

    def wanted(self, limit: int = 100) -> Sequence[Wanted]:
        """The most asked first."""
        ...


@dataclass(frozen=True)
class Tuned:
    """A problem that was worked on. best: what is served now; before: what was served before the night.

    statuses: trials of the night by status. best_us: the fastest time after each of them, with what was served before
    where it was timed in the same way; None while there is none.
    """

    problem: AttentionProblem
    device: str
    target: str
    best: BestPlan | None
    before: BestPlan | None
    statuses: dict[str, int]
    best_us: tuple[float | None, ...]

    @property
    def gain(self) -> float | None:
        """The default's time over that of the best plan."""
        return self.best.speedup_over_default if self.best else None

    @property
    def changed(self) -> str:
        """``none`` (no plan works), ``new``, ``same``, ``faster``, or ``stale``: times of then do not hold now."""
        if self.best is None:
            return "none"
        if self.before is None:
            return "new"
        if self.before.fingerprint != self.best.fingerprint:
            return "stale"
        return "same" if self.before.plan.key == self.best.plan.key else "faster"

    @property
    def gain_since(self) -> float | None:
        """The earlier plan's time over the present one's, where both were timed in the same way."""
        if self.best is None or self.before is None or self.changed != "faster":
            return None
        return self.before.timing.time_us / self.best.timing.time_us


@dataclass(frozen=True)
class Trouble:
    """Trials that ended badly for one cause. stage: rejected, or where they failed. example: one of the reasons."""

    stage: str
    example: str
    plan: TilingPlan
    trials: int
    problems: int


@dataclass(frozen=True)
class Night:
    """since: UTC. first, last: instants of the first and the last trial, None without one."""

    since: str
    first: str | None
    last: str | None
    tuned: tuple[Tuned, ...]
    troubles: tuple[Trouble, ...]
    wanted: tuple[Wanted, ...]

    @property
    def statuses(self) -> Counter[str]:
        """All trials by status."""
        return sum((Counter(each.statuses) for each in self.tuned), Counter())

    @property
    def mean_gain(self) -> float | None:
        """Geometric mean of the gains over the default."""
        gains = [each.gain for each in self.tuned if each.gain]
        return math.exp(sum(map(math.log, gains)) / len(gains)) if gains else None

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json``."""
        return {
            "since": self.since,
            "first": self.first,
            "last": self.last,
            "mean_gain": self.mean_gain,
            "tuned": [_tuned_json(each) for each in self.tuned],
            "troubles": [
                {
                    "stage": each.stage,
                    "example": each.example,
                    "plan": each.plan.to_json(),
                    "trials": each.trials,
                    "problems": each.problems,
                }
                for each in self.troubles
            ],
            "wanted": [
                {"problem": each.problem.to_json(), "device": each.device, "count": each.count, "last_at": each.last_at}
                for each in self.wanted
            ],
        }


def night(record: Record, since: str) -> Night:
    """since: UTC, ISO 8601. Raises StoreError."""
    places: dict[tuple[AttentionProblem, str, str], list[Trial]] = {}
    for trial in record.trials_since(since):
        places.setdefault((trial.problem, trial.device, trial.target), []).append(trial)
    tuned = [_tuned(record, trials, since) for trials in places.values()]
    instants = [trial.at for trials in places.values() for trial in trials]
    troubles = _troubles(trial for trials in places.values() for trial in trials)
    first, last = min(instants, default=None), max(instants, default=None)
    return Night(since, first, last, tuple(tuned), tuple(troubles), tuple(record.wanted()))


def _tuned(record: Record, trials: Sequence[Trial], since: str) -> Tuned:
    place = trials[0].problem, trials[0].device, trials[0].target
    earlier = [best for best in record.history(*place) if best.measured_at < since]
    statuses = Counter(outcome_to_json(trial.outcome)["status"] for trial in trials)
    before = earlier[-1] if earlier else None
    return Tuned(*place, record.best(*place), before, dict(statuses), _best_us(trials, before))


def _best_us(trials: Sequence[Trial], before: BestPlan | None) -> tuple[float | None, ...]:
    """Of those with the last trial's fingerprint: times of another cannot be compared."""
    comparable = before and before.fingerprint == trials[-1].fingerprint
    best = before.timing.time_us if before and comparable else None
    found = []
    for trial in trials:
        if isinstance(trial.outcome, Timed) and trial.fingerprint == trials[-1].fingerprint:
            time_us = trial.outcome.timing.time_us
            best = time_us if best is None else min(best, time_us)
        found.append(best)
    return tuple(found)


def _troubles(trials: Iterable[Trial]) -> list[Trouble]:
    """Failures before rejections, which are no surprise; the most frequent first."""
    causes: dict[tuple[str, str], list[tuple[Trial, str]]] = {}
    for trial in trials:
        if isinstance(trial.outcome, Timed):
            continue
        stage = trial.outcome.stage if isinstance(trial.outcome, Failed) else "rejected"
        cause = stage, NUMBER.sub("#", trial.outcome.reason)
        causes.setdefault(cause, []).append((trial, trial.outcome.reason))
    troubles = [
        Trouble(stage, found[0][1], found[0][0].plan, len(found), len({trial.problem for trial, _ in found}))
        for (stage, _), found in causes.items()
    ]
    return sorted(troubles, key=lambda each: (each.stage == "rejected", -each.trials))


def _tuned_json(tuned: Tuned) -> dict[str, Any]:
    best = tuned.best
    return {
        "problem": tuned.problem.to_json(),
        "device": tuned.device,
        "target": tuned.target,
        "plan": best and best.plan.to_json(),
        "time_us": best and best.timing.time_us,
        "kind": best and best.timing.kind,
        "default_time_us": best and best.default_time_us,
        "gain": tuned.gain,
        "stays_best": best and best.timing.stays_best,
        "finished": best and best.finished,
        "changed": tuned.changed,
        "gain_since": tuned.gain_since,
        "trials": tuned.statuses,
    }
