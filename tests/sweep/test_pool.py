"""Trials in worker processes: whatever a plan does to its process, the sweep gets an outcome and goes on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.errors import Crashed, TargetUnavailable
from autotune.outcome import Failed, Rejected, Timed
from autotune.plan import CoreSplit, TilingPlan
from autotune.pool import HOPELESS, Limit, Pool
from autotune.problem import AttentionProblem
from tests.sweep import unruly
from tests.sweep.unruly import plan, processes

PROBLEM = AttentionProblem.of((1, 4, 512, 512, 64))
ROOT = Path(__file__).parents[2]
LONG = Limit(first_s=60.0)


def pool(folder: Path, workers: int = 1, limit: Limit = LONG) -> Pool:
    return Pool(unruly.make(folder), "f1", workers, limit)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Pool]:
    with pool(tmp_path) as found:
        yield found


def exists(process: int) -> bool:
    """Whether it runs: not gone, and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(process: int) -> bool:
    """Within 10 s."""
    end = time.monotonic() + 10
    while exists(process) and time.monotonic() < end:
        time.sleep(0.01)
    return not exists(process)


def test_a_good_plan_is_timed_in_another_process_which_serves_again(one: Pool, tmp_path: Path) -> None:
    outcomes = [one.submit(PROBLEM, plan("good", Bc)).result() for Bc in (16, 32)]
    assert all(isinstance(outcome, Timed) for outcome in outcomes)
    first, second = processes(tmp_path)
    assert first == second != os.getpid()


def test_what_fails_as_it_may_costs_no_process(one: Pool, tmp_path: Path) -> None:
    large = TilingPlan(512, 512, CoreSplit("even", 4))
    assert one.submit(PROBLEM, large).result() == Rejected("UB needs 524288 bytes, has 131072")
    assert one.submit(PROBLEM, plan("wrong")).result() == Failed("verify", "the output is 0.5 from float64")
    assert isinstance(one.submit(PROBLEM, plan("good")).result(), Timed)
    assert len(processes(tmp_path)) == 2 == 1 + len(set(processes(tmp_path)))


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("abort", "its process ended by SIGABRT: Fatal Python error: Aborted"),
        ("segmentation fault", "its process ended by SIGSEGV: Fatal Python error: Segmentation fault"),
        ("last words", "its process ended with exit code 3: the device says: 0x7"),
    ],
)
def test_a_crash_is_tried_once_more_and_then_an_outcome(one: Pool, tmp_path: Path, way: str, words: str) -> None:
    outcome = one.submit(PROBLEM, plan(way)).result()
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.reason[: len(words)]) == ("crash", words)
    assert isinstance(one.submit(PROBLEM, plan("good")).result(), Timed)
    assert len(set(processes(tmp_path))) == 3


def test_a_hang_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    with pool(tmp_path, limit=Limit(first_s=1.0)) as found:
        outcome = found.submit(PROBLEM, plan("hang")).result()
        assert outcome == Failed("timeout", "not done after 1 s, the time limit; its process was ended")
        assert ends(int((tmp_path / "child").read_text()))
        assert all(ends(process) for process in processes(tmp_path))
        assert len(processes(tmp_path)) == 2
        assert isinstance(found.submit(PROBLEM, plan("good")).result(), Timed)


@pytest.mark.parametrize("way", ["crash once", "run failed once"])
def test_what_passes_in_a_fresh_process_is_no_failure(one: Pool, tmp_path: Path, way: str) -> None:
    assert isinstance(one.submit(PROBLEM, plan(way)).result(), Timed)
    first, second = processes(tmp_path)
    assert first != second


def test_what_failed_to_run_leaves_a_fresh_process_to_the_next(one: Pool, tmp_path: Path) -> None:
    """An error that sticks to the device context would make good plans fail."""
    assert one.submit(PROBLEM, plan("run failed")).result() == Failed("run", "the device was lost")
    assert isinstance(one.submit(PROBLEM, plan("good")).result(), Timed)
    assert len(set(processes(tmp_path))) == 3


def test_a_worker_that_was_killed_from_outside_is_replaced(one: Pool, tmp_path: Path) -> None:
    one.submit(PROBLEM, plan("good")).result()
    os.kill(processes(tmp_path)[0], signal.SIGKILL)
    assert isinstance(one.submit(PROBLEM, plan("good", 32)).result(), Timed)


