"""Functions of Scalars and arrays of them (tik_api.md 2.2 and 4.1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, RangeError
from tests.kernels.davinci.exactly import whole
from tests.kernels.davinci.running import Kernel


def outcome(kernel: Kernel, scalar: Any) -> Any:
    """What a Scalar holds in the end."""
    size = {"int32": 8, "uint32": 8, "int64": 4, "uint64": 4, "float32": 8, "float16": 16}[scalar.dtype]
    out = kernel.filled(np.zeros(size, scalar.dtype))
    out[0].set_as(scalar)
    kernel.shown(out)
    return kernel.run()[0][0]


def applied(api: str, dtype: str, *operands: tuple[str, Any]) -> Any:
    """A scalar function of Scalars."""
    kernel = Kernel()
    result = kernel.tik.Scalar(dtype)
    given_ = [kernel.tik.Scalar(kind, init_value=value) for kind, value in operands]
    getattr(kernel.tik, api)(result, *given_)
    return outcome(kernel, result)


signed = st.integers(-(1 << 31), (1 << 31) - 1)
word = st.integers(0, (1 << 64) - 1)
single = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=30, deadline=None)
@given(signed, signed)
def test_max_min_abs(a: int, b: int) -> None:
    assert applied("scalar_max", "int32", ("int32", a), ("int32", b)) == max(a, b)
    assert applied("scalar_min", "int32", ("int32", a), ("int32", b)) == min(a, b)
    assert applied("scalar_abs", "int64", ("int64", a)) == abs(a)


def test_max_of_float16_scalars() -> None:
    assert applied("scalar_max", "float16", ("float16", 1.5), ("float16", -2.0)) == 1.5


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 2.0**100, width=32))
def test_sqrt(value: float) -> None:
    assert applied("scalar_sqrt", "float32", ("float32", value)) == np.float32(math.sqrt(value))


@settings(max_examples=30, deadline=None)
@given(word)
def test_counts_of_bits(value: int) -> None:
    text = format(value, "064b")
    assert applied("scalar_countbit0", "uint64", ("uint64", value)) == text.count("0")
    assert applied("scalar_countbit1", "uint64", ("uint64", value)) == text.count("1")
    leading = len(text) - len(text.lstrip("0"))
    assert applied("scalar_countleading0", "uint64", ("uint64", value)) == leading


@pytest.mark.parametrize("mode", ["round", "floor", "ceil", "to-zero"])
@settings(max_examples=30, deadline=None)
@given(single | st.integers(-50, 50).map(lambda number: number / 2))
def test_conversion_to_whole_numbers(mode: str, value: float) -> None:
    kernel = Kernel()
    result, source = kernel.tik.Scalar("int32"), kernel.tik.Scalar("float32", init_value=value)
    kernel.tik.scalar_conv(mode, result, source)
    assert outcome(kernel, result) == whole(value, mode)


@pytest.mark.parametrize(
    ("soc", "value", "expected"),
    [
        ("Ascend910A", 0.2, 1), ("Ascend910A", -1.2, -2), ("Ascend910A", 3.0, 3),
        ("Ascend310P3", 0.2, 0), ("Ascend310P3", 0.5, 1), ("Ascend310P3", -2.5, -3),
    ],
)  # fmt: skip
def test_away_zero_is_up_in_magnitude_on_a_910a_and_ties_away_on_a_310p(soc: str, value: float, expected: int) -> None:
    kernel = Kernel(soc)
    result, source = kernel.tik.Scalar("int32"), kernel.tik.Scalar("float32", init_value=value)
    kernel.tik.scalar_conv("away-zero", result, source)
    assert outcome(kernel, result) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(3e10, (1 << 31) - 1), (-3e10, -(1 << 31)), (math.inf, (1 << 31) - 1), (math.nan, 0)]
)
def test_a_conversion_keeps_to_the_limits(value: float, expected: int) -> None:
    kernel = Kernel()
    result, source = kernel.tik.Scalar("int32"), kernel.tik.Scalar("float32", init_value=value)
    kernel.tik.scalar_conv("round", result, source)
    assert outcome(kernel, result) == expected


def test_conversions_between_floats_round_to_nearest() -> None:
    kernel = Kernel()
    narrow, source = kernel.tik.Scalar("float16"), kernel.tik.Scalar("float32", init_value=1.0007)
    kernel.tik.scalar_conv("none", narrow, source)
    assert outcome(kernel, narrow) == np.float16(1.0007)


def test_an_unknown_rounding_is_refused() -> None:
    kernel = Kernel()
    with pytest.raises(DataTypeError, match=r"scalar_conv to int32 takes round, .* not 'odd'"):
        kernel.tik.scalar_conv("odd", kernel.tik.Scalar("int32"), kernel.tik.Scalar("float32"))


def test_a_scalar_array_is_indexed_by_numbers_and_loop_variables() -> None:
    kernel = Kernel()
    tik = kernel.tik
    squares = tik.ScalarArray("int32", 6, "squares", init_value=0)
    with tik.for_range(0, 6) as i:
        squares[i].set_as(i * i)
    squares[2] = squares[3] + 1
    total = tik.Scalar("int32", init_value=0)
    with tik.for_range(0, 6) as i:
        total.set_as(total + squares[i])
    assert outcome(kernel, total) == 0 + 1 + 10 + 9 + 16 + 25


def test_a_scalar_array_takes_elements_and_gives_operands() -> None:
    kernel = Kernel()
    tik = kernel.tik
    source = kernel.filled(np.arange(8, dtype=np.float32))
    gains = tik.ScalarArray(dtype="float32", length=2, name="gains", init_value=[1.5, 2.5])
    gains[1].set_as(source[5])
    tik.vec_muls(8, source, source, gains[1], 1, 8, 8)
    kernel.shown(source)
    np.testing.assert_array_equal(kernel.run()[0], np.arange(8, dtype=np.float32) * 5)


def test_a_scalar_array_knows_its_length() -> None:
    kernel = Kernel()
    with pytest.raises(RangeError, match=r"counts\[3\]: it has 3 elements"):
        kernel.tik.ScalarArray("int32", 3, "counts")[3]
