"""The search asks for every point at most once, for nothing else, and better than chance."""

import math
from collections.abc import Callable
from itertools import product
from random import Random
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.search.ask_tell import Search

Points = dict[int, dict[str, int | str | bool]]
Costs = dict[int, float | None]


@st.composite
def spaces(draw: st.DrawFn) -> tuple[Points, Costs]:
    """Up to 24 points of a grid with an ordered axis and two others, some of which fail."""
    grid = list(product((16, 32, 64, 128), ("even", "balanced"), (False, True), (1, 2, 3)))
    chosen = draw(st.lists(st.sampled_from(grid), min_size=1, max_size=24))
    points: Points = {
        key: dict(zip(("Br", "rule", "double_buffer", "depth"), place)) for key, place in enumerate(chosen)
    }
    cost = st.none() | st.floats(-1e6, 1e6)
    return points, {key: draw(cost) for key in points}


def ask_all(search: Search[int], costs: Costs, budget: int = 1000) -> list[int]:
    asked: list[int] = []
    while len(asked) < budget and (key := search.ask()) is not None:
        asked.append(key)
        search.tell(key, costs[key])
    return asked


@given(spaces(), st.integers(0, 9))
def test_asks_for_each_point_once_and_for_no_other(space: tuple[Points, Costs], seed: int) -> None:
    points, costs = space
    assert sorted(ask_all(Search(points, seed=seed), costs)) == sorted(points)


@given(spaces(), st.integers(0, 9), st.data())
def test_first_points_come_first_in_their_order(space: tuple[Points, Costs], seed: int, data: st.DataObject) -> None:
    points, costs = space
    first = data.draw(st.lists(st.sampled_from(sorted(points))))
    assert ask_all(Search(points, first, seed), costs, len(set(first))) == list(dict.fromkeys(first))


@settings(max_examples=30)
@given(spaces(), st.integers(0, 9))
def test_same_seed_same_order(space: tuple[Points, Costs], seed: int) -> None:
    points, costs = space
    assert ask_all(Search(points, seed=seed), costs) == ask_all(Search(points, seed=seed), costs)


@given(spaces(), st.data())
def test_what_is_known_is_not_asked_for(space: tuple[Points, Costs], data: st.DataObject) -> None:
    points, costs = space
    known = data.draw(st.sets(st.sampled_from(sorted(points))))
    search = Search(points, first=sorted(points))
    for key in sorted(known):
        search.tell(key, costs[key])
    assert ask_all(search, costs) == sorted(set(points) - known)


@given(spaces(), st.integers(1, 5))
def test_several_points_may_be_out_at_once(space: tuple[Points, Costs], workers: int) -> None:
    points, costs = space
    search, out, asked = Search(points), [], []
    while (key := search.ask()) is not None:
        asked.append(key)
        out.append(key)
        if len(out) == workers:
            done = out.pop(0)
            search.tell(done, costs[done])
    assert sorted(asked) == sorted(points)


def line(count: int) -> Points:
    return {key: {"Br": 16 * (key + 1)} for key in range(count)}


def test_an_overflow_rules_larger_points_out() -> None:
    search = Search(line(20), [7], rules_out=lambda failed, other: other["Br"] > failed["Br"])  # type: ignore[operator]
    assert search.ask() == 7
    search.tell(7, None, overflowed=True)
    assert sorted(ask_all(search, dict.fromkeys(range(20), 1.0))) == list(range(7))


def test_a_point_that_was_ruled_out_may_still_be_known() -> None:
    """Another search measured it all the same."""
    search = Search(line(5), rules_out=lambda failed, other: True)
    search.tell(3, None, overflowed=True)
    search.tell(4, 1.0)
    assert search.ask() is None


def test_a_failure_for_another_reason_rules_nothing_out() -> None:
    search = Search(line(20), [7], rules_out=lambda failed, other: True)
    assert search.ask() == 7
    search.tell(7, None)
    assert len(ask_all(search, dict.fromkeys(range(20), 1.0))) == 19


def test_failures_are_avoided() -> None:
    """Half of the space fails; a search that learns nothing from it would spend half of its budget there."""
    failed = []
    for seed in range(8):
        levels = Random(seed)
        rows, columns = [levels.random() for _ in range(20)], [levels.random() for _ in range(20)]
        points: Points = {
            key: {"Br": Br, "rule": rule, "Bc": Bc}
            for key, (Br, rule, Bc) in enumerate(product(range(20), ("even", "balanced"), range(20)))
        }
        costs: Costs = {
            key: None if point["rule"] == "even" else 1 + rows[int(point["Br"])] * columns[int(point["Bc"])]
            for key, point in points.items()
        }
        failed.append(sum(costs[key] is None for key in ask_all(Search(points, seed=seed), costs, 40)[20:]))
    assert mean(failed) < 5


def test_a_search_with_nothing_but_failures_goes_on() -> None:
    assert len(ask_all(Search(line(30)), dict.fromkeys(range(30), None))) == 30


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Search({}), "at least one point"),
        (lambda: Search({0: {"Br": 16}, 1: {"Bc": 16}}), "same axes"),
        (lambda: Search(line(3), first=[5]), "5 is no point"),
        (lambda: Search(line(3)).tell(5, 1.0), "5 is no point"),
        (lambda: Search(line(3)).tell(1, math.nan), "cost of 1 is nan"),
        (lambda: told_twice(Search(line(3))), "1 was told already"),
    ],
)
def test_misuse_is_refused(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def told_twice(search: Search[int]) -> None:
    search.tell(1, 1.0)
    search.tell(1, 1.0)


def bowl(seed: int) -> tuple[Points, Costs]:
    """200 points of a grid, a third of them cut out, with a valley somewhere, a preferred rule and some noise."""
    random = Random(seed)
    grid = list(product((16, 32, 64, 128, 256, 512), (16, 32, 64, 96, 128, 192, 256, 384, 512), "abcde"))
    points: Points = {key: dict(zip(("Br", "Bc", "rule"), place)) for key, place in enumerate(random.sample(grid, 200))}
    best_Br, best_Bc = random.uniform(4, 9), random.uniform(4, 9)
    rules = {rule: random.random() for rule in "abcde"}

    def cost(point: dict[str, int | str | bool]) -> float:
        valley = abs(math.log2(int(point["Br"])) - best_Br) + abs(math.log2(int(point["Bc"])) - best_Bc)
        return 1 + 0.5 * valley + 0.5 * rules[str(point["rule"])] + 0.1 * random.random()

    return points, {key: cost(point) for key, point in points.items()}


def test_better_than_chance_with_40_of_200_points() -> None:
    """Mean share of the optimum over 10 spaces; chance takes 40 points without replacement."""
    found, by_chance = [], []
    for seed in range(10):
        points, costs = bowl(seed)
        times = {key: float(cost) for key, cost in costs.items() if cost is not None}
        optimum = min(times.values())
        found.append(optimum / min(times[key] for key in ask_all(Search(points, seed=seed), costs, 40)))
        by_chance.append(optimum / min(times[key] for key in Random(seed).sample(sorted(points), 40)))
    assert mean(found) > mean(by_chance) + 0.03
    assert mean(found) > 0.97
