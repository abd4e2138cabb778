"""A Gaussian process over the points: what the cost of each is expected to be, and how sure that is.

The logarithm of the cost is normal at every point, and the correlation of two points falls with the exponential of
their distance, each axis at a rate of its own: the rougher the cost is along an axis, the higher its rate (Rasmussen
and Williams, Gaussian Processes for Machine Learning, 2006, sections 2.2, 4.2 and 5.4). Such a surface is continuous
but has corners, as the times of kernels have. The next point is the one with the largest expected improvement (Jones,
Schonlau and Welch, 1998).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from autotune.search.space import Floats, Indices, Space

NUGGET = 1e-3
"""Share of the variance that is noise; keeps the correlations invertible where points share their coordinates."""
USUAL_LOG_RATE = -1.0
"""Of every axis while nothing is known: its two ends are correlated by exp(-exp(-1)) = 0.69."""
SPREAD_OF_LOG_RATES = 1.0
"""Standard deviation of the prior of the logarithms of the rates."""
STEPS = 20
"""Changes of one rate that a fit tries."""
GROWTH = 1.25
"""The rates are fitted again when there are so many times more observations."""
LEAST_UNEXPLAINED = 1e-10
LEAST_SUCCESS = 0.01
"""No point is given up."""


class Forecast(NamedTuple):
    """Of some points, by what they were observed near, in units of the logarithm of the cost.

    mean, deviation: (points,) of the normal distribution. success: (points,) how likely it is that a point does not
    fail. best: the lowest observation. spread: standard deviation of the observations.
    """

    mean: Floats
    deviation: Floats
    success: Floats
    best: float
    spread: float

    def gain(self, least: float = 0.0) -> Floats:
        """(points,) how far below ``best`` less ``least`` each is expected to be, 0 where it is above."""
        below = self.best - least - self.mean
        score = below / self.deviation
        return below * _normal(score) + self.deviation * np.exp(-score * score / 2) / math.sqrt(2 * math.pi)


class GaussianProcess:
    """Learns the rates of its axes as observations come; deterministic for a seed and what it is asked."""

    def __init__(self, space: Space[Any], seed: int) -> None:
        self._space = space
        self._random = np.random.default_rng(seed)
        self._log_rates = np.full(len(space.axes), USUAL_LOG_RATE)
        self._free = np.flatnonzero(np.array(space.sizes) > 1)
        self._next_fit = 0.0

    def forecast(self, costs: Mapping[int, float], failed: Sequence[int], candidates: Indices) -> Forecast:
        """Of ``candidates``. costs: of observed points, at least one.

        Costs count by their logarithm where all are above 0, otherwise as they are; a failed point as the mean of them.
        Worse, and a failure would hide the good points beside it: the fastest kernels are those that nearly do not fit.
        """
        known = np.array(list(costs.values()))
        if (known > 0).all():
            known = np.log(known)
        heights = np.append(known, np.full(len(failed), known.mean()))
        share = len(costs) / len(heights)
        successes = (np.arange(len(heights)) < len(costs)) - share
        mean, spread = float(known.mean()), float(heights.std())
        heights = (heights - mean) / (spread or 1.0)
        places = self._space.places[[*costs, *failed]]
        if len(heights) >= self._next_fit:
            self._fit(places, heights)
            self._next_fit = len(heights) * GROWTH
        rates = np.exp(self._log_rates)
        inverse = np.linalg.inv(np.exp(-self._space.distance(places, places, rates)) + NUGGET * np.eye(len(heights)))
        near = np.exp(-self._space.distance(self._space.places[candidates], places, rates))
        weights = inverse @ heights
        # As if one more observation had the usual variance: few, or all alike, may not make it 0.
        variance = (float(heights @ weights) + 1) / (len(heights) + 1)
        unexplained = np.maximum(1 - ((near @ inverse) * near).sum(axis=1), LEAST_UNEXPLAINED)
        return Forecast(
            mean + (spread or 1.0) * (near @ weights),
            (spread or 1.0) * np.sqrt(variance * unexplained),
            np.clip(share + near @ (inverse @ successes), LEAST_SUCCESS, 1.0),
            float(known.min()),
            spread,
        )

    def _fit(self, places: Floats, heights: Floats) -> None:
        """A random walk, one rate at a time, that keeps what makes the observations and the rates more likely."""
        if not self._free.size:
            return
        by_axis = np.stack(
            [self._space.distance(places, places, unit) for unit in np.eye(len(self._space.axes))[self._free]], axis=-1
        )
        log_rates = self._log_rates[self._free]
        least = _unlikelihood(by_axis, heights, log_rates)
        for _ in range(STEPS):
            changed = log_rates.copy()
            changed[self._random.integers(len(changed))] += self._random.normal()
            found = _unlikelihood(by_axis, heights, changed)
            if found < least:
                least, log_rates = found, changed
        self._log_rates[self._free] = log_rates


def _unlikelihood(by_axis: Floats, heights: Floats, log_rates: Floats) -> float:
    """Minus the logarithm of the likelihood, its variance the most likely one, and of the rates' prior."""
    factor = np.linalg.cholesky(np.exp(-(by_axis @ np.exp(log_rates))) + NUGGET * np.eye(len(heights)))
    residual = np.linalg.solve(factor, heights)
    spread = float(((log_rates - USUAL_LOG_RATE) ** 2).sum()) / (2 * SPREAD_OF_LOG_RATES**2)
    variance = max(float(residual @ residual) / len(heights), LEAST_UNEXPLAINED)
    return len(heights) / 2 * math.log(variance) + float(np.log(np.diag(factor)).sum()) + spread


def _normal(score: Floats) -> Floats:
    """The cumulative distribution of the standard normal."""
    return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in score.tolist()])
