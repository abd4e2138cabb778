"""Strict mode: what a chip does wrong without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from autotune.kernels import davinci
from autotune.kernels.davinci.errors import OverlapError, RaceError, UninitialisedRead
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB
from tests.kernels.davinci.reporting import line_of, reported
from tests.kernels.davinci.running import Kernel


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    with davinci.strict():
        yield


@pytest.fixture
def k() -> Kernel:
    return Kernel()


def half(tik: Any, name: str, elements: int = 256, scope: str = UB) -> Any:
    return tik.Tensor("float16", (elements,), name=name, scope=scope)  # declared


def test_a_vector_reads_what_nothing_wrote(k: Kernel) -> None:
    a, b = half(k.tik, "a"), half(k.tik, "b")
    k.tik.vec_dup(100, b, 1.0, 1, 8)
    k.tik.vec_abs(100, a, b, 1, 8, 8)
    k.tik.vec_abs(104, a, b, 1, 8, 8)  # vector
    declared = f"declaration in line {line_of(__file__, 'declared')}"
    with reported(UninitialisedRead, "vector", "vabs", "b[100]", "local.UB", declared):
        k.run()


def test_lanes_that_the_mask_leaves_out_are_not_read(k: Kernel) -> None:
    a = half(k.tik, "a")
    k.tik.vec_dup([0, 0b0101], a, 1.0, 1, 8)
    k.tik.vec_abs([0, 0b0101], a, a, 1, 8, 8)
    k.tik.vec_abs([0, 0b0111], a, a, 1, 8, 8)  # lane 1
    with reported(UninitialisedRead, "lane 1", "a[1]"):
        k.run()


def test_a_number_of_lanes_known_late(k: Kernel) -> None:
    a, lanes = half(k.tik, "a"), k.tik.Scalar("int32", "lanes", 20)
    k.tik.vec_dup(lanes, a, 1.0, 1, 8)
    k.tik.vec_abs(20, a, a, 1, 8, 8)
    k.tik.vec_abs(lanes + 1, a, a, 1, 8, 8)  # lane 20
    with reported(UninitialisedRead, "lane 20", "a[20]"):
        k.run()


def test_a_whole_tensor_call(k: Kernel) -> None:
    a = k.tik.Tensor("float16", (4, 32), name="a", scope=UB)
    k.tik.h_duplicate(a[1:4, :], 1.0)
    k.tik.h_abs(a[1:2, :], a[2:3, :])
    k.tik.h_abs(a, a)  # whole
    with reported(UninitialisedRead, "whole", "h_abs", "a[0]"):
        k.run()


def test_a_tensor_is_empty_again_in_each_turn(k: Kernel) -> None:
    with k.tik.for_range(0, 2) as turn:
        a = half(k.tik, "a")
        with k.tik.if_scope(turn == 0):
            k.tik.vec_dup(128, a, 1.0, 1, 8)
        k.tik.vec_abs(128, a, a, 1, 8, 8)  # second turn
    with reported(UninitialisedRead, "second turn", "a[0]"):
        k.run()


def test_a_scalar_reads_an_element_that_nothing_wrote(k: Kernel) -> None:
    a, s = half(k.tik, "a"), k.tik.Scalar("float16", "s")
    a[3].set_as(1.0)
    s.set_as(a[3])
    s.set_as(a[4])  # element
    with reported(UninitialisedRead, "element", "set_as", "a[4]"):
        k.run()


def test_a_move_hands_on_what_is_written_and_is_reported_where_nothing_is(k: Kernel) -> None:
    a, b, c = (half(k.tik, name) for name in "abc")
    k.tik.vec_dup(8, a, 1.0, 1, 8)
    k.tik.data_move(b, a, 0, 1, 16, 0, 0)
    k.tik.vec_abs(8, c, b, 1, 8, 8)
    k.tik.vec_abs(16, c, b, 1, 8, 8)  # moved
    with reported(UninitialisedRead, "moved", "b[8]"):
        k.run()


def test_a_burst_of_nothing(k: Kernel) -> None:
    a, b = half(k.tik, "a"), half(k.tik, "b")
    k.tik.vec_dup(16, a, 1.0, 1, 8)
    k.tik.data_move(b, a, 0, 2, 1, 3, 0)  # burst
    with reported(UninitialisedRead, "burst", "data_move", "a[64]"):
        k.run()


def test_bytes_seen_as_another_type(k: Kernel) -> None:
    a = half(k.tik, "a", 64)
    b = a.reinterpret_cast_to("float32")
    a[0].set_as(1.0)
    a[1].set_as(1.0)
    a[2].set_as(1.0)
    s = k.tik.Scalar("float32", "s")
    s.set_as(b[0])
    s.set_as(b[1])  # half written
    with reported(UninitialisedRead, "half written", "a[1]"):
        k.run()


def test_a_workspace_that_nothing_wrote(k: Kernel) -> None:
    space = k.tik.Tensor("float16", (64,), name="space", scope=GM, is_workspace=True)
    a = half(k.tik, "a")
    k.tik.vec_dup(64, a, 1.0, 1, 8)
    k.tik.data_move(space, a, 0, 1, 2, 0, 0)
    k.tik.data_move(a, space, 0, 1, 2, 0, 0)
    k.tik.data_move(a, space[32], 0, 1, 2, 0, 0)  # workspace
    with reported(UninitialisedRead, "workspace", "space[32]", "global"):
        k.run()


def test_inputs_outputs_and_initialised_tensors_are_written(k: Kernel) -> None:
    table = k.tik.Tensor("float32", (64,), name="table", scope=GM, init_value=2.0)
    x, y = k.given(np.ones(64, np.float32)), k.result("float32", (64,))
    a = k.tik.Tensor("float32", (64,), name="a", scope=UB)
    for source in (table, x, y):
        k.tik.data_move(a, source, 0, 1, 8, 0, 0)
        k.tik.vec_abs(64, a, a, 1, 8, 8)
    k.run()


def product(k: Kernel, rows: int, columns: int, depth: int) -> Any:
    """mmad of 16 x depth by depth x 16 into L0C, of which so many rows and columns are loaded in L1 and written."""
    sources = {L0A: half(k.tik, "left_l1", 256, L1), L0B: half(k.tik, "right_l1", 256, L1)}
    ones = half(k.tik, "ones")
    k.tik.h_duplicate(ones, 1.0)
    loaded = []
    for (scope, source), count in zip(sources.items(), (rows, columns)):
        k.tik.data_move(source, ones, 0, 1, count, 0, 0)
        loaded.append(half(k.tik, f"{source.name}_0", 256, scope))
        k.tik.load2dv1(loaded[-1], source, 0, 1, 1, 0)
    result = k.tik.Tensor("float32", (1, 16, 16), name="result", scope=L0C)
    k.tik.mmad(result, *loaded, 16, depth, 16, False)
    out = k.tik.Tensor("float32", (256,), name="out", scope=UB)
    k.tik.data_move(out, result, 0, 1, 1, 0, 0)
    return out


def test_rows_of_a_product_are_as_written_as_those_of_its_operand(k: Kernel) -> None:
    out = product(k, rows=5, columns=16, depth=16)
    k.tik.vec_abs(16, out, out[4 * 16 :], 1, 8, 8)
    k.tik.vec_abs(16, out, out[5 * 16 :], 1, 8, 8)  # row 5
    with reported(UninitialisedRead, "row 5", "out[80]"):
        k.run()


def test_columns_of_a_product_are_as_written_as_those_of_its_operand(k: Kernel) -> None:
    out = product(k, rows=16, columns=8, depth=16)
    k.tik.vec_abs(8, out, out, 1, 8, 8)
    k.tik.vec_abs(9, out, out, 1, 8, 8)  # column 8
    with reported(UninitialisedRead, "column 8", "out[8]"):
        k.run()


def test_a_scalar_that_nothing_set(k: Kernel) -> None:
    a, s, t = half(k.tik, "a"), k.tik.Scalar("int32", "s"), k.tik.Scalar("int32", "t")
    s.set_as(4)
    t.set_as(s + 1)
    k.tik.vec_dup(16, a, 1.0, t, 0)
    unset = k.tik.Scalar("int32", "unset")
    t.set_as(unset * 2)  # unset
    with reported(UninitialisedRead, "unset", "Scalar unset"):
        k.run()


@pytest.mark.parametrize("use", ["loop", "branch", "repeat", "place", "value", "copy"])
def test_every_use_of_a_scalar_that_nothing_set(k: Kernel, use: str) -> None:
    a, unset = half(k.tik, "a"), k.tik.Scalar("int32", "unset")
    single = k.tik.Scalar("float16", "unset_half")
    if use == "loop":
        with k.tik.for_range(0, unset):
            pass
    elif use == "branch":
        with k.tik.if_scope(unset):
            pass
    elif use == "repeat":
        k.tik.vec_dup(16, a, 1.0, unset, 8)
    elif use == "place":
        a[unset].set_as(1.0)
    elif use == "value":
        k.tik.h_duplicate(a, single)
    else:
        k.tik.Scalar("int64", "copy").set_as(unset)
    with pytest.raises(UninitialisedRead, match="Scalar unset"):
        k.run()


def test_two_cores_on_one_block(k: Kernel) -> None:
    y = k.result("float16", (64,))
    with k.tik.for_range(0, 4, block_num=4) as core:
        a = half(k.tik, "a")
        k.tik.vec_dup(128, a, 1.0, 1, 8)
        with k.tik.if_scope(core == 3):
            k.tik.data_move(y[16], a, 0, 1, 2, 0, 0)  # core 3
        with k.tik.elif_scope(core < 2):
            k.tik.data_move(y[core * 16], a, 0, 1, 1, 0, 0)  # core 1
    first = f"{__file__}:{line_of(__file__, 'core 1')}"
    words = ("cores 1 and 3", "bytes 32 to 63", y.name, "without atomic", f"core 1 did in {first}")
    with reported(RaceError, "core 3", *words):
        k.run()


def test_cores_on_one_block_by_unaligned_starts(k: Kernel) -> None:
    y = k.result("float32", (32,))
    with k.tik.for_range(0, 2, block_num=2) as core:
        a = k.tik.Tensor("float32", (64,), name="a", scope=UB)
        k.tik.vec_dup(64, a, 1.0, 1, 8)
        k.tik.data_move(y[core * 12], a, 0, 1, 2, 0, 0)  # unaligned
    with reported(RaceError, "unaligned", "cores 0 and 1", "bytes 48 to 63"):
        k.run()


def test_cores_that_share_a_block_and_no_byte_of_it(k: Kernel) -> None:
    """A tail that is moved from further back, so that it ends where the next core's share starts, is the remedy."""
    y = k.result("float32", (32,))
    with k.tik.for_range(0, 2, block_num=2) as core:
        a = k.tik.Tensor("float32", (64,), name="a", scope=UB)
        k.tik.vec_dup(64, a, 1.0, 1, 8)
        k.tik.data_move(y[core * 12], a, 0, 1, 1, 0, 0)
        k.tik.data_move(y[core * 12 + 4], a, 0, 1, 1, 0, 0)
    np.testing.assert_array_equal(k.run()[0], [1.0] * 24 + [0.0] * 8)


