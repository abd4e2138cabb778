"""The loop over problems: which one goes on, its next trial on a worker that is free, the record, the best plan.

The store's trial table is the record. What it holds of the same fingerprint is told to the search first and counts as
tried: a sweep that was stopped goes on, and one that was finished ends at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from autotune.allocation import Track
from autotune.errors import CandidateError
from autotune.outcome import Outcome, Timed, Timing
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.publishing import finish
from autotune.report import Begun, Notify, Report, Result, Tried, Warned, time_us
from autotune.tuning import Terms, Tuning

SLICE = 16
"""Trials of a problem between two decisions which problem goes on, where the time is limited."""


@dataclass(frozen=True)
class Sweep(Terms):
    """One sweep with everything it needs. clock: seconds."""

    notify: Notify = lambda event: None
    clock: Callable[[], float] = time.monotonic

    def run(self, problems: Sequence[AttentionProblem]) -> Report:
        """Tunes the problems in their order, or, where the time is limited, by what is expected to be gained.

        Ctrl-C ends it with what was found so far. However it leaves a problem, the best plan is published.
        Raises UnknownName, StoreError, TargetUnavailable.
        """
        return _Course(self, problems).run()


class _Course:
    """A sweep going on. A problem is waiting, open (with trials to make), or left: for good, or to wait again."""

    def __init__(self, sweep: Sweep, problems: Sequence[AttentionProblem]) -> None:
        self._sweep, self._start = sweep, sweep.clock()
        self._limited = sweep.effort.seconds is not None
        self._numbers = {problem: number for number, problem in enumerate(problems, 1)}
        self._waiting = {problem: Track() for problem in problems}
        self._open: dict[Tuning, Track] = {}
        self._running: dict[Future[Any], Callable[[Future[Any]], None]] = {}  # and what to do when it is over
        self._results: dict[AttentionProblem, Result] = {}
        self._untold = set(self._numbers)
        self._through: set[AttentionProblem] = set()
        self._seen = self._planned = self._to_do = self._tried = 0

    def run(self) -> Report:
        """Until all is tried, the time is over, or Ctrl-C."""
        interrupted = False
        try:
            while self._fill():
                self._collect()
            for tuning in list(self._open):
                self._leave(tuning)
            while self._running:
                self._collect()
            for problem in self._through & set(self._waiting):
                if best := self._results[problem].best:
                    finish(self._sweep.store, best)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            for tuning in self._open:
                self._conclude(tuning, finished=False)
        results = [self._results[problem] for problem in self._numbers if problem in self._results]
        for result in results:
            self._tell(result)
        not_reached = len(self._numbers) - len(results)
        return Report(self._sweep.name, self._sweep.target.name, tuple(results), interrupted, not_reached)

    def _fill(self) -> bool:
        """Starts trials until every worker has something to do; False where none has."""
        while len(self._running) < self._sweep.executor.workers and self._seconds() > 0:
            found = self._next()
            if found is None:
                break
            tuning, plan = found
            began = self._sweep.clock()
            future = self._sweep.executor.submit(tuning.problem, plan)
            self._running[future] = partial(self._receive, tuning, plan, began)
        return bool(self._running)

    def _collect(self) -> None:
        """Goes on with what is over, at least one trial, race or question."""
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in [future for future in self._running if future in done]:
            self._running.pop(future)(future)

    def _receive(self, tuning: Tuning, plan: TilingPlan, began: float, future: Future[Outcome]) -> None:
        trial = tuning.receive(plan, future.result())
        self._tried += 1
        self._to_do -= 1
        self._open[tuning].add(time_us(trial.outcome), self._sweep.clock() - began)
        default_us, left = time_us(tuning.default()), self._seconds_left()
        self._sweep.notify(Tried(trial, tuning.done, tuning.planned, tuning.best(), default_us, left))
        if tuning.over:
            self._leave(tuning)

    def _next(self) -> tuple[Tuning, TilingPlan] | None:
        """A trial of a problem that is open, or else of the next one; None where none can be started now."""
        for tuning in self._open:
            if plan := tuning.next():
                return tuning, plan
        while self._waiting:
            tuning = self._begin()
            if plan := tuning.next():
                return tuning, plan
            self._leave(tuning)
        return None

    def _begin(self) -> Tuning:
        """Opens the next problem; where the time is limited, each for what strategies propose, then by its gain."""
        order = list(self._waiting)
        problem = max(order, key=lambda each: self._waiting[each].gain_per_second()) if self._limited else order[0]
        track = self._waiting.pop(problem)
        tuning = Tuning(self._sweep, problem)
        self._open[tuning] = track
        if problem in self._results:
            tuning.go_on(SLICE)
            return tuning
        self._seen += 1
        self._planned += tuning.planned
        self._to_do += tuning.planned - tuning.done
        number, of = self._numbers[problem], len(self._numbers)
        self._sweep.notify(Begun(problem, number, of, len(tuning.candidates), tuning.known))
        for text in tuning.warnings:
            self._sweep.notify(Warned(text))
        for trial in tuning.trials.values():
            track.add(time_us(trial.outcome), _seconds_of(trial.outcome))
        tuning.go_on(max(0, tuning.proposed - tuning.known) if self._limited else None)
        return tuning

    def _leave(self, tuning: Tuning) -> None:
        """A problem has had its trials: first its finalists race, where they do."""
        finalists = tuning.finalists()
        if finalists:
            self._running[self._sweep.executor.race(tuning.problem, finalists)] = partial(self._ask_how_sure, tuning)
        else:
            self._ask_how_sure(tuning)

    def _ask_how_sure(self, tuning: Tuning, race: Future[Mapping[str, Timing]] | None = None) -> None:
        if race:
            # A finalist that fails now was right and fast before: what its trial said still stands.
            with suppress(CandidateError):
                tuning.race_ended(race.result())
        plans = tuning.doubtful(finished=not self._waits(tuning))
        if plans:
            self._running[self._sweep.executor.confidence(tuning.problem, plans)] = partial(self._close, tuning)
        else:
            self._close(tuning)

    def _close(self, tuning: Tuning, share: Future[float | None] | None = None) -> None:
        """Sums a problem up; where the time is limited and more of it can be tried, it waits for another turn."""
        sure = None
        if share:
            with suppress(CandidateError):
                sure = share.result()
        waits = self._waits(tuning)
        self._conclude(tuning, not waits, sure)
        track = self._open.pop(tuning)
        if tuning.over:
            self._through.add(tuning.problem)
        if waits:
            self._waiting[tuning.problem] = track
        else:
            self._to_do -= max(0, tuning.planned - tuning.done)
            self._tell(self._results[tuning.problem])

    def _waits(self, tuning: Tuning) -> bool:
        return self._limited and not tuning.complete

    def _conclude(self, tuning: Tuning, finished: bool, stays_best: float | None = None) -> None:
        result, before = tuning.conclude(finished, stays_best), self._results.get(tuning.problem)
        if before:
            tried, published = before.tried + result.tried, before.published or result.published
            result = replace(result, tried=tried, published=published)
        self._results[tuning.problem] = result

    def _tell(self, result: Result) -> None:
        if result.problem in self._untold:
            self._untold.remove(result.problem)
            self._sweep.notify(result)

    def _seconds(self) -> float:
        """That the limit leaves."""
        spent = self._sweep.clock() - self._start
        return math.inf if self._sweep.effort.seconds is None else self._sweep.effort.seconds - spent

    def _seconds_left(self) -> float:
        """Until all is tried at the pace so far, or the time is over. A problem not seen yet counts as those seen."""
        pace = (self._sweep.clock() - self._start) / self._tried
        unseen = self._planned / self._seen * (len(self._numbers) - self._seen)
        return max(0.0, min(self._seconds(), pace * (self._to_do + unseen)))


def _seconds_of(outcome: Outcome) -> float:
    return outcome.compile_s + outcome.verify_s + outcome.time_s if isinstance(outcome, Timed) else 0.0
