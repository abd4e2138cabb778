"""Transposes against loops over elements, written from the documentation (tik_api.md 1.8, 1.9, 4.1 #39)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, RangeError
from tests.kernels.davinci.running import Array, Kernel, values

HALVES = ("float16", "int16", "uint16")


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(HALVES), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2))
def test_vec_trans_transposes_16_by_16_blocks(dtype: str, repeat: int, dst_stride: int, src_stride: int) -> None:
    source, target = values(dtype, 256 * 6, 1), values(dtype, 256 * 6, 2)
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.filled(target)
    kernel.tik.vec_trans(dst, src, repeat, dst_stride, src_stride)
    kernel.shown(dst)
    expected = target.copy()
    for r in range(repeat):
        block = source[r * src_stride * 256 :][:256].reshape(16, 16)
        expected[r * dst_stride * 256 :][:256] = block.T.reshape(-1)
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_vtranspose_works_in_place() -> None:
    source = values("float16", 256)
    kernel = Kernel()
    tensor = kernel.filled(source)
    kernel.tik.vtranspose(tensor, tensor)
    kernel.shown(tensor)
    np.testing.assert_array_equal(kernel.run()[0].reshape(16, 16), source.reshape(16, 16).T)


def scattered(
    source: Array, target: Array, sources: list[int], targets: list[int], repeat: int, steps: tuple[int, int],
    halves: tuple[int, int],
) -> Array:  # fmt: skip
    """The target after a scatter from element addresses ``sources`` to ``targets``; steps (dst, src) in elements."""
    out = target.copy()
    size = source.dtype.itemsize
    for r in range(repeat):
        rows = [source[at + r * steps[1] :] for at in sources]
        places = [at + r * steps[0] for at in targets]
        if size == 4:
            for j in range(8):
                column = [row[j] for row in rows]
                out[places[2 * j] : places[2 * j] + 8] = column[:8]
                out[places[2 * j + 1] : places[2 * j + 1] + 8] = column[8:]
            continue
        into, of = (16 * half if size == 1 else 0 for half in halves)
        for j in range(16):
            out[places[j] + into : places[j] + into + 16] = [row[of + j] for row in rows]
    return out


SCATTERED = [("Ascend910A", dtype) for dtype in (*HALVES, "int8", "uint8")]


@pytest.mark.parametrize(("soc", "dtype"), [*SCATTERED, ("Ascend910B1", "float32"), ("Ascend310P3", "int32")])
@settings(max_examples=15, deadline=None)
@given(
    repeat=st.integers(2, 4), dst_stride=st.integers(16, 18), src_stride=st.integers(0, 3), even=st.booleans(),
    symbolic=st.booleans(), halves=st.tuples(st.booleans(), st.booleans()), seed=st.integers(0, 99),
)  # fmt: skip
def test_vec_trans_scatter(
    soc: str, dtype: str, repeat: int, dst_stride: int, src_stride: int, even: bool, symbolic: bool,
    halves: tuple[bool, bool], seed: int,
) -> None:  # fmt: skip
    block = 32 // np.dtype(dtype).itemsize
    size = block * 100
    source, target = values(dtype, size, 1), values(dtype, size, 2)
    order = np.arange(16) if even else np.random.default_rng(seed).permutation(16)
    sources, targets = [int(i) * block for i in order], [int(i) * block for i in reversed(order)]
    kernel = Kernel(soc)
    src, dst = kernel.filled(source), kernel.filled(target)
    times: Any = kernel.tik.Scalar("int32", "times", repeat) if symbolic else repeat
    kernel.tik.vec_trans_scatter(
        *halves, [dst[at] for at in targets], [src[at] for at in sources], times, dst_stride, src_stride
    )
    kernel.shown(dst)
    expected = scattered(source, target, sources, targets, repeat, (dst_stride * block, src_stride * block), halves)
    np.testing.assert_array_equal(kernel.run()[0], expected)


@pytest.mark.parametrize("documented", [True, False])
@pytest.mark.parametrize("symbolic", [True, False])
def test_one_repeat_starts_one_stride_behind_unless_the_switch_says_otherwise(documented: bool, symbolic: bool) -> None:
    source = values("float16", 512)
    kernel = Kernel()
    assert kernel.tik.single_repeat_adds_stride
    kernel.tik.single_repeat_adds_stride = documented
    src, dst = kernel.filled(source), kernel.filled(np.zeros(512, np.float16))
    once: Any = kernel.tik.Scalar("int32", "once", 1) if symbolic else 1
    kernel.tik.vnchwconv(False, False, [dst[i * 16] for i in range(16)], [src[i * 16] for i in range(16)], once, 16, 8)
    kernel.shown(dst)
    skip = 1 if documented else 0
    expected = np.zeros(512, np.float16)
    expected[skip * 256 :][:256] = source[skip * 128 :][:256].reshape(16, 16).T.reshape(-1)
    np.testing.assert_array_equal(kernel.run()[0], expected)


def test_no_repeat_does_nothing() -> None:
    kernel = Kernel()
    src, dst = kernel.filled(values("float16", 256)), kernel.filled(np.zeros(256, np.float16))
    rows = [[tensor[i * 16] for i in range(16)] for tensor in (dst, src)]
    kernel.tik.vnchwconv(False, False, *rows, 0, 0, 0)
    kernel.shown(dst)
    assert not kernel.run()[0].any()


def test_vec_trans_scatter_takes_16_addresses_of_types_the_chip_has() -> None:
    kernel = Kernel("Ascend910A")
    half, single = kernel.local("float16", (256,)), kernel.local("float32", (256,))
    with pytest.raises(RangeError, match="16"):
        kernel.tik.vec_trans_scatter(False, False, [half[0]] * 15, [half[0]] * 16, 1, 0, 0)
    with pytest.raises(DataTypeError, match="Ascend910A"):
        kernel.tik.vec_trans_scatter(False, False, [single[0]] * 16, [single[0]] * 16, 1, 0, 0)
    with pytest.raises(DataTypeError, match="vtranspose"):
        kernel.tik.vec_trans(single, single, 1, 1, 1)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(["float16", "int8", "int32"]), st.integers(1, 40), st.integers(1, 9), st.booleans())
def test_v4dtrans(dtype: str, points: int, channels: int, outward: bool) -> None:
    size = -(-points * channels // 32) * 32
    source = values(dtype, size)
    kernel = Kernel()
    src, dst = kernel.filled(source), kernel.filled(np.zeros(size, dtype))
    kernel.tik.v4dtrans(outward, dst, src, points, channels)
    kernel.shown(dst)
    shape = (channels, points) if outward else (points, channels)
    expected = source[: points * channels].reshape(shape).T.reshape(-1)
    np.testing.assert_array_equal(kernel.run()[0][: points * channels], expected)
