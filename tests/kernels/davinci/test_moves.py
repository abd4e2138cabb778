"""Moves on every route against loops over bursts, written from the documentation (tik_api.md 1.2, 1.3, 1.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import (
    AlignmentError,
    DataTypeError,
    NotEmulated,
    OutOfBounds,
    RangeError,
    ScopeError,
)
from autotune.kernels.davinci.memory import GM, L0C, L1, UB
from tests.kernels.davinci.running import Array, Kernel, values

TYPES = ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64")
ROUTES = [(GM, UB), (GM, L1), (UB, GM), (UB, L1), (UB, UB), (L1, UB), (L1, GM)]


def bursts(dst: Array, src: Array, count: int, length: int, src_gap: int, dst_gap: int) -> Array:
    """dst with bursts of src in it; lengths and gaps in elements."""
    out = dst.copy()
    for burst in range(count):
        for i in range(length):
            out[burst * (length + dst_gap) + i] = src[burst * (length + src_gap) + i]
    return out


small = st.integers(0, 3)


@pytest.mark.parametrize(("origin", "goal"), ROUTES)
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(TYPES), st.integers(1, 4), st.integers(1, 3), small, small, st.data())
def test_data_move(
    origin: str, goal: str, dtype: str, count: int, length: int, src_gap: int, dst_gap: int, data: Any
) -> None:
    block = 32 // np.dtype(dtype).itemsize
    offsets = data.draw(st.tuples(small, small))
    sizes = [(offset + count * length + (count - 1) * gap) * block for offset, gap in zip(offsets, (src_gap, dst_gap))]
    source, target = values(dtype, sizes[0], 1), values(dtype, sizes[1], 2)
    kernel = Kernel()
    src = kernel.filled(source, origin)
    dst = kernel.filled(target, goal)
    start = [offset * block for offset in offsets]
    kernel.tik.data_move(dst[start[1]], src[start[0]], 0, count, length, src_gap, dst_gap)
    if goal == GM:
        kernel.result("int32", (8,))
        kernel.run()
        found = kernel.feed[dst.name]
    else:
        kernel.shown(dst)
        (found,) = kernel.run()
    expected = target.copy()
    expected[start[1] :] = bursts(
        target[start[1] :], source[start[0] :], count, length * block, src_gap * block, dst_gap * block
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 3), length=st.integers(1, 2), fractals=small, blocks=small, inward=st.booleans())
def test_data_move_counts_l0c_in_fractals(
    dtype: str, count: int, length: int, fractals: int, blocks: int, inward: bool
) -> None:
    block = 32 // np.dtype(dtype).itemsize
    l0c_gap, ub_gap = fractals * 256, blocks * block
    l0c = values(dtype, count * length * 256 + (count - 1) * l0c_gap, 1)
    ub = values(dtype, count * length * 256 + (count - 1) * ub_gap, 2)
    kernel = Kernel()
    in_l0c, in_ub = kernel.filled(l0c, L0C), kernel.filled(ub)
    if inward:
        kernel.tik.data_move(in_l0c, in_ub, 0, count, length, blocks, fractals)
        kernel.shown(in_l0c)
        expected = bursts(l0c, ub, count, length * 256, ub_gap, l0c_gap)
    else:
        kernel.tik.data_move(in_ub, in_l0c, 0, count, length, fractals, blocks)
        kernel.shown(in_ub)
        expected = bursts(ub, l0c, count, length * 256, l0c_gap, ub_gap)
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_symbolic_bursts_move_as_many_blocks_as_the_loop_says() -> None:
    source = values("float16", 64, 3)
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.filled(np.zeros(64, np.float16))
    with kernel.tik.for_range(1, 3) as i:
        kernel.tik.data_move(dst[(i - 1) * 32], src[(i - 1) * 16], 0, 1, i, 0, 0)
    kernel.shown(dst)
    expected = np.zeros(64, np.float16)
    expected[:16] = source[:16]
    expected[32:64] = source[16:48]
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize(("name", "most"), [("nburst", 4095), ("burst", 65535), ("src_stride", 65535)])
def test_data_move_names_the_range_of_its_numbers(name: str, most: int) -> None:
    kernel = Kernel()
    a, b = kernel.given(np.zeros(64, np.float16)), kernel.local("float16", (64,))
    numbers = {"nburst": 1, "burst": 1, "src_stride": 0, "dst_stride": 0, name: most + 1}
    with pytest.raises(RangeError, match=f"{name} is {most + 1}.*{most}"):
        kernel.tik.data_move(b, a, 0, **numbers)


def test_data_move_rejects_what_it_cannot_do() -> None:
    kernel = Kernel()
    half, single = kernel.local("float16", (64,)), kernel.local("float32", (64,))
    l0a = kernel.local("float16", (256,), "local.L0A")
    with pytest.raises(DataTypeError, match="float16"):
        kernel.tik.data_move(half, single, 0, 1, 1, 0, 0)
    with pytest.raises(ScopeError, match=r"from UB .* to L0A"):
        kernel.tik.data_move(l0a, half, 0, 1, 1, 0, 0)
    with pytest.raises(AlignmentError, match="32"):
        kernel.tik.data_move(half[1], half, 0, 1, 1, 0, 0)
    with pytest.raises(NotEmulated, match="data_move"):
        kernel.tik.data_move(half[32], half, 0, 1, 1, 0, 0, pad_mode=1)


def test_a_move_beyond_its_tensor_is_told_with_the_kernels_line() -> None:
    kernel = Kernel()
    source = kernel.given(np.zeros(64, np.float16))
    target = kernel.local("float16", (64,))
    kernel.tik.data_move(target[32], source, 0, 1, 4, 0, 0)
    kernel.result("int32", (8,))
    with pytest.raises(OutOfBounds, match=r"test_moves\.py"):
        kernel.run()


@pytest.mark.parametrize(
    ("mode", "of", "into"), [(1, "float32", "float16"), (2, "float32", "float16"), (5, "float32", "float32")]
)
def test_a_mode_converts_on_the_way_from_l0c(mode: int, of: str, into: str) -> None:
    kernel = Kernel()
    numbers = values(of, 2 * 256 * 2, 3) * np.float32(3e4)
    source, target = kernel.filled(numbers, L0C), kernel.local(into, (2 * 256 + 16,))
    kernel.tik.vector_dup(16, target[2 * 256 :] if into == "float16" else target[2 * 256 : 2 * 256 + 16], 0, 1, 1, 8)
    kernel.tik.data_move(target, source, 0, 2, 1, 2, 0, mode)
    kernel.shown(target)
    (found,) = kernel.run()
    taken = numbers.reshape(4, 256)[[0, 3]]
    kept = np.maximum(taken, 0) if mode in (2, 5) else taken
    largest = np.finfo(into).max
    assert np.array_equal(found[: 2 * 256], np.clip(kept, -largest, largest).astype(into).reshape(-1))


def test_a_mode_widens_on_the_way_into_l0c() -> None:
    kernel = Kernel()
    numbers = values("float16", 256, 4)
    source, target = kernel.filled(numbers), kernel.local("float32", (256,), L0C)
    kernel.tik.data_move(target, source, 0, 1, 1, 0, 0, 4)
    kernel.shown(target)
    (found,) = kernel.run()
    assert np.array_equal(found, numbers.astype(np.float32))


def test_a_mode_needs_its_types() -> None:
    kernel = Kernel()
    source, target = kernel.local("float32", (256,), L0C), kernel.local("float32", (256,))
    with pytest.raises(DataTypeError, match="mode 1 turns float32 into float16"):
        kernel.tik.data_move(target, source, 0, 1, 1, 0, 0, 1)
    with pytest.raises(NotEmulated, match="data_move"):
        kernel.tik.data_move(target, source, 0, 1, 1, 0, 0, 3)


@pytest.mark.parametrize("condition", [False, 0, "else"])
def test_types_may_differ_where_a_move_is_never_executed(condition: Any) -> None:
    """Public kernels keep such a move for lengths that they are not built for."""
    kernel = Kernel()
    numbers = np.arange(16, dtype=np.float32)
    source, other = kernel.filled(numbers), kernel.local("float16", (16,))
    if condition == "else":
        with kernel.tik.if_scope(True):
            kernel.shown(source)
        with kernel.tik.else_scope(), kernel.tik.new_stmt_scope():
            kernel.tik.data_move(other, source, 0, 1, 1, 0, 0)
    else:
        kernel.shown(source)
        with kernel.tik.if_scope(condition):
            kernel.tik.data_move(other, source, 0, 1, 1, 0, 0)
    with kernel.tik.if_scope(True), pytest.raises(DataTypeError, match="differ in type"):
        kernel.tik.data_move(other, source, 0, 1, 1, 0, 0)
    with kernel.tik.for_range(0, 0):
        kernel.tik.data_move(other, source, 0, 1, 1, 0, 0)
    (found,) = kernel.run()
    assert np.array_equal(found, numbers)


# tensor_mov.

UNITS = {"": (256, 256), "m": (256, 256), "v": (16, 256), "sc": (64, 64), "dp": (128, 128)}
"""Elements a unit moves, and from one to the next in L0C (tik_api.md 1.3)."""


@pytest.mark.parametrize("mode", UNITS)
@settings(max_examples=10, deadline=None)
@given(count=st.integers(1, 2), length=st.integers(1, 3), l0c_gap=st.integers(0, 2), ub_gap=st.integers(0, 2),
       relu=st.booleans(), inward=st.booleans())  # fmt: skip
def test_tensor_mov_moves_units_of_its_mode(
    mode: str, count: int, length: int, l0c_gap: int, ub_gap: int, relu: bool, inward: bool
) -> None:
    unit, step = UNITS[mode]
    l0c = values("float32", 256 * 10, 1)
    ub = values("float32", count * (length * unit + ub_gap * 8), 2)
    kernel = Kernel()
    in_l0c, in_ub = kernel.filled(l0c, L0C), kernel.filled(ub)
    pairs = [
        (burst * (length + l0c_gap) * step + u * step + i, burst * (length * unit + ub_gap * 8) + u * unit + i)
        for burst in range(count)
        for u in range(length)
        for i in range(unit)
    ]
    there, here = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    if inward:
        kernel.tik.tensor_mov(in_l0c, in_ub, mode, count, length, l0c_gap, ub_gap, relu=relu)
        kernel.shown(in_l0c)
        expected = l0c.copy()
        expected[there] = np.maximum(ub[here], 0) if relu else ub[here]
    else:
        kernel.tik.tensor_mov(in_ub, in_l0c, mode, count, length, ub_gap, l0c_gap, relu=relu)
        kernel.shown(in_ub)
        expected = ub.copy()
        expected[here] = np.maximum(l0c[there], 0) if relu else l0c[there]
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_tensor_mov_rounds_to_nearest_even_and_saturates() -> None:
    numbers = np.zeros(256, np.float32)
    ties = [1 + 2**-11, 1 + 3 * 2**-11, 2048.5, 2049.5, -2049.5, 65519.0, 65520.0, 1e30, -1e30, 2**-25, 3 * 2**-25]
    numbers[: len(ties)] = ties
    kernel = Kernel()
    source, target = kernel.filled(numbers, L0C), kernel.local("float16", (256,))
    kernel.tik.tensor_mov(target, source, "m", 1, 1, 0, 0)
    kernel.shown(target)
    expected = [1.0, 1 + 2 * 2**-10, 2048, 2050, -2050, 65504, 65504, 65504, -65504, 0, 2**-23]
    np.testing.assert_array_equal(kernel.run()[0][: len(ties)].astype(np.float64), expected)


def test_tensor_mov_scales_int32_to_float16() -> None:
    numbers = np.arange(-128, 128, dtype=np.int32) * 1001
    kernel = Kernel()
    source, target = kernel.filled(numbers, L0C), kernel.local("float16", (256,))
    kernel.tik.tensor_mov(target, source, "m", 1, 1, 0, 0, deqscale=0.125)
    kernel.shown(target)
    np.testing.assert_array_equal(kernel.run()[0], (numbers * 0.125).astype(np.float16))


def test_tensor_mov_needs_a_scale_and_a_known_conversion() -> None:
    kernel = Kernel()
    source, half = kernel.local("int32", (256,), L0C), kernel.local("float16", (256,))
    with pytest.raises(DataTypeError, match="deqscale"):
        kernel.tik.tensor_mov(half, source, "m", 1, 1, 0, 0)
    with pytest.raises(DataTypeError, match="tensor_mov"):
        kernel.tik.tensor_mov(kernel.local("float32", (256,)), source, "m", 1, 1, 0, 0)
    with pytest.raises(RangeError, match="block_mode"):
        kernel.tik.tensor_mov(half, source, "x", 1, 1, 0, 0, deqscale=1.0)


def test_tensor_mov_widens_halves_on_the_way_in() -> None:
    numbers = values("float16", 256)
    kernel = Kernel()
    source, target = kernel.filled(numbers), kernel.local("float32", (256,), L0C)
    kernel.tik.tensor_mov(target, source, "m", 1, 1, 0, 0)
    kernel.shown(target)
    np.testing.assert_array_equal(kernel.run()[0], numbers.astype(np.float32))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["float16", "float32", "int32"]), st.integers(1, 2), st.integers(1, 2), small, small)
def test_broadcast_ub_to_l0c(dtype: str, count: int, groups: int, src_gap: int, dst_gap: int) -> None:
    block = 32 // np.dtype(dtype).itemsize
    source = values(dtype, count * (groups * 16 + src_gap * block), 1)
    target = values(dtype, count * (groups + dst_gap) * 256, 2)
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.filled(target, L0C)
    kernel.tik.broadcast_ub_to_l0c(dst, src, count, groups, src_gap, dst_gap)
    kernel.shown(dst)
    expected = target.copy()
    for burst in range(count):
        for group in range(groups):
            row = source[burst * (groups * 16 + src_gap * block) + group * 16 :][:16]
            for r in range(16):
                start = (burst * (groups + dst_gap) + group) * 256 + r * 16
                expected[start : start + 16] = row
    np.testing.assert_array_equal(kernel.run()[0], expected)


# data_move_pad.


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["int8", "float16", "float32"]), st.integers(1, 3), st.integers(1, 40), small, small,
    st.integers(0, 4), st.integers(0, 4),
)  # fmt: skip
def test_data_move_pad_places_each_burst_on_a_block(
    dtype: str, count: int, elements: int, gm_gap: int, ub_gap: int, left: int, right: int
) -> None:
    size = np.dtype(dtype).itemsize
    block = 32 // size
    source = values(dtype, count * (elements + gm_gap), 1)
    width = (-(-(left + elements + right) // block) + ub_gap) * block
    target = values(dtype, count * width, 2)
    kernel = Kernel("Ascend910B1")
    src, dst = kernel.given(source), kernel.filled(target)
    kernel.tik.data_move_pad(dst, src, count, elements * size, ub_gap, gm_gap * size, right, left, 7)
    kernel.shown(dst)
    expected = target.copy()
    for burst in range(count):
        start = burst * width
        expected[start : start + left] = 7
        taken = source[burst * (elements + gm_gap) :][:elements]
        expected[start + left : start + left + elements] = taken
        expected[start + left + elements : start + left + elements + right] = 7
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_data_move_pad_writes_bursts_of_any_length_to_gm() -> None:
    source = values("float16", 64)
    kernel = Kernel("Ascend910B1")
    src, dst = kernel.filled(source), kernel.result("float16", (24,))
    kernel.tik.data_move_pad(dst, src, 2, 14, 10, 1)
    expected = np.zeros(24, np.float16)
    expected[:7], expected[12:19] = source[:7], source[32:39]
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_data_move_pad_is_not_on_a_910a() -> None:
    kernel = Kernel("Ascend910A")
    src, dst = kernel.given(values("float16", 64)), kernel.local("float16", (64,))
    with pytest.raises(DataTypeError, match="Ascend910A has no data_move_pad"):
        kernel.tik.data_move_pad(dst, src, 1, 14, 0, 0)


# Atomic addition.


def accumulate(soc: str, mode: Any, dtype: str, base: Array, added: Array) -> Array:
    """GM after one core adds to what another wrote there."""
    kernel = Kernel(soc)
    source, first = kernel.filled(added), kernel.filled(base)
    target = kernel.result(dtype, base.shape)
    kernel.tik.data_move(target, first, 0, 1, base.nbytes // 32, 0, 0)
    kernel.tik.set_atomic_add(mode)
    kernel.tik.data_move(target, source, 0, 1, base.nbytes // 32, 0, 0)
    kernel.tik.set_atomic_add(0)
    return kernel.run()[0]


@pytest.mark.parametrize(
    ("soc", "mode", "dtype"),
    [
        ("Ascend910A", 1, "float32"),
        ("Ascend310P3", 2, "float16"),
        ("Ascend310P3", 3, "int16"),
        ("Ascend910B1", 4, "int32"),
        ("Ascend910B1", "int8", "int8"),
    ],
)
def test_atomic_addition_by_chip(soc: str, mode: Any, dtype: str) -> None:
    base, added = values(dtype, 64, 1), values(dtype, 64, 2)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(accumulate(soc, mode, dtype, base, added), base + added)


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B1"])
@pytest.mark.parametrize(("mode", "dtype"), [(1, "float32"), (2, "float16")])
def test_an_atomic_sum_beyond_its_type_saturates_where_the_chip_does(soc: str, mode: int, dtype: str) -> None:
    largest = np.finfo(dtype).max
    found = accumulate(soc, mode, dtype, np.full(16, largest), np.full(16, largest))
    assert (found == (np.inf if soc == "Ascend910B1" else largest)).all()


@pytest.mark.parametrize(("soc", "mode"), [("Ascend910A", 2), ("Ascend310", 1), ("Ascend310P3", 4), ("Ascend910A", 7)])
def test_a_chip_refuses_atomics_it_does_not_have(soc: str, mode: int) -> None:
    with pytest.raises(DataTypeError, match=f"{soc} adds"):
        Kernel(soc).tik.set_atomic_add(mode)


def test_adding_another_type_than_was_set_is_an_error() -> None:
    with pytest.raises(DataTypeError, match="float16 to GM while set_atomic_add says float32"):
        accumulate("Ascend910A", 1, "float16", values("float16", 16), values("float16", 16))
