"""Whole small programs, as the public documentation builds them, against numpy.

Each test records a kernel as an operator of the toolkit would: its imports, its own GM tensors, BuildCCE, start_debug.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from te import platform as tbe_platform
from te import tik
from te.tik.common.util import DTYPE_SIZE, ceil_div

Array = np.ndarray[Any, Any]


def start(soc: str = "Ascend910A") -> Any:
    """A fresh Tik for a chip."""
    tbe_platform.set_current_compile_soc_info(soc)
    return tik.Tik(disable_debug=False)


def run(instance: Any, inputs: list[Any], outputs: list[Any], feed: dict[str, Any]) -> list[Array]:
    """Builds and runs a kernel."""
    instance.BuildCCE(kernel_name="program", inputs=inputs, outputs=outputs)
    return instance.tikdb.start_debug(feed_dict=feed, interactive=False)  # type: ignore[no-any-return]


def halves(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def test_vector_addition_on_several_cores() -> None:
    cores, share = 4, 384
    a, b = halves(cores * share, seed=1), halves(cores * share, seed=2)
    k = start()
    x = k.Tensor("float16", (cores * share,), name="x", scope=tik.scope_gm)
    y = k.Tensor("float16", (cores * share,), name="y", scope=tik.scope_gm)
    z = k.Tensor("float16", (cores * share,), name="z", scope=tik.scope_gm)
    with k.for_range(0, cores, block_num=cores) as core:
        x_ub = k.Tensor("float16", (share,), name="x_ub", scope=tik.scope_ubuf)
        y_ub = k.Tensor("float16", (share,), name="y_ub", scope=tik.scope_ubuf)
        burst = share * DTYPE_SIZE["float16"] // 32
        k.data_move(x_ub, x[core * share], 0, 1, burst, 0, 0)
        k.data_move(y_ub, y[core * share], 0, 1, burst, 0, 0)
        k.vec_add(128, x_ub, x_ub, y_ub, share // 128, 8, 8, 8)
        k.data_move(z[core * share], x_ub, 0, 1, burst, 0, 0)
    (found,) = run(k, [x, y], [z], {"x": a, "y": b})
    np.testing.assert_array_equal(found, a + b)


@pytest.mark.parametrize("size", [100, 129, 333])
def test_tails_of_several_cores_fall_back_to_the_last_whole_block(size: int) -> None:
    """Shares are no multiples of 32 bytes: the last block of each core is moved once more, from further back."""
    block, cores = 16, 3
    share = ceil_div(size, cores)
    a = halves(size)
    k = start()
    x = k.Tensor("float16", (size,), name="x", scope=tik.scope_gm)
    y = k.Tensor("float16", (size,), name="y", scope=tik.scope_gm)
    with k.for_range(0, cores, block_num=cores) as core:
        count = k.Scalar("int32", "count", init_value=share)
        with k.if_scope(core == cores - 1):
            count.set_as(size - (cores - 1) * share)
        buffer = k.Tensor("float16", (ceil_div(share, block) * block,), name="buffer", scope=tik.scope_ubuf)
        whole = k.Scalar("int32", "whole")
        whole.set_as(count // block)
        k.data_move(buffer, x[core * share], 0, 1, whole, 0, 0)
        k.vec_muls(block, buffer, buffer, 2.0, whole, 1, 1)
        k.data_move(y[core * share], buffer, 0, 1, whole, 0, 0)
        with k.if_scope(count % block != 0):
            back = core * share + count - block
            k.data_move(buffer, x[back], 0, 1, 1, 0, 0)
            k.vec_muls(block, buffer, buffer, 2.0, 1, 1, 1)
            k.data_move(y[back], buffer, 0, 1, 1, 0, 0)
    (found,) = run(k, [x], [y], {"x": a})
    np.testing.assert_array_equal(found, a * np.float16(2))


@pytest.mark.parametrize(("m", "n", "depth"), [(16, 16, 16), (30, 70, 50), (128, 64, 96)])
@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend910B1"])
def test_matmul_and_fixpipe(soc: str, m: int, n: int, depth: int) -> None:
    a, b = halves(m, depth, seed=1), halves(depth, n, seed=2)
    rows, columns, inner = (ceil_div(size, 16) * 16 for size in (m, n, depth))
    a_blocks = np.zeros((inner // 16, rows, 16), np.float16)
    b_blocks = np.zeros((inner // 16, columns, 16), np.float16)
    for i in range(depth):
        a_blocks[i // 16, :m, i % 16] = a[:, i]
        b_blocks[i // 16, :n, i % 16] = b[i]
    k = start(soc)
    a_gm = k.Tensor("float16", a_blocks.shape, name="a", scope=tik.scope_gm)
    b_gm = k.Tensor("float16", b_blocks.shape, name="b", scope=tik.scope_gm)
    c_gm = k.Tensor("float16", (columns // 16, m, 16), name="c", scope=tik.scope_gm)
    a_l1 = k.Tensor("float16", a_blocks.shape, name="a_l1", scope=tik.scope_cbuf)
    b_l1 = k.Tensor("float16", b_blocks.shape, name="b_l1", scope=tik.scope_cbuf)
    c_l0c = k.Tensor("float32", (columns // 16, rows, 16), name="c_l0c", scope=tik.scope_cbuf_out)
    k.data_move(a_l1, a_gm, 0, 1, a_blocks.size // 16, 0, 0)
    k.data_move(b_l1, b_gm, 0, 1, b_blocks.size // 16, 0, 0)
    k.matmul(c_l0c, a_l1, b_l1, m, depth, n)
    k.fixpipe(
        c_gm, c_l0c, columns // 16, m * 16 * DTYPE_SIZE["float32"] // 32, 0, 0,
        extend_params={"bias": None, "quantize_params": {"mode": "fp322fp16", "mode_param": None}},
    )  # fmt: skip
    (found,) = run(k, [a_gm, b_gm], [c_gm], {"a": a_blocks, "b": b_blocks})
    product = found.transpose(1, 0, 2).reshape(m, columns)[:, :n]
    np.testing.assert_allclose(product, a.astype(np.float64) @ b.astype(np.float64), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("mode", "oracle"),
    [("floor", np.floor), ("ceil", np.ceil), ("to-zero", np.trunc), ("round", np.rint)],
)
def test_conversion_to_whole_numbers(mode: str, oracle: Any) -> None:
    a = np.linspace(-20, 20, 128, dtype=np.float32)
    a[:4] = [0.5, 1.5, -0.5, -2.5]
    k = start()
    x = k.Tensor("float32", (128,), name="x", scope=tik.scope_gm)
    y = k.Tensor("int32", (128,), name="y", scope=tik.scope_gm)
    x_ub = k.Tensor("float32", (128,), name="x_ub", scope=tik.scope_ubuf)
    y_ub = k.Tensor("int32", (128,), name="y_ub", scope=tik.scope_ubuf)
    k.data_move(x_ub, x, 0, 1, 16, 0, 0)
    k.vec_conv(64, mode, y_ub, x_ub, 2, 8, 8)
    k.data_move(y, y_ub, 0, 1, 16, 0, 0)
    (found,) = run(k, [x], [y], {"x": a})
    np.testing.assert_array_equal(found, oracle(a).astype(np.int32))


@pytest.mark.parametrize("value", [-3, 0, 4, 99])
def test_branches_on_a_number_that_is_read_from_memory(value: int) -> None:
    k = start()
    x = k.Tensor("int32", (8,), name="x", scope=tik.scope_gm)
    y = k.Tensor("int32", (8,), name="y", scope=tik.scope_gm)
    x_ub = k.Tensor("int32", (8,), name="x_ub", scope=tik.scope_ubuf)
    y_ub = k.Tensor("int32", (8,), name="y_ub", scope=tik.scope_ubuf)
    k.data_move(x_ub, x, 0, 1, 1, 0, 0)
    read = k.Scalar("int32", "read", init_value=x_ub[0])
    k.vec_dup(8, y_ub, 0, 1, 8)
    with k.if_scope(read < 0):
        y_ub[0].set_as(1)
    with k.elif_scope(tik.all(read > 0, read < 10)):
        y_ub[0].set_as(2)
    with k.elif_scope(read == 0):
        y_ub[0].set_as(3)
    with k.else_scope():
        y_ub[0].set_as(read * 2)
    with k.if_scope(tik.any(tik.negate(read > 3), read == 99)):
        y_ub[1].set_as(7)
    k.data_move(y, y_ub, 0, 1, 1, 0, 0)
    (found,) = run(k, [x], [y], {"x": np.full(8, value, np.int32)})
    first = {-3: 1, 4: 2, 0: 3, 99: 198}[value]
    assert found.tolist() == [first, 0 if value == 4 else 7, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("tiles", [4, 5])
def test_double_buffering_computes_every_tile(tiles: int) -> None:
    a = halves(tiles, 256)
    k = start()
    x = k.Tensor("float16", (tiles, 256), name="x", scope=tik.scope_gm)
    y = k.Tensor("float16", (tiles, 256), name="y", scope=tik.scope_gm)
    with k.for_range(0, tiles, thread_num=2) as i:
        tile = k.Tensor("float16", (256,), name="tile", scope=tik.scope_ubuf)
        k.data_move(tile, x[i * 256], 0, 1, 16, 0, 0)
        k.vec_adds(128, tile, tile, 1.5, 2, 8, 8)
        k.vec_relu(128, tile, tile, 2, 8, 8)
        k.data_move(y[i * 256], tile, 0, 1, 16, 0, 0)
    (found,) = run(k, [x], [y], {"x": a})
    np.testing.assert_array_equal(found, np.maximum(a + np.float16(1.5), np.float16(0)))


@pytest.mark.parametrize("count", [1, 3, 7])
def test_an_input_scalar_decides_how_many_tiles_are_moved(count: int) -> None:
    a = np.arange(8 * 64, dtype=np.int32)
    k = start()
    x = k.Tensor("int32", (8 * 64,), name="x", scope=tik.scope_gm)
    y = k.Tensor("int32", (8 * 64,), name="y", scope=tik.scope_gm)
    tiles = k.InputScalar("int32", "tiles")
    buffer = k.Tensor("int32", (64,), name="buffer", scope=tik.scope_ubuf)
    with k.for_range(0, tiles) as i:
        k.data_move(buffer, x[i * 64], 0, 1, 8, 0, 0)
        k.vec_add(64, buffer, buffer, buffer, 1, 8, 8, 8)
        k.data_move(y[(tiles - 1 - i) * 64], buffer, 0, 1, 8, 0, 0)
    (found,) = run(k, [x, tiles], [y], {"x": a, "tiles": count})
    expected = np.zeros(8 * 64, np.int32)
    for i in range(count):
        expected[(count - 1 - i) * 64 :][:64] = 2 * a[i * 64 :][:64]
    np.testing.assert_array_equal(found, expected)


def test_a_tiling_table_in_memory_steers_the_kernel() -> None:
    """The dynamic-shape form: the numbers come as an int64 tensor."""
    a = halves(320)
    k = start()
    x = k.Tensor("float16", (320,), name="x", scope=tik.scope_gm)
    table = k.Tensor("int64", (4,), name="table", scope=tik.scope_gm)
    y = k.Tensor("float16", (320,), name="y", scope=tik.scope_gm)
    table_ub = k.Tensor("int64", (4,), name="table_ub", scope=tik.scope_ubuf)
    k.data_move(table_ub, table, 0, 1, 1, 0, 0)
    blocks, repeats = k.Scalar("int64", "blocks"), k.Scalar("int64", "repeats")
    blocks.set_as(table_ub[0])
    repeats.set_as(table_ub[1])
    buffer = k.Tensor("float16", (320,), name="buffer", scope=tik.scope_ubuf)
    k.data_move(buffer, x, 0, 1, blocks, 0, 0)
    with k.if_scope(repeats > 0):
        k.vec_abs(128, buffer, buffer, repeats, 8, 8)
    k.data_move(y, buffer, 0, 1, blocks, 0, 0)
    (found,) = run(k, [x, table], [y], {"x": a, "table": np.array([20, 2, 0, 0], np.int64)})
    np.testing.assert_array_equal(found, np.concatenate([np.abs(a[:256]), a[256:]]))


def test_a_workspace_keeps_partial_results_between_two_passes() -> None:
    a = halves(4, 128)
    k = start()
    x = k.Tensor("float16", (4, 128), name="x", scope=tik.scope_gm)
    y = k.Tensor("float32", (128,), name="y", scope=tik.scope_gm)
    wide = k.Tensor("float32", (4, 128), name="wide", scope=tik.scope_gm, is_workspace=True)
    with k.for_range(0, 4) as i:
        half = k.Tensor("float16", (128,), name="half", scope=tik.scope_ubuf)
        single = k.Tensor("float32", (128,), name="single", scope=tik.scope_ubuf)
        k.data_move(half, x[i, 0], 0, 1, 8, 0, 0)
        k.vec_conv(64, "", single, half, 2, 8, 4)
        k.data_move(wide[i, 0], single, 0, 1, 16, 0, 0)
    total = k.Tensor("float32", (128,), name="total", scope=tik.scope_ubuf)
    row = k.Tensor("float32", (128,), name="row", scope=tik.scope_ubuf)
    k.vec_dup(64, total, 0.0, 2, 8)
    with k.for_range(0, 4) as i:
        k.data_move(row, wide[i, 0], 0, 1, 16, 0, 0)
        k.vec_add(64, total, total, row, 2, 8, 8, 8)
    k.data_move(y, total, 0, 1, 16, 0, 0)
    (found,) = run(k, [x], [y], {"x": a})
    expected = np.zeros(128, np.float32)
    for values in a.astype(np.float32):
        expected += values
    np.testing.assert_array_equal(found, expected)


def test_an_initialised_tensor_is_there_without_being_fed() -> None:
    table = [[float(row * 16 + column) for column in range(16)] for row in range(2)]
    k = start()
    constant = k.Tensor("float16", (2, 16), name="constant", scope=tik.scope_gm, init_value=table)
    ones = k.Tensor("float16", (16,), name="ones", scope=tik.scope_gm, init_value=1.0)
    y = k.Tensor("float16", (32,), name="y", scope=tik.scope_gm)
    buffer = k.Tensor("float16", (32,), name="buffer", scope=tik.scope_ubuf)
    one = k.Tensor("float16", (16,), name="one", scope=tik.scope_ubuf)
    k.data_move(buffer, constant, 0, 1, 2, 0, 0)
    k.data_move(one, ones, 0, 1, 1, 0, 0)
    k.vec_add(16, buffer, buffer, one, 2, 1, 1, 0)
    k.data_move(y, buffer, 0, 1, 2, 0, 0)
    (found,) = run(k, [], [y], {})
    np.testing.assert_array_equal(found, np.arange(32, dtype=np.float16) + 1)


def test_cores_add_into_one_row_atomically() -> None:
    cores = 6
    a = np.random.default_rng(3).integers(-8, 8, (cores, 64)).astype(np.float32)
    k = start()
    x = k.Tensor("float32", (cores, 64), name="x", scope=tik.scope_gm)
    y = k.Tensor("float32", (64,), name="y", scope=tik.scope_gm, is_atomic_add=True)
    with k.for_range(0, cores, block_num=cores) as core:
        row = k.Tensor("float32", (64,), name="row", scope=tik.scope_ubuf)
        k.data_move(row, x[core, 0], 0, 1, 8, 0, 0)
        k.set_atomic_add(1)
        k.data_move(y, row, 0, 1, 8, 0, 0)
        k.set_atomic_add(0)
    (found,) = run(k, [x], [y], {"x": a})
    np.testing.assert_array_equal(found, a.sum(axis=0))


def test_softmax_of_rows() -> None:
    a = halves(8, 128)
    k = start()
    x = k.Tensor("float16", (8, 128), name="x", scope=tik.scope_gm)
    y = k.Tensor("float16", (8, 128), name="y", scope=tik.scope_gm)
    rows = k.Tensor("float16", (8, 128), name="rows", scope=tik.scope_ubuf)
    sums = k.Tensor("float16", (16,), name="sums", scope=tik.scope_ubuf)
    work = k.Tensor("float16", (64,), name="work", scope=tik.scope_ubuf)
    k.data_move(rows, x, 0, 1, 64, 0, 0)
    k.vec_exp(128, rows, rows, 8, 8, 8)
    with k.for_range(0, 8) as i:
        k.vec_reduce_add(128, sums, rows[i, 0], work, 1, 8)
        inverse = k.Tensor("float32", (8,), name="inverse", scope=tik.scope_ubuf)
        total = k.Tensor("float32", (8,), name="total", scope=tik.scope_ubuf)
        k.vec_conv(1, "", total, sums, 1, 1, 1)
        k.vec_rec(1, inverse, total, 1, 1, 1)
        narrow = k.Tensor("float16", (16,), name="narrow", scope=tik.scope_ubuf)
        k.vec_conv(1, "", narrow, inverse, 1, 1, 1)
        factor = k.Scalar("float16", "factor", init_value=narrow[0])
        k.vec_muls(128, rows[i, 0], rows[i, 0], factor, 1, 8, 8)
    k.data_move(y, rows, 0, 1, 64, 0, 0)
    (found,) = run(k, [x], [y], {"x": a})
    powers = np.exp(a.astype(np.float64))
    np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=5e-3)


@pytest.mark.parametrize("columns", [16, 48])
def test_a_matrix_is_transposed_by_scattered_rows(columns: int) -> None:
    a = halves(16, columns)
    k = start()
    x = k.Tensor("float16", (16, columns), name="x", scope=tik.scope_gm)
    y = k.Tensor("float16", (columns, 16), name="y", scope=tik.scope_gm)
    rows = k.Tensor("float16", (16, columns), name="rows", scope=tik.scope_ubuf)
    turned = k.Tensor("float16", (columns, 16), name="turned", scope=tik.scope_ubuf)
    k.data_move(rows, x, 0, 1, columns, 0, 0)
    repeat = columns // 16
    steps = (0, 0) if repeat == 1 else (16, 1)
    k.vec_trans_scatter(
        False, False, [turned[16 * i] for i in range(16)], [rows[columns * i] for i in range(16)], repeat, *steps
    )
    k.data_move(y, turned, 0, 1, columns, 0, 0)
    (found,) = run(k, [x], [y], {"x": a})
    np.testing.assert_array_equal(found, a.T)


def test_a_row_is_broadcast_by_doubling_until_a_break() -> None:
    k = start()
    x = k.Tensor("float16", (16,), name="x", scope=tik.scope_gm)
    y = k.Tensor("float16", (24, 16), name="y", scope=tik.scope_gm)
    rows = k.Tensor("float16", (24, 16), name="rows", scope=tik.scope_ubuf)
    k.data_move(rows, x, 0, 1, 1, 0, 0)
    done = k.Scalar("int32", "done", init_value=1)
    with k.for_range(0, 24):
        with k.if_scope(done * 2 > 24):
            k.tik_break()
        k.data_move(rows[done * 16], rows, 0, 1, done, 0, 0)
        done.set_as(done * 2)
    with k.if_scope(done < 24):
        k.data_move(rows[done * 16], rows, 0, 1, 24 - done, 0, 0)
    k.data_move(y, rows, 0, 1, 24, 0, 0)
    a = halves(16)
    (found,) = run(k, [x], [y], {"x": a})
    np.testing.assert_array_equal(found, np.tile(a, (24, 1)))


def test_a_convolution_by_patches_and_products() -> None:
    """A 3 x 3 filter with padding on an 8 x 8 image of 16 channels, 16 channels out, by load3dv1 and mmad."""
    image, weight = halves(1, 8, 8, 16, seed=1), halves(9, 16, 16, seed=2)  # weight: point, out channel, in channel
    k = start()
    x = k.Tensor("float16", (1, 8, 8, 16), name="x", scope=tik.scope_gm)
    w = k.Tensor("float16", (9, 16, 16), name="w", scope=tik.scope_gm)
    y = k.Tensor("float16", (64, 16), name="y", scope=tik.scope_gm)
    x_l1 = k.Tensor("float16", (1, 8, 8, 16), name="x_l1", scope=tik.scope_cbuf)
    filters = k.Tensor("float16", (9, 16, 16), name="filters", scope=tik.scope_cb)
    patches = k.Tensor("float16", (4, 9, 16, 16), name="patches", scope=tik.scope_ca)
    product = k.Tensor("float32", (1, 64, 16), name="product", scope=tik.scope_cc)
    rounded = k.Tensor("float16", (64, 16), name="rounded", scope=tik.scope_ubuf)
    k.data_move(x_l1, x, 0, 1, 64, 0, 0)
    k.load2dv1(filters, w, 0, 9, 1, 0, False)
    with k.for_range(0, 4) as tile:
        k.load3dv1(
            patches[tile * 9 * 256], x_l1, [1, 1, 1, 1], 8, 8, 0, 0, 0, -1, tile * 2 - 1, 1, 1, 3, 3, 1, 1, 1, 0, 9
        )
    k.mmad(product, patches, filters, 64, 144, 16, 0)
    k.tensor_mov(rounded, product, "m", 1, 4, 0, 0)
    k.data_move(y, rounded, 0, 1, 64, 0, 0)
    (found,) = run(k, [x, w], [y], {"x": image, "w": weight})
    padded = np.zeros((10, 10, 16))
    padded[1:9, 1:9] = image[0]
    expected = np.zeros((8, 8, 16))
    for i in range(3):
        for j in range(3):
            expected += padded[i : i + 8, j : j + 8] @ weight[i * 3 + j].astype(np.float64).T
    np.testing.assert_allclose(found.reshape(8, 8, 16), expected, rtol=2e-3, atol=2e-2)


def test_a_kernel_that_writes_its_input_changes_the_callers_array() -> None:
    a = halves(128)
    before = a.copy()
    k = start()
    x = k.Tensor("float16", (128,), name="x", scope=tik.scope_gm)
    y = k.Tensor("float16", (128,), name="y", scope=tik.scope_gm)
    buffer = k.Tensor("float16", (128,), name="buffer", scope=tik.scope_ubuf)
    k.data_move(buffer, x, 0, 1, 8, 0, 0)
    k.vec_muls(128, buffer, buffer, -1.0, 1, 8, 8)
    k.data_move(x, buffer, 0, 1, 8, 0, 0)
    k.data_move(y, buffer, 0, 1, 8, 0, 0)
    (found,) = run(k, [x], [y], {"x": a})
    np.testing.assert_array_equal(a, -before)
    np.testing.assert_array_equal(found, -before)
