"""A row that cannot be read is a miss that is counted: never an exception, never an answer that nobody measured."""

import logging
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.db.store import Store
from autotune.outcome import BestPlan

DAMAGES = (
    'UPDATE history SET plan = \'{"Br": 64, "Bc": 64, "swizzle": 3}\' WHERE revision = 1',
    "UPDATE history SET plan = '{\"Br\": 64,' WHERE revision = 1",
    "UPDATE history SET plan = '' WHERE revision = 1",
    "UPDATE history SET plan = x'ff00' WHERE revision = 1",
    "UPDATE history SET plan = '[' || replace(hex(zeroblob(20000)), '00', '[') WHERE revision = 1",
    "UPDATE history SET plan = '[1]' WHERE revision = 1",
    'UPDATE history SET plan = \'{"Br": 1e999, "Bc": 64}\' WHERE revision = 1',
    "UPDATE history SET timing = 'null' WHERE revision = 1",
    'UPDATE history SET timing = \'{"time_us": "fast", "kind": "emulated", "clock": "m"}\' WHERE revision = 1',
    "UPDATE history SET timing = replace(timing, 'emulated', 'guessed') WHERE revision = 1",
    "UPDATE history SET time_us = 1.0 WHERE revision = 1",
    "UPDATE history SET error = 'small' WHERE revision = 1",
    "UPDATE history SET trials = 'many' WHERE revision = 1",
    "UPDATE history SET measured_at = x'00' WHERE revision = 1",
)
BODIES = (
    "UPDATE problems SET body = '{' WHERE id = 1",
    "UPDATE problems SET body = 'null' WHERE id = 1",
    "UPDATE problems SET body = replace(body, '1024', '2048') WHERE id = 1",
)


@pytest.fixture
def store(url: str, best: BestPlan) -> Store:
    """Two problems of one family; the first is going to be damaged."""
    store = Store.open(url)
    store.publish(best)
    store.publish(replace(best, problem=best.problem.with_shape((2, 16, 512, 512, 64))))
    return store


def damage(tmp_path: Path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "plans.db")
    assert connection.execute(statement).rowcount == 1
    connection.commit()
    connection.close()


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_damaged_plan_is_a_counted_miss(
    tmp_path: Path, store: Store, best: BestPlan, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage(tmp_path, statement)
    assert store.best(best.problem, best.device) is None
    assert store.history(best.problem, best.device) == []
    assert [each.id for each in store.plans().listed] == [2]
    assert store.unreadable == 3
    assert "plan of revision 1" in caplog.text
    other = store.best(best.problem.with_shape((2, 16, 512, 512, 64)), best.device)
    assert other is not None
    assert store.similar(best.problem, best.device) == [other]


@pytest.mark.parametrize("statement", BODIES)
def test_a_damaged_problem_is_no_neighbour(
    tmp_path: Path, store: Store, best: BestPlan, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage(tmp_path, statement)
    with caplog.at_level(logging.WARNING):
        assert store.similar(best.problem.with_shape((2, 16, 512, 512, 64)), best.device) == []
    assert store.problem(best.problem.key) is None
    assert [each.id for each in store.plans().listed] == [2]
    assert "problem 'flash_attention;2,16,1024" in caplog.text
    found = store.best(best.problem, best.device)  # the question itself says what the problem is
    assert found is not None
    assert found.problem == best.problem


@pytest.mark.parametrize("statement", DAMAGES)
def test_a_damaged_winner_is_replaced_by_a_slower_plan(
    tmp_path: Path, store: Store, best: BestPlan, statement: str
) -> None:
    slower = replace(best, timing=replace(best.timing, time_us=best.timing.time_us * 2))
    assert not store.publish(slower)
    damage(tmp_path, statement)
    assert store.publish(slower)
    found = store.best(best.problem, best.device)
    assert found is not None and found.timing == slower.timing
