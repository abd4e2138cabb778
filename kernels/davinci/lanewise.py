"""What instructions compute that combine the lanes of a repeat: reductions, comparisons, selections.

Operands arrive as [repeats, blocks, lanes a block]; ``active`` says which lanes take part, None where all do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import OutOfBounds
from autotune.kernels.davinci.half import HALF_MAX, round_half
from autotune.kernels.davinci.semantics import Array, Compute, wide


def _flat_lanes(a: Array, active: Array | None, neutral: Any) -> Array:
    """[repeats, lanes] from [repeats, blocks, lanes a block]; lanes that are not active hold ``neutral``."""
    values = wide(a)
    if active is not None:
        values = np.where(active, values, values.dtype.type(neutral))
    return values.reshape(values.shape[0], -1)


def tree_sum(values: Array, half: bool, saturate: bool) -> Array:
    """Sums along the last axis by a binary tree of adjacent pairs, each addition rounded to the type: [..., 1]."""
    while values.shape[-1] > 1:
        if values.shape[-1] % 2:
            values = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
        values = values[..., 0::2] + values[..., 1::2]
        if half:
            values = round_half(np.ascontiguousarray(values), saturate)
    return values


def repeat_sum(a: Array, half: bool, saturate: bool, active: Array | None = None) -> Array:
    """One sum a repeat."""
    return tree_sum(_flat_lanes(a, active, 0), half, saturate)


def total_sum(a: Array, half: bool, saturate: bool, active: Array | None = None) -> Array:
    """The sum of all repeats: a tree in each repeat, then a tree over the repeats (tik_api.md 2.11)."""
    return tree_sum(repeat_sum(a, half, saturate, active)[:, 0], half, saturate)


def block_sum(a: Array, half: bool, saturate: bool, active: Array | None = None) -> Array:
    """One sum a block."""
    lanes = _flat_lanes(a, active, 0).reshape(a.shape)
    return tree_sum(lanes, half, saturate)


def pair_sum(a: Array, active: Array | None = None) -> Array:
    """Sums of adjacent pairs."""
    values = _flat_lanes(a, active, 0).reshape(a.shape)
    return values[..., 0::2] + values[..., 1::2]


def block_extreme(largest: bool) -> Compute:
    """One largest or smallest element a block; a block without active lanes gives the other end of the type."""

    def compute(a: Array, half: bool, active: Array | None = None) -> Array:
        values = _flat_lanes(a, active, _end(largest, half)).reshape(a.shape)
        return values.max(-1, keepdims=True) if largest else values.min(-1, keepdims=True)

    return compute


def _end(largest: bool, half: bool) -> float:
    most = HALF_MAX if half else float(np.finfo(np.float32).max)
    return -most if largest else most


def repeat_extreme(largest: bool) -> Compute:
    """Per repeat the largest or smallest element and its lane, the first of equals: [repeats, 2]."""

    def compute(a: Array, half: bool, index_first: bool, active: Array | None = None) -> Array:
        values = _flat_lanes(a, active, -np.inf if largest else np.inf)
        lane = values.argmax(1) if largest else values.argmin(1)
        pair = [np.take_along_axis(values, lane[:, None], 1)[:, 0], index_as_float(lane, half)]
        return np.stack(pair[::-1] if index_first else pair, axis=1)

    return compute


def total_extreme(largest: bool) -> Compute:
    """The largest or smallest element of all repeats and, where ``step`` is given, its place in the source."""

    def compute(a: Array, half: bool, step: int | None, active: Array | None = None) -> Array:
        values = _flat_lanes(a, active, -np.inf if largest else np.inf)
        place = int(values.argmax() if largest else values.argmin())
        repeat, lane = divmod(place, values.shape[1])
        value = values[repeat, lane]
        return value if step is None else np.array([value, index_as_float(np.array(repeat * step + lane), half)])

    return compute


def index_as_float(index: Array, half: bool) -> Array:
    """The float32 value of the float number whose bits are the index, as vcmax and its kin store it."""
    return wide(index.astype(np.uint16).view(np.float16) if half else index.astype(np.uint32).view(np.float32))


def compare(operation: Compute) -> Compute:
    """One bit a lane, the first lane in the lowest bit: [repeats, lanes / 8] bytes."""

    def compute(a: Array, b: Array) -> Array:
        return np.packbits(operation(a, b).reshape(a.shape[0], -1), axis=1, bitorder="little")

    return compute


def compare_masked(operation: Compute) -> Compute:
    """The 128 bits of a comparison of one repeat; lanes that are not active give 0."""

    def compute(a: Array, b: Array, active: Array | None = None) -> Array:
        holds = operation(a, b) if active is None else operation(a, b) & active
        bits = np.packbits(holds.reshape(1, -1), axis=1, bitorder="little")
        return np.pad(bits, ((0, 0), (0, 16 - bits.shape[1])))

    return compute


def select(bits: Array, a: Array, b: Any) -> Array:
    """a where the lane's bit is 1, else b."""
    chosen = np.unpackbits(np.ascontiguousarray(bits), axis=1, bitorder="little").astype(bool)
    chosen = chosen[:, : a[0].size]
    return np.where(chosen.reshape(a.shape), wide(a), wide(b) if isinstance(b, np.ndarray) else b)


PATTERNS = {1: (2, 0), 2: (2, 1), 3: (4, 0), 4: (4, 1), 5: (4, 2), 6: (4, 3), 7: (1, 0)}
"""vreduce's patterns: (every so many lanes, from this lane on)."""


def compress(a: Array, target: Array, pattern: Any, count: int, where: Any) -> tuple[Array, Array]:
    """The chosen elements of every repeat one after the other, then what the target held; and how many they are.

    pattern: one of PATTERNS, or bits as bytes [repeats, lanes / 8]. count: lanes of a repeat that take part. Raises
    OutOfBounds.
    """
    lanes = a.reshape(a.shape[0], -1)[:, :count]
    if isinstance(pattern, int):
        every, first_lane = PATTERNS[pattern]
        taken = lanes[:, first_lane::every].reshape(-1)
    else:
        bits = np.unpackbits(np.ascontiguousarray(pattern), axis=1, bitorder="little")[:, :count]
        taken = lanes[bits.astype(bool)]
    if taken.size > target.size:
        raise OutOfBounds(f"vreduce: {taken.size} elements do not fit in {target.size}", where)
    return np.concatenate([taken, target[taken.size :]]), np.array([taken.size])


def sort_proposals(a: Array) -> Array:
    """Groups of proposals [repeats, 16, 8] by number 4 of each, the highest first."""
    order = np.argsort(-wide(a)[..., 4], axis=1, kind="stable")
    return np.take_along_axis(a, order[..., None], axis=1)
