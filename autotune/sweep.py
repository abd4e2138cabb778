"""The loop: candidates of a problem, the search that chooses one, the trial, the record, the best plan.

The store's trial table is the record. What it holds of the same fingerprint is told to the search first and counts as
tried: a sweep that was stopped goes on, and one that was finished ends at once.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from autotune.candidates import Check, candidates, coordinates, takes_more_room
from autotune.errors import CandidateError
from autotune.executor import Executor
from autotune.kernels.targets.base import Racing, Target
from autotune.outcome import BestPlan, Outcome, Rejected, Timed, Timing, Trial, outcome_to_json
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.report import Begun, Notify, Report, Result, Tried, Warned, time_us
from autotune.search.ask_tell import Search
from autotune.strategies.core_split import complete


class Store(Protocol):
    """The part of the database that a sweep uses; ``autotune.db.store.Store`` has it."""

    def record(self, trial: Trial) -> bool:
        """Keeps a trial; False where this plan has one already."""
        ...

    def trials(
        self, problem: AttentionProblem, device: str, target: str, fingerprint: str | None = None
    ) -> list[Trial]:
        """Trials in the order they were recorded."""
        ...

    def publish(self, best: BestPlan) -> bool:
        """Serves ``best`` from now on, if it is better than what is served."""
        ...


@dataclass(frozen=True)
class Effort:
    """How much to try. trials: plans for each problem, None for all. seconds: for all problems, None for no limit."""

    trials: int | None = None
    seconds: float | None = None
    seed: int = 0


Confidence = Callable[[AttentionProblem, Sequence[TilingPlan]], float | None]
"""How often the first of some plans stays the fastest of them, from 0 to 1; None where nobody can say."""

FINALISTS = 4
"""Plans, the best one included, whose order is looked at again: where times are measured, they race."""


@dataclass(frozen=True)
class Sweep:
    """One sweep with everything it needs. name: identifies it in what it records. clock: seconds.

    strategies: those that propose plans, none for all. check: see ``candidates``. confidence: see ``Confidence``.
    """

    name: str
    target: Target
    store: Store
    executor: Executor
    effort: Effort
    strategies: Sequence[str] = ()
    check: Check = lambda problem, plan: None
    confidence: Confidence = lambda problem, plans: None
    notify: Notify = lambda event: None
    clock: Callable[[], float] = time.monotonic

    def run(self, problems: Sequence[AttentionProblem]) -> Report:
        """Tunes one problem after the other; those that are left share the time that is left evenly.

        Ctrl-C ends it with what was found so far. However it leaves a problem, the best plan is published.
        Raises UnknownName, StoreError, TargetUnavailable.
        """
        end = self.clock() + (math.inf if self.effort.seconds is None else self.effort.seconds)
        results: list[Result] = []
        interrupted = False
        for number, problem in enumerate(problems, 1):
            tuning = _Tuning(self, problem)
            tuning.announce(number, len(problems))
            try:
                tuning.run((end - self.clock()) / (len(problems) - number + 1))
                tuning.settle()
            except KeyboardInterrupt:
                interrupted = True
            finally:
                results.append(tuning.conclude())
            self.notify(results[-1])
            if interrupted:
                break
        return Report(self.name, self.target.name, tuple(results), interrupted)


class _Tuning:
    """One problem of a sweep: the trials that hold at present, those of earlier sweeps too, and the search."""

    def __init__(self, sweep: Sweep, problem: AttentionProblem) -> None:
        self._sweep, self._problem, target = sweep, problem, sweep.target
        self._candidates = candidates(problem, target.hardware, sweep.strategies, sweep.check)
        points = {key: coordinates(plan) for key, plan in self._candidates.plans.items()}
        self._search = Search(points, self._candidates.first, sweep.effort.seed, takes_more_room)
        self._trials: list[Trial] = []
        self._raced: dict[str, Timing] = {}
        self._done = self._tried = 0
        for trial in sweep.store.trials(problem, target.hardware.name, target.name, target.fingerprint):
            self._learn(trial)
        self._planned = min(len(points), sweep.effort.trials or len(points))

    def announce(self, number: int, total: int) -> None:
        """Says what is about to be done, and what strategies complained of."""
        self._sweep.notify(Begun(self._problem, number, total, len(self._candidates.plans), self._done))
        for text in self._candidates.warnings:
            self._sweep.notify(Warned(text))

    def run(self, seconds: float) -> None:
        """Tries plans until enough are tried, none is left, or the seconds are over."""
        clock = self._sweep.clock
        start = clock()
        while self._done < self._planned and clock() - start < seconds:
            key = self._search.ask()
            if key is None:
                return
            trial = self._try(self._candidates.plans[key])
            left = self._seconds_left(clock() - start, seconds)
            default_us = time_us(self._default())
            self._sweep.notify(Tried(trial, self._done, self._planned, self._best(), default_us, left))

    def settle(self) -> None:
        """Where times are measured, races the fastest plans and the default: the best of many noisy times flatters."""
        target, default = self._sweep.target, self._default_trial()
        incumbent = [default.plan] if default and isinstance(default.outcome, Timed) else []
        finalists = {plan.key: plan for plan in (*incumbent, *self._fastest())}
        if not isinstance(target, Racing) or len(finalists) < 2:
            return
        # A finalist that fails now was right and fast before: what its trial said still stands.
        with suppress(CandidateError):
            completed = [complete(plan, self._problem, target.hardware) for plan in finalists.values()]
            self._raced = dict(target.race(self._problem, completed))

    def conclude(self) -> Result:
        """Publishes the best plan and sums the problem up."""
        best = self._best_plan()
        published = best is not None and self._sweep.store.publish(best)
        statuses = Counter(outcome_to_json(trial.outcome)["status"] for trial in self._trials)
        return Result(self._problem, best, self._default(), dict(statuses), self._tried, published)

    def _try(self, plan: TilingPlan) -> Trial:
        sweep, target = self._sweep, self._sweep.target
        outcome = sweep.executor.run(self._problem, plan)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        device = target.hardware.name
        trial = Trial(self._problem, device, target.name, target.fingerprint, plan, outcome, sweep.name, at)
        sweep.store.record(trial)
        self._tried += 1
        self._learn(trial)
        return trial

    def _learn(self, trial: Trial) -> None:
        """A trial of a plan that is no candidate of this sweep can still be the best one."""
        self._trials.append(trial)
        if trial.plan.key in self._candidates.plans:
            self._done += 1
            self._search.tell(trial.plan.key, time_us(trial.outcome), isinstance(trial.outcome, Rejected))

    def _seconds_left(self, spent: float, seconds: float) -> float:
        return min(seconds - spent, spent / self._tried * (self._planned - self._done))

    def _best(self) -> Trial | None:
        """The winner of the race where there was one, else the fastest trial; with the time that it had there."""
        timed = [_retimed(trial, self._raced.get(trial.plan.key)) for trial in self._timed()]
        winner = next(iter(self._raced), None)
        return min(timed, key=lambda trial: (trial.plan.key != winner, _trial_us(trial)), default=None)

    def _timed(self) -> list[Trial]:
        return [trial for trial in self._trials if isinstance(trial.outcome, Timed)]

    def _fastest(self) -> list[TilingPlan]:
        return [trial.plan for trial in sorted(self._timed(), key=_trial_us)[:FINALISTS]]

    def _stays_best(self) -> float | None:
        """The target's confidence in the best plan; not asked again where this sweep tried nothing."""
        return self._sweep.confidence(self._problem, self._fastest()) if self._tried else None

    def _default_trial(self) -> Trial | None:
        trials = (trial for trial in self._trials if trial.plan.key == self._candidates.default)
        return next(trials, None)

    def _default(self) -> Outcome | None:
        trial = self._default_trial()
        return _retimed(trial, self._raced.get(trial.plan.key)).outcome if trial else None

    def _best_plan(self) -> BestPlan | None:
        best = self._best()
        if best is None or not isinstance(best.outcome, Timed):
            return None
        return BestPlan(
            problem=best.problem,
            device=best.device,
            target=best.target,
            fingerprint=best.fingerprint,
            plan=best.plan,
            timing=replace(best.outcome.timing, stays_best=self._stays_best()),
            error=best.outcome.error,
            default_time_us=time_us(self._default()),
            trials=len(self._trials),
            sweep=best.sweep,
            measured_at=best.at,
        )


def _trial_us(trial: Trial) -> float:
    return time_us(trial.outcome) or math.inf


def _retimed(trial: Trial, timing: Timing | None) -> Trial:
    """The trial with another time, where there is one."""
    if timing is None or not isinstance(trial.outcome, Timed):
        return trial
    return replace(trial, outcome=replace(trial.outcome, timing=timing))