def test_scalar_stores_write_whole_blocks() -> None:
    k = Kernel("Ascend910B1")
    y = k.result("float32", (32,))
    with k.tik.for_range(0, 2, block_num=2) as core:
        y[core * 7].set_as(1.0)  # scalar store
    with reported(RaceError, "scalar store", "cores 0 and 1", "bytes 0 to 31"):
        k.run()


def test_cores_that_add_are_no_race(k: Kernel) -> None:
    y = k.result("float32", (64,))
    with k.tik.for_range(0, 4, block_num=4):
        a = k.tik.Tensor("float32", (64,), name="a", scope=UB)
        k.tik.vec_dup(64, a, 1.0, 1, 8)
        k.tik.set_atomic_add(1)
        k.tik.data_move(y, a, 0, 1, 8, 0, 0)
        k.tik.set_atomic_add(0)
    np.testing.assert_array_equal(k.run()[0], np.full(64, 4.0))


def test_one_core_may_write_a_block_twice_and_cores_take_strided_blocks_in_turn(k: Kernel) -> None:
    y = k.result("float32", (64,))
    with k.tik.for_range(0, 2, block_num=2) as core:
        a = k.tik.Tensor("float32", (64,), name="a", scope=UB)
        k.tik.vec_dup(64, a, 1.0, 1, 8)
        with k.tik.for_range(0, 2):
            k.tik.data_move(y[core * 8], a, 0, 4, 1, 0, 1)
    k.run()


