"""Conversions: every pair and rounding mode of every chip against fractions (tik_api.md 1.13)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, NotEmulated
from autotune.kernels.davinci.table import supports
from tests.kernels.davinci.exactly import INTEGERS, Number, directed, nearest, whole
from tests.kernels.davinci.running import Kernel, values
from tests.kernels.davinci.vector_model import Draw, drawn_mask, elements, lane_limit

FLOATING = "float16 float32"
TO_WHOLE = ("round", "floor", "ceil", "to-zero", "away-zero")
CASES = [
    ("Ascend910A", "float32", "float16", ("", "none", "odd")),
    ("Ascend910A", "float16", "float32", ("", "none")),
    ("Ascend910A", "float16", "int8", ("", "floor", "ceil", "to-zero", "away-zero")),
    ("Ascend910A", "float16", "uint8", ("", "floor", "ceiling", "to-zero", "away-zero")),
    ("Ascend910A", "float16", "int32", TO_WHOLE),
    ("Ascend910A", "float32", "int32", TO_WHOLE),
    ("Ascend910A", "int32", "float32", ("",)),
    ("Ascend910A", "uint8", "float16", ("",)),
    ("Ascend910A", "int8", "float16", ("", "none")),
    ("Ascend310", "float16", "int32", ("round", "floor", "ceil")),
    ("Ascend310P3", "float32", "float16", ("", "round", "floor", "ceil", "to-zero", "away-zero", "odd")),
    ("Ascend310P3", "float16", "int16", TO_WHOLE),
    ("Ascend310P3", "int16", "float16", ("",)),
    ("Ascend310P3", "int32", "int16", ("",)),
]
PARAMETERS = [(soc, source, target, mode) for soc, source, target, modes in CASES for mode in modes]


def converted(value: Number, target: str, mode: str) -> Number:
    """One element in another type."""
    mode = {"none": "", "ceiling": "ceil"}.get(mode, mode)
    if target in FLOATING:
        return nearest(value, target) if mode in ("", "round") else directed(value, target, mode)
    low, high = INTEGERS[target]
    return max(low, min(high, whole(value, mode)))


def check_conversion(soc: str, source: str, target: str, mode: str, draw: Draw) -> None:
    """One drawn vconv against the model, with untouched elements as they were."""
    mask, repeats = drawn_mask(draw, lane_limit((source, target))), draw(1, 3)
    per_block = [32 // np.dtype(dtype).itemsize for dtype in (target, source)]
    steps = [draw(8, 10), draw(0, 9)]
    arrays = []
    for dtype, block, step, seed in zip((target, source), per_block, steps, (1, draw(0, 1 << 20))):
        arrays.append(elements(dtype, ((repeats - 1) * step + 8) * block, "any", seed))
    if source == "float16" and draw(0, 1):
        arrays[1] = (np.round(arrays[1].clip(-300, 300) * 2) / 2).astype(np.float16)
    expected = arrays[0].copy()
    for repeat in range(repeats):
        for lane in mask.lanes:
            value = arrays[1][repeat * steps[1] * per_block[1] + lane]
            exact = Fraction(float(value)) if source in FLOATING else int(value)
            expected[repeat * steps[0] * per_block[0] + lane] = converted(exact, target, mode)
    kernel = Kernel(soc)
    dst, src = kernel.filled(arrays[0]), kernel.filled(arrays[1])
    if draw(0, 1):
        kernel.tik.vec_conv(mask.argument, mode, dst, src, repeats, *steps)
    else:
        kernel.tik.vconv(mask.argument, mode, dst, src, repeats, 1, 1, *steps)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize(("soc", "source", "target", "mode"), PARAMETERS)
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_conversions(soc: str, source: str, target: str, mode: str, data: Any) -> None:
    check_conversion(soc, source, target, mode, lambda low, high: data.draw(st.integers(low, high)))


def test_strided_blocks_of_different_types_meet_lane_by_lane() -> None:
    source = values("float32", 16 * 8 * 2, 1)
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.filled(np.zeros(16 * 8, np.float16))
    kernel.tik.vconv(64, "", dst, src, 1, 2, 2, 8, 8)
    kernel.shown(dst)
    expected = np.zeros(16 * 8, np.float16)
    for lane in range(64):
        expected[lane // 16 * 32 + lane % 16] = source[lane // 8 * 16 + lane % 8]
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize(
    ("target", "values_", "expected"),
    [
        ("int32", [np.nan, np.inf, -np.inf, 3e9, -3e9], [0, 2147483647, -2147483648, 2147483647, -2147483648]),
        ("float16", [np.nan, np.inf, -np.inf, 65519.9, 65520.0], [0, 65504, -65504, 65504, 65504]),
    ],
)
def test_what_does_not_fit_becomes_the_limit(target: str, values_: list[float], expected: list[float]) -> None:
    source = np.zeros(8, np.float32)
    source[:5] = values_
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.local(target, (16,))
    kernel.tik.vec_dup(16, dst, 0, 1, 8)
    kernel.tik.vec_conv(8, "round" if target == "int32" else "none", dst, src, 1, 8, 8)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0][:5], np.array(expected, target))


@pytest.mark.parametrize("in_scalar", [False, True])
def test_deqscale_multiplies_before_the_only_rounding(in_scalar: bool) -> None:
    source = np.array([3, -5, 2049, 1 << 30, -(1 << 31), 7, 11, 4097] * 8, np.int32)
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.local("float16", (64,))
    scale = kernel.tik.Scalar("float16", init_value=0.3) if in_scalar else 0.3
    kernel.tik.vec_conv(64, "none", dst, src, 1, 4, 8, scale)
    kernel.shown(dst)
    factor = Fraction(float(np.float16(0.3)))
    expected = [nearest(int(value) * factor, "float16") for value in source]
    np.testing.assert_array_equal(kernel.run()[0], np.array(expected, np.float16))


def test_pairs_and_modes_that_a_chip_lacks_are_named() -> None:
    kernel = Kernel()
    half, single, whole_ = (kernel.local(dtype, (64,)) for dtype in ("float16", "float32", "int32"))
    tik = kernel.tik
    with pytest.raises(DataTypeError, match="float32 to float16 takes '' or 'odd' as round_mode, not 'floor'"):
        tik.vec_conv(64, "floor", half, single, 1, 4, 8)
    with pytest.raises(DataTypeError, match="deqscale"):
        tik.vec_conv(64, "none", half, whole_, 1, 4, 8)
    with pytest.raises(DataTypeError, match="vconv on Ascend910A"):
        tik.vec_conv(64, "", kernel.local("int16", (64,)), half, 1, 4, 4)
    with pytest.raises(NotEmulated, match="ldst_high_half"):
        tik.vec_conv(64, "", single, half, 1, 8, 4, None, True)


@pytest.mark.parametrize(
    ("soc", "api", "dtype", "there"),
    [
        ("Ascend910A", "tik.vconv", "f322s32r", True),
        ("Ascend310", "tik.vconv", "f322s32r", False),
        ("Ascend910A", "tik.vconv", "f322f16o", True),
        ("Ascend910A", "tik.vconv", "s162f16", False),
        ("Ascend310P3", "tik.vconv", "s162f16", True),
        ("Ascend910A", "tik.vconv", "deq", True),
        ("Ascend910A", "tik.vconv", "nonsense", False),
        ("Ascend910A", "tik.vadd", "float16", True),
        ("Ascend910A", "tik.vec_add", "int16", False),
        ("Ascend310P3", "tik.vadd", "int16", True),
        ("Ascend310", "Intrinsic_vexp", "float32", False),
        ("Ascend910A", "Intrinsic_vexp", "float32", True),
        ("Ascend310", "tik.vdiv", "float32", False),
        ("Ascend310", "tik.vdiv", "", False),
        ("Ascend910A", "tik.vdiv", "", True),
        ("Ascend910A", "tik.vmla", "f32f16f16", True),
        ("Ascend910A", "tik.vcmax", "float32", False),
        ("Ascend910A", "tik.vgatherb", "", False),
        ("Ascend910A", "tik.scalar_sqrt", "float32", True),
        ("Ascend910A", "tik.set_atomic_add", "float32", True),
        ("Ascend910A", "tik.set_atomic_add", "float16", False),
        ("Ascend910A", "Intrinsic_data_move_l12ub", "", True),
        ("Ascend910B1", "Intrinsic_data_move_l12ub", "", False),
    ],
)
def test_supports_answers_from_the_table(soc: str, api: str, dtype: str, there: bool) -> None:
    assert supports(api, dtype, Kernel(soc).tik.program.soc) is there
