"""Comparisons, masks of them, selections and vreduce against loops over lanes (tik_api.md 4.1)."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, OutOfBounds, RangeError
from tests.kernels.davinci.running import Array, Kernel, values
from tests.kernels.davinci.vector_model import Draw, Operand, drawn_mask, elements, symbolic

COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
FLOATS = ("float16", "float32")


def alike(dtype: str, size: int, seed: int) -> Array:
    """Few different numbers, so that equals meet."""
    return np.random.default_rng(seed).integers(-2, 3, size).astype(dtype)


def bits_of(holds: list[bool]) -> Array:
    """Bytes with the first lane in the lowest bit."""
    return np.array(
        [sum(bit << i for i, bit in enumerate(holds[at : at + 8])) for at in range(0, len(holds), 8)], np.uint8
    )


def check_comparison(name: str, draw: Draw) -> None:
    """vcmpv_* of drawn strides into bits."""
    dtype, repeats = FLOATS[draw(0, 1)], draw(1, 3)
    lanes = 256 // np.dtype(dtype).itemsize
    sources = [Operand(dtype, draw(0, 2), draw(0, 9), draw(0, 1)) for _ in range(2)]
    for seed, operand in enumerate(sources):
        operand.fill(repeats, lanes, "any", 1)
        operand.array = alike(dtype, operand.array.size, draw(0, 1 << 20) + seed)
    holds = [
        bool(COMPARISONS[name](*(operand.array[operand.at(repeat, lane)] for operand in sources)))
        for repeat in range(repeats)
        for lane in range(lanes)
    ]
    kernel = Kernel()
    bits = kernel.filled(np.full(64, 0xA5, np.uint8)).reinterpret_cast_to(f"uint{8 << draw(0, 2)}")
    places = [kernel.filled(operand.array)[operand.start * operand.per_block :] for operand in sources]
    steps = [operand.repeat_stride for operand in sources]
    getattr(kernel.tik, f"vcmpv_{name}")(bits, *places, repeats, *(o.block_stride for o in sources), *steps)
    shown = kernel.result("uint8", (64,))
    kernel.tik.data_move(shown, bits.reinterpret_cast_to("uint8"), 0, 1, 2, 0, 0)
    expected = np.full(64, 0xA5, np.uint8)
    expected[: len(holds) // 8] = bits_of(holds)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize("name", COMPARISONS)
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_comparisons_into_bits(name: str, data: Any) -> None:
    check_comparison(name, lambda low, high: data.draw(st.integers(low, high)))


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("mask", [128, 37, [0b1011, 1 << 63 | 5]])
def test_comparisons_into_the_mask_register(name: str, mask: Any) -> None:
    a, b = alike("float16", 128, 1), alike("float16", 256, 2)
    kernel = Kernel()
    cmpmask = getattr(kernel.tik, f"vcmp_{name}")(mask, kernel.filled(a), kernel.filled(b), 1, 2)
    out = kernel.filled(np.zeros(16, np.uint16))
    kernel.tik.mov_cmpmask_to_tensor(out, cmpmask)
    kernel.shown(out)
    active = [
        bool(mask[0] << 64 >> i & 1 or mask[1] >> i & 1) if isinstance(mask, list) else i < mask for i in range(128)
    ]
    holds = [active[lane] and bool(COMPARISONS[name](a[lane], b[lane // 16 * 32 + lane % 16])) for lane in range(128)]
    expected = np.zeros(16, np.uint16)
    expected[:8] = bits_of(holds).view(np.uint16)
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_the_vec_comparison_has_block_strides_of_one() -> None:
    a, b = alike("float32", 128, 1), alike("float32", 128, 2)
    kernel = Kernel()
    bits = kernel.filled(np.zeros(32, np.uint8))
    kernel.tik.vec_cmpv_lt(bits, kernel.filled(a), kernel.filled(b), 2, 8, 8)
    kernel.shown(bits)
    np.testing.assert_array_equal(kernel.run()[0][:16], bits_of([bool(x) for x in a < b]))


def check_selection(mode: int, from_register: bool, draw: Draw) -> None:
    """vsel of a drawn mode, mask and strides."""
    dtype, repeats = FLOATS[draw(0, 1)], draw(1, 3)
    lanes = 256 // np.dtype(dtype).itemsize
    mask = drawn_mask(draw, lanes)
    operands = [Operand(dtype, draw(0 if place else 1, 2), draw(16 - 16 * bool(place), 17), 0) for place in range(3)]
    for place, operand in enumerate(operands):
        operand.fill(repeats, max(mask.lanes) + 1, "any", draw(0, 1 << 20) + place)
    chosen = np.random.default_rng(draw(0, 1 << 20)).integers(0, 256, 64, dtype=np.uint8)
    number = draw(-8, 8) / 2
    expected = operands[0].array.copy()
    for repeat in range(repeats):
        for lane in mask.lanes:
            bit = (0 if mode == 0 else repeat * lanes) + lane
            other = number if mode == 1 else operands[2].array[operands[2].at(repeat, lane)]
            first = operands[1].array[operands[1].at(repeat, lane)]
            expected[operands[0].at(repeat, lane)] = first if chosen[bit // 8] >> bit % 8 & 1 else other
    kernel = Kernel()
    dst, src0, src1 = (kernel.filled(operand.array) for operand in operands)
    sel = kernel.filled(chosen)
    register = kernel.tik.mov_tensor_to_cmpmask(sel) if from_register else sel
    argument = symbolic(kernel, mask.argument) if draw(0, 1) else mask.argument
    blocks, steps = [o.block_stride for o in operands], [o.repeat_stride for o in operands]
    other_operand = number if mode == 1 else src1
    kernel.tik.vsel(argument, mode, dst, register, src0, other_operand, repeats, *blocks, *steps)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize(("mode", "from_register"), [(0, True), (0, False), (1, False), (2, False)])
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_selections(mode: int, from_register: bool, data: Any) -> None:
    check_selection(mode, from_register, lambda low, high: data.draw(st.integers(low, high)))


def test_vec_sel_is_vsel_with_block_strides_of_one() -> None:
    a, chosen = values("float16", 256, 1), values("uint8", 32, 3)
    kernel = Kernel()
    dst, sel = kernel.filled(np.zeros(256, np.float16)), kernel.filled(chosen)
    kernel.tik.vec_sel(128, 1, dst, sel, kernel.filled(a), 2.0, 2, 8, 8, 8)
    kernel.shown(dst)
    bits = np.unpackbits(chosen, bitorder="little").astype(bool)
    np.testing.assert_array_equal(kernel.run()[0], np.where(bits, a, np.float16(2)))


def test_there_is_one_mask_register() -> None:
    a, b = alike("float16", 128, 1), alike("float16", 128, 2)
    kernel = Kernel()
    src0, src1, dst = kernel.filled(a), kernel.filled(b), kernel.local("float16", (128,))
    first = kernel.tik.vcmp_lt(128, src0, src1, 1, 1)
    kernel.tik.vcmp_gt(128, src0, src1, 1, 1)
    kernel.tik.vsel(128, 0, dst, first, src0, src1, 1, 1, 1, 1, 8, 8, 8)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], np.maximum(a, b))


PATTERNS = {1: (2, 0), 2: (2, 1), 3: (4, 0), 4: (4, 1), 5: (4, 2), 6: (4, 3), 7: (1, 0)}


def check_compression(pattern: int | None, draw: Draw) -> None:
    """vreduce by a number or by bits."""
    dtype = ("float16", "float32", "int16", "int32", "uint16", "uint32")[draw(0, 5)]
    lanes, repeats = 256 // np.dtype(dtype).itemsize, draw(1, 3)
    count = draw(1, lanes)
    source = Operand(dtype, draw(1, 2), draw(0, 17), 0)
    source.fill(repeats, (count + source.per_block - 1) // source.per_block * source.per_block, "any", draw(0, 999))
    step = draw(0, 2)
    chosen = np.random.default_rng(draw(0, 999)).integers(0, 256, 160, dtype=np.uint8)
    taken = []
    for repeat in range(repeats):
        for lane in range(count):
            if pattern is None:
                bit = repeat * step * 256 + lane
                hit = bool(chosen[bit // 8] >> bit % 8 & 1)
            else:
                every, first = PATTERNS[pattern]
                hit = lane % every == first
            if hit:
                taken.append(source.array[source.at(repeat, lane)])
    target = elements(dtype, lanes * 3, "any", 5)
    kernel = Kernel()
    src, dst, kept = kernel.filled(source.array), kernel.filled(target), kernel.filled(np.zeros(8, np.int32))
    bits = kernel.filled(chosen).reinterpret_cast_to(f"uint{8 * target.itemsize}")
    number = kernel.tik.Scalar("uint32")
    chosen_by = bits if pattern is None else pattern
    kernel.tik.vreduce(count, dst, src, chosen_by, repeats, source.block_stride, source.repeat_stride, step, 0, number)
    kept[0].set_as(number + 0)
    kernel.shown(dst)
    kernel.shown(kept)
    found, counted = kernel.run()
    expected = target.copy()
    expected[: len(taken)] = taken
    np.testing.assert_array_equal(found, expected)
    assert counted[0] == len(taken)


@pytest.mark.parametrize("pattern", [None, *PATTERNS])
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_vreduce_packs_the_chosen_lanes(pattern: int | None, data: Any) -> None:
    check_compression(pattern, lambda low, high: data.draw(st.integers(low, high)))


def test_vreduce_in_counter_mode_takes_any_number_of_elements() -> None:
    source = values("float32", 200, 1)
    kernel = Kernel("Ascend310P3")
    src, dst = kernel.filled(source), kernel.filled(np.zeros(104, np.float32))
    kernel.tik.vreducev2(190, dst, src, 2, 1, 1, 8, 0, None, "counter")
    kernel.shown(dst)
    found = kernel.run()[0]
    np.testing.assert_array_equal(found[:95], source[1:190:2])
    assert not found[95:].any()


def test_what_selections_do_not_take() -> None:
    kernel = Kernel()
    half, bits = kernel.local("float16", (128,)), kernel.local("uint8", (32,))
    whole = kernel.local("int32", (64,))
    tik = kernel.tik
    with pytest.raises(RangeError, match="mode is 3"):
        tik.vec_sel(128, 3, half, bits, half, half, 1, 8, 8, 8)
    with pytest.raises(DataTypeError, match=r"vsel on Ascend910A takes .* not int32"):
        tik.vec_sel(64, 2, whole, bits, whole, whole, 1, 8, 8, 8)
    with pytest.raises(RangeError, match="src1_pattern is 8"):
        tik.vreduce(128, half, half, 8, 1, 1, 8, 0)
    with pytest.raises(DataTypeError, match="a pattern for float16 is uint16, not uint8"):
        tik.vreduce(128, half, half, bits, 1, 1, 8, 0)
    with pytest.raises(DataTypeError, match=r"vcmpv_eq on Ascend910A takes .* not int32"):
        tik.vec_cmpv_eq(bits, whole, whole, 1, 8, 8)


def test_vreduce_beyond_its_destination_is_told() -> None:
    kernel = Kernel()
    src, dst = kernel.filled(values("float16", 128, 1)), kernel.local("float16", (32,))
    kernel.tik.vreduce(128, dst, src, 1, 1, 1, 8, 0)
    kernel.shown(dst)
    with pytest.raises(OutOfBounds, match=r"64 elements do not fit in 32 .*test_vector_select\.py"):
        kernel.run()
