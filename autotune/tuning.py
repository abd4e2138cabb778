"""One problem of a sweep: its candidates, the search that chooses among them, and what became of those tried.

The search asks ``window`` trials ahead, and is told outcomes in the order in which it asked, in whatever order they
arrive: so what is tried depends on the seed and the window, and not on how many trials run at once.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.candidates import Check, candidates, coordinates, takes_more_room
from autotune.executor import Executor
from autotune.kernels.targets.base import Racing, Target
from autotune.outcome import BestPlan, Outcome, Rejected, Timed, Timing, Trial, outcome_to_json
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.publishing import Publisher, Store
from autotune.report import Result, time_us
from autotune.search.ask_tell import Search

FINALISTS = 4
"""Plans, the best one included, that the target is asked how sure their order is."""
RACERS = 8
"""Plans that race where times are measured: the best may be some places down, as far as a trial's noise reaches."""


@dataclass(frozen=True)
class Effort:
    """How much to try. trials: plans for each problem, None for all. seconds: for all problems, None for no limit."""

    trials: int | None = None
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Terms:
    """What the problems of a sweep share. name: identifies the sweep in what it records. window: see above.

    strategies: those that propose plans, none for all. check: see ``candidates``.
    """

    name: str
    target: Target
    store: Store
    executor: Executor
    effort: Effort
    strategies: Sequence[str] = ()
    check: Check = lambda problem, plan: None
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

    def finalists(self) -> list[TilingPlan]:
        """Where times are measured, what has to race: the best of many noisy times flatters. Else, or for one, none.

        What is served comes first and keeps its place in a tie; the default where nothing is.
        """
        served = self._publisher.served()
        keys = [served.plan.key, self._default] if served and served.finished else [self._default]
        standing = [self.trials[key] for key in keys if key in self.trials]
        incumbents = [trial.plan for trial in standing if isinstance(trial.outcome, Timed)]
        plans = list({plan.key: plan for plan in (*incumbents, *self._fastest(RACERS))}.values())
        return plans if isinstance(self._terms.target, Racing) and self.tried and len(plans) > 1 else []

    def race_ended(self, times: Mapping[str, Timing]) -> None:
        """times: of the finalists by key, the winner first."""
        self._raced = dict(times)

    def doubtful(self, finished: bool) -> list[TilingPlan]:
        """The fastest plans, where it is not known yet how sure the first of them is; else none."""
        known = self._known_to_stay() is not None and not finished
        return self._fastest(FINALISTS) if self.tried and not known else []

    def conclude(self, finished: bool, stays_best: float | None = None) -> Result:
        """Publishes the best plan and sums the problem up; finished: whether the sweep is through with it."""
        trial, best = self.best(), None
        if trial:
            sure = self._known_to_stay() if stays_best is None else stays_best
            best = self._best_plan(trial, finished, sure)
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

    def _fastest(self, count: int) -> list[TilingPlan]:
        return [trial.plan for trial in sorted(self._timed(), key=self._rank)[:count]]

    def _known_to_stay(self) -> float | None:
        """What is known of the best plan because it is served."""
        served, best = self._publisher.served(), self.best()
        return served.timing.stays_best if served and best and served.plan.key == best.plan.key else None

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
