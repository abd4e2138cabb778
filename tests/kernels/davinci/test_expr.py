"""Symbolic numbers: random expressions evaluate as C does, with truncating division."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.kernels.davinci.expr import Expr, Variable, condition, describe, evaluator

NAMES = ("a", "b", "c")
A, B, C = (Expr(((Variable(slot, name, "int32"), 1),), 0, "int32") for slot, name in enumerate(NAMES))
F = Expr(((Variable(3, "f", "float32"), 1),), 0, "float32")


def quotient(a: int, b: int) -> int:
    """a / b towards zero."""
    assume(b != 0)
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


REFERENCE: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": quotient,
    "//": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
    "<<": lambda a, b: a * 2 ** (b % 8),
    ">>": lambda a, b: a // 2 ** (b % 8),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "neg": lambda a: -a,
    "not": lambda a: -a - 1,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "all": lambda a, b: a != 0 and b != 0,
    "any": lambda a, b: a != 0 or b != 0,
    "negate": lambda a: a == 0,
}
SYMBOLIC: dict[str, Any] = {
    **REFERENCE,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: a << (b & 7),
    ">>": lambda a, b: a >> (b & 7),
    "not": lambda a: ~a,
    "all": lambda a, b: condition("all", a, b),
    "any": lambda a, b: condition("any", a, b),
    "negate": lambda a: condition("negate", a),
}
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "<<", ">>", "&", "|", "^")
LEAVES = st.one_of(st.sampled_from(NAMES), st.integers(-9, 9))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(ARITHMETIC), inner, inner), st.tuples(st.sampled_from(("neg", "not")), inner)
    ),
    max_leaves=8,
)


def calculated(tree: Any, operations: dict[str, Any], leaves: dict[str, Any]) -> Any:
    """The value of a tree; Python's own operators where no leaf below is symbolic."""
    if not isinstance(tree, tuple):
        return leaves.get(tree, tree)
    operands = [calculated(operand, operations, leaves) for operand in tree[1:]]
    return (operations if any(isinstance(o, Expr) for o in operands) else REFERENCE)[tree[0]](*operands)


@settings(max_examples=400, deadline=None)
@given(TREES, st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_whole_expressions(tree: Any, numbers: list[int]) -> None:
    expected = calculated(tree, REFERENCE, dict(zip(NAMES, numbers)))
    assume(abs(expected) < 1 << 200)
    value = evaluator(calculated(tree, SYMBOLIC, dict(zip(NAMES, (A, B, C)))))
    assert (value(numbers) if callable(value) else value) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=", "all", "any", "negate")),
    TREES,
    TREES,
    st.lists(st.integers(-20, 20), min_size=3, max_size=3),
)
def test_conditions(symbol: str, left: Any, right: Any, numbers: list[int]) -> None:
    tree = (symbol, left) if symbol == "negate" else (symbol, left, right)
    expected = calculated(tree, REFERENCE, dict(zip(NAMES, numbers)))
    value = evaluator(calculated(tree, SYMBOLIC, dict(zip(NAMES, (A, B, C)))))
    assert bool(value(numbers) if callable(value) else value) is bool(expected)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("+-*/"), st.floats(-8, 8, width=32)), max_size=5), st.floats(-8, 8, width=32))
def test_floating_expressions_round_to_float32_at_each_step(steps: list[tuple[str, float]], start: float) -> None:
    expected, symbolic = np.float32(start), F
    for symbol, number in steps:
        if symbol == "/" and number == 0:
            continue
        expected = np.float32(
            REFERENCE[symbol](expected, np.float32(number)) if symbol != "/" else expected / np.float32(number)
        )
        symbolic = SYMBOLIC[symbol](symbolic, number)
    found = evaluator(symbolic)([0, 0, 0, start])
    assert np.float32(found) == expected


def test_bounds_of_a_slice_whose_difference_is_constant() -> None:
    begin = A * 8 + B * 4
    assert (begin + 4) - begin == 4
    assert 3 * (A + B) - B * 3 - A - A - A == 0
    assert isinstance((A + 1) * 2 - (A + A), int)
    assert (A < A + 1) is True and (A + B == B + A) is True


@pytest.mark.parametrize(
    ("value", "numbers", "expected"),
    [
        (7 - A, [2], 5),
        (7 // A, [-2], -3),
        (7 % A, [-2], 1),
        (-7 % A, [2], -1),
        (1 << A, [5], 32),
        (64 >> A, [2], 16),
        (6 & A, [3], 2),
        (6 | A, [3], 7),
        (6 ^ A, [3], 5),
        (A * 2.0, [7], 14),
        (A / 2.0, [7], 3),
        (A * 0.5, [7], 3.5),
        (1.0 / F, [0, 0, 0, 3.0], float(np.float32(1) / np.float32(3))),
    ],
)
def test_reflected_and_mixed_operands(value: Any, numbers: list[Any], expected: Any) -> None:
    found = evaluator(value)(numbers)
    assert found == expected and type(found) is type(expected)


def test_unsigned_complement_and_wider_types() -> None:
    byte = Expr(((Variable(0, "byte", "uint8"), 1),), 0, "uint8")
    long = Expr(((Variable(1, "long", "int64"), 1),), 0, "int64")
    assert evaluator(~byte)([5]) == 250
    assert (A + long).dtype == "int64" and (A * B).dtype == "int32" and (A + F).dtype == "float32"


def test_comparison_with_none_is_plain() -> None:
    assert (A == None) is False and (A != None) is True  # noqa: E711


def test_text() -> None:
    assert describe(A * 8 + B + 3) == "8*a + b + 3"
    assert describe((A / 2) % B) == "((a / 2) % b)"
    assert repr(condition("all", A > 1, B)) == "all((a > 1), b)"
