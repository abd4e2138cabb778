"""Several processes and threads on one file: no update is lost, and the best never gets worse."""

import multiprocessing
import random
import threading
from dataclasses import replace
from itertools import pairwise
from multiprocessing.context import SpawnContext
from multiprocessing.synchronize import Barrier

import pytest

from autotune.db.store import Store
from autotune.outcome import BestPlan, Trial
from autotune.problem import AttentionProblem

PUBLISHERS = 4
ROUNDS = 30


def times_of(publisher: int) -> list[float]:
    """Descending on the whole and noisy, so that publishers overtake one another: unsorted microseconds."""
    randomness = random.Random(publisher)
    return [1000.0 - 10 * step + randomness.uniform(0, 40) for step in range(ROUNDS)]


def publish_all(url: str, best: BestPlan, publisher: int, barrier: Barrier) -> None:
    barrier.wait(60)
    store = Store.open(url)  # the first one in makes the tables
    for time_us in times_of(publisher):
        store.publish(replace(best, timing=replace(best.timing, time_us=time_us), sweep=f"sweep-{publisher}"))
    store.close()


def check(url: str, best: BestPlan) -> None:
    store = Store.open(url, create=False)
    history = [each.timing.time_us for each in store.history(best.problem, best.device)]
    assert all(later < earlier for earlier, later in pairwise(history))
    fastest = min(time_us for publisher in range(PUBLISHERS) for time_us in times_of(publisher))
    served = store.best(best.problem, best.device)
    assert served is not None
    assert served.timing.time_us == history[-1] == fastest


@pytest.fixture
def processes() -> SpawnContext:
    return multiprocessing.get_context("spawn")


def test_processes_lose_no_update_and_agree_on_the_first_migration(
    fresh_url: str, best: BestPlan, processes: SpawnContext
) -> None:
    barrier = processes.Barrier(PUBLISHERS)
    workers = [processes.Process(target=publish_all, args=(fresh_url, best, k, barrier)) for k in range(PUBLISHERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * PUBLISHERS
    check(fresh_url, best)


def test_threads_on_one_store_lose_no_update(any_url: str, best: BestPlan) -> None:
    store = Store.open(any_url)
    seen: list[float] = []

    def publish(publisher: int) -> None:
        for time_us in times_of(publisher):
            store.publish(replace(best, timing=replace(best.timing, time_us=time_us)))

    def watch() -> None:
        while any(worker.is_alive() for worker in workers):
            found = store.best(best.problem, best.device)
            seen.append(found.timing.time_us if found else float("inf"))

    workers = [threading.Thread(target=publish, args=(k,)) for k in range(PUBLISHERS)]
    for worker in workers:
        worker.start()
    watch()
    assert seen == sorted(seen, reverse=True)  # a reader never saw the best get worse
    check(any_url, best)


def test_one_plan_is_recorded_once_by_racing_threads(any_url: str, trial: Trial) -> None:
    store = Store.open(any_url)
    won: list[bool] = []
    workers = [threading.Thread(target=lambda: won.append(store.record(trial))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(won) == [False] * 7 + [True]


def test_no_count_of_a_miss_is_lost(any_url: str, problem: AttentionProblem) -> None:
    """A transaction that reads before it writes: with a deferred BEGIN some of these fail."""
    store = Store.open(any_url)

    def miss() -> None:
        for _ in range(20):
            store.want(problem, "Ascend910A", "2026-12-01T00:00:00Z")

    workers = [threading.Thread(target=miss) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [each.count for each in store.wanted()] == [80]
