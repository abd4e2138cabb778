"""What a sweep says of itself: events while it goes on, a report at its end. Times are microseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from autotune.outcome import BestPlan, Outcome, Timed, Trial
from autotune.problem import AttentionProblem


def time_us(outcome: Outcome | None) -> float | None:
    """The time of an outcome that has one."""
    return outcome.timing.time_us if isinstance(outcome, Timed) else None


@dataclass(frozen=True)
class Begun:
    """The ``number``-th problem of ``total`` is taken up; ``known`` of its candidates were tried before."""

    problem: AttentionProblem
    number: int
    total: int
    candidates: int
    known: int


@dataclass(frozen=True)
class Tried:
    """A trial is done. done: candidates of the problem tried so far, known ones too, out of ``planned``.

    best: the fastest trial so far. default_time_us: that of the default plan. Both None where there is none.
    seconds_left: for the whole sweep, at the pace so far.
    """

    trial: Trial
    done: int
    planned: int
    best: Trial | None
    default_time_us: float | None
    seconds_left: float


@dataclass(frozen=True)
class Warned:
    """Something that cost the sweep candidates and did not stop it."""

    text: str


@dataclass(frozen=True)
class Result:
    """What is known of a problem when a sweep leaves it.

    best: None where no plan works. default: the default plan's outcome, None where it was not tried.
    statuses: trials by status (timed, rejected, failed), those of earlier sweeps too. tried: trials of this sweep.
    published: whether ``best`` was better than what was served before.
    """

    problem: AttentionProblem
    best: BestPlan | None
    default: Outcome | None
    statuses: dict[str, int]
    tried: int
    published: bool

    def to_json(self) -> dict[str, Any]:
        """Stable names; the plan with its derived tails and counts, as ``/best`` writes it."""
        best = self.best
        return {
            "problem": self.problem.to_json(),
            "plan": best and best.plan.tiling(self.problem)._asdict() | best.plan.to_json(),
            "time_us": best and best.timing.time_us,
            "kind": best and best.timing.kind,
            "clock": best and best.timing.clock,
            "stays_best": best and best.timing.stays_best,
            "error": best and best.error,
            "default_time_us": time_us(self.default),
            "speedup_over_default": best and best.speedup_over_default,
            "trials": self.statuses,
            "new_trials": self.tried,
            "published": self.published,
        }


@dataclass(frozen=True)
class Report:
    """The results of the problems that were taken up, in their order; ``interrupted`` by Ctrl-C.

    not_reached: problems that the time did not suffice for, or that an interruption left out.
    """

    sweep: str
    target: str
    results: tuple[Result, ...]
    interrupted: bool
    not_reached: int = 0

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json``."""
        return {
            "sweep": self.sweep,
            "target": self.target,
            "interrupted": self.interrupted,
            "not_reached": self.not_reached,
            "results": [result.to_json() for result in self.results],
        }


Event: TypeAlias = Begun | Tried | Warned | Result
Notify: TypeAlias = Callable[[Event], None]
