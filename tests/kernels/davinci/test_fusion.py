"""Fused runs of element copies and fill loops leave what the same program leaves statement by statement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci import interpreter
from autotune.kernels.davinci.errors import OutOfBounds
from autotune.kernels.davinci.fusion import SHORTEST, ElementCopies, fused
from tests.kernels.davinci.running import Array, Kernel, values

SIZE = 64
DTYPES = ("float16", "float32", "int32")
PLACE = st.integers(0, SIZE - 1)

COPY = st.tuples(st.just("copy"), st.integers(0, 2), PLACE, st.integers(0, 2), PLACE, st.integers(0, 1))
"""(copy, source tensor, its element, target tensor, its element, register)."""
FILL = st.tuples(
    st.just("fill"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 8), st.integers(-2, 9), st.integers(1, 20)
)
"""(fill, source, target, first element, step of the source, spacing of the target)."""


class Program:
    """Three tensors of one type, two registers, and statements over them; ``run`` shows all of it."""

    def __init__(self, dtype: str, statements: Any, turns: int) -> None:
        self.k = Kernel()
        self.tensors = [self.k.filled(values(dtype, SIZE, seed)) for seed in range(3)]
        self.registers = [self.k.tik.Scalar(dtype, f"register{i}", 0) for i in range(2)]
        with self.k.tik.for_range(0, turns):
            for kind, *rest in statements:
                (self.copy if kind == "copy" else self.fill)(*rest)
        for tensor, register in zip(self.tensors, self.registers):
            tensor[SIZE - 1].set_as(register)
        for tensor in self.tensors:
            self.k.shown(tensor)

    def copy(self, source: int, origin: int, target: int, to: int, register: int) -> None:
        self.registers[register].set_as(self.tensors[source][origin])
        self.tensors[target][to].set_as(self.registers[register])

    def fill(self, source: int, target: int, first: int, step: int, spacing: int) -> None:
        count = max(1, min(4, (SIZE - 1 - first) // max(step, 1), (SIZE - 8) // spacing))
        start = first - min(step, 0) * count
        register = self.registers[0]
        with self.k.tik.for_range(0, count) as i:
            register.set_as(self.tensors[source][i * step + start])
            row = self.tensors[target][i * spacing : i * spacing + 8]
            self.k.tik.h_duplicate(row, register)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(DTYPES), st.lists(st.one_of(COPY, COPY, COPY, FILL), max_size=14), st.integers(1, 2))
def test_random_programs(dtype: str, statements: Any, turns: int) -> None:
    found = Program(dtype, statements, turns).k.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "condensed", iter)
        patch.setattr(interpreter, "fill_loop", lambda loop: None)
        expected = Program(dtype, statements, turns).k.run()
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def copies(pairs: int) -> tuple[Program, Array, Array]:
    """So many copies from the first tensor's even elements to the second's first ones, with both as they were."""
    statements = [("copy", 0, 2 * i, 1, i, 0) for i in range(pairs)]
    return Program("float16", statements, 1), values("float16", SIZE, 0), values("float16", SIZE, 1)


def test_a_run_of_copies_is_one_statement_and_right() -> None:
    program, source, target = copies(20)
    (loop,) = [statement for statement in program.k.tik.program.body if hasattr(statement, "body")]
    (only,) = fused(loop.body)
    assert isinstance(only, ElementCopies)
    target[:20] = source[0:40:2]
    target[-1] = 0
    np.testing.assert_array_equal(program.k.run()[1], target)


def test_fewer_are_left_as_they_are() -> None:
    program, _, _ = copies(SHORTEST - 1)
    (loop,) = [statement for statement in program.k.tik.program.body if hasattr(statement, "body")]
    assert len(list(fused(loop.body))) == 2 * (SHORTEST - 1)


def test_a_fill_loop_out_of_range_is_reported_as_ever() -> None:
    k = Kernel()
    a, b = k.filled(values("float16", 64)), k.filled(values("float16", 64))
    register = k.tik.Scalar("float16", "register")
    with k.tik.for_range(0, 5) as i:
        register.set_as(a[i * 16])
        k.tik.h_duplicate(b[i * 8 : i * 8 + 8], register)
    with pytest.raises(OutOfBounds, match="element 64 of"):
        k.run()


def test_a_chain_within_one_tensor_is_not_copied_at_once() -> None:
    program = Program("float32", [("copy", 0, i, 0, i + 1, 0) for i in range(10)], 1)
    expected = values("float32", SIZE, 0)
    expected[:11] = expected[0]
    expected[-1] = expected[0]
    np.testing.assert_array_equal(program.k.run()[0], expected)
