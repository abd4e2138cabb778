"""Pins and the decisions behind them; a database of the first schema keeps its data and leaves a copy."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import insert

from autotune.db.engine import open_engine, writing
from autotune.db.pins import Decided, Decision, Standing
from autotune.db.rows import history_row, problem_row
from autotune.db.schema import best_plans, devices, history, problems
from autotune.db.store import Store
from autotune.db.upgrade import MIGRATIONS
from autotune.errors import InvalidInput, Overtaken
from autotune.outcome import MEASURED, BestPlan

DECISION = Decision("me", "18 is wrong on our board", "2026-12-01T02:13:44Z")


@pytest.fixture
def store(any_url: str, best: BestPlan, at_time: Callable[..., BestPlan]) -> Store:
    """Three publications of one problem, each faster."""
    store = Store.open(any_url)
    for time_us in (300.0, 200.0, 100.0):
        assert store.publish(at_time(best, time_us))
    return store


def times(store: Store, best: BestPlan) -> tuple[float | None, float | None]:
    """Of the pinned plan and of the best one."""
    pinned, found = store.pinned(best.problem, best.device), store.best(best.problem, best.device)
    return pinned.timing.time_us if pinned else None, found.timing.time_us if found else None


def test_a_pin_stays_whatever_wins(store: Store, best: BestPlan, at_time: Callable[..., BestPlan]) -> None:
    assert times(store, best) == (None, 100.0)
    store.pin(1, DECISION)
    store.publish(at_time(best, 50.0))
    assert times(store, best) == (300.0, 50.0)
    store.pin(2, DECISION)  # another pin replaces it
    assert times(store, best) == (200.0, 50.0)
    assert [each.pinned for each in store.plans().listed] == [2]
    assert store.unpin(2, DECISION)
    assert times(store, best) == (None, 50.0)


def test_a_pin_that_somebody_else_replaced_is_not_taken_off(store: Store, best: BestPlan) -> None:
    store.pin(1, DECISION)
    store.pin(2, DECISION)
    assert not store.unpin(1, DECISION)
    assert times(store, best) == (200.0, 100.0)


def test_every_decision_is_kept(store: Store, best: BestPlan) -> None:
    store.pin(1, DECISION)
    store.unpin(1, replace(DECISION, actor="you", reason="fixed"))
    store.unpin(1, DECISION)  # did nothing
    assert store.decisions(best.problem, best.device) == [
        Decided("me", "18 is wrong on our board", "2026-12-01T02:13:44Z", "pin", 1),
        Decided("you", "fixed", "2026-12-01T02:13:44Z", "unpin", 1),
    ]
    assert store.decisions(best.problem, best.device, "cann:0") == []


def test_pins_of_two_kinds_of_target(store: Store, best: BestPlan) -> None:
    measured = replace(best, target="cann:0", timing=replace(best.timing, kind=MEASURED, time_us=900.0))
    store.publish(measured)
    store.pin(1, DECISION)
    store.pin(4, DECISION)
    assert times(store, best)[0] == 900.0
    emulated = store.pinned(best.problem, best.device, "emulated:Ascend910A")
    assert emulated is not None
    assert emulated.timing.time_us == 300.0


@pytest.mark.parametrize("revision", [0, 4, -1, 10**15])
def test_a_revision_that_is_not_there(store: Store, revision: int) -> None:
    for decide in (store.pin, store.unpin):
        with pytest.raises(InvalidInput, match=f"no revision {revision}") as caught:
            decide(revision, DECISION)
        assert caught.value.field == "revision"


@pytest.mark.parametrize("text", ["", "  ", "two\nlines", "x" * 501, "\ud800"])
@pytest.mark.parametrize("name", ["actor", "reason"])
def test_a_decision_needs_a_name_and_a_reason(name: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        replace(DECISION, **{name: text})


def test_a_dry_run_says_what_would_win_and_changes_nothing(
    store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
) -> None:
    offers = [at_time(best, time_us) for time_us in (150.0, 90.0, 95.0, 80.0)]
    for _ in range(2):
        assert store.publish_all(offers, dry_run=True) == [False, True, False, True]
    assert times(store, best) == (None, 100.0)
    assert store.publish_all(offers) == [False, True, False, True]
    assert [each.timing.time_us for each in store.history(best.problem, best.device)] == [
        300.0,
        200.0,
        100.0,
        90.0,
        80.0,
    ]


class TestRollback:
    def test_it_goes_back_one_by_one(self, store: Store, best: BestPlan) -> None:
        assert store.roll_back(3, DECISION) == 2
        assert times(store, best) == (200.0, 100.0)
        assert store.roll_back(2, DECISION) == 1
        assert times(store, best) == (300.0, 100.0)
        with pytest.raises(InvalidInput, match="nothing was published before revision 1"):
            store.roll_back(1, DECISION)
        assert [(each.action, each.revision) for each in store.decisions(best.problem, best.device)] == [
            ("pin", 2),
            ("pin", 1),
        ]

    def test_only_from_what_is_served(self, store: Store, best: BestPlan) -> None:
        with pytest.raises(Overtaken, match="that is revision 3"):
            store.roll_back(2, DECISION)
        store.pin(1, DECISION)
        with pytest.raises(Overtaken, match="that is revision 1"):
            store.roll_back(3, DECISION)
        with pytest.raises(InvalidInput, match="no revision 9"):
            store.roll_back(9, DECISION)
        assert times(store, best) == (300.0, 100.0)

    def test_of_this_problem_alone(self, store: Store, best: BestPlan) -> None:
        other = replace(best, problem=best.problem.with_shape((1, 1, 64, 64, 64)))
        store.publish(other)
        with pytest.raises(InvalidInput, match="nothing was published before revision 4"):
            store.roll_back(4, DECISION)


def test_a_decision_that_rests_on_what_is_no_more(
    store: Store, best: BestPlan, at_time: Callable[..., BestPlan]
) -> None:
    store.pin(1, DECISION, Standing(3, None))
    store.unpin(1, DECISION, Standing(3, 1))
    store.publish(at_time(best, 50.0))
    for decide in (store.pin, store.unpin):
        with pytest.raises(Overtaken, match="best 4, pinned none"):
            decide(1, DECISION, Standing(3, None))
    assert times(store, best) == (None, 50.0)


class TestUpgrade:
    @pytest.fixture
    def path(self, tmp_path: Path, best: BestPlan) -> Path:
        """A database of schema 0001 with one plan, as an earlier version left it."""
        path = tmp_path / "old.db"
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        engine = open_engine(path)
        with writing(engine) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "0001")
            row = {name: value for name, value in history_row(best).items() if name != "finished"}
            place = {"problem_id": 1, "device_id": 1}
            connection.execute(insert(problems).values(id=1, **problem_row(best.problem)))
            connection.execute(insert(devices).values(id=1, name=best.device, target_kind="emulated"))
            connection.execute(insert(history).values(revision=1, **place, **row))
            won = {name: row[name] for name in ("fingerprint", "time_us", "measured_at")}
            connection.execute(insert(best_plans).values(revision=1, **place, **won))
        engine.dispose()
        return path

    def test_data_is_kept_and_so_is_a_copy(self, path: Path, best: BestPlan) -> None:
        store = Store.open(f"sqlite:///{path}")
        assert store.history(best.problem, best.device) == [replace(best, revision=1)]
        store.pin(1, DECISION)
        (copy,) = path.parent.glob("old.db.schema-0001-*.backup")
        assert Store.open(f"sqlite:///{copy}").best(best.problem, best.device) == replace(best, revision=1)
        before = sorted(path.parent.iterdir())
        Store.open(f"sqlite:///{path}").close()
        assert sorted(path.parent.iterdir()) == before

    def test_a_new_database_leaves_no_copy(self, tmp_path: Path, url: str) -> None:
        Store.open(url).close()
        assert list(tmp_path.glob("*.backup")) == []
