"""Products, loads and results against numpy in float64, written from the documentation (tik_api.md 1.4 to 1.6, 4.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, RangeError, ScopeError
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB
from tests.kernels.davinci.running import Array, Kernel, values

PRODUCTS = [
    ("float16", "float16", "float32"),
    ("int8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("uint8", "uint8", "uint32"),
    ("uint8", "int8", "int32"),
]


def up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def noisy(dtype: str, shape: tuple[int, int], rows: int, columns: int, seed: int) -> Array:
    """[rows, columns] of numbers inside a larger array whose other elements are garbage."""
    matrix = values(dtype, shape[0] * shape[1], seed + 100).reshape(shape).copy()
    if dtype == "float16":
        matrix[...] = np.nan
    matrix[:rows, :columns] = values(dtype, rows * columns, seed).reshape(rows, columns)
    return matrix


def k_blocks(matrix: Array, k0: int) -> Array:
    """[K1, R, K0] of a matrix [R, K]."""
    return np.stack([matrix[:, k : k + k0] for k in range(0, matrix.shape[1], k0)])


def zn(matrix: Array) -> Array:
    return k_blocks(matrix, 16)


def unzn(blocks: Array) -> Array:
    return np.concatenate(list(blocks), axis=1)


def exact(left: Array, right: Array) -> Array:
    if left.dtype.kind == "f":
        return left.astype(np.float64) @ right.astype(np.float64)
    return left.astype(np.int64) @ right.astype(np.int64)


def same(found: Array, expected: Array) -> None:
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected.astype(found.dtype))


@pytest.mark.parametrize(("left", "right", "into"), PRODUCTS)
@settings(max_examples=12, deadline=None)
@given(m=st.integers(1, 40), k=st.integers(1, 70), n=st.integers(1, 40), fresh=st.booleans())
def test_matmul_is_exact_in_k_whatever_the_padding_holds(
    left: str, right: str, into: str, m: int, k: int, n: int, fresh: bool
) -> None:
    k0 = 32 // np.dtype(left).itemsize
    a = noisy(left, (up(m, 16), up(k, k0)), m, k, 1)
    b = noisy(right, (up(n, 16), up(k, k0)), n, k, 2)
    start = values(into, up(m, 16) * up(n, 16), 3).reshape(up(n, 16) // 16, up(m, 16), 16)
    kernel = Kernel()
    in_a, in_b = kernel.filled(k_blocks(a, k0), L1), kernel.filled(k_blocks(b, k0), L1)
    product = kernel.filled(start, L0C)
    kernel.tik.matmul(product, in_a, in_b, m, k, n, init_l1out=fresh)
    kernel.shown(product)
    found = unzn(kernel.run()[0])[:m, :n]
    expected = exact(a[:m, :k], b[:n, :k].T) + (0 if fresh else unzn(start)[:m, :n])
    same(found, expected)


@pytest.mark.parametrize(("left", "right", "into"), [*PRODUCTS, ("float16", "float16", "float16")])
@settings(max_examples=12, deadline=None)
@given(m=st.integers(1, 40), k=st.integers(1, 70), n=st.integers(1, 40), symbolic=st.booleans())
def test_mmad_masks_the_k_tail_in_l0(left: str, right: str, into: str, m: int, k: int, n: int, symbolic: bool) -> None:
    k0 = 32 // np.dtype(left).itemsize
    m1, k1, n1 = up(m, 16) // 16, up(k, k0) // k0, up(n, 16) // 16
    a, b = noisy(left, (m1 * 16, k1 * k0), m, k, 1), noisy(right, (n1 * 16, k1 * k0), n, k, 2)
    zz = np.stack([k_blocks(a[row : row + 16], k0) for row in range(0, m1 * 16, 16)])
    nz = k_blocks(b, k0).reshape(k1, n1, 16, k0)
    kernel = Kernel()
    in_a, in_b = kernel.local(left, zz.shape, L0A), kernel.local(right, nz.shape, L0B)
    kernel.tik.load2dv1(in_a, kernel.given(zz), 0, m1 * k1, 1, 0, False)
    kernel.tik.load2dv1(in_b, kernel.given(nz), 0, k1 * n1, 1, 0, False)
    product = kernel.local(into, (n1, m1 * 16, 16), L0C)
    sizes: tuple[Any, ...] = (m, k, n)
    if symbolic:
        sizes = tuple(kernel.tik.Scalar("int32", "size", size) for size in sizes)
    kernel.tik.mmad(product, in_a, in_b, *sizes, 0)
    kernel.tik.mmad(product, in_a, in_b, *sizes, 1)
    kernel.shown(product)
    found = unzn(kernel.run()[0])[:m, :n]
    once = exact(a[:m, :k], b[:n, :k].T)
    if into == "float16":
        np.testing.assert_allclose(found, 2 * once, rtol=2e-3, atol=2e-2)
    else:
        same(found, 2 * once)


def test_a_product_into_float16_is_rounded_once_and_saturates() -> None:
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    a[0, 0], b[0, 0] = 2048, 1
    a[0, 1], b[0, 1] = 1, 1  # 2049 is no half: to even
    a[1, 0], a[1, 1] = 65504, 65504
    kernel = Kernel()
    in_a, in_b = kernel.local("float16", (256,), L0A), kernel.local("float16", (256,), L0B)
    kernel.tik.load2dv1(in_a, kernel.given(a), 0, 1, 1, 0, False)
    kernel.tik.load2dv1(in_b, kernel.given(b), 0, 1, 1, 0, False)
    product = kernel.local("float16", (256,), L0C)
    kernel.tik.mmad(product, in_a, in_b, 16, 16, 16, 0)
    kernel.shown(product)
    found = kernel.run()[0].reshape(16, 16)
    assert found[0, 0] == 2048 and found[1, 0] == 65504


def test_products_of_bytes_wrap_around_at_32_bits() -> None:
    a = np.full((1, 16, 32), 255, np.uint8)
    start = np.full((1, 16, 16), 2**31 - 1, np.int32)
    kernel = Kernel()
    in_a, product = kernel.filled(a, L1), kernel.filled(start, L0C)
    kernel.tik.matmul(product, in_a, in_a, 16, 32, 16, init_l1out=False)
    kernel.shown(product)
    assert (kernel.run()[0] == 2**31 - 1 + 32 * 255 * 255 - 2**32).all()


def test_products_that_the_chip_does_not_have() -> None:
    for soc, left, into in (("Ascend910A", "float16", "int32"), ("Ascend910B1", "float16", "float16")):
        kernel = Kernel(soc)
        a, b = kernel.local(left, (256,), L0A), kernel.local(left, (256,), L0B)
        with pytest.raises(DataTypeError, match=f"mmad on {soc}"):
            kernel.tik.mmad(kernel.local(into, (256,), L0C), a, b, 16, 16, 16, 0)
    kernel = Kernel()
    with pytest.raises(ScopeError, match="matmul"):
        a = kernel.local("float16", (256,), UB)
        kernel.tik.matmul(kernel.local("float32", (256,), L0C), a, a, 16, 16, 16)


def test_float32_products_are_there_on_a_910b() -> None:
    a, b = values("float32", 16 * 24, 1).reshape(16, 24), values("float32", 16 * 24, 2).reshape(16, 24)
    kernel = Kernel("Ascend910B1")
    in_a, in_b = kernel.filled(k_blocks(a, 8), L1), kernel.filled(k_blocks(b, 8), L1)
    product, out = kernel.local("float32", (1, 16, 16), L0C), kernel.result("float32", (1, 16, 16))
    kernel.tik.matmul(product, in_a, in_b, 16, 24, 16)
    kernel.tik.fixpipe(out, product, 1, 32, 0, 0)
    same(kernel.run()[0][0], exact(a, b.T))


@pytest.mark.parametrize(("name", "sizes"), [("m", (4097, 16, 16)), ("k", (16, 16385, 16)), ("n", (16, 16, 0))])
def test_matmul_names_its_limits(name: str, sizes: tuple[int, int, int]) -> None:
    kernel = Kernel()
    a, product = kernel.local("float16", (256,), L1), kernel.local("float32", (256,), L0C)
    with pytest.raises(RangeError, match=f"{name} is"):
        kernel.tik.matmul(product, a, a, *sizes)


def test_matmul_with_a_bias_is_not_emulated() -> None:
    kernel = Kernel()
    a, product = kernel.local("float16", (256,), L1), kernel.local("float32", (256,), L0C)
    with pytest.raises(NotEmulated, match="bias"):
        kernel.tik.matmul(product, a, a, 16, 16, 16, bias=a)


# Fractal loads.


def identity_read(kernel: Kernel, tensor: Any, fractals: int) -> None:
    """Shows 16-bit fractals of L0A or L0B through products with the identity."""
    eye = np.eye(16, dtype=np.float16)
    other = kernel.local("float16", (256,), L0B if tensor.scope == L0A else L0A)
    kernel.tik.load2dv1(other, kernel.given(eye), 0, 1, 1, 0, False)
    for fractal in range(fractals):
        product = kernel.local("float32", (256,), L0C)
        pair = (tensor[fractal * 256], other) if tensor.scope == L0A else (other, tensor[fractal * 256])
        kernel.tik.mmad(product, *pair, 16, 16, 16, 0)
        kernel.shown(product)


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize("goal", [L0A, L0B])
@pytest.mark.parametrize("origin", [GM, L1])
@settings(max_examples=10, deadline=None)
@given(index=st.integers(0, 2), repeat=st.integers(1, 3), stride=st.integers(0, 3), gap=st.integers(0, 1),
       transpose=st.booleans())  # fmt: skip
def test_load2d(
    origin: str, goal: str, soc: str, index: int, repeat: int, stride: int, gap: int, transpose: bool
) -> None:
    transpose &= origin == L1
    source = values("float16", (index + (repeat - 1) * stride + 1) * 256)
    kernel = Kernel(soc)
    src, dst = kernel.filled(source, origin), kernel.local("float16", (repeat * 2 * 256,), goal)
    if soc == "Ascend910A":
        gap = 0
        kernel.tik.load2dv1(dst, src, index, repeat, stride, 0, transpose)
    else:
        kernel.tik.load2dv2(dst, src, index, repeat, gap, stride, 0, transpose)
    identity_read(kernel, dst, repeat * (gap + 1))
    found = kernel.run()
    for r in range(repeat):
        fractal = source[(index + r * stride) * 256 :][:256].reshape(16, 16)
        fractal = fractal.T if transpose else fractal
        # A fractal of L0B holds its columns as rows.
        expected = fractal if goal == L0A else fractal.T
        np.testing.assert_array_equal(found[r * (gap + 1)].reshape(16, 16), expected.astype(np.float32))


def test_load2dv1_into_l1_gathers_fractals() -> None:
    source = values("int8", 512 * 5)
    kernel = Kernel()
    dst = kernel.local("int8", (1024,), L1)
    kernel.tik.load2dv1(dst, kernel.given(source), 1, 2, 3, 0)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], np.concatenate([source[512:1024], source[2048:2560]]))


def test_what_load2d_refuses() -> None:
    kernel = Kernel()
    src, dst = kernel.local("int8", (512,), L1), kernel.local("int8", (512,), L0A)
    with pytest.raises(DataTypeError, match="16-bit"):
        kernel.tik.load2dv1(dst, src, 0, 1, 1, 0, True)
    with pytest.raises(DataTypeError, match="Ascend910A has no load2dv2"):
        kernel.tik.load2dv2(dst, src, 0, 1, 0, 1, 0)
    with pytest.raises(ScopeError, match="load2dv1"):
        kernel.tik.load2dv1(src, dst, 0, 1, 1, 0)


# Images.


def patch(image: Array, c1: int, h: int, w: int, value: float) -> Array:
    _, height, width, c0 = image.shape
    if 0 <= h < height and 0 <= w < width:
        return image[c1, h, w]  # type: ignore[no-any-return]
    return np.full(c0, value, image.dtype)


image_cases = st.fixed_dictionaries(
    {
        "c1": st.integers(1, 2), "h": st.integers(3, 7), "w": st.integers(3, 7),
        "filter_h": st.integers(1, 3), "filter_w": st.integers(1, 3), "stride_h": st.integers(1, 2),
        "stride_w": st.integers(1, 2), "dilation_h": st.integers(1, 2), "dilation_w": st.integers(1, 2),
        "pad": st.tuples(*[st.integers(0, 2)] * 4),
    }
)  # fmt: skip


def positions(case: dict[str, Any]) -> tuple[int, int]:
    """Filter positions along height and width."""
    left, right, top, bottom = case["pad"]
    tall = case["h"] + top + bottom - (case["filter_h"] - 1) * case["dilation_h"] - 1
    wide = case["w"] + left + right - (case["filter_w"] - 1) * case["dilation_w"] - 1
    return tall // case["stride_h"] + 1, wide // case["stride_w"] + 1


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
@pytest.mark.parametrize("mode", [0, 1])
@settings(max_examples=25, deadline=None)
@given(case=image_cases, repeats=st.integers(1, 3), first=st.integers(0, 5), jump=st.integers(1, 2), data=st.data())
def test_load3dv1_gathers_the_patches_that_im2col_defines(
    dtype: str, mode: int, case: dict[str, Any], repeats: int, first: int, jump: int, data: Any
) -> None:
    rows, columns = positions(case)
    if rows < 1 or columns < 1:
        return
    c0 = 32 // np.dtype(dtype).itemsize
    points = case["filter_h"] * case["filter_w"]
    image = values(dtype, case["c1"] * case["h"] * case["w"] * c0).reshape(case["c1"], case["h"], case["w"], c0)
    first %= rows * columns
    point, channel = data.draw(st.integers(0, points - 1)), data.draw(st.integers(0, case["c1"] - 1))
    if mode == 0:
        repeats = min(repeats, (case["c1"] - channel) * points - point)
    kernel = Kernel()
    src, dst = kernel.filled(image, L1), kernel.filled(np.zeros(repeats * jump * 16 * c0, dtype))
    left, _, top, _ = case["pad"]
    kernel.tik.load3dv1(
        dst, src, case["pad"], case["h"], case["w"], channel, point % case["filter_w"], point // case["filter_w"],
        first % columns * case["stride_w"] - left, first // columns * case["stride_h"] - top, case["stride_w"],
        case["stride_h"], case["filter_w"], case["filter_h"], case["dilation_w"], case["dilation_h"], jump, mode,
        repeats, pad_value=3,
    )  # fmt: skip
    kernel.shown(dst)
    found = kernel.run()[0].reshape(repeats, jump, 16, c0)
    for repeat in range(repeats):
        channels, seen = divmod(point + repeat, points) if mode == 0 else (0, point)
        for lane in range(16):
            position = first + lane + (16 * repeat if mode == 1 else 0)
            h = position // columns * case["stride_h"] - top + seen // case["filter_w"] * case["dilation_h"]
            w = position % columns * case["stride_w"] - left + seen % case["filter_w"] * case["dilation_w"]
            np.testing.assert_array_equal(found[repeat, 0, lane], patch(image, channel + channels, h, w, 3))
        assert not found[repeat, 1:].any()


def test_load3dv1_takes_loop_variables() -> None:
    image = values("float16", 2 * 4 * 4 * 16).reshape(2, 4, 4, 16)
    kernel = Kernel()
    src, dst = kernel.filled(image, L1), kernel.local("float16", (2, 16, 16))
    with kernel.tik.for_range(0, 2) as c1:
        kernel.tik.load3dv1(dst[c1 * 256], src, [0, 0, 0, 0], 4, 4, c1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    kernel.shown(dst)
    np.testing.assert_array_equal(kernel.run()[0], image.reshape(2, 16, 16))


def test_load3dv1_feeds_a_product() -> None:
    image = values("float16", 4 * 4 * 16).reshape(1, 4, 4, 16)
    kernel = Kernel()
    src, dst = kernel.filled(image, L1), kernel.local("float16", (256,), L0A)
    kernel.tik.load3dv1(dst, src, [0, 0, 0, 0], 4, 4, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    identity_read(kernel, dst, 1)
    np.testing.assert_array_equal(kernel.run()[0].reshape(16, 16), image.reshape(16, 16).astype(np.float32))


@settings(max_examples=15, deadline=None)
@given(case=image_cases, out=st.sampled_from([16, 32]), into=st.sampled_from([GM, UB]))
def test_conv2d_and_fixpipe_are_a_convolution(case: dict[str, Any], out: int, into: str) -> None:
    rows, columns = positions(case)
    if rows < 1 or columns < 1:
        return
    image = values("float16", case["c1"] * case["h"] * case["w"] * 16, 1).reshape(case["c1"], case["h"], case["w"], 16)
    weight_shape = (case["c1"], case["filter_h"], case["filter_w"], out, 16)
    weight = values("float16", int(np.prod(weight_shape)), 2).reshape(weight_shape)
    count, padded = rows * columns, up(rows * columns, 16)
    kernel = Kernel()
    src, filters = kernel.filled(image, L1), kernel.filled(weight, L1)
    product = kernel.local("float32", (out // 16, padded, 16), L0C)
    kernel.tik.conv2d(
        product, src, filters, image.shape, weight_shape, [case["stride_h"], case["stride_w"]], case["pad"],
        [case["dilation_h"], case["dilation_w"]],
    )  # fmt: skip
    target = kernel.result("float32", (out // 16, count, 16)) if into == GM else None
    shown = target or kernel.local("float32", (out // 16, count, 16))
    kernel.tik.fixpipe(shown, product, out // 16, count * 16 * 4 // 32, 0, 0)
    if target is None:
        kernel.shown(shown)
    found = unzn(kernel.run()[0])
    left, _, top, _ = case["pad"]
    for position in range(count):
        expected = np.zeros(out)
        for c1, i, j in np.ndindex(case["c1"], case["filter_h"], case["filter_w"]):
            h = position // columns * case["stride_h"] - top + i * case["dilation_h"]
            w = position % columns * case["stride_w"] - left + j * case["dilation_w"]
            expected += weight[c1, i, j].astype(np.float64) @ patch(image, c1, h, w, 0).astype(np.float64)
        np.testing.assert_allclose(found[position], expected, rtol=1e-4, atol=1e-4)


# fixpipe.


@settings(max_examples=20, deadline=None)
@given(n1=st.integers(1, 3), m=st.integers(1, 40), gap=st.integers(0, 2), relu=st.booleans(), biased=st.booleans())
def test_fixpipe_drops_the_padded_rows(n1: int, m: int, gap: int, relu: bool, biased: bool) -> None:
    accumulated = values("float32", n1 * up(m, 16) * 16).reshape(n1, up(m, 16), 16)
    bias = values("float32", n1 * 16, 5)
    kernel = Kernel()
    product, target = kernel.filled(accumulated, L0C), kernel.result("float16", (n1, m * 16 + gap * 16))
    options: dict[str, Any] = {"quantize_params": {"mode": "fp322fp16", "mode_param": None}, "relu": relu}
    if biased:
        options["bias"] = kernel.filled(bias, L1)
    kernel.tik.fixpipe(target, product, n1, m * 16 * 4 // 32, gap, 0, options)
    expected = accumulated[:, :m] + (bias.reshape(n1, 1, 16) if biased else 0)
    expected = np.maximum(expected, 0) if relu else expected
    found = kernel.run()[0]
    np.testing.assert_array_equal(found[:, : m * 16], expected.reshape(n1, -1).astype(np.float16))
    assert not found[:-1, m * 16 :].any()


def test_fixpipe_scales_int32() -> None:
    accumulated = np.arange(-128, 128, dtype=np.int32).reshape(1, 16, 16) * 77
    kernel = Kernel()
    product, target = kernel.filled(accumulated, L0C), kernel.result("float16", (1, 16, 16))
    options = {"quantize_params": {"mode": "int322fp16", "mode_param": 0.25}}
    kernel.tik.fixpipe(target, product, 1, 32, 0, 0, options)
    np.testing.assert_array_equal(kernel.run()[0], (accumulated * 0.25).astype(np.float16))


def test_fixpipe_adds_to_gm_while_atomics_are_on() -> None:
    accumulated, base = values("float32", 256, 1).reshape(1, 16, 16), values("float32", 256, 2)
    kernel = Kernel()
    product, target = kernel.filled(accumulated, L0C), kernel.result("float32", (1, 16, 16))
    kernel.tik.data_move(target, kernel.filled(base), 0, 1, 32, 0, 0)
    kernel.tik.set_atomic_add(1)
    kernel.tik.fixpipe(target, product, 1, 32, 0, 0)
    np.testing.assert_array_equal(kernel.run()[0].reshape(-1), base + accumulated.reshape(-1))


def test_what_fixpipe_refuses() -> None:
    kernel = Kernel()
    product = kernel.local("float32", (256,), L0C)
    half, single = kernel.result("float16", (256,)), kernel.result("float32", (256,))
    with pytest.raises(DataTypeError, match="fp322fp16"):
        kernel.tik.fixpipe(half, product, 1, 32, 0, 0)
    with pytest.raises(DataTypeError, match="fp322fp16"):
        kernel.tik.fixpipe(single, product, 1, 32, 0, 0, {"quantize_params": {"mode": "fp322fp16"}})
    with pytest.raises(RangeError, match="src_stride is 1"):
        kernel.tik.fixpipe(single, product, 1, 32, 0, 1)
    with pytest.raises(NotEmulated, match="eltwise"):
        kernel.tik.fixpipe(single, product, 1, 32, 0, 0, {"eltwise": 1})
