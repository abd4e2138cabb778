"""Every element-wise row against loops over repeats, blocks and lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, RangeError, ScopeError
from autotune.kernels.davinci.memory import L1
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from tests.kernels.davinci.exactly import nearest
from tests.kernels.davinci.running import Kernel, values
from tests.kernels.davinci.vector_model import ORACLES, check_elementwise


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_elements(name: str, data: Any) -> None:
    check_elementwise(name, lambda low, high: data.draw(st.integers(low, high)))


@pytest.mark.parametrize("name", [name for name in ORACLES if name != "vmaddrelu"])
def test_the_vec_twin_has_block_strides_of_one(name: str) -> None:
    dtype = ORACLES[name].types[0][0]
    count = len(ORACLES[name].types[0])
    found = []
    for prefix, blocks in (("v", [1] * count), ("vec_", [])):
        kernel = Kernel()
        tensors = [kernel.filled(np.abs(values(dtype, 384, seed)) + 1) for seed in range(count)]
        numbers = [3.0] if ORACLES[name].scalar else []
        getattr(kernel.tik, prefix + name[1:])(30, *tensors, *numbers, 3, *blocks, *[8] * count)
        kernel.shown(tensors[0])
        found.append(kernel.run()[0])
    np.testing.assert_array_equal(found[0], found[1])


def test_accumulating_into_one_place_adds_repeat_after_repeat() -> None:
    source, start = values("float16", 4 * 128, 1), values("float16", 128, 2)
    kernel = Kernel()
    total, added = kernel.filled(start), kernel.filled(source)
    kernel.tik.vec_add(128, total, total, added, 4, 0, 0, 8)
    kernel.shown(total)
    expected = start
    for repeat in range(4):
        added_once = expected.astype(np.float64) + source[128 * repeat : 128 * repeat + 128]
        expected = added_once.astype(np.float16)
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_a_repeat_reads_what_an_earlier_one_wrote() -> None:
    start = values("float32", 5 * 64, 3)
    kernel = Kernel()
    tensor = kernel.filled(start)
    kernel.tik.vec_adds(64, tensor[64:], tensor, 1.0, 4, 8, 8)
    kernel.shown(tensor)
    expected = start.copy()
    for repeat in range(4):
        expected[64 * repeat + 64 : 64 * repeat + 128] = expected[64 * repeat : 64 * repeat + 64] + np.float32(1)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize("call", ["vec_adds", "vec_dup"])
def test_a_symbolic_repeat_of_0_does_nothing_even_beyond_the_tensor(call: str) -> None:
    start = values("float32", 64, 3)
    kernel = Kernel()
    tensor = kernel.filled(start)
    none = kernel.tik.Scalar("int32", init_value=0)
    far = kernel.tik.Scalar("int32", init_value=64000)
    arguments = (tensor[far], 1.0, none, 8, 8) if call == "vec_adds" else (1.0, none, 8)
    getattr(kernel.tik, call)(64, tensor[far], *arguments)
    kernel.shown(tensor)
    np.testing.assert_array_equal(kernel.run()[0], start)


EVERY = ["int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", EVERY)
def test_vector_dup_fills_the_active_lanes_with_every_type(dtype: str) -> None:
    lanes = 256 // np.dtype(dtype).itemsize
    start = values(dtype, 3 * lanes, 1)
    kernel = Kernel()
    tensor = kernel.filled(start)
    kernel.tik.vector_dup(lanes - 3, tensor, 7, 2, 1, 8)
    kernel.shown(tensor)
    expected = start.copy()
    for repeat in range(2):
        expected[repeat * lanes : repeat * lanes + lanes - 3] = 7
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize("total", [1, 63, 64, 130, 192])
@pytest.mark.parametrize("in_scalar", [False, True])
def test_a_counter_mask_counts_elements_where_the_chip_knows_it(total: int, in_scalar: bool) -> None:
    start = values("float32", 256, 1)
    kernel = Kernel("Ascend310P3")
    tensor = kernel.filled(start)
    mask = kernel.tik.Scalar("int32", init_value=total) if in_scalar else total
    kernel.tik.vec_adds(mask, tensor, tensor, 1.0, 1, 8, 8, mask_mode="counter")
    kernel.shown(tensor)
    expected = start.copy()
    expected[:total] += np.float32(1)
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_a_counter_mask_on_a_910a_is_a_mask_as_always() -> None:
    start = values("float32", 256, 1)
    kernel = Kernel("Ascend910A")
    tensor = kernel.filled(start)
    kernel.tik.vec_adds(10, tensor, tensor, 1.0, 2, 8, 8, mask_mode="counter")
    kernel.shown(tensor)
    expected = start.copy()
    expected[:10] += np.float32(1)
    expected[64:74] += np.float32(1)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize(("soc", "sum_", "difference"), [("Ascend910A", 65504.0, 0.0), ("Ascend910B1", np.inf, np.nan)])
def test_overflow_saturates_where_the_chip_does(soc: str, sum_: float, difference: float) -> None:
    kernel = Kernel(soc)
    large, endless = kernel.filled(np.full(16, 60000, np.float16)), kernel.filled(np.full(16, np.inf, np.float16))
    total, gone = kernel.local("float16", (16,)), kernel.local("float16", (16,))
    kernel.tik.vec_add(16, total, large, large, 1, 8, 8, 8)
    kernel.tik.vec_sub(16, gone, endless, endless, 1, 8, 8, 8)
    kernel.shown(total)
    kernel.shown(gone)
    found = kernel.run()
    np.testing.assert_array_equal(found[0], np.full(16, sum_, np.float16))
    np.testing.assert_array_equal(found[1], np.full(16, difference, np.float16))


@pytest.mark.parametrize("name", ["rec", "rsqrt", "ln", "expm1"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_high_precision_calls_are_correctly_rounded(name: str, dtype: str) -> None:
    source = (np.abs(values(dtype, 256, 4)) + np.dtype(dtype).type(0.01)).astype(dtype)
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.filled(np.zeros(256, dtype))
    work = kernel.local("float32", (256 * 6,))
    lanes = 256 // np.dtype(dtype).itemsize
    getattr(kernel.tik, f"vec_{name}_high_preci")(lanes, dst, src, work, 256 // lanes, 8, 8)
    kernel.shown(dst)
    functions: dict[str, Callable[[Any], Any]] = {
        "rec": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "ln": np.log,
        "expm1": np.expm1,
    }
    expected = [nearest(float(functions[name](np.float64(value))), dtype) for value in source]
    np.testing.assert_array_equal(kernel.run()[0], np.array(expected, dtype))


def test_high_precision_calls_want_their_work_tensor() -> None:
    kernel = Kernel()
    tensor, work = kernel.local("float16", (128,)), kernel.local("float32", (128 * 4 - 8,))
    with pytest.raises(RangeError, match=r"work_tensor .* 504 elements, 512 are needed"):
        kernel.tik.vec_rec_high_preci(128, tensor, tensor, work, 1, 8, 8)


def test_fused_calls_of_int32_and_bytes() -> None:
    a, b = np.arange(-32, 32, dtype=np.int32) * 1000, np.full(64, 500, np.int32)
    halves = np.linspace(-20, 20, 128).astype(np.float16)
    kernel = Kernel()
    out, quantised = kernel.local("float16", (64,)), kernel.local("int8", (128,))
    kernel.tik.vadddeqrelu(64, out, 0.5, kernel.filled(a), kernel.filled(b), 1, 1, 1, 1, 4, 8, 8)
    kernel.tik.vmulconv(128, quantised, kernel.filled(halves), kernel.filled(halves), 1, 1, 1, 1, 4, 8, 8)
    kernel.shown(out)
    kernel.shown(quantised)
    scaled, squares = kernel.run()
    np.testing.assert_array_equal(scaled, np.maximum((a + b) * 0.5, 0).astype(np.float16))
    expected = np.rint(halves.astype(np.float64) ** 2).clip(-128, 127)
    np.testing.assert_array_equal(squares, expected.astype(np.int8))


def test_operands_are_checked_against_their_row() -> None:
    kernel = Kernel()
    half, single = kernel.local("float16", (128,)), kernel.local("float32", (64,))
    far = kernel.local("float16", (128,), L1)
    tik = kernel.tik
    with pytest.raises(DataTypeError, match=r"vexp on Ascend910A takes .*float16.* as its destination, not int32"):
        tik.vec_exp(64, kernel.local("int32", (64,)), single, 1, 8, 8)
    with pytest.raises(DataTypeError, match=r"vadd on Ascend910A takes .* together"):
        tik.vec_add(64, half, half, single, 1, 8, 8, 8)
    with pytest.raises(ScopeError, match=r"vadd takes its source 2 in local\.UB"):
        tik.vec_add(64, half, half, far, 1, 8, 8, 8)
    with pytest.raises(RangeError, match=r"mask is 129; it must be 1 to 128"):
        tik.vec_add(129, half, half, half, 1, 8, 8, 8)
    with pytest.raises(RangeError, match=r"repeat_times is 0"):
        tik.vec_add(128, half, half, half, 0, 8, 8, 8)
    with pytest.raises(RangeError, match=r"must set some of the first 64 lanes"):
        tik.vec_adds([1, 1], single, single, 1.0, 1, 8, 8)
    with pytest.raises(NotEmulated, match=r"vadd.*stride_unit"):
        tik.vadd(128, half, half, half, 1, 1, 1, 1, 8, 8, 8, 1)


def test_a_310_lacks_what_a_910_has() -> None:
    kernel = Kernel("Ascend310")
    single = kernel.local("float32", (64,))
    with pytest.raises(DataTypeError, match="Ascend310 has no vdiv"):
        kernel.tik.vdiv(64, single, single, single, 1, 1, 1, 1, 8, 8, 8)
    with pytest.raises(DataTypeError, match="vexp on Ascend310 takes float16"):
        kernel.tik.vec_exp(64, single, single, 1, 8, 8)


def test_every_elementwise_row_has_an_oracle() -> None:
    own_tests = {"vmulconv", "vadddeqrelu", "vconv", "vconv_deq", "vector_dup", "vsel", "vreduce", "mov_cmpmask"} | {
        "vconcat",
        "vextract",
        "vrpsort16",
    }
    rows = {name for name, row in VECTOR_ROWS.items() if not row.reduces and "high_preci" not in name}
    assert {name for name in rows if "cmp" not in name} - own_tests == set(ORACLES) - {"mov_cmpmask"}
