"""The Gaussian process, against its definition by hand, and against costs of known roughness."""

import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from autotune.search.gaussian_process import NUGGET, USUAL_LOG_RATE, Forecast, GaussianProcess
from autotune.search.space import Space

LINE = Space({rank: {"Br": 16 << rank} for rank in range(5)})
GRID = Space({(Br, Bc): {"Br": Br, "Bc": Bc} for Br, Bc in product(range(20), range(20))})
EVERY = np.arange(5)


def test_two_observations_by_hand() -> None:
    """The rate held at the usual one."""
    process = GaussianProcess(LINE, 0)
    process._next_fit = math.inf
    forecast = process.forecast({0: 1.0, 4: math.e**2}, [], np.array([1]))
    rate = math.exp(USUAL_LOG_RATE)
    near, far, across = math.exp(-rate / 4), math.exp(-rate * 3 / 4), math.exp(-rate)
    # Heights 0 and 2 are -1 and 1 standard deviations; the matrix [[1+e, c], [c, 1+e]] has the eigenvectors (1, +-1).
    against, along = 1 + NUGGET - across, 1 + NUGGET + across
    assert forecast.mean[0] == pytest.approx(1 + (far - near) / against)
    explained = (near - far) ** 2 / (2 * against) + (near + far) ** 2 / (2 * along)
    assert forecast.deviation[0] == pytest.approx(math.sqrt((2 / against + 1) / 3 * (1 - explained)))
    assert forecast.best == pytest.approx(0) and forecast.spread == pytest.approx(1)


def test_it_passes_through_what_was_observed_and_is_surest_there() -> None:
    costs = {0: 3.0, 2: 1.0, 4: 2.0}
    forecast = GaussianProcess(LINE, 0).forecast(costs, [], EVERY)
    assert np.exp(forecast.mean[[0, 2, 4]]) == pytest.approx([3.0, 1.0, 2.0], rel=0.01)
    assert forecast.deviation[[0, 2, 4]].max() < 0.3 * forecast.deviation[[1, 3]].min()


@pytest.mark.parametrize("least", [0.0, 0.3])
def test_the_gain_is_the_mean_of_what_is_below(least: float) -> None:
    forecast = Forecast(np.array([0.5, -1.0]), np.array([1.0, 0.2]), np.ones(2), 0.0, 1.0)
    for mean, deviation, gain in zip(forecast.mean, forecast.deviation, forecast.gain(least)):
        normal = NormalDist(mean, deviation)
        drawn = [normal.inv_cdf((draw + 0.5) / 20_000) for draw in range(20_000)]
        assert gain == pytest.approx(np.maximum(-least - np.array(drawn), 0).mean(), rel=1e-3)


def test_an_axis_that_matters_is_rougher_than_one_that_does_not() -> None:
    random = np.random.default_rng(0)
    levels = random.normal(size=20)
    costs = {int(index): math.exp(levels[GRID.keys[index][0]]) for index in random.choice(400, 60, replace=False)}
    process = GaussianProcess(GRID, 0)
    process.forecast(costs, [], np.array([0]))
    assert process._log_rates[0] > process._log_rates[1] + 1


def test_costs_count_by_their_ratios() -> None:
    """Microseconds or hours: the same forecast, but for a constant."""
    costs = {0: 3.0, 2: 1.0, 4: 2.0}
    small, large = (
        GaussianProcess(LINE, 0).forecast({index: unit * cost for index, cost in costs.items()}, [], EVERY)
        for unit in (1, 3.6e9)
    )
    assert small.gain() == pytest.approx(large.gain())


def test_a_failure_is_neither_a_lure_nor_a_wall() -> None:
    costs = {0: 1.0, 1: 4.0, 2: 16.0}
    forecast = GaussianProcess(LINE, 0).forecast(costs, [4], EVERY)
    assert np.exp(forecast.mean[4]) == pytest.approx(4.0, rel=0.05)


def test_success_is_likelier_beside_successes() -> None:
    success = GaussianProcess(LINE, 0).forecast({0: 1.0, 1: 4.0}, [4], EVERY).success
    assert success[[0, 1, 4]] == pytest.approx([1.0, 1.0, 0.0], abs=0.02)
    assert 0 < success[3] < success[2] < 1


@pytest.mark.parametrize(
    ("costs", "failed"),
    [({3: 5.0}, []), ({3: 5.0}, [0, 1]), ({3: -1.0, 2: 0.0}, [1]), ({3: 1.0, 2: 1.0}, [])],
)
def test_few_equal_or_negative_costs_are_no_trouble(costs: dict[int, float], failed: list[int]) -> None:
    forecast = GaussianProcess(LINE, 0).forecast(costs, failed, EVERY)
    assert np.isfinite(forecast.mean).all() and (forecast.deviation > 0).all() and np.isfinite(forecast.gain()).all()


def test_a_space_of_one_point_in_many_places() -> None:
    space = Space({key: {"Br": 16} for key in range(3)})
    assert np.isfinite(GaussianProcess(space, 0).forecast({0: 1.0, 1: 2.0}, [], np.array([2])).mean).all()
