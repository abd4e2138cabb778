"""Tensors, Scalars and their views as tik_api.md 2 describes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels import davinci
from autotune.kernels.davinci import soc as chips
from autotune.kernels.davinci.errors import OutOfBounds
from autotune.kernels.davinci.language import Dprofile, Tik
from autotune.kernels.davinci.memory import GM, UB
from tests.kernels.davinci.running import Array, Kernel

GRID = np.arange(3 * 4 * 16, dtype=np.int32).reshape(3, 4, 16)


@pytest.fixture
def k() -> Kernel:
    return Kernel()


def moved(k: Kernel, source: Any, elements: int) -> None:
    """Adds ``elements`` numbers from the start of a view of int32 in GM to the results."""
    local = k.local("int32", (elements,))
    k.tik.data_move(local, source, 0, 1, elements // 8, 0, 0)
    k.shown(local)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_views_of_a_tensor_in_gm_start_where_numpys_do(data: Any) -> None:
    """Rank-keeping tuples, and single indices, which flatten."""
    k = Kernel()
    x = k.given(np.pad(GRID.reshape(-1), (0, 64)))[0 : GRID.size].reshape(GRID.shape)
    index = data.draw(st.tuples(*(st.integers(-size, size - 1) for size in GRID.shape)))
    start = data.draw(st.integers(0, GRID.size - 1))
    sizes = [range(size)[at] for at, size in zip(index, GRID.shape)]
    moved(k, x[index], 8)
    moved(k, x[sizes[0] :, sizes[1] :, sizes[2] :], 8)
    moved(k, x[start], 8)
    moved(k, x[start:], 8)
    first = int(GRID[index])
    for found, at in zip(k.run(), (first, first, start, start)):
        np.testing.assert_array_equal(found[: GRID.size - at], np.arange(at, min(at + 8, GRID.size)))


def test_shapes_of_views(k: Kernel) -> None:
    grid = k.given(GRID)
    i, n = k.tik.Scalar("int32", "i", 1), k.tik.Scalar("int32", "n", 2)
    assert grid[0, :, :].shape == (1, 4, 16)
    assert grid[i, 1:3, :].shape == (1, 2, 16)
    assert grid[:, :, 0:16:4].shape == (3, 4, 4)
    assert grid[5].shape == (1,) and grid[5:9].shape == (4,)
    assert grid[i * 8 + n * 4 : i * 8 + n * 4 + 4].shape == (4,)
    assert grid[i : i + 2, i:, 8 + i - 1 : 16 + i - 1].shape[0] == 2
    assert repr(grid[:, i:, :].shape[1]) == "-1*i + 4"
    assert grid.flatten().shape == (192,) and grid.reshape((12, 16)).shape == (12, 16)
    assert grid[0:8].reinterpret_cast_to("float16").shape == (16,)
    assert grid.reinterpret_cast_to("int64").shape == (3, 4, 8)
    assert (grid.size, grid.dtype, grid.scope, grid.name, grid[0, 1, 2].offset) == (192, "int32", GM, grid.name, 18)


def test_a_loop_variable_chooses_a_row(k: Kernel) -> None:
    grid, out = k.given(GRID), k.local("int32", (3, 4, 16))
    with k.tik.for_range(0, 3) as i, k.tik.for_range(0, 4) as j:
        k.tik.data_move(out[2 - i, j, :], grid[i, j, :], 0, 1, 2, 0, 0)
    k.shown(out)
    np.testing.assert_array_equal(k.run()[0], GRID[::-1])


def test_views_share_their_storage(k: Kernel) -> None:
    a = k.filled(GRID)
    a.reshape((192,))[7].set_as(-1)
    a[1, 2, 3].set_as(-2)
    a[100] = -3
    a[1:, :, :][0, 0, 1].set_as(-4)
    k.shown(a)
    expected = GRID.copy()
    expected.reshape(-1)[[7, 64 + 32 + 3, 100, 65]] = [-1, -2, -3, -4]
    np.testing.assert_array_equal(k.run()[0], expected)


@pytest.mark.parametrize(("dtype", "other"), [("float16", "int16"), ("int32", "uint8"), ("float32", "int64")])
def test_bytes_seen_as_another_type(k: Kernel, dtype: str, other: str) -> None:
    numbers = np.arange(64).astype(dtype)
    a = k.filled(numbers)
    seen = a.reinterpret_cast_to(other)
    out = k.local(other, seen.shape)
    k.tik.data_move(out, seen, 0, 1, numbers.nbytes // 32, 0, 0)
    k.shown(out)
    np.testing.assert_array_equal(k.run()[0], numbers.view(other))


def test_an_element_is_set_from_all_kinds_of_numbers(k: Kernel) -> None:
    a, b = k.filled(np.zeros(16, np.int32)), k.filled(np.arange(16, dtype=np.int32))
    scalar = k.tik.Scalar("int32", "scalar", 5)
    a[0].set_as(3)
    a[1].set_as(scalar)
    a[2].set_as(scalar * 2 + 1)
    a[3].set_as(b[9])
    a[4].set_as(b, 7)
    a[scalar].set_as(b[scalar + 1])
    a[6:12].set_as(8)
    a.__setitem__(7, scalar - 1)
    k.shown(a)
    np.testing.assert_array_equal(k.run()[0], [3, 5, 11, 9, 7, 6, 8, 4, *[0] * 8])


def test_scalars_take_their_own_type(k: Kernel) -> None:
    out, source = k.local("int32", (16,)), k.filled(np.arange(10, 26, dtype=np.int32))
    byte, word = k.tik.Scalar("uint8", "byte"), k.tik.Scalar("int16", "word")
    single = k.tik.Scalar("float32", "single")
    byte.set_as(300)
    out[0].set_as(k.tik.Scalar("int32", "copy", byte))
    word.set_as(byte * 1000)
    out[1].set_as(k.tik.Scalar("int32", "copy", word))
    single.set_as(word / 4 + 0.25)
    out[2].set_as(k.tik.Scalar("int32", "copy", single * 4))
    word.set_as(source, 5)
    out[3].set_as(word + 0)
    word.set_as(source[6])
    out[4].set_as(word + 0)
    k.shown(out)
    expected_word = (44 * 1000 + 2**15) % 2**16 - 2**15
    quarter = int(abs(expected_word) / 4) * (-1 if expected_word < 0 else 1) + 0.25
    np.testing.assert_array_equal(k.run()[0][:5], [44, expected_word, int(quarter * 4), 15, 16])


def test_half_floats_are_rounded_where_they_are_set(k: Kernel) -> None:
    a, half = k.local("float16", (16,)), k.tik.Scalar("float16", "half", 0.1)
    k.tik.vec_dup(16, a, half, 1, 8)
    a[1].set_as(1 / 3)
    half.set_as(a[1])
    a[2].set_as(half)
    k.shown(a)
    np.testing.assert_array_equal(k.run()[0][:3], np.array([0.1, 1 / 3, 1 / 3], np.float16))


def test_input_scalars(k: Kernel) -> None:
    tik: Any = k.tik
    count, factor = tik.InputScalar("int32", "count"), tik.InputScalar("float32", "factor")
    y = tik.Tensor("float32", (64,), name="y", scope=GM)
    a = tik.Tensor("float32", (64,), name="a", scope=UB)
    tik.vec_dup(64, a, 0.0, 1, 8)
    tik.vec_dup(count, a, factor, 1, 8)
    tik.data_move(y, a, 0, 1, 8, 0, 0)
    tik.BuildCCE("kernel", [count, factor], [y])
    for feed in ({"count": 5, "factor": 2.5}, {"count": np.int64(9), "factor": np.array([0.1])}):
        (found,) = tik.tikdb.start_debug(feed, False)
        expected = np.zeros(64, np.float32)
        expected[: int(feed["count"])] = np.float32(np.asarray(feed["factor"]).item())
        np.testing.assert_array_equal(found, expected)


def test_outputs_of_symbolic_shape(k: Kernel) -> None:
    tik: Any = k.tik
    rows = tik.InputScalar("int32", "rows")
    y = tik.Tensor("float32", (rows, 8), name="y", scope=GM)
    a = tik.Tensor("float32", (64,), name="a", scope=UB)
    tik.vec_dup(64, a, 1.0, 1, 8)
    with tik.for_range(0, rows) as row:
        tik.data_move(y[row, :], a, 0, 1, 1, 0, 0)
    tik.BuildCCE("kernel", [rows], [y])
    np.testing.assert_array_equal(tik.tikdb.start_debug({"rows": 5}, False)[0], np.ones((5, 8)))


def test_the_flowtable_is_fed_like_inputs(k: Kernel) -> None:
    tik: Any = k.tik
    x, y, tiling = (tik.Tensor("int32", (8,), name=name, scope=GM) for name in ("x", "y", "tiling"))
    a = tik.Tensor("int32", (8,), name="a", scope=UB)
    tik.data_move(a, tiling, 0, 1, 1, 0, 0)
    count = tik.Scalar("int32", "count")
    count.set_as(a[2])
    tik.vec_dup(count, a, 1, 1, 8)
    tik.data_move(y, a, 0, 1, 1, 0, 0)
    tik.BuildCCE("kernel", [x], [y], flowtable=[tiling])
    (found,) = tik.tikdb.start_debug({"x": np.zeros(8, np.int32), "tiling": np.arange(3, 11, dtype=np.int32)}, False)
    np.testing.assert_array_equal(found, [1] * 5 + [8, 9, 10])


def test_workspaces_carry_data_within_a_run_and_tables_are_filled(k: Kernel) -> None:
    table = k.tik.Tensor("float16", (2, 16), name="table", scope=GM, init_value=[list(range(16)), [7] * 16])
    space = k.tik.Tensor("float16", (32,), name="space", scope=GM, is_workspace=True)
    a, b = k.local("float16", (32,)), k.local("float16", (32,))
    k.tik.data_move(a, table, 0, 1, 2, 0, 0)
    k.tik.data_move(space, a, 0, 1, 2, 0, 0)
    k.tik.data_move(b, space, 0, 1, 2, 0, 0)
    k.shown(b)
    np.testing.assert_array_equal(k.run()[0], [*range(16), *[7] * 16])


def test_gm_tensors_that_nothing_uses_may_share_a_name(k: Kernel) -> None:
    for _ in range(2):
        k.tik.Tensor("float16", (16,), name="unused", scope=GM)
    x: Array = np.ones(8, np.float32)
    k.shown(k.filled(x))
    np.testing.assert_array_equal(k.run()[0], x)


def test_names_in_local_memory_may_repeat_and_keywords_come_in_any_order(k: Kernel) -> None:
    first = k.tik.Tensor(name="same", scope=UB, shape=[16], dtype="float32")
    second = k.tik.Tensor("float32", 16, UB, "same")
    k.tik.vec_dup(16, first, 1.0, 1, 8)
    k.tik.vec_dup(16, second, 2.0, 1, 8)
    k.shown(first)
    np.testing.assert_array_equal(k.run()[0], np.ones(16))


def test_profiles() -> None:
    assert Tik(Dprofile("v100", "mini")).program.soc.name == "Ascend310"
    profile = Dprofile("v100", "cloud")
    assert (profile.get_unified_buffer_size(), profile.get_l1_buffer_size()) == (256 << 10, 1 << 20)


def test_what_objects_look_like(k: Kernel) -> None:
    a, s = k.tik.Tensor("float16", (4, 32), name="a", scope=UB), k.tik.Scalar("int32", "s")
    assert repr(a[1:3, :]) == "a[2, 32] float16 in local.UB"
    assert repr(a[s, 0:16]) == "a[1, 16] float16 in local.UB"
    assert repr(s) == "Scalar s int32" and repr(s * 4 + 1) == "4*s + 1"
    assert repr(a.buffer) == "a (float16 in local.UB)"


@pytest.mark.parametrize("strict", [False, True])
def test_a_whole_block_is_moved_into_a_tensor_of_fewer_elements(k: Kernel, strict: bool) -> None:
    """The memory behind it, up to the next block, is its own (tik_api.md 1.1)."""
    numbers = np.arange(16, dtype=np.int16)
    source, few = k.given(numbers), k.local("int16", (3,))
    k.tik.data_move(few, source, 0, 1, 1, 0, 0)
    k.tik.data_move(k.result("int16", (16,)), few, 0, 1, 1, 0, 0)
    if strict:
        with davinci.strict():
            (found,) = k.run()
    else:
        (found,) = k.run()
    assert np.array_equal(found, numbers)


def test_no_second_block_is_moved_into_a_tensor_of_fewer_elements(k: Kernel) -> None:
    few = k.local("int16", (3,))
    k.tik.data_move(few, k.given(np.arange(32, dtype=np.int16)), 0, 1, 2, 0, 0)
    with pytest.raises(OutOfBounds, match="which has 3"):
        k.run()


@pytest.mark.parametrize(
    ("soc", "core_type", "product"),
    [
        ("Ascend310", "AiCore", "mini"), ("Ascend910A", "AiCore", "cloud"), ("Ascend310P3", "AiCore", "aic"),
        ("BS9SX1AA", "VectorCore", "vec"),
    ],
)  # fmt: skip
def test_what_a_profile_calls_its_product(soc: str, core_type: str, product: str) -> None:
    chips.use(soc, None, core_type)
    assert Dprofile().get_product_name() == product
