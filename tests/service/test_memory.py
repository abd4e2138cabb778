"""What is kept in memory is never older than the store, whoever changes it, and never without bound."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.db.pins import Decision
from autotune.db.store import Store
from autotune.outcome import BestPlan
from autotune.service import memory

Ask = Callable[..., Any]
QUESTION = "shape=2,16,1024,1024,64"
HERE = ("flash_attention;1,1,1,1,1", "Ascend910A")
DECISION = Decision("me", "because", "2026-12-01T02:13:44Z")


@pytest.fixture
def other(store: Store, tmp_path: Path) -> Store:
    """As another process has it."""
    return Store.open(f"sqlite:///{tmp_path}/plans.db")


def faster(best: BestPlan, time_us: float) -> BestPlan:
    return replace(best, timing=replace(best.timing, time_us=time_us))


def test_another_process_is_seen_with_the_next_question(ask: Ask, other: Store, best: BestPlan) -> None:
    assert ask(query=QUESTION).json()["match"] == "default"
    for time_us in (200.0, 100.0, 50.0):
        other.publish(faster(best, time_us))
        for _ in range(2):
            assert ask(query=QUESTION).json()["time_us"] == time_us
    other.pin(1, DECISION)
    for _ in range(2):
        assert ask(query=QUESTION).json()["match"] == "pinned"
    other.unpin(1, DECISION)
    assert ask(query=QUESTION).json()["time_us"] == 50.0


def test_a_neighbour_is_replaced_too(ask: Ask, other: Store, best: BestPlan) -> None:
    other.publish(best)
    near = "shape=2,16,2048,1024,64"
    assert [ask(query=near).json()["matched_time_us"] for _ in range(2)] == [200.0, 200.0]
    other.publish(faster(best, 100.0))
    assert ask(query=near).json()["matched_time_us"] == 100.0
    assert ask(query=near + "&device=emulated:Ascend910A").json()["matched_time_us"] == 100.0


def test_a_miss_is_no_change(store: Store, other: Store, best: BestPlan) -> None:
    before = store.version()
    other.want(best.problem, best.device, "2026-12-01T00:00:00Z")
    assert store.version() == before
    other.publish(best)
    assert store.version() != before


def test_what_was_read_before_a_change_is_not_kept(store: Store, other: Store, best: BestPlan) -> None:
    kept = memory.Memory(store)
    version = kept.refresh()
    other.publish(best)
    kept.refresh()
    kept.keep(version, b"q", memory.Remembered(b"old", '"t"', "default", None, HERE))
    assert kept.answer(b"q") is None


def test_only_what_a_new_plan_may_change_is_forgotten(store: Store, other: Store, best: BestPlan) -> None:
    kept = memory.Memory(store)
    causal = replace(best, problem=replace(best.problem, attn_mask="causal"))
    places = [HERE, ("flash_attention;1,1,1,1,1;attn_mask=causal", "Ascend910A"), (HERE[0], "Elsewhere")]

    def keep_all() -> None:
        version = kept.refresh()
        for k, place in enumerate(places):
            kept.keep(version, b"%d" % k, memory.Remembered(b"", "", "exact", None, place))

    def left() -> list[bool]:
        kept.refresh()
        return [kept.answer(b"%d" % k) is not None for k in range(3)]

    changes: list[tuple[Callable[[], object], list[bool]]] = [
        (lambda: other.publish(best), [False, True, True]),
        (lambda: other.publish(causal), [True, False, True]),
        (lambda: other.pin(1, DECISION), [False, True, True]),
        (lambda: other.unpin(1, DECISION), [False, True, True]),
        (lambda: other.publish(faster(best, 300.0)), [True, True, True]),  # it loses
    ]
    for change, expected in changes:
        keep_all()
        change()
        assert left() == expected


def test_very_many_changes_forget_everything(
    store: Store, other: Store, best: BestPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.db.changes.MOST", 1)
    kept = memory.Memory(store)
    kept.keep(kept.refresh(), b"0", memory.Remembered(b"", "", "exact", None, (HERE[0], "Elsewhere")))
    other.publish_all([best, replace(best, problem=replace(best.problem, attn_mask="causal"))])
    kept.refresh()
    assert kept.answer(b"0") is None


def test_it_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_ANSWERS", 3)
    kept = memory.Memory(store)
    version = kept.refresh()
    answer = memory.Remembered(b"x", '"t"', "default", None, HERE)
    for k in range(5):
        kept.keep(version, b"%d" % k, answer)
        kept.answer(b"0")
    kept.keep(version, b"9" * 1000, answer)
    assert [k for k in (b"0", b"1", b"2", b"3", b"4", b"9" * 1000) if kept.answer(k)] == [
        b"0",
        b"3",
        b"4",
    ]  # 0 was asked for all the time


def test_answers_from_memory_are_counted(ask: Ask, store: Store) -> None:
    for _ in range(3):
        ask(query=QUESTION)
    assert ask("/wanted").json()["wanted"][0]["count"] == 3
    assert b'match="default",method="GET",route="/best",status="200"} 3.0' in ask("/metrics").body


def test_a_database_that_is_gone_is_503(ask: Ask, store: Store, tmp_path: Path) -> None:
    ask(query=QUESTION)
    store.close()
    (tmp_path / "plans.db").unlink()
    with sqlite3.connect(tmp_path / "plans.db") as connection:
        connection.execute("CREATE TABLE notes (x)")
    connection.close()
    assert ask(query=QUESTION).status == 503
