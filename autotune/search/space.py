"""A finite set of points in a grid of named axes: which are near, which differ in one thing."""

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


class Space(Generic[Key]):
    """The points by index, in the order given. Two points may share their coordinates. Raises ValueError.

    ranks: (points, axes). sizes: coordinates that occur on each axis.
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
        ordered = [not isinstance(found[0], (str, bool)) for found in values]
        self._unit = np.array([size - 1 if is_ordered else 0 for size, is_ordered in zip(self.sizes, ordered)])

    def nearest(self, ranks: Ranks, among: Mask) -> Indices:
        """The points of ``among`` (not empty) that are nearest to a place in the grid, which need not be a point.

        An ordered axis counts from 0 for the same coordinate to 1 for its two ends, any other axis 0 or 1.
        """
        candidates = np.flatnonzero(among)
        steps = self._steps(candidates, ranks)
        distance = np.where(self._unit > 0, steps / np.maximum(self._unit, 1), steps > 0).sum(axis=1)
        nearest: Indices = candidates[distance == distance.min()]
        return nearest

    def one_axis_away(self, index: int, among: Mask) -> tuple[Indices, Ranks]:
        """The points of ``among`` that differ from a point on exactly one axis, and by how many steps.

        One step leads to the next coordinate of an ordered axis, or to any other of an axis without order.
        """
        candidates = np.flatnonzero(among)
        steps = self._steps(candidates, self.ranks[index])
        alone = (steps > 0).sum(axis=1) == 1
        return candidates[alone], np.where(self._unit > 0, steps, steps > 0)[alone].sum(axis=1)

    def _steps(self, candidates: Indices, ranks: Ranks) -> Ranks:
        steps: Ranks = np.abs(self.ranks[candidates] - ranks)
        return steps
