"""Plans by the page, by id and by the key of their problem."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.db.store import Store
from autotune.outcome import MEASURED, BestPlan


@pytest.fixture
def bests(best: BestPlan) -> list[BestPlan]:
    """Seven problems on one device, then the first of them measured, then on another chip."""
    shapes = [(1, 1, 64 * (k + 1), 64, 64) for k in range(7)]
    emulated = [replace(best, problem=best.problem.with_shape(shape)) for shape in shapes]
    measured = replace(emulated[0], target="cann:0", timing=replace(best.timing, kind=MEASURED))
    return [*emulated, measured, replace(emulated[0], device="Ascend910B3", target="emulated:Ascend910B3")]


@pytest.fixture
def store(any_url: str, bests: list[BestPlan]) -> Store:
    return filled(any_url, bests)


def filled(url: str, bests: list[BestPlan]) -> Store:
    store = Store.open(url)
    for best in bests:
        store.publish(best)
    return store


@pytest.mark.parametrize("limit", [1, 2, 4, 9, 100])
def test_pages_hold_every_plan_once_and_in_order(store: Store, bests: list[BestPlan], limit: int) -> None:
    found = []
    after: int | None = 0
    while after is not None:
        page = store.plans(after, limit)
        assert len(page.listed) == limit or page.next is None
        found += page.listed
        after = page.next
    assert [replace(each.best, revision=0) for each in found] == bests
    assert [each.id for each in found] == sorted({each.id for each in found})


def test_a_faster_plan_keeps_the_id_and_its_place(store: Store, bests: list[BestPlan]) -> None:
    faster = replace(bests[2], timing=replace(bests[2].timing, time_us=1.0))
    first = store.plans(limit=3).listed
    assert store.publish(faster)
    assert [each.id for each in store.plans(limit=3).listed] == [each.id for each in first]
    found = store.plan(first[2].id)
    assert found is not None
    assert found.best.timing.time_us == 1.0


def test_pages_can_be_narrowed(store: Store, bests: list[BestPlan]) -> None:
    assert len(store.plans(device="Ascend910A").listed) == 8
    assert [each.best.target for each in store.plans(device="Ascend910A", target="cann:1").listed] == ["cann:0"]
    assert [each.best.device for each in store.plans(device="Ascend910B3").listed] == ["Ascend910B3"]
    assert store.plans(device="Ascend310P").listed == []


def test_a_page_of_damaged_rows_does_not_end_the_list(
    tmp_path: Path, url: str, bests: list[BestPlan], caplog: pytest.LogCaptureFixture
) -> None:
    store = filled(url, bests)
    with sqlite3.connect(tmp_path / "plans.db") as connection:
        connection.execute("UPDATE history SET plan = '' WHERE revision <= 4")
    connection.close()
    page = store.plans(limit=2)
    assert (page.listed, page.next) == ([], 2)
    assert [each.id for each in store.plans(after=2).listed] == [5, 6, 7, 8, 9]


def test_what_is_not_there(store: Store, bests: list[BestPlan]) -> None:
    assert store.plan(10_000) is None
    assert store.problem("flash_attention;9,9,9,9,9") is None
    assert store.problem(bests[0].problem.key) == bests[0].problem
