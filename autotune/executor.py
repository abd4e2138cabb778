"""Where trials run: the seam between choosing a candidate and trying it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol, TypeVar

from autotune.errors import CandidateError
from autotune.hardware import Hardware
from autotune.kernels.targets.base import Racing, Target, TimingBudget
from autotune.measure import check_plausible
from autotune.outcome import Outcome, Timed, Timing, outcome_of_error
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

Value = TypeVar("Value")

Verify = Callable[[Target, AttentionProblem, TilingPlan], float]
"""Relative L2 distance of a plan's result to float64; raises WrongAnswer. See ``autotune.verify.Verifier``."""

Confidence = Callable[[AttentionProblem, Sequence[TilingPlan]], float | None]
"""How often the first of some plans stays the fastest of them, from 0 to 1; None where nobody can say."""


class Executor(Protocol):
    """Runs trials and what else takes its time; every executor does what ``InProcess`` does.

    Core splits of plans need not be worked out. What is no fault of a plan is raised, now or as the future's result.
    """

    @property
    def workers(self) -> int:
        """Jobs that run at the same time."""
        ...

    def submit(self, problem: AttentionProblem, plan: TilingPlan) -> Future[Outcome]:
        """What will have become of a plan."""
        ...

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Future[Mapping[str, Timing]]:
        """As ``Racing.race``, on a target that has one. The future raises CandidateError."""
        ...

    def confidence(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Future[float | None]:
        """See ``Confidence``. The future raises CandidateError."""
        ...


@dataclass(frozen=True)
class InProcess:
    """Runs all in this process, one after the other: what crashes or hangs takes the process with it."""

    target: Target
    verify: Verify
    budget: TimingBudget = field(default_factory=TimingBudget)
    sure: Confidence = lambda problem, plans: None

    @property
    def workers(self) -> int:
        """One: a trial is over when ``submit`` returns."""
        return 1

    def run(self, problem: AttentionProblem, plan: TilingPlan) -> Outcome:
        """What became of a plan."""
        return attempt(self.target, self.verify, problem, plan, self.budget)

    def submit(self, problem: AttentionProblem, plan: TilingPlan) -> Future[Outcome]:
        """As ``Executor.submit``."""
        return _over(self.run, problem, plan)

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Future[Mapping[str, Timing]]:
        """As ``Executor.race``."""
        return _over(self.run_race, problem, plans)

    def confidence(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Future[float | None]:
        """As ``Executor.confidence``."""
        return _over(self.sure, problem, plans)

    def run_race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Mapping[str, Timing]:
        """As ``Racing.race``. Raises TypeError where the target has no race."""
        if not isinstance(self.target, Racing):
            raise TypeError(f"{self.target.name} cannot race plans: its times have no noise")
        return self.target.race(problem, [complete(plan, problem, self.target.hardware) for plan in plans])


def _over(call: Callable[..., Value], *arguments: Any) -> Future[Value]:
    """Calls; a candidate's error is the future's, any other flies."""
    future: Future[Value] = Future()
    try:
        future.set_result(call(*arguments))
    except CandidateError as error:
        future.set_exception(error)
    return future


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
