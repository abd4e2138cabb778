"""Trials in worker processes: a crash, a hang or a kill costs one trial, never the sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import LifoQueue
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Any

from autotune.errors import Crashed, RunFailed, TargetUnavailable, TimedOut
from autotune.outcome import Failed, Outcome, Timed, Timing, outcome_of_error
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.worker import Make, Worker

LOST = frozenset((Crashed.stage, TimedOut.stage))
"""Stages of a trial whose process is gone."""
SUSPECT = LOST | {RunFailed.stage}
"""Stages of a failure that may be the process's and not the plan's, as after an error that sticks to a device."""
HOPELESS = 10
"""Trials lost in a row, each twice, after which it is not the plans."""


@dataclass(frozen=True)
class Limit:
    """Seconds that a trial may take. first_s: while none of its problem has ended well.

    Then ``times`` the longest that has, at least ``least_s``: small blocks take many times as long as large ones.
    """

    first_s: float = 600.0
    least_s: float = 60.0
    times: float = 20.0

    def seconds(self, longest_s: float | None) -> float:
        """Where the longest trial of the problem took so long."""
        return self.first_s if longest_s is None else max(self.least_s, self.times * longest_s)


class Pool:
    """Runs as many jobs at once as it has worker processes; each is started when it is first needed.

    A trial that crashes, hangs or fails to run is tried once more in a fresh process; then that is its outcome.
    make: builds a worker's executor. fingerprint: of the target that it must open.
    """

    def __init__(self, make: Make, fingerprint: str, workers: int, limit: Limit = Limit()) -> None:
        self._make, self._fingerprint, self._workers, self._limit = make, fingerprint, workers, limit
        self._threads = ThreadPoolExecutor(workers, "trial")
        self._idle: LifoQueue[Worker | None] = LifoQueue()  # None: one that is yet to be started; those wait longest
        for _ in range(workers):
            self._idle.put(None)
        self._lock = Lock()
        self._alive: set[Worker] = set()
        self._closed = False
        self._longest_s: dict[AttentionProblem, float] = {}
        self._lost_in_a_row = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kills the workers: trials that are still running are lost."""
        with self._lock:
            self._closed = True
            for worker in self._alive:
                worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in list(self._alive):
            self._end(worker)

    @property
    def workers(self) -> int:
        """Worker processes, those not yet started too."""
        return self._workers

    def submit(self, problem: AttentionProblem, plan: TilingPlan) -> Future[Outcome]:
        """As ``Executor.submit``. The future raises TargetUnavailable where no worker starts or all is lost."""
        return self._threads.submit(self._outcome, problem, plan)

    def race(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Future[Mapping[str, Timing]]:
        """As ``Executor.race``; Crashed and TimedOut are candidates' errors too."""
        return self._threads.submit(self._ask, "run_race", problem, plans, self._limit.first_s)

    def confidence(self, problem: AttentionProblem, plans: Sequence[TilingPlan]) -> Future[float | None]:
        """As ``Executor.confidence``."""
        return self._threads.submit(self._ask, "sure", problem, plans, self._limit.first_s)

    def _outcome(self, problem: AttentionProblem, plan: TilingPlan) -> Outcome:
        outcome = self._once(problem, plan)
        if isinstance(outcome, Failed) and outcome.stage in SUSPECT:
            outcome = self._once(problem, plan)
        self._look_for_hope(outcome)
        return outcome

    def _once(self, problem: AttentionProblem, plan: TilingPlan) -> Outcome:
        start = perf_counter()
        try:
            seconds = self._limit.seconds(self._longest_s.get(problem))
            outcome: Outcome = self._ask("run", problem, plan, seconds)
        except (Crashed, TimedOut) as error:
            return outcome_of_error(error)
        if isinstance(outcome, Timed):
            self._longest_s[problem] = max(self._longest_s.get(problem, 0.0), perf_counter() - start)
        return outcome

    def _ask(self, method: str, problem: AttentionProblem, argument: Any, seconds: float) -> Any:
        """Asks a worker that is idle. One that was lost, or whose trial failed to run, is not asked again."""
        worker = self._idle.get()
        good = False
        try:
            worker = worker or self._start()
            answer = worker.ask(method, problem, argument, seconds=seconds)
            good = not (isinstance(answer, Failed) and answer.stage in SUSPECT)
            return answer
        finally:
            if worker and not good:
                self._end(worker)
            self._idle.put(worker if good else None)

    def _start(self) -> Worker:
        with self._lock:
            if self._closed:
                raise CancelledError
            try:
                worker = Worker(self._make)
            except OSError as error:
                raise TargetUnavailable(f"this machine starts no worker process: {error.strerror}") from error
            self._alive.add(worker)
        try:
            worker.wait_ready(self._fingerprint)
        except BaseException:
            self._end(worker)
            raise
        return worker

    def _end(self, worker: Worker) -> None:
        with self._lock:
            self._alive.discard(worker)
        worker.close()

    def _look_for_hope(self, outcome: Outcome) -> None:
        lost = isinstance(outcome, Failed) and outcome.stage in LOST
        with self._lock:
            self._lost_in_a_row = self._lost_in_a_row + 1 if lost else 0
            if self._lost_in_a_row >= HOPELESS and isinstance(outcome, Failed):
                raise TargetUnavailable(
                    f"{HOPELESS} trials in a row crashed or hung, in fresh processes too; the last: {outcome.reason}"
                )
