"""Vector masks whose value is known only when the kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from autotune.kernels.davinci.expr import Expr, Registers, Value, evaluator

LaneMask = Callable[[Registers, tuple[int, ...]], Any]
"""Registers and the shape of a repeat to a bool array of that shape."""


@dataclass(frozen=True)
class Words:
    """[mask_h, mask_l]: bit i of ``low`` is lane i, bit i of ``high`` lane 64 + i."""

    high: Value
    low: Value


def joined(high: int, low: int) -> int:
    """Both words as one number of 128 bits."""
    word = (1 << 64) - 1
    return (int(high) & word) << 64 | int(low) & word


def chosen(bits: int, shape: tuple[int, ...]) -> Any:
    """The lanes whose bits are set."""
    raw = np.frombuffer(bits.to_bytes(32, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[: prod(shape)].astype(bool).reshape(shape)


def lane_mask(mask: Any) -> LaneMask | None:
    """A mask as a function; None where every lane counts."""
    if mask is None:
        return None
    if isinstance(mask, Words):
        high, low = (_always(evaluator(word)) for word in (mask.high, mask.low))
        return lambda r, shape: chosen(joined(high(r), low(r)), shape)
    if isinstance(mask, Expr):
        count = evaluator(mask)
        return lambda r, shape: np.arange(prod(shape)).reshape(shape) < count(r)
    return lambda r, shape: mask


def _always(value: Any) -> Callable[[Registers], Any]:
    return value if callable(value) else lambda r: value
