"""Where trials run: the seam between choosing a candidate and trying it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

from autotune.errors import CandidateError
from autotune.hardware import Hardware
from autotune.kernels.targets.base import Racing, Target, TimingBudget
from autotune.measure import check_plausible
from autotune.outcome import Outcome, Timed, Timing, outcome_of_error
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

Verify = Callable[[Target, AttentionProblem, TilingPlan], float]
"""Relative L2 distance of a plan's result to float64; raises WrongAnswer. See ``autotune.verify.Verifier``."""


class Executor(Protocol):
    """Runs trials; every executor does what ``attempt`` does. A plan's core split need not be worked out."""

    @property
    def workers(self) -> int:
        """Trials that run at the same time."""
        ...

    def submit(self, problem: AttentionProblem, plan: TilingPlan) -> Future[Outcome]:
        """What will have become of a plan. Raises, now or as the future's result, what is no fault of the plan."""
        ...

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Mapping[str, Timing]:
        """As ``Racing.race``, on a target that has one. Raises CandidateError."""
        ...


@dataclass(frozen=True)
class InProcess:
    """Runs trials in this process, one after the other: what crashes or hangs takes the process with it."""

    target: Target
    verify: Verify
    budget: TimingBudget = field(default_factory=TimingBudget)

    @property
    def workers(self) -> int:
        """One: a trial is over when ``submit`` returns."""
        return 1

    def run(self, problem: AttentionProblem, plan: TilingPlan) -> Outcome:
        """What became of a plan."""
        return attempt(self.target, self.verify, problem, plan, self.budget)

    def submit(self, problem: AttentionProblem, plan: TilingPlan) -> Future[Outcome]:
        """As ``Executor.submit``."""
        future: Future[Outcome] = Future()
        future.set_result(self.run(problem, plan))
        return future

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Mapping[str, Timing]:
        """As ``Executor.race``. Raises TypeError where the target has no race."""
        if not isinstance(self.target, Racing):
            raise TypeError(f"{self.target.name} cannot race plans: its times have no noise")
        return self.target.race(problem, [complete(plan, problem, self.target.hardware) for plan in plans])


def attempt(
    target: Target, verify: Verify, problem: AttentionProblem, plan: TilingPlan, budget: TimingBudget
) -> Outcome:
    """Compiles, verifies, and only then times a plan. An error of the candidate is its outcome, any other flies."""
    try:
        start = perf_counter()
        compiled = target.compile(problem, complete(plan, problem, target.hardware))
        built = perf_counter()
        error = verify(target, problem, plan)
        verified = perf_counter()
        timing = compiled.time(budget)
        check_plausible([timing.time_us], _cycle_us(target.hardware))
        return Timed(timing, error, built - start, verified - built, perf_counter() - verified)
    except CandidateError as failure:
        return outcome_of_error(failure)


def _cycle_us(hardware: Hardware) -> float:
    """One cycle: no launch on any chip is faster. Targets that know a higher bound check that themselves."""
    return 1 / hardware.clock_mhz if hardware.clock_mhz else 0.0
