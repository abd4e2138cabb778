"""Control flow: random programs of loops, branches and leaves take the course that Python gives them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels import davinci
from autotune.kernels.davinci.errors import RangeError, ScopeError
from autotune.kernels.davinci.memory import GM, UB
from tests.kernels.davinci.reporting import reported
from tests.kernels.davinci.running import Kernel

LENGTH = 64
"""Numbers that a random program may log."""


class Leave(Exception):
    """break, continue or return, in the reference."""


def blocks(depth: int, looping: bool) -> Any:
    """Lists of statements; see Recorded and Reference for their meaning."""
    register, small = st.integers(0, 2), st.integers(-3, 4)
    kinds = [
        st.tuples(st.just("set"), register, register, small),
        st.tuples(st.just("log"), register),
        st.tuples(st.just("return")) if depth < 3 else st.tuples(st.just("log"), register),
    ]
    if looping:
        kinds.append(st.tuples(st.sampled_from(("break", "continue"))))
    if depth:
        inner, looped = blocks(depth - 1, looping), blocks(depth - 1, True)
        kinds.append(st.tuples(st.just("loop"), st.integers(0, 3), register, looped))
        kinds.append(st.tuples(st.just("if"), register, small, inner, st.one_of(st.none(), inner), inner))
    return st.lists(st.one_of(kinds), max_size=4)


class Recorded:
    """The program on the emulated core; logged numbers are stored in order, each followed by a move to GM."""

    def __init__(self) -> None:
        self.tik: Any = Kernel().tik
        self.out = self.tik.Tensor("int32", (LENGTH,), name="out", scope=GM)
        self.log = self.tik.Tensor("int32", (LENGTH,), name="log", scope=UB)
        self.tik.vec_dup(64, self.log, -99, 1, 8)
        self.count = self.tik.Scalar("int32", "count", 0)
        self.numbers = [self.tik.Scalar("int32", f"r{i}", i) for i in range(3)]

    def block(self, statements: Any) -> None:
        for kind, *rest in statements:
            if kind == "set":
                self.numbers[rest[0]].set_as(self.numbers[rest[1]] + rest[2])
            elif kind == "log":
                self.append(self.numbers[rest[0]])
            elif kind in ("loop", "if"):
                (self.loop if kind == "loop" else self.branch)(*rest)
            else:
                getattr(self.tik, f"tik_{kind}")()

    def append(self, value: Any) -> None:
        with self.tik.if_scope(self.count < LENGTH):
            self.log[self.count].set_as(value)
            self.count.set_as(self.count + 1)
            self.tik.data_move(self.out, self.log, 0, 1, LENGTH // 8, 0, 0)

    def loop(self, extra: int, bound: int, body: Any) -> None:
        """From 0 to extra more than a register's last two bits."""
        with self.tik.for_range(0, (self.numbers[bound] & 3) + extra) as index:
            self.append(index)
            self.block(body)

    def branch(self, register: int, limit: int, then: Any, other: Any, last: Any) -> None:
        value = self.numbers[register]
        with self.tik.if_scope(value < limit):
            self.block(then)
        if other is not None:
            with self.tik.elif_scope(value == limit):
                self.block(other)
        with self.tik.else_scope():
            self.block(last)

    def run(self) -> list[int]:
        self.tik.BuildCCE("kernel", [], [self.out])
        return [int(n) for n in self.tik.tikdb.start_debug({}, False)[0]]


class Reference:
    """The same program in Python."""

    def __init__(self) -> None:
        self.logged: list[int] = []
        self.numbers = [0, 1, 2]

    def append(self, value: int) -> None:
        if len(self.logged) < LENGTH:
            self.logged.append(value)

    def block(self, statements: Any) -> None:
        for kind, *rest in statements:
            if kind == "set":
                self.numbers[rest[0]] = self.numbers[rest[1]] + rest[2]
            elif kind == "log":
                self.append(self.numbers[rest[0]])
            elif kind == "loop":
                self.loop(*rest)
            elif kind == "if":
                register, limit, then, other, last = rest
                value = self.numbers[register]
                middle = other if other is not None and value == limit else last
                self.block(then if value < limit else middle)
            else:
                raise Leave(kind)

    def loop(self, extra: int, bound: int, body: Any) -> None:
        for index in range((self.numbers[bound] & 3) + extra):
            self.append(index)
            try:
                self.block(body)
            except Leave as leave:
                if str(leave) == "return":
                    raise
                if str(leave) == "break":
                    return

    def run(self, program: Any) -> list[int]:
        with suppress(Leave):
            self.block(program)
        return self.logged + [-99] * (LENGTH - len(self.logged)) if self.logged else [0] * LENGTH


@settings(max_examples=150, deadline=None)
@given(blocks(3, False))
def test_random_programs(program: Any) -> None:
    recorded = Recorded()
    recorded.block(program)
    assert recorded.run() == Reference().run(program)


@settings(max_examples=30, deadline=None)
@given(blocks(3, False))
def test_random_programs_in_strict_mode(program: Any) -> None:
    recorded = Recorded()
    recorded.block(program)
    with davinci.strict():
        assert recorded.run() == Reference().run(program)