def test_a_later_repeat_reads_what_an_earlier_one_overwrote(k: Kernel) -> None:
    a, b = half(k.tik, "a", 512), half(k.tik, "b", 512)
    k.tik.h_duplicate(a, 1.0)
    k.tik.h_duplicate(b, 1.0)
    k.tik.vec_add(128, a, a, b, 3, 8, 8, 8)
    k.tik.vec_add(128, a, a[128:], b, 3, 8, 8, 8)
    k.tik.vec_add(128, a, a, b, 3, 0, 0, 8)
    k.tik.vec_add(128, a[128:], a, b, 3, 8, 8, 8)  # overwritten
    with reported(OverlapError, "overwritten", "vadd", "a[128]", "a[0]", "repeat 1"):
        k.run()


def test_source_and_destination_share_some_of_a_repeat(k: Kernel) -> None:
    a = half(k.tik, "a", 512)
    k.tik.h_duplicate(a, 1.0)
    k.tik.vec_abs(128, a[16:], a, 1, 8, 8)  # shared
    with reported(OverlapError, "shared", "vabs", "a[16]", "a[0]"):
        k.run()


def test_a_move_onto_part_of_itself(k: Kernel) -> None:
    a = half(k.tik, "a", 512)
    k.tik.h_duplicate(a, 1.0)
    k.tik.data_move(a[256:], a, 0, 1, 16, 0, 0)
    k.tik.data_move(a, a[16:], 0, 1, 16, 0, 0)  # moved over
    with reported(OverlapError, "moved over", "data_move", "a[0]", "a[16]"):
        k.run()


def test_strict_and_default_give_the_same_numbers(k: Kernel) -> None:
    x = np.random.default_rng(3).standard_normal(512).astype(np.float16)
    a, scalar = k.filled(x), k.tik.Scalar("float16", "scalar")
    with k.tik.for_range(0, 4) as i:
        scalar.set_as(a[i * 7])
        k.tik.vec_muls(128, a[i * 128 :], a[i * 128 :], scalar, 1, 8, 8)
    k.shown(a)
    (found,) = k.run()
    expected = x.copy()
    for i in range(4):
        factor = expected[i * 7]
        expected[i * 128 : i * 128 + 128] *= factor
    np.testing.assert_array_equal(found, expected)


def test_a_repeat_of_0_reads_nothing_wherever_it_starts(k: Kernel) -> None:
    a, none = half(k.tik, "a"), k.tik.Scalar("int32", "none", 0)
    k.tik.vec_abs(128, a[none + 512 :], a, none, 8, 8)
    k.run()
