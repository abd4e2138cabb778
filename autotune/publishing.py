"""What a sweep serves of a problem, from its first good plan to its last word.

The best plan so far is served as soon as it is known, so that a sweep which is killed leaves it; marked as unfinished,
so that the problem stays wanted. The last word has all the evidence, and says that the sweep is through.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from autotune.kernels.targets.base import Racing, Target
from autotune.outcome import BestPlan, Trial
from autotune.problem import AttentionProblem


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

    def best(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """What is served."""
        ...

    def publish(self, best: BestPlan, over: int | None = None) -> bool:
        """Serves ``best`` from now on, if it is better than what is served, or in place of the revision ``over``."""
        ...


class Publisher:
    """Publishes plans of one problem. published: whether one of them was better than what was served before."""

    def __init__(self, store: Store, target: Target, problem: AttentionProblem) -> None:
        self._store, self._target, self._problem = store, target, problem
        before = self._best()
        self._was_finished = before is not None and before.finished
        self.published = False

    def served(self) -> BestPlan | None:
        """What is served, where it is of the target's fingerprint."""
        best = self._best()
        return best if best and best.fingerprint == self._target.fingerprint else None

    def so_far(self, best: BestPlan) -> None:
        """Serves the best plan of a sweep that goes on. One measured time may be luck: it replaces no last word."""
        served = self.served()
        if isinstance(self._target, Racing) and served and served.finished:
            return
        self.published |= self._store.publish(replace(best, finished=self._was_finished))

    def last_word(self, best: BestPlan, raced: Collection[str]) -> None:
        """Serves the best plan with its evidence; raced: keys of the plans that have lost a race to it, and its own."""
        served = self.served()
        if served is None or served.plan.key != best.plan.key:
            beaten = served.revision if served and served.plan.key in raced else None
            self.published |= self._store.publish(best, beaten)
        elif self.published or (best.finished and not served.finished):
            self._store.publish(best, served.revision)

    def _best(self) -> BestPlan | None:
        return self._store.best(self._problem, self._target.hardware.name, self._target.name)


def finish(store: Store, best: BestPlan) -> None:
    """Says that a sweep is through with a problem whose best plan it published before."""
    served = store.best(best.problem, best.device, best.target)
    if served and not served.finished and (served.plan.key, served.fingerprint) == (best.plan.key, best.fingerprint):
        store.publish(replace(served, trials=best.trials, finished=True), served.revision)
