"""Reductions against loops over repeats, blocks and lanes (tik_api.md 2.11 and 4.1)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, NotEmulated
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from tests.kernels.davinci.exactly import nearest
from tests.kernels.davinci.running import Array, Kernel
from tests.kernels.davinci.vector_model import Draw, Mask, Operand, drawn_mask, elements, symbolic

ROWS = {
    "vcadd": ("float16", "float32"),
    "vcmax": ("float16",),
    "vcmin": ("float16",),
    "vcgadd": ("float16",),
    "vcgmax": ("float16",),
    "vcgmin": ("float16",),
    "vcpadd": ("float16",),
}
SPACING = {"vcadd": 1, "vcmax": 2, "vcmin": 2, "vcgadd": 8, "vcgmax": 8, "vcgmin": 8, "vcpadd": 64}
"""Elements that one dst_rep_stride stands for, float16."""


def tree(values: list[float], dtype: str) -> float:
    """The sum by a binary tree of adjacent pairs, each addition rounded."""
    while len(values) > 1:
        values = [*values, 0.0] if len(values) % 2 else values
        values = [nearest(Fraction(left) + Fraction(right), dtype) for left, right in zip(values[::2], values[1::2])]
    return values[0]


def reduced(name: str, lanes: dict[int, float], dtype: str) -> list[tuple[int, Any]]:
    """(place, result) of one repeat with these active lanes; an int result is the bits of an index."""
    most = 256 // np.dtype(dtype).itemsize
    filled = [lanes.get(lane, 0.0) for lane in range(most)]
    if name == "vcadd":
        return [(0, tree(filled, dtype))]
    if name in ("vcmax", "vcmin"):
        value = max(lanes.values()) if name == "vcmax" else min(lanes.values())
        return [(0, value), (1, min(lane for lane, one in lanes.items() if one == value))]
    block = 32 // np.dtype(dtype).itemsize
    blocks = range(max(lanes) // block + 1)
    if name == "vcpadd":
        pairs = range(len(blocks) * block // 2)
        return [(p, nearest(Fraction(filled[2 * p]) + Fraction(filled[2 * p + 1]), dtype)) for p in pairs]
    results: list[tuple[int, Any]] = []
    for b in blocks:
        own = [value for lane, value in lanes.items() if lane // block == b]
        if name == "vcgadd":
            results.append((b, tree(filled[b * block : (b + 1) * block], dtype)))
        elif name == "vcgmax":
            results.append((b, max(own, default=-65504.0)))
        else:
            results.append((b, min(own, default=65504.0)))
    return results


def put(out: Array, place: int, result: Any) -> None:
    """Stores a number, or the bits of an index."""
    if isinstance(result, int):
        result = np.array(result, f"uint{8 * out.itemsize}").view(out.dtype)
    out[place] = result


def check_reduction(name: str, draw: Draw) -> None:
    """One drawn reduction against the model, untouched elements as they were."""
    dtype = ROWS[name][draw(0, len(ROWS[name]) - 1)]
    mask, repeats = drawn_mask(draw, 256 // np.dtype(dtype).itemsize), draw(1, 4)
    source = Operand(dtype, draw(0, 2), draw(0, 17), draw(0, 2))
    whole_blocks = (max(mask.lanes) // source.per_block + 1) * source.per_block
    source.fill(repeats, whole_blocks, "any", draw(0, 1 << 20))
    if draw(0, 1):
        source.array = np.round(source.array.clip(-50, 50)).astype(dtype)
    step = draw(1, 3)
    size = -(-((repeats - 1) * step * SPACING[name] + 64) // source.per_block) * source.per_block
    target = elements(dtype, size, "any", 7)
    expected = target.copy()
    for repeat in range(repeats):
        lanes = {lane: float(source.array[source.at(repeat, lane)]) for lane in mask.lanes}
        for place, result in reduced(name, lanes, dtype):
            put(expected, repeat * step * SPACING[name] + place, result)
    found = run_reduction(name, source, target, mask, repeats, step, bool(draw(0, 1)))
    np.testing.assert_array_equal(found, expected)


def run_reduction(
    name: str, source: Operand, target: Array, mask: Mask, repeats: int, step: int, in_scalars: bool
) -> Array:
    """The destination as the emulated core leaves it."""
    kernel = Kernel()
    src, dst = kernel.filled(source.array), kernel.filled(target)
    argument = symbolic(kernel, mask.argument) if in_scalars else mask.argument
    place = src[source.start * source.per_block :]
    getattr(kernel.tik, name)(argument, dst, place, repeats, step, source.block_stride, source.repeat_stride)
    kernel.shown(dst)
    return kernel.run()[0]


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_reductions_of_a_repeat(name: str, data: Any) -> None:
    check_reduction(name, lambda low, high: data.draw(st.integers(low, high)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_vec_reduce_add_is_a_tree_in_each_repeat_and_over_them(dtype: str, data: Any) -> None:
    draw: Draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    most = 256 // np.dtype(dtype).itemsize
    mask, repeats = drawn_mask(draw, most), draw(1, 9)
    source = Operand(dtype, 1, draw(0, 9), 0)
    source.fill(repeats, most, "any", draw(0, 1 << 20))
    sums = []
    for repeat in range(repeats):
        lanes = [0.0] * most
        for lane in mask.lanes:
            lanes[lane] = float(source.array[source.at(repeat, lane)])
        sums.append(tree(lanes, dtype))
    kernel = Kernel()
    src, dst = kernel.filled(source.array), kernel.filled(np.full(16, 3, dtype))
    kernel.tik.vec_reduce_add(mask.argument, dst, src, kernel.local(dtype, (16,)), repeats, source.repeat_stride)
    kernel.shown(dst)
    expected = np.full(16, 3, dtype)
    expected[0] = tree(sums, dtype)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("cal_index", [True, False])
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_vec_reduce_max_and_min_give_a_value_and_the_bits_of_its_place(
    largest: bool, cal_index: bool, data: Any
) -> None:
    draw: Draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    mask, repeats = drawn_mask(draw, 128), draw(1, 9)
    source = Operand("float16", 1, draw(1, 9), 0)
    source.fill(repeats, 128, "any", draw(0, 1 << 20))
    places = [source.at(repeat, lane) for repeat in range(repeats) for lane in mask.lanes]
    values = [float(source.array[place]) for place in places]
    value = max(values) if largest else min(values)
    kernel = Kernel()
    src, dst = kernel.filled(source.array), kernel.filled(np.full(16, 3, np.float16))
    call = kernel.tik.vec_reduce_max if largest else kernel.tik.vec_reduce_min
    call(mask.argument, dst, src, kernel.local("float16", (16,)), repeats, source.repeat_stride, cal_index)
    kernel.shown(dst)
    expected = np.full(16, 3, np.float16)
    expected[0] = value
    if cal_index:
        put(expected, 1, places[values.index(value)])
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize("reinterpreted", [False, True])
def test_an_index_is_read_as_the_bits_of_its_element(reinterpreted: bool) -> None:
    source = np.zeros(128, np.float16)
    source[77] = 5
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.local("float16", (16,))
    kernel.tik.vcmax(128, dst, src, 1, 1, 1, 8)
    found = kernel.filled(np.zeros(8, np.int32))
    index = kernel.tik.Scalar("uint16")
    index.set_as((dst.reinterpret_cast_to("uint16") if reinterpreted else dst)[1])
    found[0].set_as(index + 0)
    kernel.shown(found)
    assert kernel.run()[0][0] == 77


def test_index_low_puts_the_index_first() -> None:
    source = np.zeros(128, np.float16)
    source[9] = -5
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.local("uint16", (16,))
    kernel.tik.vcmin(128, dst.reinterpret_cast_to("float16"), src, 1, 1, 1, 8, index_low=True)
    kernel.shown(dst)
    assert kernel.run()[0][:2].tolist() == [9, int(np.float16(-5).view(np.uint16))]


def test_what_reductions_do_not_take() -> None:
    kernel = Kernel()
    half, single = kernel.local("float16", (128,)), kernel.local("float32", (64,))
    with pytest.raises(DataTypeError, match="vcmax on Ascend910A takes float16"):
        kernel.tik.vcmax(64, single, single, 1, 1, 1, 8)
    with pytest.raises(NotEmulated, match="max_cnt_index"):
        kernel.tik.vcmax(64, half, half, 1, 1, 1, 8, max_cnt_index=[1, 2, 3])
    with pytest.raises(NotEmulated, match="stride_unit"):
        kernel.tik.vcgadd(64, half, half, 1, 1, 1, 8, 1)


def test_every_reduction_has_an_oracle() -> None:
    rows = {name for name, row in VECTOR_ROWS.items() if row.reduces and "cmp" not in name}
    assert rows == {*ROWS, "vec_reduce_add", "vec_reduce_max", "vec_reduce_min"}
