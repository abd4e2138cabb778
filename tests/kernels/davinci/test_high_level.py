"""The h_* calls against numpy in double, rounded once (tik_api.md 1.12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, RangeError, ShapeError
from autotune.kernels.davinci.rows_vector import WHOLE_ROWS
from tests.kernels.davinci.running import Array, Kernel, values
from tests.kernels.davinci.vector_model import assert_close

BINARY: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "h_add": (np.add, ("float16", "float32", "int32")),
    "h_sub": (np.subtract, ("float16", "float32", "int32")),
    "h_mul": (np.multiply, ("float16", "float32", "int32")),
    "h_div": (np.divide, ("float16", "float32")),
    "h_max": (np.maximum, ("float16", "float32", "int32")),
    "h_min": (np.minimum, ("float16", "float32", "int32")),
    "h_and": (np.bitwise_and, ("int16", "uint16")),
    "h_or": (np.bitwise_or, ("int16", "uint16")),
}
UNARY: dict[str, tuple[Callable[..., Any], tuple[str, ...], int]] = {
    "h_abs": (np.abs, ("float16", "float32"), 0),
    "h_relu": (lambda a: np.maximum(a, 0), ("float16", "float32"), 0),
    "h_exp": (np.exp, ("float16", "float32"), 2),
    "h_ln": (lambda a: np.log(np.abs(a)), ("float16", "float32"), 2),
    "h_sqrt": (lambda a: np.sqrt(np.abs(a)), ("float16", "float32"), 0),
    "h_rec": (lambda a: 1 / a, ("float16", "float32"), 0),
    "h_rsqrt": (lambda a: 1 / np.sqrt(np.abs(a)), ("float16", "float32"), 0),
    "h_sin": (np.sin, ("float16", "float32"), 0),
    "h_cos": (np.cos, ("float16", "float32"), 0),
    "h_not": (np.invert, ("int16", "uint16"), 0),
}
POSITIVE = ("h_ln", "h_sqrt", "h_rsqrt")


def in_double(operation: Callable[..., Any], dtype: str, *operands: Any) -> Array:
    """Floats in double and rounded once; whole numbers as they are, wrapping around."""
    with np.errstate(over="ignore"):
        if dtype.startswith("float"):
            exact = operation(*(np.asarray(o, np.float64) for o in operands))
            limited: Array = np.nan_to_num(exact.astype(dtype), posinf=65504.0, neginf=-65504.0)
            return limited
        return np.asarray(operation(*operands)).astype(dtype)


def drawn(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    return values(dtype, int(np.prod(shape)), seed).reshape(shape)


@pytest.mark.parametrize(("api", "dtype"), [(api, dtype) for api, (_, dtypes) in BINARY.items() for dtype in dtypes])
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 3), st.sampled_from(["tensors", "slices", "in place"]))
def test_two_tensors(api: str, dtype: str, seed: int, rows: int, form: str) -> None:
    a, b = drawn(dtype, (rows + 1, 2, 16), seed), drawn(dtype, (rows + 1, 2, 16), seed + 1)
    out = drawn(dtype, (rows + 1, 2, 16), seed + 2)
    kernel = Kernel()
    src0, src1, dst = (kernel.filled(array) for array in (a, b, out))
    expected = out.copy()
    if form == "slices":
        getattr(kernel.tik, api)(dst[1:, 0, :], src0[1:, 1, :], src1[:rows, 0, :])
        expected[1:, 0] = in_double(BINARY[api][0], dtype, a[1:, 1], b[:rows, 0])
    elif form == "tensors":
        getattr(kernel.tik, api)(dst, src0, src1)
        expected = in_double(BINARY[api][0], dtype, a, b)
    else:
        dst = src0
        getattr(kernel.tik, api)(src0, src0, src1)
        expected = in_double(BINARY[api][0], dtype, a, b)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize("in_scalar", [False, True])
@pytest.mark.parametrize("api", ["h_add", "h_mul", "h_max", "h_sub"])
def test_a_tensor_and_a_number(api: str, in_scalar: bool) -> None:
    a = drawn("float16", (4, 16), 1)
    kernel = Kernel()
    src = kernel.filled(a)
    number = kernel.tik.Scalar("float16", init_value=0.3) if in_scalar else 0.3
    getattr(kernel.tik, api)(src, src, number)
    kernel.shown(src)
    np.testing.assert_array_equal(kernel.run()[0], in_double(BINARY[api][0], "float16", a, np.float16(0.3)))


@pytest.mark.parametrize(("api", "dtype"), [(api, dtype) for api, (_, dtypes, _) in UNARY.items() for dtype in dtypes])
def test_one_tensor(api: str, dtype: str) -> None:
    operation, _, units = UNARY[api]
    a = drawn(dtype, (3, 16), 5)
    a = np.abs(a) + a.dtype.type(0.01) if api in POSITIVE else a
    kernel = Kernel()
    src = kernel.filled(a)
    getattr(kernel.tik, api)(src, src)
    kernel.shown(src)
    assert_close(kernel.run()[0], in_double(operation, dtype, a), units)


@pytest.mark.parametrize(
    ("source", "target", "mode"),
    [
        ("float16", "float32", "none"),
        ("float32", "float16", ""),
        ("float32", "int32", "floor"),
        ("int32", "float32", ""),
    ],
)
def test_casts(source: str, target: str, mode: str) -> None:
    a = (drawn("float32", (2, 32), 1) * 100).astype(source)
    kernel = Kernel()
    src, dst = kernel.filled(a), kernel.local(target, (2, 32))
    kernel.tik.h_cast(dst, src, mode)
    kernel.shown(dst)
    expected = np.floor(a).astype(target) if mode == "floor" else a.astype(target)
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_quant_scales_before_it_rounds() -> None:
    a = drawn("int32", (2, 32), 1) // 65536
    kernel = Kernel()
    src, dst = kernel.filled(a), kernel.local("float16", (2, 32))
    kernel.tik.h_quant(dst, src, 0.5)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], (a * 0.5).astype(np.float16))


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), -1, (0, 1, 2)])
@pytest.mark.parametrize("name", ["max", "min", "sum"])
def test_reductions(name: str, axis: Any) -> None:
    a = np.round(drawn("float16", (3, 4, 16), 1) * 8).astype(np.float16)
    axes = tuple(range(3)) if axis is None else axis
    expected = np.atleast_1d(getattr(np, name)(a.astype(np.float64), axis=axes)).astype(np.float16)
    kernel = Kernel()
    padded = -(-expected.size // 16) * 16
    out = kernel.filled(np.zeros(padded, np.float16))
    target = out[: expected.size].reshape(expected.shape)
    getattr(kernel.tik, f"h_reduce_{name}")(target, kernel.filled(a), axis)
    kernel.shown(out)
    np.testing.assert_array_equal(kernel.run()[0][: expected.size], expected.reshape(-1))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name: str, axis: Any) -> None:
    a = np.round(drawn("float16", (8, 16), 1) * 2).astype(np.float16)
    expected = np.atleast_1d(getattr(np, name)(a, axis=axis)).astype(np.int32)
    kernel = Kernel()
    out = kernel.filled(np.zeros(16, np.int32))
    getattr(kernel.tik, f"h_reduce_{name}")(out[: expected.size], kernel.filled(a), axis)
    kernel.shown(out)
    np.testing.assert_array_equal(kernel.run()[0][: expected.size], expected)


def test_a_full_reduction_into_a_scalar() -> None:
    a = drawn("float16", (4, 16), 1)
    kernel = Kernel()
    largest = kernel.tik.Scalar("float16")
    kernel.tik.h_reduce_max(largest, kernel.filled(a))
    out = kernel.filled(np.zeros(16, np.float16))
    out[0].set_as(largest)
    kernel.shown(out)
    assert kernel.run()[0][0] == a.max()


@pytest.mark.parametrize("mode", ["LT", "LE", "GT", "GE", "EQ", "NE"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_comparison_and_selection(mode: str, dtype: str) -> None:
    a, b = (np.random.default_rng(seed).integers(-2, 3, (4, 16)).astype(dtype) for seed in (1, 2))
    holds = getattr(np, {"LT": "less", "LE": "less_equal", "GT": "greater", "GE": "greater_equal", "EQ": "equal",
                         "NE": "not_equal"}[mode])(a, b)  # fmt: skip
    numbers = drawn("float16", (4, 16), 3)
    kernel = Kernel()
    mask, dst = kernel.local("bool", (4, 16)), kernel.local("float16", (4, 16))
    kernel.tik.h_cmpv(mask, kernel.filled(a), kernel.filled(b), mode)
    kernel.tik.h_sel(dst, kernel.filled(numbers), 0.5, mask)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], np.where(holds, numbers, np.float16(0.5)))


@pytest.mark.parametrize(("first", "second"), [("t", "t"), ("t", "n"), ("n", "t"), ("n", "n")])
def test_selections_of_tensors_and_numbers(first: str, second: str) -> None:
    a, b = drawn("float32", (2, 16), 1), drawn("float32", (2, 16), 2)
    kernel = Kernel()
    src0, src1, mask = kernel.filled(a), kernel.filled(b), kernel.local("bool", (2, 16))
    dst = kernel.local("float32", (2, 16))
    kernel.tik.h_cmpv(mask, src0, 0.0, "GT")
    kernel.tik.h_sel(dst, src0 if first == "t" else 3.0, src1 if second == "t" else 4.0, mask)
    kernel.shown(dst)
    expected = np.where(a > 0, a if first == "t" else np.float32(3), b if second == "t" else np.float32(4))
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_duplicate_fills_a_slice() -> None:
    a = drawn("float32", (2, 3, 8), 1)
    kernel = Kernel()
    tensor = kernel.filled(a)
    kernel.tik.h_duplicate(tensor[:, 1, :], 2.5)
    kernel.shown(tensor)
    a[:, 1] = 2.5
    np.testing.assert_array_equal(kernel.run()[0], a)


def test_data_move_copies_whole_blocks() -> None:
    a = drawn("float16", (4, 16), 1)
    kernel = Kernel()
    source, tensor, out = kernel.given(a), kernel.local("float16", (4, 16)), kernel.result("float16", (4, 16))
    kernel.tik.h_data_move(tensor, source)
    kernel.tik.h_data_move(out, tensor)
    np.testing.assert_array_equal(kernel.run()[0], a)


def test_what_the_calls_do_not_take() -> None:
    kernel = Kernel()
    tik, half, other = kernel.tik, kernel.local("float16", (2, 16)), kernel.local("float16", (4, 16))
    single = kernel.local("float32", (2, 16))
    with pytest.raises(ShapeError, match="h_add: shapes differ"):
        tik.h_add(half, half, other)
    with pytest.raises(DataTypeError, match="h_add on Ascend910A takes"):
        tik.h_add(half, half, single)
    with pytest.raises(DataTypeError, match="float immediate, not 2"):
        tik.h_mul(half, half, 2)
    with pytest.raises(DataTypeError, match="the first operand must be a tensor"):
        tik.h_sub(half, 2.0, half)
    with pytest.raises(RangeError, match="mode is 'LTE'; it must be EQ, NE, LT, LE, GT, GE"):
        tik.h_cmpv(kernel.local("bool", (2, 16)), half, half, "LTE")
    with pytest.raises(DataTypeError, match="h_reduce_max on Ascend910A takes float16"):
        tik.h_reduce_max(kernel.local("float32", (2,)), single, 1)


def test_every_whole_row_is_tested_here() -> None:
    here = {*BINARY, *UNARY, "h_cast", "h_quant", "h_duplicate", "h_sel"}
    here |= {f"h_reduce_{name}" for name in ("max", "min", "sum", "argmax", "argmin")}
    here |= {f"h_cmpv_{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    assert here == set(WHOLE_ROWS)
