"""The loop around candidates, search, trials and store, on a target whose time is a formula."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import Timer

import pytest

from autotune.errors import RunFailed, StoreError, UnknownName
from autotune.executor import InProcess
from autotune.outcome import MEASURED, Failed, Outcome, Rejected, Timed, Timing, Trial
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.report import Begun, Event, Notify, Result, Tried, time_us
from autotune.tuning import RACERS
from tests.sweep.synthetic import Bench, MemoryStore, SyntheticKernel

DEFAULT_KEY = "Br=128;Bc=128;split=even/4"


def tried(bench: Bench) -> list[str]:
    return [trial.plan.key for trial in bench.store.recorded]


def outcomes(bench: Bench) -> dict[str, Outcome]:
    return {trial.plan.key: trial.outcome for trial in bench.store.recorded}


def test_the_default_is_tried_first_and_then_the_other_proposals(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=9).run([problem])
    assert tried(bench)[0] == DEFAULT_KEY
    by = [trial.plan.strategy for trial in bench.store.recorded]
    assert "wukong" in by[1:-1]
    assert by.index("lattice") > by.index("wukong")


def test_the_default_is_tried_even_where_others_are_named(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=5, strategies=("wukong",)).run([problem])
    assert tried(bench) == [DEFAULT_KEY, "Br=64;Bc=64;split=even/4"]


def test_no_plan_is_tried_twice(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=60).run([problem])
    assert len(tried(bench)) == len(set(tried(bench))) == 60


def test_the_best_plan_is_published_with_its_evidence(bench: Bench, problem: AttentionProblem) -> None:
    report = bench.sweep(trials=30).run([problem])
    times = {t.plan.key: t.outcome.timing.time_us for t in bench.store.recorded if isinstance(t.outcome, Timed)}
    best = bench.store.published[-1]
    assert best.timing.time_us == min(times.values()) == times[best.plan.key]
    assert best.default_time_us == times[DEFAULT_KEY]
    assert (best.device, best.target, best.fingerprint, best.sweep) == ("Chip", "emulated:Chip", "f1", "sweep-1")
    assert (best.trials, best.error, best.finished) == (30, 5e-4, True)
    assert report.results[0].best == replace(best, revision=0)
    assert report.results[0].published


def test_a_best_plan_carries_how_often_it_stays_best(bench: Bench, problem: AttentionProblem) -> None:
    asked: list[list[str]] = []

    def confidence(of: AttentionProblem, plans: list[TilingPlan]) -> float:
        asked.append([plan.key for plan in plans])
        return 0.75

    bench.sweep(trials=30, confidence=confidence).run([problem])
    times = {t.plan.key: t.outcome.timing.time_us for t in bench.store.recorded if isinstance(t.outcome, Timed)}
    assert asked == [sorted(times, key=times.__getitem__)[:4]]
    assert bench.store.published[-1].timing.stays_best == 0.75
    bench.sweep(trials=30, confidence=confidence).run([problem])
    assert len(asked) == 1, "a sweep that tried nothing knows nothing new"


def test_finds_a_better_plan_than_the_default(bench: Bench, problem: AttentionProblem) -> None:
    [result] = bench.sweep(trials=40).run([problem]).results
    assert result.best is not None
    assert (result.best.speedup_over_default or 0) > 1.2


def test_tries_everything_where_everything_fits_in_the_budget(bench: Bench) -> None:
    """32 x 32: Br and Bc are 16 or 32; one K/V buffer or two, either exponential. Formula: one block is best."""
    problem = AttentionProblem.of((1, 1, 32, 32, 16))
    [result] = bench.sweep(trials=None).run([problem]).results
    assert sorted(tried(bench)) == sorted(
        TilingPlan(Br, Bc, CoreSplit("even", 32 // Br), buffers, exp=exp).key
        for Br in (16, 32)
        for Bc in (16, 32)
        for buffers in (False, True)
        for exp in ("float32", "float16")
    )
    assert result.best is not None
    assert (result.best.plan.Bc, result.best.plan.double_buffer) == (32, True)


def test_a_finished_sweep_run_again_tries_nothing(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=15).run([problem])
    [again] = bench.sweep(trials=15).run([problem]).results
    assert len(bench.store.recorded) == 15
    assert (again.tried, again.published) == (0, False)
    assert again.best is not None
    assert sum(again.statuses.values()) == 15


def test_more_trials_go_on_from_what_is_known(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=10).run([problem])
    [result] = bench.sweep(trials=25).run([problem]).results
    assert len(set(tried(bench))) == len(bench.store.recorded) == 25
    assert result.tried == 15


def test_trials_of_another_fingerprint_are_no_evidence(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=10).run([problem])
    bench.target.fingerprint = "f2"
    [result] = bench.sweep(trials=10).run([problem]).results
    assert result.tried == 10


def test_a_named_strategy_is_tried_whatever_else_was(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=10, strategies=("lattice",)).run([problem])
    [result] = bench.sweep(trials=10, strategies=("wukong",)).run([problem]).results
    assert result.tried == 1
    assert tried(bench)[-1] == "Br=64;Bc=64;split=even/4"


def test_same_seed_same_trials(problem: AttentionProblem, bench: Bench) -> None:
    other = type(bench)()
    bench.sweep(trials=30, seed=3).run([problem])
    other.sweep(trials=30, seed=3).run([problem])
    assert tried(bench) == tried(other)


def test_a_failing_candidate_is_an_outcome_with_stage_and_reason(bench: Bench, problem: AttentionProblem) -> None:
    bench.target.fails_at = {"compile": DEFAULT_KEY, "time": "Br=64;Bc=64;split=even/4"}
    [result] = bench.sweep(trials=80).run([problem]).results
    found = outcomes(bench)
    assert found[DEFAULT_KEY] == Failed("compile", "the assembler gave up")
    assert found["Br=64;Bc=64;split=even/4"] == Failed("run", "the device was lost")
    assert any(isinstance(outcome, Rejected) and "UB needs" in outcome.reason for outcome in found.values())
    assert result.statuses["failed"] == 2
    assert sum(result.statuses.values()) == 80
    assert result.best is not None
    assert result.best.default_time_us is None


def test_a_plan_that_does_not_fit_rules_out_larger_ones(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=200).run([problem])
    rejected: list[TilingPlan] = []
    for trial in bench.store.recorded[2:]:
        larger = [p for p in rejected if trial.plan.Br >= p.Br and trial.plan.Bc >= p.Bc]
        alike = [p for p in larger if (p.exp, p.core_split.rule) == (trial.plan.exp, trial.plan.core_split.rule)]
        rows = trial.plan.slice_rows or trial.plan.Br
        more = [p for p in alike if rows >= (p.slice_rows or p.Br) and trial.plan.double_buffer >= p.double_buffer]
        assert more == []
        if isinstance(trial.outcome, Rejected):
            rejected.append(trial.plan)
    assert rejected


def test_any_other_error_flies_and_what_was_found_is_published(bench: Bench, problem: AttentionProblem) -> None:
    class Broken:
        """A candidate that reveals a bug of ours."""

        workers = 1

        def submit(self, problem: AttentionProblem, plan: TilingPlan) -> Future[Outcome]:
            if len(bench.store.recorded) == 5:
                raise ZeroDivisionError
            return InProcess(bench.target, bench.verify).submit(problem, plan)

    with pytest.raises(ZeroDivisionError):
        bench.sweep(executor=Broken()).run([problem])
    assert (bench.store.published[-1].trials, bench.store.published[-1].finished) == (5, False)


def interrupted_after(bench: Bench, trials: int) -> InProcess:
    def verify(*_: object) -> float:
        if len(bench.store.recorded) == trials:
            raise KeyboardInterrupt
        return 5e-4

    return InProcess(bench.target, verify)


def test_ctrl_c_keeps_what_was_found_and_the_same_sweep_goes_on(bench: Bench, problem: AttentionProblem) -> None:
    other_problem = AttentionProblem.of((1, 1, 64, 64, 64))
    report = bench.sweep(trials=12, executor=interrupted_after(bench, 7)).run([problem, other_problem])
    assert report.interrupted
    assert [result.problem for result in report.results] == [problem]
    assert len(bench.store.recorded) == 7
    assert (bench.store.published[-1].trials, bench.store.published[-1].finished) == (7, False)
    report = bench.sweep(trials=12).run([problem, other_problem])
    assert not report.interrupted
    assert report.results[0].tried == 5
    assert len(set(tried(bench)[:12])) == 12


def test_where_time_is_limited_every_problem_gets_the_proposals_first(bench: Bench) -> None:
    """1 s a trial: 20 s are enough for the proposals of both, and a turn of one."""
    problems = [AttentionProblem.of((1, 1, n, n, 64)) for n in (512, 1024)]
    report = bench.sweep(trials=None, seconds=20.0).run(problems)
    proposals = [sum(t.plan.strategy != "lattice" for t in bench.store.recorded if t.problem == p) for p in problems]
    order = [t.problem for t in bench.store.recorded]
    assert order[: sum(proposals)] == [p for p, count in zip(problems, proposals) for _ in range(count)]
    assert sum(result.tried for result in report.results) == len(bench.store.recorded) > sum(proposals)
    assert [result.problem for result in report.results] == problems
    assert report.not_reached == 0


def test_what_the_time_does_not_suffice_for_is_counted(bench: Bench) -> None:
    problems = [AttentionProblem.of((1, 1, n, n, 64)) for n in (512, 1024, 2048)]
    report = bench.sweep(trials=None, seconds=1.0).run(problems)
    assert ([result.problem for result in report.results], report.not_reached) == (problems[:1], 2)


def test_an_exhausted_problem_leaves_its_time_to_the_others(bench: Bench) -> None:
    """There are 16 plans of 32 x 32; the other problem gets the rest."""
    small, large = AttentionProblem.of((1, 1, 32, 32, 16)), AttentionProblem.of((1, 4, 1024, 1024, 64))
    report = bench.sweep(trials=None, seconds=60.0).run([small, large])
    assert report.results[0].tried == 16
    assert bench.seconds >= 60.0


class Backwards(InProcess):
    """Runs several trials at once, and the last that was submitted is done first."""

    def __init__(self, bench: Bench, workers: int) -> None:
        super().__init__(bench.target, bench.verify)
        object.__setattr__(self, "_workers", workers)
        object.__setattr__(self, "_running", [])

    @property
    def workers(self) -> int:
        workers: int = self._workers  # type: ignore[attr-defined]
        return workers

    def submit(self, problem: AttentionProblem, plan: TilingPlan) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        running = self._running  # type: ignore[attr-defined]
        running.append((future, problem, plan))
        Timer(0.002 / len(running), self._finish).start()
        return future

    def _finish(self) -> None:
        future, problem, plan = self._running.pop()  # type: ignore[attr-defined]
        future.set_result(self.run(problem, plan))


@pytest.mark.parametrize("workers", [2, 5])
def test_the_same_trials_and_winner_whatever_runs_at_once(workers: int) -> None:
    problems = [AttentionProblem.of((1, 4, n, n, 64)) for n in (256, 512)]
    one, other = Bench(), Bench()
    alone = one.sweep(trials=30, window=4).run(problems)
    together = other.sweep(trials=30, window=4, executor=Backwards(other, workers)).run(problems)
    assert sorted(tried(one)) == sorted(tried(other))
    assert [r.best and r.best.plan for r in alone.results] == [r.best and r.best.plan for r in together.results]


def test_events_tell_what_is_done_what_is_best_and_what_is_left(bench: Bench, problem: AttentionProblem) -> None:
    bench.sweep(trials=4, strategies=("wukong", "lattice")).run([problem])
    begun, *trials, result = bench.events
    assert isinstance(begun, Begun)
    assert (begun.number, begun.total, begun.known) == (1, 1, 0)
    assert begun.candidates > 100
    assert isinstance(result, Result)
    done = [event for event in trials if isinstance(event, Tried)]
    assert [(event.done, event.planned) for event in done] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [event.trial for event in done] == bench.store.recorded
    assert done[0].best == bench.store.recorded[0]
    assert done[0].default_time_us == done[-1].default_time_us
    assert done[-1].seconds_left == 0
    assert done[0].seconds_left == pytest.approx(3.0)


def test_an_unknown_strategy_is_refused_before_anything_is_tried(bench: Bench, problem: AttentionProblem) -> None:
    with pytest.raises(UnknownName, match="no strategy 'nope'"):
        bench.sweep(strategies=("nope",)).run([problem])
    assert bench.store.recorded == []


def test_a_store_that_fails_stops_the_sweep(bench: Bench, problem: AttentionProblem) -> None:
    class FullDisk(MemoryStore):
        def record(self, trial: Trial) -> bool:
            raise StoreError("the disk is full")

    bench.store = FullDisk()
    with pytest.raises(StoreError):
        bench.sweep().run([problem])


def test_no_plan_works(bench: Bench, problem: AttentionProblem) -> None:
    bench.target.fails_at = {"compile": DEFAULT_KEY}
    [result] = bench.sweep(strategies=("sparse",)).run([problem]).results
    assert (result.best, result.published) == (None, False)
    assert isinstance(result.default, Failed)
    assert result.to_json()["plan"] is None


def test_a_result_in_json(bench: Bench, problem: AttentionProblem) -> None:
    [result] = bench.sweep(trials=20).run([problem]).results
    value = result.to_json()
    assert value["time_us"] == min(
        trial.outcome.timing.time_us for trial in bench.store.recorded if isinstance(trial.outcome, Timed)
    )
    assert value["problem"] == problem.to_json()
    assert value["kind"] == "emulated"
    assert value["plan"]["Tr"] == -(-512 // value["plan"]["Br"])
    assert value["speedup_over_default"] == pytest.approx(value["default_time_us"] / value["time_us"])
    assert value["new_trials"] == sum(value["trials"].values()) == 20


def racing(bench: Bench, order: Callable[[list[str]], list[str]]) -> list[list[str]]:
    """Gives the bench's target a race; returns the keys of each field, as they started. ``order`` says how it ends."""
    fields: list[list[str]] = []

    def race(problem: AttentionProblem, plans: Sequence[TilingPlan]) -> dict[str, Timing]:
        fields.append([plan.key for plan in plans])
        return {key: Timing(1000.0 + place, MEASURED, "race-1") for place, key in enumerate(order(fields[-1]))}

    bench.target.race = race  # type: ignore[attr-defined]
    return fields


