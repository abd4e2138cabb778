"""Distances in a space, against distances worked out by hand."""

import numpy as np
import pytest

from autotune.search.space import Space

POINTS: dict[str, dict[str, int | str]] = {
    "small": {"Br": 16, "rule": "even"},
    "middle": {"Br": 64, "rule": "even"},
    "other": {"Br": 64, "rule": "balanced"},
    "large": {"Br": 512, "rule": "even"},
}


@pytest.fixture
def space() -> Space[str]:
    return Space(POINTS)


def names(space: Space[str], indices: np.ndarray) -> list[str]:
    return [space.keys[index] for index in indices]


def place(Br_rank: int, rule_rank: int) -> np.ndarray:
    return np.array([Br_rank, rule_rank])


EVERY = np.ones(4, np.bool_)


def test_ranks_are_positions_among_the_coordinates_that_occur(space: Space[str]) -> None:
    assert space.sizes == (3, 2)
    assert space.ranks.tolist() == [[0, 1], [1, 1], [1, 0], [2, 1]]


@pytest.mark.parametrize(
    ("ranks", "nearest"),
    [
        (place(0, 1), ["small"]),
        (place(0, 0), ["other"]),  # half the length of Br, against a whole rule
        (place(2, 0), ["other"]),
    ],
)
def test_nearest(space: Space[str], ranks: np.ndarray, nearest: list[str]) -> None:
    assert names(space, space.nearest(ranks, EVERY)) == nearest


def test_nearest_of_some(space: Space[str]) -> None:
    among = np.array([True, False, False, True])
    assert names(space, space.nearest(place(1, 1), among)) == ["small", "large"]


def test_one_axis_away(space: Space[str]) -> None:
    assert names(space, space.one_axis_away(space.index["small"])) == ["middle", "large"]
    assert names(space, space.one_axis_away(space.index["middle"])) == ["small", "other", "large"]
    assert names(space, space.one_axis_away(space.index["other"])) == ["middle"]


def test_distances_are_sums_of_axes_of_length_one(space: Space[str]) -> None:
    assert space.distance(space.places[:2], space.places) == pytest.approx(
        np.array([[0.0, 0.5, 1.5, 1.0], [0.5, 0.0, 1.0, 0.5]])
    )


def test_an_axis_counts_as_often_as_it_is_told_to(space: Space[str]) -> None:
    rates = np.array([4.0, 3.0])
    assert space.distance(space.places[:1], space.places, rates).tolist() == [[0.0, 2.0, 5.0, 4.0]]


def test_an_axis_with_one_coordinate_costs_no_distance() -> None:
    space = Space({"one": {"Br": 16, "Bc": 64}, "two": {"Br": 32, "Bc": 64}})
    assert names(space, space.nearest(np.array([1, 0]), np.array([True, True]))) == ["two"]
