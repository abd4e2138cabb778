"""Optuna's tree-structured Parzen estimator over a grid of ranks: the only file that imports Optuna.

The study lives in memory: our own trial table is the record (a study in SQLite costs 24 ms of CPU a trial and more).
Axes are categorical even where they are ordered; with numbers TPE did worse on recorded kernel spaces.
"""

from __future__ import annotations

from collections.abc import Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)


class ParzenEstimator:
    """Proposes places in a grid and learns from observations; deterministic for a seed.

    sizes: coordinates on each axis. Before ``startup`` observations its proposals are random.
    """

    def __init__(self, sizes: Sequence[int], seed: int, startup: int) -> None:
        self._axes = [str(axis) for axis, size in enumerate(sizes)]
        self._grid: dict[str, BaseDistribution] = {
            axis: CategoricalDistribution(range(size)) for axis, size in zip(self._axes, sizes)
        }
        sampler = optuna.samplers.TPESampler(n_startup_trials=startup, seed=seed, multivariate=True, constant_liar=True)
        self._study = optuna.create_study(direction="minimize", sampler=sampler)

    def propose(self) -> list[int]:
        """Ranks worth a try. Nothing is remembered of a proposal: it need not be a point, or may be a known one."""
        trial = self._study.ask(self._grid)
        # Samplers pass over a failed trial, which is right for this one alone: nobody measured it.
        self._study.tell(trial, state=TrialState.FAIL)
        return [trial.params[axis] for axis in self._axes]

    def begin(self, ranks: Sequence[int]) -> int:
        """Says that a point is being measured; until it is told, others are proposed elsewhere. Returns its number."""
        self._study.enqueue_trial({axis: int(rank) for axis, rank in zip(self._axes, ranks)})
        return self._study.ask(self._grid).number

    def finish(self, number: int, cost: float | None) -> None:
        """Observes the cost of a point, or that it has none: worse than any cost."""
        if cost is None:
            self._study.tell(number, state=TrialState.PRUNED)
        else:
            self._study.tell(number, cost)
