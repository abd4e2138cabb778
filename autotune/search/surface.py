"""A response surface: the logarithm of the cost as a quadratic function of the coordinates, fitted by least squares.

Kernel times are smooth in the logarithms of block sizes, so a few observations show where to look (the method of Box
and Wilson, 1951, on all observations at once).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.search.space import Coordinate, Indices, Mask, Space

RIDGE = 1e-3
"""Keeps the fit determined while there are fewer observations than terms; terms are of order 1."""

Floats = NDArray[np.float64]


class ResponseSurface:
    """The terms of every point of a space, worked out once."""

    def __init__(self, space: Space[Any]) -> None:
        columns = [column for axis in space.axes for column in _columns([point[axis] for point in space.points])]
        products = [one * other for index, one in enumerate(columns) for other in columns[index:]]
        self._terms = np.column_stack([np.ones(len(space.points)), *columns, *products])

    def lowest(self, costs: Mapping[int, float], failed: Sequence[int], among: Mask) -> Indices:
        """The points of ``among`` where the surface is lowest. costs: of observed points, at least one.

        A failed point stands above the highest cost by as much as that stands above the lowest.
        """
        height = np.array(list(costs.values()))
        if (height > 0).all():
            height = np.log(height)
        above = 2 * height.max() - height.min() if height.max() > height.min() else height.max() + 1
        height = np.append(height, np.full(len(failed), above))
        terms = self._terms[[*costs, *failed]]
        weights = np.linalg.solve(terms.T @ terms + RIDGE * np.eye(terms.shape[1]), terms.T @ height)
        candidates = np.flatnonzero(among)
        predicted = self._terms[candidates] @ weights
        lowest: Indices = candidates[predicted == predicted.min()]
        return lowest


def _columns(values: Sequence[Coordinate]) -> list[Floats]:
    """One column of order 1 for an ordered axis, on a logarithmic scale where it can be; 0 or 1 for each other name."""
    if isinstance(values[0], (str, bool)):
        return [np.array([value == name for value in values], np.float64) for name in sorted(set(values))[1:]]
    numbers = np.array(values, np.float64)
    if numbers.min() > 0:
        numbers = np.log(numbers)
    spread = float(numbers.std())
    return [(numbers - numbers.mean()) / spread] if spread > 0 else []
