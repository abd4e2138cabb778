"""Rounding to float16 values at float32 speed: numpy's own conversion is about twenty times slower.

A float32 is rounded to 11 significant bits by adding and taking away a constant 1.5 * 2**(e + 13), where 2**e is the
number's own power of two, at least 2**-14 so that subnormal halves round to multiples of 2**-24. Both steps are
float32 additions, which round to nearest even, as IEEE 754 asks of the conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

HALF_MAX = 65504.0
_OVERFLOW = 65520.0**2
"""From 65520 on a float32 rounds beyond the largest half; squares of smaller ones stay below this."""
_EXPONENT = np.uint32(0x7F800000)
_SMALLEST = np.uint32((127 - 14) << 23)
_SHIFT = np.uint32((13 << 23) | 0x400000)


def round_half(values: np.ndarray, saturate: bool) -> np.ndarray:
    """Rounds a contiguous float32 array in place to values that float16 has, and returns it.

    saturate: overflow becomes +-65504 and NaN 0 (910A), else infinity and NaN (910B).
    """
    flat = values.reshape(-1)
    if not np.dot(flat, flat) < _OVERFLOW:
        _limit(flat, saturate)
    scale = _scratch(flat.size)
    np.bitwise_and(flat.view(np.uint32), _EXPONENT, out=scale)
    np.maximum(scale, _SMALLEST, out=scale)
    scale += _SHIFT
    magic = scale.view(np.float32)
    flat += magic
    flat -= magic
    return values


_scratches = [np.empty(1 << 14, np.uint32)]
"""The largest scratch so far; fresh memory for every call would cost as much as the rounding."""


def _scratch(size: int) -> np.ndarray:
    if _scratches[0].size < size:
        _scratches[0] = np.empty(size, np.uint32)
    return _scratches[0][:size]


def _limit(flat: np.ndarray, saturate: bool) -> None:
    if saturate:
        np.copyto(flat, 0.0, where=np.isnan(flat))
        np.clip(flat, -HALF_MAX, HALF_MAX, out=flat)
        return
    flat[np.abs(flat) >= 65520.0] *= np.float32(np.inf)


def widen_into(target: np.ndarray, halves: np.ndarray) -> None:
    """float16 into float32: numpy's own conversion looks at each element; a table of all halves does not."""
    if target.flags.c_contiguous:
        np.take(_SINGLES, halves.view(np.uint16), out=target, mode="clip")
    else:
        np.copyto(target, halves)


_SINGLES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16).astype(np.float32)


def single_to_odd(values: np.ndarray) -> np.ndarray:
    """float64 as float32: what does not fit keeps the truncated neighbour with its last bit set.

    Rounding the result to fewer bits then equals rounding the float64 at once. Beyond float32's range: the nearest.
    """
    bits = values.view(np.uint64)
    kept = bits & ~_REST
    kept |= ((bits & _REST) != 0).astype(np.uint64) << np.uint64(29)
    return kept.view(np.float64).astype(np.float32)


_REST = np.uint64((1 << 29) - 1)
"""Bits of a float64's fraction that a float32 does not have."""


def half_toward(values: np.ndarray, mode: str) -> np.ndarray:
    """float32 to values that float16 has, by a directed rounding: floor, ceil, to-zero, away-zero (ties), odd.

    What is too large stays at its rounding to nearest, for the store to limit. NaN stays NaN.
    """
    nearest = round_half(np.array(values, np.float32, order="C"), False)
    step = np.abs(nearest).astype(np.float16)
    size = np.abs(values)
    above = np.abs(nearest) > size
    lower = np.where(above, np.nextafter(step, np.float16(0)), step).astype(np.float32)
    upper = np.where(above, step, np.nextafter(step, np.float16(np.inf))).astype(np.float32)
    inexact = lower != size
    inexact &= np.isfinite(values)
    outward = _OUTWARD[mode](values, lower, upper)
    chosen = np.where(inexact & outward, upper, np.where(inexact, lower, np.abs(nearest)))
    result: np.ndarray = np.copysign(chosen, values).astype(np.float32)
    return result


_OUTWARD: dict[str, Callable[[Any, Any, Any], Any]] = {
    "to-zero": lambda values, lower, upper: np.zeros(values.shape, bool),
    "floor": lambda values, lower, upper: values < 0,
    "ceil": lambda values, lower, upper: values > 0,
    "away-zero": lambda values, lower, upper: np.abs(values) - lower >= upper - np.abs(values),
    "odd": lambda values, lower, upper: lower.astype(np.float16).view(np.uint16) % 2 == 0,
}
"""Whether the neighbour that is larger in magnitude is taken, for values between two halves."""


def saturate_float(values: np.ndarray) -> np.ndarray:
    """A contiguous float32 array with infinities at the largest float32 and NaN at 0, in place (tik_api.md 0.8)."""
    flat = values.reshape(-1)
    if not np.isfinite(np.dot(flat, flat)):
        np.nan_to_num(flat, copy=False)
    return values