def test_the_fastest_race_against_the_default_and_the_winner_is_published(
    bench: Bench, problem: AttentionProblem
) -> None:
    fields = racing(bench, lambda keys: [keys[2], *(key for key in keys if key != keys[2])])
    [result] = bench.sweep().run([problem]).results
    timed = sorted(
        (t for t in bench.store.recorded if isinstance(t.outcome, Timed)), key=lambda t: time_us(t.outcome) or 0
    )
    default = bench.store.recorded[0].plan.key
    fastest = [trial.plan.key for trial in timed[:RACERS]]
    assert fields == [[default, *(key for key in fastest if key != default)]]
    published = bench.store.published[-1]
    assert (published.plan.key, published.timing.time_us) == (fields[0][2], 1000.0)
    assert published.default_time_us == 1001.0
    assert result.best == replace(published, revision=0)


def test_a_race_changes_no_record(bench: Bench, problem: AttentionProblem) -> None:
    racing(bench, list)
    bench.sweep().run([problem])
    clocks = {trial.outcome.timing.clock for trial in bench.store.recorded if isinstance(trial.outcome, Timed)}
    assert clocks == {"formula-1"}


def test_a_race_that_fails_leaves_the_trials_times(bench: Bench, problem: AttentionProblem) -> None:
    def fail(keys: list[str]) -> list[str]:
        raise RunFailed("the device was lost")

    racing(bench, fail)
    bench.sweep().run([problem])
    times = [time_us(trial.outcome) for trial in bench.store.recorded if isinstance(trial.outcome, Timed)]
    assert bench.store.published[-1].timing.time_us == min(time for time in times if time)


