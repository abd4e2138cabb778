"""Where trials run: the seam between choosing a candidate and trying it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

from autotune.errors import CandidateError
from autotune.hardware import Hardware
from autotune.kernels.targets.base import Target, TimingBudget
from autotune.measure import check_plausible
from autotune.outcome import Outcome, Timed, outcome_of_error
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

Verify = Callable[[Target, AttentionProblem, TilingPlan], float]
"""Relative L2 distance of a plan's result to float64; raises WrongAnswer. See ``autotune.verify.Verifier``."""


class Executor(Protocol):
    """Runs one trial at a time; every executor does what ``attempt`` does."""

    def run(self, problem: AttentionProblem, plan: TilingPlan) -> Outcome:
        """What became of a plan; its core split need not be worked out."""
        ...


@dataclass(frozen=True)
class InProcess:
    """Runs trials in this process, one after the other."""

    target: Target
    verify: Verify
    budget: TimingBudget = field(default_factory=TimingBudget)

    def run(self, problem: AttentionProblem, plan: TilingPlan) -> Outcome:
        return attempt(self.target, self.verify, problem, plan, self.budget)


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
