"""Problems by the page, revisions by their number, and sweeps by their name; on both databases."""

from dataclasses import replace

import pytest

from autotune.db.store import Store
from autotune.outcome import BestPlan, Failed, Rejected, Trial


@pytest.fixture
def store(any_url: str) -> Store:
    return Store.open(any_url)


def test_covered_problems_come_by_the_page_the_latest_first(store: Store, best: BestPlan) -> None:
    problems = [best.problem.with_shape((1, 1, 16 * k, 64, 64)) for k in range(1, 8)]
    for problem in problems:
        store.publish(replace(best, problem=problem))
        store.publish(replace(best, problem=problem, device="Other", target="cann:0"))
    before, seen = None, []
    while True:
        page = store.covered(before, 3)
        seen += [(each.best.problem, each.best.device) for each in page.listed]
        before = page.next
        if before is None:
            break
    assert seen == [(problem, device) for problem in problems[::-1] for device in (best.device, "Other")]


def test_a_revision_is_what_was_published_under_it(store: Store, best: BestPlan) -> None:
    store.publish(best)
    store.publish(replace(best, timing=replace(best.timing, time_us=1.0), device="Other"))
    assert store.revision(1) == replace(best, revision=1)
    second = store.revision(2)
    assert second is not None
    assert (second.device, second.timing.time_us) == ("Other", 1.0)
    assert store.revision(3) is None


def test_sweeps_in_numbers(store: Store, trial: Trial) -> None:
    shapes = [(1, 1, 16 * k, 64, 64) for k in range(1, 4)]
    outcomes = [trial.outcome, Rejected("no"), Failed("run", "no")]
    for number, name in enumerate(("first", "second")):
        for k, (shape, outcome) in enumerate(zip(shapes, outcomes, strict=True)):
            at = f"2026-12-0{number + 1}T00:00:0{k}Z"
            plan = replace(trial.plan, Br=16 * (number + 1))
            store.record(
                replace(trial, problem=trial.problem.with_shape(shape), plan=plan, outcome=outcome, sweep=name, at=at)
            )
    second, first = store.sweeps()
    assert (first.name, first.target, first.problems) == ("first", trial.target, 3)
    assert second.statuses == {"timed": 1, "rejected": 1, "failed": 1}
    assert (second.first_at, second.last_at) == ("2026-12-02T00:00:00Z", "2026-12-02T00:00:02Z")
    assert store.sweep("second") == second
    assert store.sweep("third") is None
    assert store.sweeps(limit=1) == [second]
    found = store.sweep_trials("second")
    assert [each.trial.outcome for each in found] == outcomes
    assert store.sweep_trials("second", after=found[0].id, limit=1) == found[1:2]


def test_trials_by_the_page(store: Store, trial: Trial) -> None:
    trials = [replace(trial, plan=replace(trial.plan, Br=16 * k)) for k in range(1, 8)]
    for each in trials:
        store.record(each)
    pages = [store.trials(trial.problem, trial.device, skip=skip, limit=3) for skip in (0, 3, 6, 9)]
    assert [each for page in pages for each in page] == trials