def test_where_only_one_plan_was_timed_nothing_races(bench: Bench, problem: AttentionProblem) -> None:
    fields = racing(bench, list)
    bench.sweep(trials=1).run([problem])
    assert fields == []


@pytest.mark.parametrize("workers", [1, 5])
def test_everything_is_tried_exactly_once_by_any_number_of_workers(bench: Bench, workers: int) -> None:
    problem = AttentionProblem.of((1, 1, 32, 32, 16))
    [result] = bench.sweep(trials=200, window=4, executor=Backwards(bench, workers)).run([problem]).results
    assert len(tried(bench)) == len(set(tried(bench))) == result.tried == 16


def test_every_seed_finds_the_same_plan_of_a_small_shape() -> None:
    problem, found = AttentionProblem.of((1, 2, 48, 48, 16)), set()
    for seed in range(5):
        bench = Bench()
        bench.sweep(trials=200, seed=seed).run([problem])
        best = bench.store.published[-1]
        found.add((best.plan.key, best.timing.time_us))
    assert len({time_us for _, time_us in found}) == 1


def test_where_no_time_can_be_true_nothing_is_published(
    bench: Bench, problem: AttentionProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SyntheticKernel, "time", lambda kernel, budget: Timing(math.inf, MEASURED, "broken-clock"))
    [result] = bench.sweep(trials=12).run([problem]).results
    assert (result.best, bench.store.published) == (None, [])
    assert {outcome.stage for outcome in outcomes(bench).values() if isinstance(outcome, Failed)} == {"time"}


