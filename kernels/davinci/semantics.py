"""What instructions compute, as pure numpy functions of their operands.

Operands arrive as arrays: fp16 as float32 numbers that fp16 can represent (or, where a buffer keeps its real bytes,
as float16). A function returns the unrounded result; the store rounds it once to the destination's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.kernels.davinci.expr import FLOATS
from autotune.kernels.davinci.half import half_toward

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


def straight(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    """A numpy function that writes to its first argument."""

    def into(target: Array, *operands: Any) -> None:
        ufunc(*operands, out=target)

    return into


def divide(a: Array, b: Array) -> Array:
    """a / b; whole numbers truncate."""
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


def relu(a: Array) -> Array:
    """Negative elements become 0."""
    return np.maximum(a, a.dtype.type(0))


def reciprocal(a: Array) -> Array:
    """1 / a in float32."""
    return np.float32(1) / a


def in_double(operation: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one operand evaluated in double, to be rounded once by the store."""
    return lambda a: operation(a.astype(np.float64))


reciprocal_root = in_double(lambda a: 1.0 / np.sqrt(a))
"""1 / sqrt(a)."""


def fused(a: Array, b: Any, c: Array) -> Array:
    """a * b + c, to be rounded once by the store; whole numbers wrap around.

    The product of float32 numbers is exact in double. The sum is rounded to odd by its own rounding error, so that a
    second rounding to fewer bits comes out as if it were the only one.
    """
    if c.dtype.kind != "f":
        return a * b + c
    product = a.astype(np.float64) * b
    total = product + c
    added = total - product
    error = (product - (total - added)) + (c - added)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0) & (bits % 2 == 0)
    bits += np.where(inexact, np.where((error > 0) == (total > 0), 1, -1), 0)
    return total


def multiply_add(a: Array, b: Array, accumulated: Array) -> Array:
    """a * b + what the destination holds."""
    return fused(a, b, accumulated)


def multiply_destination(a: Array, b: Array, accumulated: Array) -> Array:
    """a * what the destination holds + b."""
    return fused(a, accumulated, b)


def scale_add(a: Array, accumulated: Array, scalar: float) -> Array:
    """a * scalar + what the destination holds."""
    return fused(a, scalar, accumulated)


def then_relu(operation: Callable[..., Array]) -> Callable[..., Array]:
    """An operation whose negative results become 0."""
    return lambda *operands: relu(operation(*operands))


def rescaled_sum(a: Array, b: Array, scale: float) -> Array:
    """(a + b) * scale of whole numbers, negative results 0."""
    return np.maximum((a.astype(np.float64) + b) * scale, 0.0)


def chosen(mask: Array, *operands: Any) -> Array:
    """The first operand where the mask holds, else the second; the last says whether the tensors stand first."""
    *sides, tensor_first = [wide(o) if isinstance(o, np.ndarray) else o for o in operands]
    first_side, second_side = sides if tensor_first else sides[::-1]
    return np.where(mask, first_side, second_side)


def first(a: Array, *scratch: Array) -> Array:
    """The first operand."""
    return a


def copied(a: Array) -> Array:
    """A fresh float32 or integer copy, for a store that rounds in place."""
    return np.array(wide(a))


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "": np.rint,
    "round": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "to-zero": np.trunc,
    "away-zero": lambda a: np.trunc(a + np.copysign(a.dtype.type(0.5), a)),
}
"""To whole numbers (tik_api.md 1.13); 'away-zero' takes ties away from zero in vector conversions."""


def convert(a: Array, round_mode: str, target: str) -> Array:
    """A conversion before its final store. Whole numbers that the target does not have become its limits."""
    a = copied(a)
    if target == "float16":
        return half_toward(a, round_mode) if round_mode in DIRECTED else _unrounded(a)
    if target in FLOATS:
        return ROUNDINGS[round_mode](a.astype(np.float64)) if round_mode else a
    if a.dtype.kind == "f":
        a = ROUNDINGS[round_mode](a.astype(np.float64))
    return limited(a, np.dtype(target))


def convert_into(target: Array, a: Array, round_mode: str, dtype: str) -> None:
    """``convert`` between types that the host holds alike, before the rounding."""
    np.copyto(target, convert(a, round_mode, dtype) if round_mode else a)


DIRECTED = ("floor", "ceil", "to-zero", "away-zero", "odd")
"""Roundings to float16 other than to nearest even."""


def _unrounded(a: Array) -> Array:
    return a if a.dtype == np.float32 else a.astype(np.float64)


def limited(a: Array, dtype: Array) -> Array:
    """Numbers brought into a whole type's range; NaN is 0."""
    limits = np.iinfo(dtype)
    if a.dtype.kind != "f":
        return np.clip(a, limits.min, limits.max) if a.dtype.itemsize > dtype.itemsize else a
    a = np.nan_to_num(a, nan=0.0)
    whole = np.clip(a, limits.min, np.nextafter(2.0 ** (limits.bits - (limits.min < 0)), 0)).astype(dtype)
    whole[a > limits.max] = limits.max
    return whole


def dequantise(a: Array, scale: float) -> Array:
    """Whole numbers times a scale."""
    return a.astype(np.float64) * scale


def quantise(a: Array, b: Array, target: str) -> Array:
    """a * b as a byte, rounded to nearest even."""
    return limited(np.rint(a * b), np.dtype(target))


def arg_extreme(operation: Callable[..., Array]) -> Compute:
    """Index of the first largest or smallest along one axis, or among all elements."""

    def compute(a: Array, axis: tuple[int, ...] | None) -> Array:
        return operation(wide(a), axis=axis[0] if axis is not None and len(axis) == 1 else None)

    return compute


def reduce_over(operation: Callable[..., Array]) -> Compute:
    """A reduction over the given axes; axis None is all of them."""

    def compute(a: Array, axis: tuple[int, ...] | None) -> Array:
        return operation(wide(a), axis=axis)

    return compute