def test_bugs_and_lost_devices_fly_with_their_trace(one: Pool) -> None:
    with pytest.raises(ZeroDivisionError, match="a bug of ours") as raised:
        one.submit(PROBLEM, plan("bug")).result()
    assert "unruly.py" in raised.value.__notes__[0]
    with pytest.raises(TargetUnavailable, match="somebody took the device away"):
        one.submit(PROBLEM, plan("unplugged")).result()


def test_where_every_trial_is_lost_it_is_not_the_plans(tmp_path: Path) -> None:
    with pool(tmp_path, workers=2) as found:
        futures = [found.submit(PROBLEM, plan("last words", 16 * Bc)) for Bc in range(1, HOPELESS + 1)]
        raised = [future.exception() for future in futures]
    assert [isinstance(error, TargetUnavailable) for error in raised].count(True) == 1
    assert any("10 trials in a row crashed or hung" in str(error) for error in raised)


def test_a_target_that_cannot_be_opened_says_why() -> None:
    with Pool(unruly.unavailable, "f1", 1) as found, pytest.raises(TargetUnavailable, match="no compiler here"):
        found.submit(PROBLEM, plan("good")).result()


def test_a_machine_that_starts_no_process_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", full)
    with pool(tmp_path) as found, pytest.raises(TargetUnavailable, match="Resource temporarily unavailable"):
        found.submit(PROBLEM, plan("good")).result()


def test_another_target_than_the_sweeps_is_refused(tmp_path: Path) -> None:
    with Pool(unruly.make(tmp_path), "f2", 1) as found, pytest.raises(TargetUnavailable, match=r"the target f1, .* f2"):
        found.submit(PROBLEM, plan("good")).result()


def test_workers_run_at_the_same_time(tmp_path: Path) -> None:
    with pool(tmp_path, workers=2) as found:
        assert found.workers == 2
        futures = [found.submit(PROBLEM, plan("slow", 16 * Bc)) for Bc in range(1, 5)]
        assert all(isinstance(future.result(), Timed) for future in futures)
    assert len(set(processes(tmp_path))) == 2


def test_a_race_is_run_by_the_worker_and_its_crash_is_the_candidates(one: Pool) -> None:
    plans = [plan("good", 16), plan("good", 32)]
    times = one.race(PROBLEM, plans).result()
    assert list(times) == [plans[1].key, plans[0].key]
    assert os.getpid() not in times.values()  # type: ignore[comparison-overlap]
    with pytest.raises(Crashed, match="SIGABRT"):
        one.race(PROBLEM, plans[:1]).result()


def test_a_worker_says_how_sure_a_plan_is(one: Pool) -> None:
    assert one.confidence(PROBLEM, [plan("good", 16), plan("good", 32)]).result() == 0.5


def test_leaving_the_pool_ends_the_running_trials(tmp_path: Path) -> None:
    start = time.monotonic()
    with pool(tmp_path) as found:
        future = found.submit(PROBLEM, plan("hang"))
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            assert time.monotonic() < start + 60
            time.sleep(0.01)
    assert future.done()
    assert ends(int((tmp_path / "child").read_text()))
    assert ends(processes(tmp_path)[0])


PARENT = """
import sys
from pathlib import Path
from tests.sweep.test_pool import PROBLEM, plan, pool
with pool(Path(sys.argv[1])) as found:
    found.submit(PROBLEM, plan(sys.argv[2])).result()
    print("done", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("busy", [True, False])
def test_workers_die_with_a_parent_that_is_killed(tmp_path: Path, busy: bool) -> None:
    """Also where they hang in C: nothing else would end them."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), "hang" if busy else "good"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert parent.stdin is not None and parent.stdout is not None
    sign = tmp_path / ("child" if busy else "processes")
    end = time.monotonic() + 60
    while not (sign.exists() and sign.read_text()) or not (busy or parent.stdout.readline()):
        assert time.monotonic() < end
        time.sleep(0.01)
    [worker] = processes(tmp_path)
    assert exists(worker)
    parent.kill()
    parent.communicate()
    assert ends(worker)


def test_the_limit_follows_the_longest_trial() -> None:
    limit = Limit(first_s=600.0, least_s=60.0, times=20.0)
    assert [limit.seconds(longest) for longest in (None, 0.5, 3.0, 10.0)] == [600.0, 60.0, 60.0, 200.0]