def test_a_default_that_nothing_beats_is_what_is_published(bench: Bench, problem: AttentionProblem) -> None:
    racing(bench, list)  # the default starts first, and nobody overtakes
    bench.sweep(trials=12).run([problem])
    assert bench.store.published[-1].plan.key == DEFAULT_KEY
    assert bench.store.published[-1].speedup_over_default == 1.0


def test_each_better_plan_is_served_at_once_and_the_last_word_has_the_evidence(
    bench: Bench, problem: AttentionProblem
) -> None:
    """A sweep that is killed leaves the best plan that it knew."""
    served: list[tuple[float, float | None]] = []

    def look(event: Event) -> None:
        if isinstance(event, Tried):
            timed = [time_us(trial.outcome) for trial in bench.store.recorded]
            served.append((bench.store.published[-1].timing.time_us, min(time for time in timed if time)))

    bench.sweep(trials=30, notify=look, confidence=lambda problem, plans: 0.5).run([problem])
    assert len(served) == 30
    assert all(now == best for now, best in served)
    *before, last = bench.store.published
    assert len(before) > 1
    assert {(best.finished, best.timing.stays_best) for best in before} == {(False, None)}
    assert (last.finished, last.timing.stays_best, last.plan) == (True, 0.5, before[-1].plan)