def logged(k: Recorded) -> list[int]:
    return [n for n in k.run() if n != -99]


def test_what_is_not_run_is_recorded_all_the_same() -> None:
    k = Recorded()
    with k.tik.if_scope(False), pytest.raises(RangeError):
        k.tik.data_move(k.out, k.log, 0, 0, 1, 0, 0)
    with k.tik.for_range(0, 0), pytest.raises(RangeError):
        k.tik.data_move(k.out, k.log, 0, 0, 1, 0, 0)
    before = k.tik.program.statements
    with k.tik.for_range(3, 3):
        k.append(1)
    assert k.tik.program.statements > before


def test_the_extent_of_a_loop_is_taken_at_its_entry() -> None:
    k = Recorded()
    limit = k.numbers[2]
    with k.tik.for_range(0, limit) as i:
        limit.set_as(limit + 5)
        k.append(i)
    k.append(limit)
    assert logged(k) == [0, 1, 12]


def test_an_expr_has_the_value_of_its_scalars_at_the_point_of_use() -> None:
    k = Recorded()
    offset = k.numbers[1] * 16
    k.append(offset)
    k.numbers[1].set_as(3)
    k.append(offset)
    assert logged(k) == [16, 48]


def test_an_elif_on_an_element_reads_it_where_the_chain_begins() -> None:
    k = Recorded()
    flags = k.tik.Tensor("int32", (8,), name="flags", scope=UB)
    k.tik.vec_dup(8, flags, 7, 1, 8)
    for wanted in (7, 8):
        with k.tik.if_scope(flags[0] > 100):
            k.append(1)
        with k.tik.elif_scope(flags[1] == wanted):
            k.append(2)
        with k.tik.else_scope():
            k.append(3)
    assert logged(k) == [2, 3]


def test_conditions_of_numbers_and_scalars() -> None:
    k = Recorded()
    for value in (True, 1, 2.5, k.numbers[1], k.numbers[2] - 1):
        with k.tik.if_scope(value):
            k.append(1)
    for value in (False, 0, 0.0, k.numbers[0], k.numbers[2] - 2):
        with k.tik.if_scope(value):
            k.append(2)
    assert logged(k) == [1] * 5


@pytest.mark.parametrize("threads", [0, 1, 2, 3, 4])
def test_buffers_in_turn_change_no_result(threads: int) -> None:
    k = Recorded()
    with k.tik.for_range(0, 5, thread_num=threads) as i:
        mine = k.tik.Tensor("int32", (8,), name="mine", scope=UB)
        mine[0].set_as(i * i)
        number = k.tik.Scalar("int32", "number")
        number.set_as(mine[0])
        k.append(number)
    assert logged(k) == [0, 1, 4, 9, 16]


def cores(block_num: Any = None, scalar: int | None = None) -> list[int]:
    """Each core adds 1 to its own block of y; those before the loop do in block 0."""
    tik: Any = Kernel().tik
    y = tik.Tensor("float32", (64, 8), name="y", scope=GM)
    n = tik.InputScalar("int32", "n")
    ones = tik.Tensor("float32", (8,), name="ones", scope=UB)
    tik.vec_dup(8, ones, 1.0, 1, 8)
    tik.set_atomic_add(1)
    tik.data_move(y, ones, 0, 1, 1, 0, 0)
    number = n if block_num is None else block_num
    with tik.for_range(0, number, block_num=number) as core:
        tik.data_move(y[core + 1, :], ones, 0, 1, 1, 0, 0)
    tik.BuildCCE("kernel", [n], [y])
    return [int(row[0]) for row in tik.tikdb.start_debug({"n": scalar or 0}, False)[0]]


def test_what_stands_before_the_loop_over_cores_runs_on_each() -> None:
    assert cores(block_num=5) == [5, 1, 1, 1, 1, 1, *[0] * 58]
    assert cores(block_num=40)[:42] == [40, *[1] * 40, 0]


def test_as_many_cores_as_a_scalar_says() -> None:
    assert cores(scalar=3) == [32, 1, 1, 1, *[0] * 60]
    with pytest.raises(RangeError, match="block_num is 33; the chip has 32 cores"):
        cores(scalar=33)


def test_a_number_made_of_a_loop_variable_outside_the_loop_in_strict_mode() -> None:
    k = Recorded()
    with k.tik.for_range(0, 4, name="turn") as turn:
        twice = turn * 2
        k.append(twice)
    k.log[0].set_as(twice)  # derived
    with davinci.strict(), reported(ScopeError, "derived", "turn", "outside its loop"):
        k.run()


def test_no_scope_inside_one_without_sync() -> None:
    k = Recorded()
    with k.tik.new_stmt_scope(disable_sync=True), pytest.raises(RuntimeError, match="disable_sync"):
        k.tik.new_stmt_scope()
    with k.tik.new_stmt_scope(), k.tik.new_stmt_scope(disable_sync=True):
        k.append(1)
    assert logged(k) == [1]


def test_the_numbers_of_a_run_do_not_stay() -> None:
    k = Recorded()
    k.append(k.numbers[1])
    k.numbers[1].set_as(5)
    first = k.run()
    np.testing.assert_array_equal(k.tik.tikdb.start_debug({}, False)[0], first)
