"""A trial: compile, verify, time, in this order and no further than the first failure."""

import math

import pytest

from autotune.errors import TargetUnavailable, WrongAnswer
from autotune.executor import InProcess
from autotune.outcome import MEASURED, Failed, Rejected, Timed, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from tests.sweep.synthetic import Bench, SyntheticKernel

PLAN = TilingPlan(128, 128, CoreSplit("even", 4))


def test_a_good_plan_is_timed(bench: Bench, problem: AttentionProblem) -> None:
    outcome = InProcess(bench.target, bench.verify).run(problem, PLAN)
    assert isinstance(outcome, Timed)
    assert outcome.timing.time_us == 4 * 4 * (5 + 4)  # 16 row blocks on 4 cores, 4 key blocks, 9 us each
    assert outcome.error == 5e-4
    assert min(outcome.compile_s, outcome.verify_s, outcome.time_s) >= 0
    assert bench.target.timed == [(problem, PLAN)]


def test_a_wrong_plan_is_not_timed(bench: Bench, problem: AttentionProblem) -> None:
    def verify(*_: object) -> float:
        raise WrongAnswer("the output is 0.5 from float64")

    outcome = InProcess(bench.target, verify).run(problem, PLAN)
    assert outcome == Failed("verify", "the output is 0.5 from float64")
    assert bench.target.timed == []


def test_a_plan_that_does_not_fit_is_neither_verified_nor_timed(bench: Bench, problem: AttentionProblem) -> None:
    outcome = InProcess(bench.target, bench.verify).run(problem, TilingPlan(512, 512, CoreSplit("even", 4)))
    assert outcome == Rejected("UB needs 524288 bytes, has 131072")
    assert (bench.seconds, bench.target.timed) == (0, [])


@pytest.mark.parametrize("time_us", [0.0, -1.0, 1e-9, math.nan, math.inf, 1e17])
def test_a_time_that_cannot_be_true_is_none(
    bench: Bench, problem: AttentionProblem, monkeypatch: pytest.MonkeyPatch, time_us: float
) -> None:
    monkeypatch.setattr(SyntheticKernel, "time", lambda kernel, budget: Timing(time_us, MEASURED, "broken-clock"))
    outcome = InProcess(bench.target, bench.verify).run(problem, PLAN)
    assert isinstance(outcome, Failed)
    assert (outcome.stage, f"a run took {time_us:g} us" in outcome.reason) == ("time", True)


@pytest.mark.parametrize("error", [ZeroDivisionError(), TargetUnavailable("no device"), KeyboardInterrupt()])
def test_what_is_no_fault_of_the_candidate_flies(bench: Bench, problem: AttentionProblem, error: BaseException) -> None:
    def verify(*_: object) -> float:
        raise error

    with pytest.raises(type(error)):
        InProcess(bench.target, verify).run(problem, PLAN)
