"""Arithmetic of the chip's number types, by fractions: slow, and independent of numpy's conversions."""

from __future__ import annotations

import math
from fractions import Fraction

HALF_MAX, SINGLE_MAX = 65504.0, (2 - 2.0**-23) * 2.0**127
_FORMATS = {"float16": (11, -24, HALF_MAX), "float32": (24, -149, SINGLE_MAX)}
"""Significant bits, exponent of the smallest number, largest number."""
INTEGERS = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-(1 << 15), (1 << 15) - 1), "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1), "uint32": (0, (1 << 32) - 1),
}  # fmt: skip
Number = Fraction | float | int


def spacing(value: Fraction, dtype: str) -> Fraction:
    """The distance of floating numbers at a value."""
    bits, least, _ = _FORMATS[dtype]
    exponent = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
    if Fraction(2) ** exponent > abs(value):
        exponent -= 1
    return Fraction(2) ** max(exponent - bits + 1, least)


def nearest(value: Number, dtype: str) -> float:
    """The floating number nearest to a value, ties to even, limited to the largest finite one; NaN is 0."""
    if isinstance(value, float) and math.isnan(value):
        return 0.0
    most = _FORMATS[dtype][2]
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(most, value)
    value = Fraction(value)
    if value == 0:
        return 0.0
    step = spacing(value, dtype)
    rounded = round(value / step) * step
    return float(max(min(rounded, Fraction(most)), -Fraction(most)))


def directed(value: Number, dtype: str, mode: str) -> float:
    """A floating number next to a value by a directed rounding mode."""
    value = Fraction(value)
    if value == 0:
        return 0.0
    step = spacing(value, dtype)
    count = whole(value / step, mode) if mode != "odd" else _odd(value / step)
    most = Fraction(_FORMATS[dtype][2])
    return float(max(min(count * step, most), -most))


def _odd(value: Fraction) -> int:
    below = math.floor(value)
    return below if below == value or below % 2 else below + 1


def whole(value: Number, mode: str) -> int:
    """A whole number by a rounding mode of tik_api.md 1.13."""
    value = Fraction(value)
    sign = 1 if value >= 0 else -1
    return {
        "": lambda: round(value),
        "round": lambda: round(value),
        "floor": lambda: math.floor(value),
        "ceil": lambda: math.ceil(value),
        "to-zero": lambda: math.trunc(value),
        "away-zero": lambda: sign * math.floor(abs(value) + Fraction(1, 2)),
    }[mode]()


def wrapped(value: int, dtype: str) -> int:
    """A whole number as its type holds it after an overflow."""
    low, high = INTEGERS[dtype]
    return (value - low) % (high - low + 1) + low


def settled(value: Number, dtype: str) -> Number:
    """A result as an element of a type holds it."""
    return nearest(value, dtype) if dtype in _FORMATS else wrapped(int(value), dtype)
