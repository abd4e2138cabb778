"""What every store does; a further store inherits StoreCases and provides ``open_store``."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.db.store import Store
from autotune.outcome import MEASURED, BestPlan, Failed, Outcome, Rejected, Trial
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem

NUMBERS = count()
CANN = "cann:0"
EMULATED = "emulated:Ascend910A"


def shaped(problem: AttentionProblem, *shape: int) -> AttentionProblem:
    return AttentionProblem.of(shape, attn_mask=problem.attn_mask, window=problem.window)


def served(store: Store, best: BestPlan, target: str | None = None) -> BestPlan:
    """The present best of the same problem and device; there has to be one."""
    found = store.best(best.problem, best.device, target)
    assert found is not None
    return found


class StoreCases:
    """The conformance suite."""

    @pytest.fixture
    def open_store(self) -> Callable[[], Store]:
        """A function that opens the same, at first empty, database each time it is called."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: Callable[[], Store]) -> Store:
        return open_store()

    def test_an_empty_store_knows_nothing(self, store: Store, problem: AttentionProblem) -> None:
        assert store.best(problem, "Ascend910A") is None
        assert store.trials(problem, "Ascend910A", EMULATED) == []
        assert store.similar(problem, "Ascend910A") == []
        assert store.history(problem, "Ascend910A") == []
        assert store.wanted() == []

    @pytest.mark.parametrize("outcome", [None, Rejected("UB: 300000 of 262144 bytes"), Failed("verify", "error 0.5")])
    def test_a_trial_comes_back_as_it_was(self, store: Store, trial: Trial, outcome: Outcome | None) -> None:
        trial = replace(trial, outcome=outcome or trial.outcome)
        assert store.record(trial)
        (found,) = store.trials(trial.problem, trial.device, trial.target)
        assert found == trial
        assert found.plan.strategy == "lattice"  # takes no part in ==

    def test_a_plan_is_recorded_once_per_problem_device_kind_and_fingerprint(self, store: Store, trial: Trial) -> None:
        other_plan = replace(trial.plan, Bc=128)
        other_strategy = replace(trial.plan, strategy="sparse")
        other_problem = replace(trial.problem, high_precision=True)
        assert store.record(trial)
        assert not store.record(replace(trial, outcome=Failed("time", "again"), sweep="sweep-2"))
        assert not store.record(replace(trial, plan=other_strategy))
        different = [
            replace(trial, plan=other_plan),
            replace(trial, fingerprint="f2"),
            replace(trial, target=CANN),
            replace(trial, problem=other_problem),
            replace(trial, device="Ascend910B"),
        ]
        assert [store.record(each) for each in different] == [True] * len(different)
        assert not store.record(replace(trial, target="cann:1"))  # the same hardware, timed in the same way

    def test_trials_are_those_asked_for_in_order(self, store: Store, trial: Trial) -> None:
        first = [replace(trial, plan=TilingPlan(Br, 64)) for Br in (128, 16, 64)]
        for each in [*first, replace(trial, fingerprint="f2"), replace(trial, target=CANN)]:
            store.record(each)
        assert store.trials(trial.problem, trial.device, trial.target, "f1") == first
        assert store.trials(trial.problem, trial.device, trial.target) == [*first, replace(trial, fingerprint="f2")]
        assert store.trials(trial.problem, trial.device, CANN) == [replace(trial, target=CANN)]
        assert store.trials(trial.problem, "Ascend910B", trial.target) == []

    def test_a_best_plan_comes_back_as_it_was_with_a_revision(self, store: Store, best: BestPlan) -> None:
        assert store.publish(best)
        found = served(store, best)
        assert found == replace(best, revision=found.revision)
        assert found.revision >= 1
        assert found.plan.strategy == "lattice"

    def test_a_best_plan_without_a_default_time(self, store: Store, best: BestPlan) -> None:
        store.publish(replace(best, default_time_us=None))
        assert served(store, best).default_time_us is None

    def test_only_a_faster_plan_replaces_the_best(
        self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
    ) -> None:
        times = [200.0, 250.0, 200.0, 199.5, 199.75, 100.0]
        assert [store.publish(at_time(best, time_us)) for time_us in times] == [True, False, False, True, False, True]
        assert served(store, best).timing.time_us == 100.0

    def test_the_replacement_is_complete(self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]) -> None:
        store.publish(best)
        other = at_time(
            best,
            90.0,
            plan=TilingPlan(64, 512, CoreSplit("even", 16), strategy="wukong"),
            error=2e-4,
            default_time_us=240.0,
            trials=90,
            sweep="sweep-2",
            measured_at="2026-12-02T00:00:00Z",
        )
        assert store.publish(other)
        found = served(store, best)
        assert found == replace(other, revision=found.revision)

    def test_a_fresh_result_replaces_a_stale_one_even_if_slower(
        self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
    ) -> None:
        store.publish(best)
        fresh = at_time(best, 300.0, fingerprint="f2", measured_at="2026-12-02T00:00:00Z")
        assert store.publish(fresh)
        assert served(store, best).fingerprint == "f2"

    def test_an_older_result_of_another_fingerprint_never_replaces(
        self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
    ) -> None:
        store.publish(best)
        assert not store.publish(at_time(best, 10.0, fingerprint="f0", measured_at="2026-11-30T00:00:00Z"))
        assert served(store, best).fingerprint == "f1"

    def test_history_holds_the_winners_only(
        self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
    ) -> None:
        for time_us in (200.0, 250.0, 150.0, 150.0, 120.0):
            store.publish(at_time(best, time_us))
        history = store.history(best.problem, best.device)
        assert [each.timing.time_us for each in history] == [200.0, 150.0, 120.0]
        revisions = [each.revision for each in history]
        assert revisions == sorted(set(revisions))
        assert history[-1] == store.best(best.problem, best.device)

    def test_revisions_count_over_all_problems(self, store: Store, best: BestPlan) -> None:
        problems = [shaped(best.problem, 1, 1, n, n, 64) for n in (128, 256, 512)]
        for each in problems:
            store.publish(replace(best, problem=each))
        revisions = [served(store, replace(best, problem=each)).revision for each in problems]
        assert revisions == [1, 2, 3]

    def test_measured_outranks_emulated(self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]) -> None:
        timing = replace(best.timing, time_us=500.0, kind=MEASURED, clock="stream events", cycles=None)
        measured = replace(best, target=CANN, timing=timing)
        store.publish(measured)
        assert store.publish(best)  # not compared with the measured one
        assert served(store, best).target == CANN
        assert served(store, best, EMULATED).target == EMULATED
        assert served(store, best, "cann:7").target == CANN

    def test_problems_that_differ_are_kept_apart(self, store: Store, best: BestPlan) -> None:
        store.publish(best)
        for other in (
            replace(best.problem, attn_mask="none"),
            replace(best.problem, window=(511, 1)),
            replace(best.problem, op="flash_attention_grad"),
            shaped(best.problem, 16, 2, 1024, 1024, 64),
        ):
            assert store.best(other, best.device) is None
        assert store.best(best.problem, "Ascend910B") is None

    def test_similar_problems_differ_in_their_shape_alone(self, store: Store, best: BestPlan) -> None:
        near = [shaped(best.problem, 1, 8, 2048, 512, 128), shaped(best.problem, 4, 4, 64, 64, 16)]
        unlike = [
            replace(near[0], attn_mask="full"),
            replace(near[0], window=None),
            replace(near[0], op="flash_attention_grad"),
            replace(near[0], dtype="bfloat16"),
        ]
        for each in [best.problem, *near, *unlike]:
            store.publish(replace(best, problem=each))
        store.publish(replace(best, problem=near[0], device="Ascend910B"))
        found = store.similar(best.problem, best.device)
        assert {each.problem for each in found} == set(near)
        assert store.similar(best.problem, best.device, CANN) == []

    def test_similar_gives_the_present_best_of_each_problem(
        self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
    ) -> None:
        other = shaped(best.problem, 1, 8, 2048, 512, 64)
        for time_us in (200.0, 150.0):
            store.publish(at_time(best, time_us, problem=other))
        (found,) = store.similar(best.problem, best.device)
        assert found.timing.time_us == 150.0

    def test_trials_since_an_instant_are_those_of_every_problem(self, store: Store, trial: Trial) -> None:
        early, late = replace(trial, at="2026-12-01T02:00:00Z"), replace(trial, at="2026-12-01T03:00:00Z")
        elsewhere = replace(late, problem=replace(trial.problem, high_precision=True), device="Ascend910B", target=CANN)
        for each in (early, replace(late, fingerprint="f2"), elsewhere):
            store.record(each)
        assert list(store.trials_since("2026-12-01T02:30:00Z")) == [replace(late, fingerprint="f2"), elsewhere]
        assert len(list(store.trials_since("2026-12-01T02:00:00Z"))) == 3

    def test_a_plan_replaces_the_revision_that_its_publisher_knows_to_be_no_better(
        self, store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
    ) -> None:
        store.publish(at_time(best, 100.0))
        assert not store.publish(at_time(best, 110.0))
        assert store.publish(at_time(best, 110.0), over=1)
        assert served(store, best).timing.time_us == 110.0
        assert not store.publish(at_time(best, 120.0), over=1)  # somebody else has replaced it meanwhile
        assert [each.timing.time_us for each in store.history(best.problem, best.device)] == [100.0, 110.0]

    def test_a_miss_stays_wanted_while_the_sweep_that_answers_it_goes_on(self, store: Store, best: BestPlan) -> None:
        store.want(best.problem, best.device, "2026-12-01T00:00:00Z")
        store.publish(replace(best, finished=False))
        assert not served(store, best).finished
        assert [each.problem for each in store.wanted()] == [best.problem]
        assert store.publish(best, over=1)
        assert served(store, best).finished
        assert store.wanted() == []

    def test_a_miss_is_wanted_until_it_is_answered(self, store: Store, best: BestPlan) -> None:
        other = shaped(best.problem, 1, 1, 128, 128, 64)
        store.want(other, best.device, "2026-12-01T00:00:00Z")
        store.want(best.problem, best.device, "2026-12-01T00:00:00Z")
        store.want(best.problem, best.device, "2026-12-01T00:00:09Z")
        wanted = [(each.problem, each.device, each.count, each.last_at) for each in store.wanted()]
        assert wanted == [
            (best.problem, best.device, 2, "2026-12-01T00:00:09Z"),
            (other, best.device, 1, "2026-12-01T00:00:00Z"),
        ]
        assert [each.problem for each in store.wanted(limit=1)] == [best.problem]
        store.publish(best)
        assert [each.problem for each in store.wanted()] == [other]

    def test_misses_are_bounded(self, store: Store, problem: AttentionProblem, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("autotune.db.misses.LIMIT", 2)
        problems = [shaped(problem, 1, 1, n, n, 64) for n in (16, 32, 48)]
        for each in [*problems, problems[0]]:
            store.want(each, "Ascend910A", "2026-12-01T00:00:00Z")
        assert [(each.problem, each.count) for each in store.wanted()] == [(problems[0], 2), (problems[1], 1)]

    def test_another_opening_sees_it_at_once(
        self, open_store: Callable[[], Store], best: BestPlan, trial: Trial, at_time: Callable[..., BestPlan]
    ) -> None:
        first, second = open_store(), open_store()
        first.publish(best)
        first.record(trial)
        assert served(second, best).timing.time_us == best.timing.time_us
        assert second.trials(trial.problem, trial.device, trial.target) == [trial]
        second.publish(at_time(best, 1.0))
        assert served(first, best).timing.time_us == 1.0

    def test_it_survives_a_restart(self, open_store: Callable[[], Store], best: BestPlan, trial: Trial) -> None:
        first = open_store()
        first.publish(best)
        first.record(trial)
        first.close()
        again = open_store()
        assert served(again, best).plan == best.plan
        assert not again.record(trial)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        published=st.lists(
            st.tuples(
                st.sampled_from((64, 128)), st.sampled_from(("f1", "f2")), st.floats(0.5, 1e6), st.integers(0, 3)
            ),
            max_size=12,
        )
    )
    def test_the_best_is_what_a_plain_dictionary_would_hold(
        self, store: Store, best: BestPlan, published: list[tuple[int, str, float, int]]
    ) -> None:
        """The model: per problem, replace on a faster time, or on another fingerprint that is not older."""
        model: dict[AttentionProblem, tuple[str, float, str]] = {}
        device = f"device-{next(NUMBERS)}"  # every example starts without results
        for length, fingerprint, time_us, day in published:
            problem = AttentionProblem.of((1, 1, length, length, 64))
            at = f"2026-12-0{day + 1}T00:00:00Z"
            old = model.get(problem)
            wins = old is None or (time_us < old[1] if old[0] == fingerprint else at >= old[2])
            timing = replace(best.timing, time_us=time_us)
            candidate = replace(
                best, problem=problem, fingerprint=fingerprint, timing=timing, measured_at=at, device=device
            )
            assert store.publish(candidate) is wins
            if wins:
                model[problem] = (fingerprint, time_us, at)
        for problem, expected in model.items():
            found = served(store, replace(best, problem=problem, device=device))
            assert (found.fingerprint, found.timing.time_us, found.measured_at) == expected


class TestStore(StoreCases):
    """On both databases."""

    @pytest.fixture
    def open_store(self, any_url: str) -> Iterator[Callable[[], Store]]:
        opened = []

        def open_again() -> Store:
            opened.append(Store.open(any_url))
            return opened[-1]

        yield open_again
        for store in opened:
            store.close()
