"""What is charged to a memory's budget, against a sum over the tensors alive."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.errors import CapacityError
from autotune.kernels.davinci.memory import L0A, L0B, L0C, L1, UB
from tests.kernels.davinci.running import Kernel

TOTAL = {UB: 256 << 10, L1: 1 << 20, L0A: 64 << 10, L0B: 64 << 10, L0C: 256 << 10}
UNIT = {UB: 32, L1: 512, L0A: 512, L0B: 512, L0C: 1024}
BYTES = {"int8": 1, "float16": 2, "float32": 4}

DECLARE = st.tuples(
    st.just("declare"), st.sampled_from(list(TOTAL)), st.sampled_from(list(BYTES)), st.integers(1, 40000)
)
BLOCKS = st.recursive(
    st.lists(DECLARE, max_size=3),
    lambda inner: st.lists(
        st.one_of(
            DECLARE,
            st.tuples(st.just("scope"), inner),
            st.tuples(st.just("if"), inner),
            st.tuples(st.just("loop"), st.integers(1, 3), st.integers(0, 2), inner),
        ),
        max_size=4,
    ),
    max_leaves=12,
)


class Full(Exception):
    """The budget's own word for CapacityError."""


class Budget:
    """The account of the same declarations: sizes of all tensors of open blocks, and the most there ever was."""

    def __init__(self) -> None:
        self.used = dict.fromkeys(TOTAL, 0)
        self.peak = dict.fromkeys(TOTAL, 0)

    def block(self, statements: Any, loops: tuple[int, ...] = (), dead: bool = False) -> None:
        before = dict(self.used)
        for kind, *rest in statements:
            if kind == "declare":
                scope, dtype, elements = rest
                self.declare(scope, dtype, elements, loops, dead)
            elif kind == "loop":
                threads, turns, body = rest
                self.block(body, (*loops, threads), dead or turns == 0)
            else:
                self.block(rest[0], loops, dead)
        self.used = before

    def declare(self, scope: str, dtype: str, elements: int, loops: tuple[int, ...], dead: bool) -> None:
        unit = 512 if scope == L0C and dtype == "float16" else UNIT[scope]
        size = -(-elements * BYTES[dtype] // unit) * unit
        copies = max(loops) if loops and loops[-1] > 1 and not dead else 1
        self.used[scope] += size * copies
        if self.used[scope] > TOTAL[scope]:
            raise Full
        self.peak[scope] = max(self.peak[scope], self.used[scope])


def record(tik: Any, statements: Any) -> None:
    for kind, *rest in statements:
        if kind == "declare":
            scope, dtype, elements = rest
            tik.Tensor(dtype, (elements,), name="same", scope=scope)
        elif kind == "loop":
            threads, turns, body = rest
            with tik.for_range(0, turns, thread_num=threads):
                record(tik, body)
        else:
            with tik.new_stmt_scope() if kind == "scope" else tik.if_scope(False):
                record(tik, rest[0])


@settings(max_examples=300, deadline=None)
@given(BLOCKS)
def test_the_budget_of_random_blocks(statements: Any) -> None:
    budget, tik = Budget(), Kernel().tik
    try:
        budget.block(statements)
    except Full:
        with pytest.raises(CapacityError):
            record(tik, statements)
        return
    record(tik, statements)
    assert tik.program.peak_bytes == budget.peak


def test_a_refused_tensor_is_not_charged() -> None:
    tik = Kernel().tik
    tik.Tensor("int8", (1000,), name="kept", scope=UB)
    with pytest.raises(CapacityError):
        tik.Tensor("int8", (TOTAL[UB],), name="refused", scope=UB)
    tik.Tensor("int8", (TOTAL[UB] - 1024,), name="rest", scope=UB)
    assert tik.program.peak_bytes[UB] == TOTAL[UB]


def test_sizes_of_another_chip() -> None:
    tik = Kernel("Ascend310").tik
    with pytest.raises(CapacityError, match="253952"):
        tik.Tensor("int8", (249 << 10,), name="large", scope=UB)


def test_a_tensor_of_symbolic_shape_is_charged_by_its_bound() -> None:
    tik = Kernel().tik
    rows = tik.InputScalar("int32", "rows")
    with pytest.raises(RuntimeError, match="max_mem_size"):
        tik.Tensor("float16", (rows, 16), name="unbounded", scope=UB)
    tik.Tensor("float16", (rows, 16), name="bounded", scope=UB, max_mem_size=4096)
    assert tik.program.peak_bytes[UB] == 4096
