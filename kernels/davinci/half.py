"""Rounding float32 to float16 values at float32 speed: numpy's own conversion is about twenty times slower.

A float32 is rounded to 11 significant bits by adding and taking away a constant 1.5 * 2**(e + 13), where 2**e is the
number's own power of two, at least 2**-14 so that subnormal halves round to multiples of 2**-24. Both steps are
float32 additions, which round to nearest even, as IEEE 754 asks of the conversion.
"""

from __future__ import annotations

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
    scale = flat.view(np.uint32) & _EXPONENT
    np.maximum(scale, _SMALLEST, out=scale)
    scale += _SHIFT
    magic = scale.view(np.float32)
    flat += magic
    flat -= magic
    return values


def _limit(flat: np.ndarray, saturate: bool) -> None:
    if saturate:
        np.copyto(flat, 0.0, where=np.isnan(flat))
        np.clip(flat, -HALF_MAX, HALF_MAX, out=flat)
        return
    flat[np.abs(flat) >= 65520.0] *= np.float32(np.inf)


def saturate_float(values: np.ndarray) -> np.ndarray:
    """A contiguous float32 array with infinities at the largest float32 and NaN at 0, in place (tik_api.md 0.8)."""
    flat = values.reshape(-1)
    if not np.isfinite(np.dot(flat, flat)):
        np.nan_to_num(flat, copy=False)
    return values
