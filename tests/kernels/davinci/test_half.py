"""Rounding to float16 at float32 speed against numpy's own conversion and against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.half import half_toward, round_half, single_to_odd
from tests.kernels.davinci.exactly import directed, nearest
from tests.kernels.davinci.running import Array

HALVES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
FINITE = HALVES[np.isfinite(HALVES)]


def through_numpy(values: Array, saturate: bool) -> Array:
    """numpy's conversion to float16 and back."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16).astype(np.float32)
    return np.nan_to_num(rounded, nan=0.0, posinf=65504.0, neginf=-65504.0) if saturate else rounded


def check_rounding(values: Array, saturate: bool) -> None:
    """Bit for bit, but for the sign of zero and the payload of NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = round_half(values.copy(), saturate)
    np.testing.assert_array_equal(found, through_numpy(values, saturate))


@pytest.mark.parametrize("saturate", [True, False])
def test_every_half_stays_itself(saturate: bool) -> None:
    check_rounding(HALVES.astype(np.float32), saturate)


@pytest.mark.parametrize("saturate", [True, False])
def test_every_tie_and_its_neighbours(saturate: bool) -> None:
    ordered = np.sort(FINITE.astype(np.float64))
    ties = ((ordered[1:] + ordered[:-1]) / 2).astype(np.float32)
    ends = np.array([65519.99, 65520.0, 65535.0, 1e30, np.inf, -np.inf, np.nan], np.float32)
    for values in (ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf)), ends):
        check_rounding(values, saturate)


@pytest.mark.parametrize("saturate", [True, False])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 32), low=st.integers(-150, 120))
def test_random_bit_patterns(saturate: bool, seed: int, low: int) -> None:
    rng = np.random.default_rng(seed)
    check_rounding(rng.integers(0, 1 << 32, 5000, dtype=np.uint32).view(np.float32), saturate)
    scaled = rng.standard_normal(2000) * 2.0**low
    check_rounding(scaled.astype(np.float32), saturate)


@pytest.mark.parametrize("mode", ["floor", "ceil", "to-zero", "away-zero", "odd"])
@settings(max_examples=200, deadline=None)
@given(st.floats(-65503, 65503, width=32))
def test_directed_rounding(mode: str, value: float) -> None:
    with np.errstate(all="ignore"):
        found = half_toward(np.array([value], np.float32), mode)[0]
    assert found == directed(value, "float16", mode)


@settings(max_examples=300, deadline=None)
@given(st.floats(-60000, 60000))
def test_a_double_rounded_to_odd_first_is_rounded_once(value: float) -> None:
    single = single_to_odd(np.array([value]))
    assert round_half(single.copy(), True)[0] == nearest(value, "float16")
    kept = Fraction(float(single[0]))
    assert abs(kept - Fraction(value)) <= abs(Fraction(value)) / (1 << 23) + Fraction(2) ** -149
