"""The response surface, against costs that are such a surface."""

import math
from itertools import product

import numpy as np
import pytest

from autotune.search.space import Space
from autotune.search.surface import ResponseSurface

POINTS: dict[tuple[int, int, str], dict[str, int | str]] = {
    (Br, Bc, rule): {"Br": Br, "Bc": Bc, "rule": rule}
    for Br, Bc, rule in product((16, 32, 64, 128, 256), (16, 64, 256, 1024), ("even", "balanced"))
}
OPTIMUM = (64, 256, "balanced")


def cost(Br: int, Bc: int, rule: str) -> float:
    """100 at the optimum, rising with the square of the doublings away from it."""
    away = math.log2(Br / 64) ** 2 + math.log2(Bc / 256) ** 2 + 0.3 * math.log2(Br / 64) * math.log2(Bc / 256)
    return 100 * math.exp(0.1 * away + (0.2 if rule == "even" else 0.0))


@pytest.fixture
def space() -> Space[tuple[int, int, str]]:
    return Space(POINTS)


def observed(space: Space[tuple[int, int, str]], seed: int, count: int) -> dict[int, float]:
    """Some points other than the optimum, and their costs."""
    others = [index for index, key in enumerate(space.keys) if key != OPTIMUM]
    chosen = np.random.default_rng(seed).choice(others, count, replace=False)
    return {int(index): cost(*space.keys[index]) for index in chosen}


def lowest(space: Space[tuple[int, int, str]], costs: dict[int, float], failed: list[int]) -> list[object]:
    among = np.ones(len(space.keys), np.bool_)
    return [space.keys[index] for index in ResponseSurface(space).lowest(costs, failed, among)]


@pytest.mark.parametrize("seed", range(5))
def test_finds_the_optimum_of_a_quadratic_without_having_seen_it(space: Space[tuple[int, int, str]], seed: int) -> None:
    assert lowest(space, observed(space, seed, 25), []) == [OPTIMUM]


def test_chooses_among_what_is_asked_for(space: Space[tuple[int, int, str]]) -> None:
    among = np.array([key[0] == 256 for key in space.keys])
    [index] = ResponseSurface(space).lowest(observed(space, 0, 25), [], among)
    assert space.keys[index] == min((key for key in POINTS if key[0] == 256), key=lambda key: cost(*key))


def test_failures_push_it_away(space: Space[tuple[int, int, str]]) -> None:
    """Every balanced point that was tried failed: the best even point is lower than a balanced one."""
    costs = observed(space, 0, 39)
    failed = [index for index in costs if space.keys[index][2] == "balanced"]
    [found] = lowest(space, {index: costs[index] for index in costs if index not in failed}, failed)
    assert found == (64, 256, "even")


@pytest.mark.parametrize("costs", [{3: 5.0}, {3: -1.0, 5: 0.0}, {3: 1.0, 5: 1.0}])
def test_few_equal_or_negative_costs_are_no_trouble(
    space: Space[tuple[int, int, str]], costs: dict[int, float]
) -> None:
    assert set(lowest(space, costs, [7])) <= set(POINTS)
