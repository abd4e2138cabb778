"""Unrolled runs as one call, and declarations without contents: the same results as statement by statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci import interpreter
from autotune.kernels.davinci.merging import condensed
from autotune.kernels.davinci.program import Declare, Instruction
from tests.kernels.davinci.running import Array, Kernel, values


def both_ways(build: Callable[[Kernel], None]) -> tuple[list[Array], list[Array]]:
    """(results, results statement by statement)."""
    found = []
    for merged in (True, False):
        kernel = Kernel()
        build(kernel)
        with pytest.MonkeyPatch.context() as patch:
            if not merged:
                patch.setattr(interpreter, "condensed", iter)
            found.append(kernel.run())
    return found[0], found[1]


def instructions(kernel: Kernel) -> int:
    return sum(isinstance(one, Instruction) for one in condensed(kernel.tik.program.body))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2),
    st.sampled_from(["other", "same tensor"]), st.sampled_from(["h_add", "h_max", "h_cast"]),
)  # fmt: skip
def test_any_run_of_rows(count: int, step0: int, step1: int, start: int, where: str, api: str) -> None:
    a, b = values("float16", 24 * 16, 1).reshape(24, 16), values("float16", 24 * 16, 2).reshape(24, 16)

    def build(kernel: Kernel) -> None:
        dst, src = kernel.filled(a), kernel.filled(b)
        source = dst if where == "same tensor" else src
        single = kernel.filled(np.zeros((24, 16), np.float32))
        for i in range(count):
            row, other = i * step0, start + i * step1
            if api == "h_cast":
                kernel.tik.h_cast(single[row : row + 1, :], source[other : other + 1, :], "none")
            else:
                getattr(kernel.tik, api)(dst[row : row + 1, :], dst[row : row + 1, :], source[other : other + 1, :])
        kernel.shown(dst)
        kernel.shown(single)

    found, expected = both_ways(build)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def test_an_unrolled_run_is_one_call() -> None:
    kernel = Kernel()
    tensor = kernel.local("float16", (8, 16))
    for i in range(8):
        kernel.tik.h_add(tensor[i : i + 1, :], tensor[i : i + 1, :], 1.0)
    assert instructions(kernel) == 1


@pytest.mark.parametrize("change", ["number", "call", "step"])
def test_calls_that_are_not_alike_stay_apart(change: str) -> None:
    kernel = Kernel()
    tensor = kernel.local("float16", (8, 16))
    for i in (0, 1, 4 if change == "step" else 2):
        call = kernel.tik.h_mul if change == "call" and i == 2 else kernel.tik.h_add
        call(tensor[i : i + 1, :], tensor[i : i + 1, :], 2.0 if change == "number" and i == 2 else 1.0)
    assert instructions(kernel) == 2


def test_rows_that_read_their_predecessor_stay_apart() -> None:
    kernel = Kernel()
    tensor = kernel.local("float16", (8, 16))
    for i in range(4):
        kernel.tik.h_add(tensor[i + 1 : i + 2, :], tensor[i : i + 1, :], 1.0)
    assert instructions(kernel) == 4


def declarations(build: Callable[[Any, Any], None]) -> int:
    """Declarations that are kept of a kernel with one tensor of 128 halves."""
    kernel = Kernel()
    build(kernel.tik, kernel.local("float16", (128,)))
    return sum(isinstance(one, Declare) for one in condensed(kernel.tik.program.body))


def test_a_tensor_that_is_overwritten_needs_no_contents() -> None:
    assert declarations(lambda tik, tensor: tik.vec_dup(128, tensor, 1.0, 1, 8)) == 0


@pytest.mark.parametrize(
    "build",
    [
        lambda tik, tensor: tik.vec_dup(64, tensor, 1.0, 1, 8),
        lambda tik, tensor: tik.vec_adds(128, tensor, tensor, 1.0, 1, 8, 8),
        lambda tik, tensor: tik.Scalar("float16").set_as(tensor[3]),
        lambda tik, tensor: tensor[3].set_as(1.0),
    ],
)
def test_a_tensor_that_shows_its_contents_keeps_them(build: Callable[[Any, Any], None]) -> None:
    def then_overwritten(tik: Any, tensor: Any) -> None:
        build(tik, tensor)
        tik.vec_dup(128, tensor, 1.0, 1, 8)

    assert declarations(then_overwritten) == 1


def test_an_overwriting_in_a_branch_may_not_come() -> None:
    def build(tik: Any, tensor: Any) -> None:
        with tik.if_scope(tik.Scalar("int32", init_value=0) > 0):
            tik.vec_dup(128, tensor, 1.0, 1, 8)

    assert declarations(build) == 1
