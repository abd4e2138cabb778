"""A finite set of points in a grid of named axes: where they lie, which are near, which differ in one thing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Key = TypeVar("Key", bound=Hashable)
Coordinate: TypeAlias = int | float | str | bool
Point: TypeAlias = Mapping[str, Coordinate]
"""Axis name to coordinate. Numbers are ordered; names and truth values are merely different or the same."""
Ranks: TypeAlias = NDArray[np.int64]
"""Per axis, the position of a coordinate among all that occur on this axis."""
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]


class Space(Generic[Key]):
    """The points by index, in the order given. Two points may share their coordinates. Raises ValueError.

    ranks: (points, axes). sizes: coordinates that occur on each axis. places: (points, columns), where the sum of the
    absolute differences of two points is their distance; each column belongs to one axis, ``axis_of`` (columns). An
    ordered axis counts from 0 for the same coordinate to 1 for its two ends, by rank; any other axis 0 or 1.
    """

    def __init__(self, points: Mapping[Key, Point]) -> None:
        if not points:
            raise ValueError("a space needs at least one point")
        self.points = tuple(points.values())
        self.keys = tuple(points)
        self.index = {key: index for index, key in enumerate(self.keys)}
        self.axes = tuple(self.points[0])
        if any(tuple(point) != self.axes for point in self.points):
            raise ValueError(f"every point needs the same axes: {', '.join(self.axes)}")
        values = [sorted({point[axis] for point in self.points}) for axis in self.axes]
        self.sizes = tuple(len(found) for found in values)
        ranks = [{value: rank for rank, value in enumerate(found)} for found in values]
        self.ranks: Ranks = np.array(
            [[rank[point[axis]] for axis, rank in zip(self.axes, ranks)] for point in self.points], np.int64
        )
        self._ordered = [not isinstance(found[0], (str, bool)) for found in values]
        self.places = self._embedded(self.ranks)
        self.axis_of: Indices = np.repeat(
            np.arange(len(self.axes)), [1 if ordered else size for size, ordered in zip(self.sizes, self._ordered)]
        )
        self._neighbours: dict[int, Indices] = {}

    def nearest(self, ranks: Ranks, among: Mask) -> Indices:
        """The points of ``among`` (not empty) that are nearest to a place in the grid, which need not be a point."""
        candidates = np.flatnonzero(among)
        distance = self.distance(self.places[candidates], self._embedded(ranks[None]))[:, 0]
        nearest: Indices = candidates[distance <= distance.min() + 1e-9]
        return nearest

    def one_axis_away(self, index: int) -> Indices:
        """The points that differ from a point on exactly one axis."""
        if index not in self._neighbours:
            self._neighbours[index] = np.flatnonzero((self.ranks != self.ranks[index]).sum(axis=1) == 1)
        return self._neighbours[index]

    def distance(self, places: Floats, others: Floats, rates: Floats | None = None) -> Floats:
        """Distances (places, others); each axis counts ``rates`` (axes) times, once by default."""
        weights = np.ones(len(self.axis_of)) if rates is None else rates[self.axis_of]
        total = np.zeros((len(places), len(others)))
        for column, weight in enumerate(weights):
            total += weight * np.abs(places[:, column, None] - others[:, column])
        return total

    def _embedded(self, ranks: Ranks) -> Floats:
        """Places of (rows, axes) ranks; a name is half a step from nowhere, so that two are one step apart."""
        columns = [
            ranks[:, axis, None] / max(size - 1, 1) if ordered else 0.5 * (ranks[:, axis, None] == np.arange(size))
            for axis, (size, ordered) in enumerate(zip(self.sizes, self._ordered))
        ]
        return np.concatenate(columns, axis=1)
