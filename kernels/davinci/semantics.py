"""What instructions compute, as pure numpy functions of their operands.

Operands arrive as arrays: fp16 as float32 numbers that fp16 can represent (or, where a buffer keeps its real bytes,
as float16). A function returns the unrounded result; the store rounds it once to the destination's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.kernels.davinci.half import round_half

Array = Any
"""numpy arrays; their operators are typed too loosely for more."""
Compute = Callable[..., Any]


def wide(values: Array) -> Array:
    """fp16 as float32; everything else as it is."""
    return values.astype(np.float32) if values.dtype == np.float16 else values


def elementwise(operation: Callable[..., Any]) -> Compute:
    """Applies a numpy function to all operands, fp16 in float32: correct after one rounding, as 24 >= 2 * 11 + 2."""

    def compute(*operands: Any) -> Array:
        return operation(*[wide(o) if isinstance(o, np.ndarray) else o for o in operands])

    return compute


def divide(a: Array, b: Array) -> Array:
    """a / b; whole numbers truncate."""
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


def relu(a: Array) -> Array:
    """Negative elements become 0."""
    return np.maximum(a, a.dtype.type(0))


def reciprocal(a: Array) -> Array:
    """1 / a in float32."""
    return np.float32(1) / a


def reciprocal_root(a: Array) -> Array:
    """1 / sqrt(a), rounded from double."""
    return (1.0 / np.sqrt(a.astype(np.float64))).astype(np.float32)


def multiply_add(a: Array, b: Array, accumulated: Array) -> Array:
    """a * b + accumulated; the product is exact in double."""
    return (a.astype(np.float64) * b + accumulated).astype(np.float32)


def scale_add(a: Array, accumulated: Array, scalar: float) -> Array:
    """a * scalar + accumulated; the product is exact in double."""
    return (a.astype(np.float64) * scalar + accumulated).astype(np.float32)


def first(a: Array, *scratch: Array) -> Array:
    """The first operand."""
    return a


def copied(a: Array) -> Array:
    """A fresh float32 or integer copy, for a store that rounds in place."""
    return np.array(wide(a))


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "ceiling": np.ceil,
    "to-zero": np.trunc,
    "away-zero": lambda a: np.trunc(a + np.copysign(np.float32(0.5), a)),
}
"""To whole numbers (tik_api.md 1.13); 'away-zero' takes ties away from zero in vector conversions."""


def convert(a: Array, round_mode: str, integer: bool) -> Array:
    """A conversion before its final store: float to whole by ``round_mode``, all else unchanged."""
    a = copied(a)
    return ROUNDINGS[round_mode](a) if integer and a.dtype.kind == "f" else a


def matmul(a: Array, b: Array, accumulated: Array | None, k: int) -> Array:
    """dst[n1, m, n0] = sum over k of a[k1, m, k0] * b[k1, n1 * 16 + n0, k0] (tik_api.md 1.4); k is exact."""
    left = a.transpose(1, 0, 2).reshape(a.shape[1], -1)[:, :k]
    right = b.transpose(0, 2, 1).reshape(-1, b.shape[1])[:k]
    return _to_zn(left, right, accumulated)


def mmad(a: Array, b: Array, accumulated: Array | None, k: int) -> Array:
    """L0A zZ [M1, K1, 16, K0] times L0B nZ [K1, N1, 16, K0] to L0C zN [N1, M, 16] (tik_api.md 1.6); k is masked."""
    m1, k1, _, k0 = a.shape
    left = a.transpose(0, 2, 1, 3).reshape(m1 * 16, k1 * k0)[:, :k]
    right = b.transpose(0, 3, 1, 2).reshape(k1 * k0, -1)[:k]
    return _to_zn(left, right, accumulated)


def _to_zn(left: Array, right: Array, accumulated: Array | None) -> Array:
    if left.dtype.kind != "f":
        left, right = left.astype(np.int32), right.astype(np.int32)
    result = np.matmul(wide(left), wide(right))
    blocks = result.reshape(result.shape[0], -1, 16).transpose(1, 0, 2)
    return blocks if accumulated is None else blocks + accumulated


def repeat_sum(a: Array) -> Array:
    """Per repeat (row), the sum by a binary tree of adjacent pairs, each addition rounded to the operand's type."""
    half, values = a.dtype == np.float16, wide(a)
    while values.shape[-1] > 1:
        if values.shape[-1] % 2:
            values = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
        values = values[..., 0::2] + values[..., 1::2]
        if half:
            values = round_half(np.ascontiguousarray(values), True)
    return values


def repeat_max(a: Array) -> Array:
    """Per repeat, the largest element."""
    return wide(a).max(axis=-1, keepdims=True)


def repeat_min(a: Array) -> Array:
    """Per repeat, the smallest element."""
    return wide(a).min(axis=-1, keepdims=True)


def pair_sum(a: Array) -> Array:
    """Sums of adjacent pairs."""
    values = wide(a)
    return values[..., 0::2] + values[..., 1::2]


def reduce_over(operation: Callable[..., Array]) -> Compute:
    """A reduction over the given axes; axis None is all of them."""

    def compute(a: Array, axis: tuple[int, ...] | None) -> Array:
        return operation(wide(a), axis=axis)

    return compute


def gather_rows(*rows: Array) -> Array:
    """16 rows [repeats, 16] to their transposes: result[j][r, i] = rows[i][r, j] (tik_api.md 1.9)."""
    return np.stack([wide(row) for row in rows], axis=2).transpose(1, 0, 2)
