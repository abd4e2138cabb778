"""One problem of a sweep: its candidates, the search that chooses among them, and what became of those tried.

The search asks ``window`` trials ahead, and is told outcomes in the order in which it asked, in whatever order they
arrive: so what is tried depends on the seed and the window, and not on how many trials run at once.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from autotune.candidates import Check, candidates, coordinates, takes_more_room
from autotune.errors import CandidateError
from autotune.executor import Executor
from autotune.kernels.targets.base import Racing, Target
from autotune.outcome import BestPlan, Outcome, Rejected, Timed, Timing, Trial, outcome_to_json
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.publishing import Publisher, Store
from autotune.report import Result, time_us
from autotune.search.ask_tell import Search

Confidence = Callable[[AttentionProblem, Sequence[TilingPlan]], float | None]
"""How often the first of some plans stays the fastest of them, from 0 to 1; None where nobody can say."""

FINALISTS = 4
"""Plans, the best one included, whose order is looked at again: where times are measured, they race."""


@dataclass(frozen=True)
class Effort:
    """How much to try. trials: plans for each problem, None for all. seconds: for all problems, None for no limit."""

    trials: int | None = None
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Terms:
    """What the problems of a sweep share. name: identifies the sweep in what it records. window: see above.

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
    window: int = 1


class Tuning:
    """The trials of a problem that hold at present, those of earlier sweeps too, and those that are wanted.

    candidates: plans that may be tried. planned: how many of them are to be. warnings: what strategies complained of.
    proposed: how many strategies propose, the default first. known: how many earlier sweeps tried; tried: how many this
    one did. Raises UnknownName, StoreError.
    """

    def __init__(self, terms: Terms, problem: AttentionProblem) -> None:
        self.problem = problem
        self._terms, target = terms, terms.target
        found = candidates(problem, target.hardware, terms.strategies, terms.check)
        self.candidates, self.warnings, self.proposed = found.plans, found.warnings, len(found.first)
        self._default = found.default
        points = {key: coordinates(plan) for key, plan in found.plans.items()}
        self._search = Search(points, found.first, terms.effort.seed, takes_more_room)
        self.trials: dict[str, Trial] = {}
        self._asked: dict[str, int] = {}
        self._ready: deque[str] = deque()
        self._untold: deque[str] = deque()
        self._raced: dict[str, Timing] = {}
        self._publisher = Publisher(terms.store, target, problem)
        self.known = self.tried = 0
        for trial in terms.store.trials(problem, target.hardware.name, target.name, target.fingerprint):
            self.trials[trial.plan.key] = trial
            if trial.plan.key in points:
                self.known += 1
                self._tell(trial.plan.key)
        self.planned = min(len(points), terms.effort.trials or len(points))
        self._goal = self.known

    @property
    def done(self) -> int:
        """Candidates tried, known ones too."""
        return self.known + self.tried

    @property
    def over(self) -> bool:
        """Whether all that ``go_on`` wanted is done."""
        return not self._untold

    @property
    def complete(self) -> bool:
        """Whether nothing is left to try, or enough was tried."""
        return self.over and (self.done >= self.planned or self.done < self._goal)

    def go_on(self, trials: int | None) -> None:
        """Wants so many trials more, all that are planned for None."""
        self._goal = self.planned if trials is None else min(self.planned, self.done + trials)
        while len(self._untold) < self._terms.window and self._ask():
            pass

    def next(self) -> TilingPlan | None:
        """A plan to try now; None where there is none before an outcome arrives."""
        return self.candidates[self._ready.popleft()] if self._ready else None

    def receive(self, plan: TilingPlan, outcome: Outcome) -> Trial:
        """Records what became of a plan."""
        terms, target = self._terms, self._terms.target
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        device = target.hardware.name
        trial = Trial(self.problem, device, target.name, target.fingerprint, plan, outcome, terms.name, at)
        terms.store.record(trial)
        self.tried += 1
        self.trials[plan.key] = trial
        while self._untold and self._untold[0] in self.trials:
            self._tell(self._untold.popleft())
            self._ask()
        if self.best() is trial:
            self._publisher.so_far(self._best_plan(trial, finished=False))
        return trial

    def settle(self) -> None:
        """Where times are measured, races the fastest plans and the default: the best of many noisy times flatters.

        What is served keeps its place in a tie, the default where nothing is.
        """
        served = self._publisher.served()
        keys = [served.plan.key, self._default] if served and served.finished else [self._default]
        standing = [self.trials[key] for key in keys if key in self.trials]
        incumbents = [trial.plan for trial in standing if isinstance(trial.outcome, Timed)]
        finalists = {plan.key: plan for plan in (*incumbents, *self._fastest())}
        if not isinstance(self._terms.target, Racing) or len(finalists) < 2:
            return
        # A finalist that fails now was right and fast before: what its trial said still stands.
        with suppress(CandidateError):
            self._raced = dict(self._terms.executor.race(self.problem, list(finalists.values())))

    def conclude(self, finished: bool) -> Result:
        """Publishes the best plan and sums the problem up; finished: whether the sweep is through with it."""
        trial, best = self.best(), None
        if trial:
            best = self._best_plan(trial, finished, self._stays_best(trial, finished))
            self._publisher.last_word(best, self._raced)
        statuses = Counter(outcome_to_json(trial.outcome)["status"] for trial in self.trials.values())
        return Result(self.problem, best, self.default(), dict(statuses), self.tried, self._publisher.published)

    def best(self) -> Trial | None:
        """The winner of the race where there was one, else the fastest trial; with the time that it had there."""
        timed = [_retimed(trial, self._raced.get(trial.plan.key)) for trial in self._timed()]
        winner = next(iter(self._raced), None)
        return min(timed, key=lambda trial: (trial.plan.key != winner, *self._rank(trial)), default=None)

    def default(self) -> Outcome | None:
        """What became of the default plan; None where it was not tried."""
        trial = self._default_trial()
        return _retimed(trial, self._raced.get(trial.plan.key)).outcome if trial else None

    def _ask(self) -> bool:
        key = self._search.ask() if self.known + len(self._asked) < self._goal else None
        if key is None:
            return False
        self._asked[key] = len(self._asked)
        self._ready.append(key)
        self._untold.append(key)
        return True

    def _tell(self, key: str) -> None:
        outcome = self.trials[key].outcome
        self._search.tell(key, time_us(outcome), isinstance(outcome, Rejected))

    def _timed(self) -> list[Trial]:
        return [trial for trial in self.trials.values() if isinstance(trial.outcome, Timed)]

    def _rank(self, trial: Trial) -> tuple[float, int]:
        """Faster first; of equally fast ones that which was known or asked for first, whenever it was done."""
        return time_us(trial.outcome) or math.inf, self._asked.get(trial.plan.key, -1)

    def _fastest(self) -> list[TilingPlan]:
        return [trial.plan for trial in sorted(self._timed(), key=self._rank)[:FINALISTS]]

    def _stays_best(self, best: Trial, finished: bool) -> float | None:
        """The target's confidence in the best plan; that which is served, where nothing new is known of the plan."""
        served = self._publisher.served()
        known = served.timing.stays_best if served and served.plan.key == best.plan.key else None
        if not self.tried or (known is not None and not finished):
            return known
        return self._terms.confidence(self.problem, self._fastest())

    def _default_trial(self) -> Trial | None:
        return self.trials.get(self._default)

    def _best_plan(self, best: Trial, finished: bool, stays_best: float | None = None) -> BestPlan:
        if not isinstance(best.outcome, Timed):
            raise TypeError(f"the best trial has no time: {best}")
        return BestPlan(
            problem=best.problem,
            device=best.device,
            target=best.target,
            fingerprint=best.fingerprint,
            plan=best.plan,
            timing=replace(best.outcome.timing, stays_best=stays_best),
            error=best.outcome.error,
            default_time_us=time_us(self.default()),
            trials=len(self.trials),
            sweep=best.sweep,
            measured_at=best.at,
            finished=finished,
        )


def _retimed(trial: Trial, timing: Timing | None) -> Trial:
    """The trial with another time, where there is one."""
    if timing is None or not isinstance(trial.outcome, Timed):
        return trial
    return replace(trial, outcome=replace(trial.outcome, timing=timing))
