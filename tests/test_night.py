"""What a night's record says: worked out from trials and publications that are written down here."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pytest import approx

from autotune.night import night
from autotune.outcome import EMULATED, BestPlan, Failed, Outcome, Rejected, Timed, Timing, Trial
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem

SMALL, LARGE = AttentionProblem.of((1, 2, 64, 64, 16)), AttentionProblem.of((2, 16, 1024, 1024, 64))
PLANS = [TilingPlan(16 * number, 64, CoreSplit("even", 4), strategy="lattice") for number in range(1, 9)]
CHIP, TARGET = "Ascend910A", "emulated:Ascend910A"
BEFORE, SINCE, NOW = "2026-12-01T20:00:00Z", "2026-12-01T22:00:00Z", "2026-12-02T03:00:00Z"


def timed(time_us: float) -> Timed:
    return Timed(Timing(time_us, EMULATED, "model-1"), error=1e-4)


def trials(
    problem: AttentionProblem, outcomes: Iterable[Outcome], at: str = NOW, fingerprint: str = "f1"
) -> list[Trial]:
    return [
        Trial(problem, CHIP, TARGET, fingerprint, plan, outcome, "sweep-1", at)
        for plan, outcome in zip(PLANS, outcomes)
    ]


def best(
    problem: AttentionProblem, plan: TilingPlan, time_us: float, at: str = NOW, fingerprint: str = "f1"
) -> BestPlan:
    timing = Timing(time_us, EMULATED, "model-1")
    return BestPlan(problem, CHIP, TARGET, "f1", plan, timing, 1e-4, 200.0, 5, "sweep-1", at)


@dataclass(frozen=True)
class Asked:
    problem: AttentionProblem
    device: str = CHIP
    count: int = 3
    last_at: str = NOW


@dataclass
class Written:
    """A record in lists."""

    tried: list[Trial] = field(default_factory=list)
    published: list[BestPlan] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def trials_since(self, at: str) -> list[Trial]:
        return [trial for trial in self.tried if trial.at >= at]

    def history(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[BestPlan]:
        return [
            each for each in self.published if (each.problem, each.device, each.target) == (problem, device, target)
        ]

    def best(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        return next(reversed(self.history(problem, device, target)), None)

    def wanted(self, limit: int = 100) -> list[Asked]:
        return self.asked[:limit]


def test_a_quiet_night() -> None:
    found = night(Written(trials(SMALL, [timed(100.0)], BEFORE)), SINCE)
    assert (found.tuned, found.troubles, found.first, found.mean_gain) == ((), (), None, None)


def test_a_new_problem_has_its_gain_and_the_course_of_its_best_time() -> None:
    outcomes: list[Outcome] = [Rejected("UB"), timed(200.0), Failed("verify", "wrong"), timed(100.0), timed(150.0)]
    [tuned] = night(Written(trials(SMALL, outcomes), [best(SMALL, PLANS[3], 100.0)]), SINCE).tuned
    assert tuned.statuses == {"timed": 3, "rejected": 1, "failed": 1}
    assert tuned.best_us == (None, 200.0, 200.0, 100.0, 100.0)
    assert (tuned.gain, tuned.changed, tuned.gain_since) == (2.0, "new", None)


def test_what_changed_since_last_time() -> None:
    old, new = best(SMALL, PLANS[0], 150.0, BEFORE), best(SMALL, PLANS[1], 100.0)
    tried = trials(SMALL, [timed(180.0), timed(100.0)])
    [tuned] = night(Written(tried, [old, new]), SINCE).tuned
    assert (tuned.changed, tuned.gain_since) == ("faster", 1.5)
    assert tuned.best_us == (150.0, 100.0), "what was served before is where the night begins"
    [tuned] = night(Written(tried, [old]), SINCE).tuned
    assert (tuned.changed, tuned.gain_since) == ("same", None)
    [tuned] = night(Written(tried, [replace(old, fingerprint="f0"), new]), SINCE).tuned
    assert (tuned.changed, tuned.gain_since, tuned.best_us[0]) == ("stale", None, 180.0)
    [tuned] = night(Written(tried), SINCE).tuned
    assert (tuned.changed, tuned.gain) == ("none", None)


def test_failures_are_counted_by_what_they_say_without_their_numbers() -> None:
    tried = trials(SMALL, [Rejected(f"UB needs {size} bytes, has 262144") for size in (300000, 400000, 5)])
    tried += trials(
        LARGE, [Failed("verify", "the output is 5.1e-01 from float64"), Rejected("UB needs 7 bytes, has 9")]
    )
    found = night(Written(tried), SINCE).troubles
    assert [(each.stage, each.trials, each.problems) for each in found] == [("verify", 1, 1), ("rejected", 4, 2)]
    assert found[1].example == "UB needs 300000 bytes, has 262144"
    assert found[1].plan == PLANS[0]


def test_the_mean_gain_is_geometric_and_of_those_that_have_one() -> None:
    tried = [*trials(SMALL, [timed(50.0)]), *trials(LARGE, [timed(200.0)])]
    published = [best(SMALL, PLANS[0], 50.0), best(LARGE, PLANS[0], 200.0)]
    assert night(Written(tried, published), SINCE).mean_gain == approx(2.0)


def test_what_is_wanted_is_passed_on() -> None:
    found = night(Written(asked=[Asked(LARGE)]), SINCE)
    assert found.to_json()["wanted"] == [
        {"problem": LARGE.to_json(), "device": CHIP, "count": 3, "last_at": NOW},
    ]