def test_what_an_interrupted_sweep_left_unfinished_the_next_one_finishes(
    bench: Bench, problem: AttentionProblem
) -> None:
    bench.sweep(trials=12, executor=interrupted_after(bench, 7)).run([problem])
    bench.sweep(trials=12).run([problem])
    assert (bench.store.published[-1].finished, bench.store.published[-1].trials) == (True, 12)


def test_where_the_time_ends_a_problem_is_finished_that_had_its_proposals(bench: Bench) -> None:
    """12 s at 1 s a trial: all proposals of the first problem, some of the second's, none of the third's."""
    problems = [AttentionProblem.of((1, 1, n, n, 64)) for n in (512, 1024, 2048)]
    bench.sweep(trials=None, seconds=12.0, confidence=lambda problem, plans: 0.5).run(problems)
    last = [bench.store.best(problem, "Chip", "emulated:Chip") for problem in problems]
    assert [best and (best.finished, best.timing.stays_best) for best in last] == [(True, 0.5), (False, 0.5), None]


def test_what_is_served_stays_in_a_tie_and_one_lucky_time_does_not_replace_it(
    bench: Bench, problem: AttentionProblem
) -> None:
    """The race is won by whoever starts first: at first the default, then what is served, the winner of the first."""
    fields = racing(bench, lambda keys: [keys[1], keys[0], *keys[2:]])
    bench.sweep(trials=8).run([problem])
    won = bench.store.published[-1]
    fields.clear()
    seen: list[str] = []
    again = racing(bench, list)
    look: Notify = lambda event: seen.append(bench.store.published[-1].plan.key)  # noqa: E731
    bench.sweep(trials=40, notify=look).run([problem])
    assert again[0][0] == won.plan.key
    assert set(seen[:-1]) == {won.plan.key}
    assert bench.store.published[-1].plan.key == won.plan.key


def test_a_plan_that_won_a_race_replaces_a_time_that_was_luck(bench: Bench, problem: AttentionProblem) -> None:
    """Races take 1000 us where trials took 100."""
    racing(bench, lambda keys: [keys[-1], *keys[:-1]])
    bench.sweep(trials=8).run([problem])
    lucky, last = bench.store.published[-2:]
    assert lucky.timing.time_us < 500 < last.timing.time_us
    assert (lucky.finished, last.finished) == (False, True)
