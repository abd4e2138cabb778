"""What TIK refuses while a kernel is recorded: each error on the smallest program that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.kernels.davinci import language
from autotune.kernels.davinci.errors import (
    AlignmentError,
    CapacityError,
    DataTypeError,
    NotEmulated,
    RangeError,
    ScopeError,
    ShapeError,
    TikError,
)
from autotune.kernels.davinci.memory import GM, L0A, L1, UB
from tests.kernels.davinci.reporting import reported
from tests.kernels.davinci.running import Kernel


@pytest.fixture
def tik() -> Any:
    return Kernel().tik


def test_a_tensor_too_large_for_its_memory(tik: Any) -> None:
    tik.Tensor("float32", (8192,), name="first", scope=UB)
    with reported(CapacityError, "too large", "UB", "second", "262144 bytes", "229376 of 262144", "first 32768"):
        tik.Tensor("float16", (131072,), name="second", scope=UB)  # too large


def test_a_tensor_after_its_block(tik: Any) -> None:
    kept = tik.Tensor("float16", (128,), name="kept", scope=UB)
    with tik.new_stmt_scope():
        gone = tik.Tensor("float16", (128,), name="gone", scope=UB)
    with reported(ScopeError, "gone tensor", "tensor gone", "after its block"):
        tik.h_add(kept, gone, gone)  # gone tensor


def test_a_scalar_after_its_block(tik: Any) -> None:
    with tik.if_scope(True):
        gone = tik.Scalar("int32", "gone", 3)
    with reported(ScopeError, "gone scalar", "Scalar gone", "after its block"):
        gone + 1  # gone scalar
    with reported(ScopeError, "gone scalar set", "Scalar gone"):
        gone.set_as(2)  # gone scalar set


def test_a_loop_variable_outside_its_loop(tik: Any) -> None:
    array = tik.Tensor("float16", (128,), name="array", scope=UB)
    with tik.for_range(0, 4, name="turn") as turn:
        inside = turn * 2
    assert repr(inside) == "2*turn"
    with reported(ScopeError, "gone loop", "turn", "outside its loop"):
        array[turn]  # gone loop


def test_a_gm_tensor_inside_a_loop(tik: Any) -> None:
    with tik.for_range(0, 2), reported(ScopeError, "gm in loop", "x_gm", "inside a loop"):
        tik.Tensor("float16", (16,), name="x_gm", scope=GM)  # gm in loop


@pytest.mark.parametrize("name", ["1st", "a-b", "", "__fake_tensor", "naïve"])
def test_a_name_that_cannot_be(tik: Any, name: str) -> None:
    with reported(TikError, "bad name", repr(name)):
        tik.Tensor("float16", (16,), name=name, scope=UB)  # bad name


def test_an_unknown_memory_or_type(tik: Any) -> None:
    with reported(ScopeError, "bad memory", "x", "local.UC"):
        tik.Tensor("float16", (16,), name="x", scope="local.UC")  # bad memory
    with reported(DataTypeError, "bad type", "x", "float64", "float32"):
        tik.Tensor("float64", (16,), name="x", scope=UB)  # bad type
    with reported(DataTypeError, "bad scalar", "s", "bool"):
        tik.Scalar("bool", "s")  # bad scalar


@pytest.mark.parametrize("shape", [(), (0, 4), (-1,), (1,) * 9])
def test_a_shape_that_cannot_be(tik: Any, shape: tuple[int, ...]) -> None:
    with reported(ShapeError, "bad shape", str(list(shape))):
        tik.Tensor("float16", shape, name="x", scope=UB)  # bad shape


def test_slices_that_cannot_be(tik: Any) -> None:
    grid = tik.Tensor("float16", (4, 32), name="grid", scope=UB)
    with reported(ShapeError, "beyond", "grid", "130", "128"):
        grid[16:130]  # beyond
    with reported(ShapeError, "beyond axis", "grid", "5", "4"):
        grid[0:5, :]  # beyond axis
    with reported(ShapeError, "index", "grid", "4"):
        grid[4, :]  # index
    with reported(ShapeError, "negative index", "grid", "-129", "128"):
        grid[-129]  # negative index
    with reported(ShapeError, "empty", "grid", "8:8"):
        grid[8:8]  # empty
    with reported(ShapeError, "step", "grid", "-1"):
        grid[::-1]  # step
    with reported(ShapeError, "axes", "grid", "2 axes", "3"):
        grid[0, 0, 0]  # axes
    with reported(ShapeError, "flatten", "grid", "strided"):
        grid[:, 0:16][3]  # flatten
    with reported(ShapeError, "reshape strided", "grid", "strided"):
        grid[:, 0:16].reshape((64,))  # reshape strided
    with reported(ShapeError, "reshape", "grid", "128", "[100]"):
        grid.reshape((100,))  # reshape
    with reported(ShapeError, "reinterpret", "grid", "int64"):
        grid[0:3].reinterpret_cast_to("int64")  # reinterpret
    with reported(ShapeError, "fraction", "grid", "0.5"):
        grid[0.5]  # fraction


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 0, 1, 0, 0), ("nburst", "0", "1 to 4095")),
        ((0, 4096, 1, 0, 0), ("nburst", "4096", "1 to 4095")),
        ((0, 1, 65536, 0, 0), ("burst", "65536", "1 to 65535")),
        ((0, 1, 1, 65536, 0), ("src_stride", "65536", "0 to 65535")),
        ((0, 1, 1, 0, -1), ("dst_stride", "-1", "0 to 65535")),
    ],
)
def test_numbers_of_a_move_out_of_range(tik: Any, arguments: tuple[int, ...], words: tuple[str, ...]) -> None:
    a, b = (tik.Tensor("float16", (64,), name=name, scope=UB) for name in "ab")
    with reported(RangeError, "move range", *words):
        tik.data_move(a, b, *arguments)  # move range


def test_repeats_and_masks_out_of_range(tik: Any) -> None:
    a = tik.Tensor("float16", (256,), name="a", scope=UB)
    with reported(RangeError, "repeat range", "repeat_times", "256", "255"):
        tik.vec_abs(128, a, a, 256, 8, 8)  # repeat range
    with reported(RangeError, "mask range", "mask", "129", "1 to 128"):
        tik.vec_abs(129, a, a, 1, 8, 8)  # mask range


def test_a_misaligned_start(tik: Any) -> None:
    a = tik.Tensor("float16", (256,), name="a", scope=UB)
    with reported(AlignmentError, "misaligned", "a", "byte 6", "32"):
        tik.vec_abs(16, a[3], a, 1, 8, 8)  # misaligned


def test_operands_of_other_types_or_memories(tik: Any) -> None:
    a = tik.Tensor("float16", (128,), name="a", scope=UB)
    b = tik.Tensor("float32", (64,), name="b", scope=UB)
    c = tik.Tensor("float16", (128,), name="c", scope=L1)
    d = tik.Tensor("float16", (256,), name="d", scope=L0A)
    with reported(DataTypeError, "types", "h_add", "float16, float16, float32"):
        tik.h_add(a, a, b)  # types
    with reported(ScopeError, "memories", "c", "local.L1", "local.UB"):
        tik.h_add(a, a, c)  # memories
    with reported(ScopeError, "route", "L0A", "UB"):
        tik.data_move(a, d, 0, 1, 1, 0, 0)  # route
    with reported(ScopeError, "element", "c", "local.L1"):
        c[0].set_as(1.0)  # element
    with reported(ScopeError, "element read", "s", "c", "local.L1"):
        tik.Scalar("float16", "s").set_as(c[0])  # element read


def test_an_expr_in_a_half_float(tik: Any) -> None:
    a = tik.Tensor("float16", (128,), name="a", scope=UB)
    half, whole = tik.Scalar("float16", "half"), tik.Scalar("int32", "whole", 1)
    with reported(DataTypeError, "half scalar", "float16", "half", "Expr"):
        half.set_as(whole + 1)  # half scalar
    with reported(DataTypeError, "half element", "float16", "Expr"):
        a[0].set_as(whole + 1)  # half element


def test_a_half_float_in_a_condition(tik: Any) -> None:
    half, single = tik.Scalar("float16", "half", 1.0), tik.Scalar("float32", "single", 1.0)
    with reported(DataTypeError, "half condition", "float16", "half", "condition"):
        tik.if_scope(half > 0.5)  # half condition
    with tik.if_scope(tik_all(single > 0.5)):
        pass


def test_no_float_at_all_in_a_condition_of_the_310() -> None:
    tik = Kernel("Ascend310").tik
    single = tik.Scalar("float32", "single", 1.0)
    with reported(DataTypeError, "float condition", "float32", "single"), tik.if_scope(single):  # float condition
        pass


def tik_all(*conditions: Any) -> Any:
    return language.all_of(*conditions)


def test_python_truth_of_a_symbolic_value(tik: Any) -> None:
    count = tik.Scalar("int32", "count", 1)
    with reported(TikError, "truth", "tik.all", "tik.any", "tik.negate", "if_scope"):
        bool(count > 0)  # truth
    with reported(TikError, "chained", "tik.all"):
        assert 1 < count < 4  # chained
    with reported(TikError, "python range", "for_range"):
        range(count)  # python range


def test_unsigned_values_are_not_negated(tik: Any) -> None:
    count = tik.Scalar("uint32", "count", 1)
    with reported(TikError, "negate", "unsigned"):
        _ = -count  # negate


def test_a_constant_division_by_zero(tik: Any) -> None:
    count = tik.Scalar("int32", "count", 1)
    with reported(TikError, "zero", "zero"):
        count // 0  # zero


def test_what_is_no_number(tik: Any) -> None:
    with reported(TikError, "no number", "'four'"), tik.for_range(0, "four"):  # no number
        pass


def test_a_tensor_is_not_iterated(tik: Any) -> None:
    a = tik.Tensor("float16", (128,), name="a", scope=UB)
    for use in (iter, list, lambda tensor: [*tensor], lambda tensor: 3 in tensor):
        with pytest.raises(TypeError):
            use(a)


def test_loops_that_cannot_be(tik: Any) -> None:
    with reported(RangeError, "backwards", "5", "3"), tik.for_range(5, 3):  # backwards
        pass
    with reported(RangeError, "negative", "begint", "-1"), tik.for_range(-1, 3):  # negative
        pass
    with reported(RangeError, "threads", "thread_num", "5"), tik.for_range(0, 8, thread_num=5):  # threads
        pass


def test_loops_over_cores_that_cannot_be(tik: Any) -> None:
    with reported(RangeError, "cores start", "0 to block_num"), tik.for_range(1, 4, block_num=4):  # cores start
        pass
    with reported(RangeError, "cores end", "4 cores"), tik.for_range(0, 3, block_num=4):  # cores end
        pass
    with reported(RangeError, "cores threads", "thread_num"):
        tik.for_range(0, 4, block_num=4, thread_num=2)  # cores threads
    with tik.for_range(0, 2), reported(TikError, "cores inside", "outside"):
        tik.for_range(0, 4, block_num=4)  # cores inside
    with tik.for_range(0, 4, block_num=4):
        pass
    with reported(TikError, "cores twice", "one loop over cores"):
        tik.for_range(0, 4, block_num=4)  # cores twice


def test_breaks_that_cannot_be(tik: Any) -> None:
    with reported(TikError, "break", "tik_break", "outside"):
        tik.tik_break()  # break
    with reported(TikError, "continue", "tik_continue", "outside"):
        tik.tik_continue()  # continue
    with tik.for_range(0, 4, block_num=4), reported(TikError, "break cores", "over cores", "tik_return"):
        tik.tik_break()  # break cores


def test_a_break_in_a_loop_with_two_buffers_warns_and_takes_one(tik: Any) -> None:
    warning = pytest.warns(UserWarning, match=r"tik_break.*thread_num is taken as 1")
    with tik.for_range(0, 4, thread_num=2) as i, tik.if_scope(i > 2), warning:
        tik.tik_break()
    (loop,) = tik.program.body
    assert loop.thread_num == 1


def test_arms_without_a_first_one(tik: Any) -> None:
    with reported(TikError, "else", "else_scope", "follow"), tik.else_scope():  # else
        pass
    with tik.if_scope(True):
        pass
    tik.Scalar("int32", "between", 1)
    with reported(TikError, "elif", "elif_scope", "follow"), tik.elif_scope(True):  # elif
        pass
    with tik.if_scope(True):
        pass
    with tik.else_scope():
        pass
    with reported(TikError, "second else", "else_scope", "follow"), tik.else_scope():  # second else
        pass


def test_a_chain_has_at_most_400_arms(tik: Any) -> None:
    count = tik.Scalar("int32", "count", 1)
    with tik.if_scope(count == 0):
        pass
    for i in range(399):
        with tik.elif_scope(count == i):
            pass
    with reported(RangeError, "long chain", "400"), tik.else_scope():  # long chain
        pass


def test_a_call_that_is_not_emulated_is_named(tik: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"tik\.no_such_call is not emulated \(.*test_errors_recording"):
        tik.no_such_call()
    with pytest.raises(NotEmulated, match=r"Dprofile.*v900"):
        language.Dprofile("v900", "cloud")


def test_forms_of_the_container() -> None:
    assert language.Tik(language.Dprofile("v100", "cloud")).program.soc.name == "Ascend910A"
    assert language.Tik(None, True, 1, 32).program.body == []
    with reported(TikError, "profile", "Dprofile", "'v100'"):
        language.Tik("v100")  # type: ignore[arg-type]  # profile
    with reported(RangeError, "messages", "err_msg_level", "2"):
        language.Tik(err_msg_level=2)  # messages
