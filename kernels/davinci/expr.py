"""Symbolic integers and floats: what loop variables and Scalars become in Python while a kernel is recorded.

Integer sums are kept in linear form, so that ``stop - start`` of two symbolic slice bounds is a plain int wherever it
is constant. A Scalar's value is the one at the point of use in the recorded program (tik_api.md 2.3).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci.errors import TikError

Number = int | float | bool
Registers = list[Any]
Evaluator = Callable[[Registers], Any]

FLOATS = ("float16", "float32", "bfloat16")


def round_float32(value: float) -> float:
    """The float32 nearest to a double; exact for + - * / of float32 operands, since 53 >= 2 * 24 + 2."""
    return float(np.float32(value))


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b >= 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b)


INTEGER_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
"""Truncating division and C remainder, as in TVM's Div and Mod (tik_api.md 2.3)."""

FLOAT_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: round_float32(a + b),
    "-": lambda a, b: round_float32(a - b),
    "*": lambda a, b: round_float32(a * b),
    "/": lambda a, b: round_float32(a / b) if b else float("inf"),
}

CONDITIONS: dict[str, Callable[..., Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "all": lambda *values: all(values),
    "any": lambda *values: any(values),
    "negate": lambda value: not value,
}


class Variable:
    """One register of the running program: a loop variable or a Scalar."""

    __slots__ = ("dtype", "name", "slot")

    def __init__(self, slot: int, name: str, dtype: str) -> None:
        self.slot, self.name, self.dtype = slot, name, dtype


class Operation:
    """An operation that has no linear form: division, bits, comparison, floating arithmetic."""

    __slots__ = ("apply", "dtype", "operands", "symbol")

    def __init__(self, symbol: str, apply: Callable[..., Any], operands: tuple[Any, ...], dtype: str) -> None:
        self.symbol, self.apply, self.operands, self.dtype = symbol, apply, operands, dtype


Atom = Variable | Operation
Value = Any
"""An int, float or bool, or an Expr."""


class Symbolic:
    """Python's operators, for everything that stands for a number known only when the kernel runs."""

    __slots__ = ()

    def expr(self) -> Expr:
        """This as an Expr."""
        raise NotImplementedError  # pragma: no cover - every subclass has one

    def __add__(self, other: Value) -> Value:
        return _sum(self, other, 1)

    def __radd__(self, other: Value) -> Value:
        return _sum(other, self, 1)

    def __sub__(self, other: Value) -> Value:
        return _sum(self, other, -1)

    def __rsub__(self, other: Value) -> Value:
        return _sum(other, self, -1)

    def __mul__(self, other: Value) -> Value:
        return _product(self, other)

    def __rmul__(self, other: Value) -> Value:
        return _product(other, self)

    def __truediv__(self, other: Value) -> Value:
        return _operation("/", self, other)

    def __rtruediv__(self, other: Value) -> Value:
        return _operation("/", other, self)

    def __floordiv__(self, other: Value) -> Value:
        return _operation("/", self, other)

    def __rfloordiv__(self, other: Value) -> Value:
        return _operation("/", other, self)

    def __mod__(self, other: Value) -> Value:
        return _operation("%", self, other)

    def __rmod__(self, other: Value) -> Value:
        return _operation("%", other, self)

    def __lshift__(self, other: Value) -> Value:
        return _operation("<<", self, other)

    def __rshift__(self, other: Value) -> Value:
        return _operation(">>", self, other)

    def __rlshift__(self, other: Value) -> Value:
        return _operation("<<", other, self)

    def __rrshift__(self, other: Value) -> Value:
        return _operation(">>", other, self)

    def __and__(self, other: Value) -> Value:
        return _operation("&", self, other)

    def __rand__(self, other: Value) -> Value:
        return _operation("&", other, self)

    def __or__(self, other: Value) -> Value:
        return _operation("|", self, other)

    def __ror__(self, other: Value) -> Value:
        return _operation("|", other, self)

    def __xor__(self, other: Value) -> Value:
        return _operation("^", self, other)

    def __rxor__(self, other: Value) -> Value:
        return _operation("^", other, self)

    def __neg__(self) -> Value:
        if self.expr().dtype.startswith("uint"):
            raise TikError("an unsigned value cannot be negated")
        return _product(self, -1)

    def __invert__(self) -> Value:
        dtype = self.expr().dtype
        return self ^ ((1 << int(dtype[4:])) - 1) if dtype.startswith("uint") else self * -1 - 1

    def __lt__(self, other: Value) -> Value:
        return condition("<", self, other)

    def __le__(self, other: Value) -> Value:
        return condition("<=", self, other)

    def __gt__(self, other: Value) -> Value:
        return condition(">", self, other)

    def __ge__(self, other: Value) -> Value:
        return condition(">=", self, other)

    def __eq__(self, other: object) -> Value:
        return False if other is None else condition("==", self, other)

    def __ne__(self, other: object) -> Value:
        return True if other is None else condition("!=", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TikError(
            "a symbolic value has no truth while the kernel is recorded: instead of Python's and, or, not and if "
            "write tik.all, tik.any, tik.negate and if_scope"
        )

    def __index__(self) -> int:
        raise TikError("a symbolic value is no Python int while the kernel is recorded: use for_range and if_scope")


class Expr(Symbolic):
    """const + the sum of coefficient * atom; ``terms`` is never empty (a constant is a plain Python number)."""

    __slots__ = ("const", "dtype", "terms")

    def __init__(self, terms: tuple[tuple[Atom, int], ...], const: Number, dtype: str) -> None:
        self.terms, self.const, self.dtype = terms, const, dtype

    def expr(self) -> Expr:
        """This Expr."""
        return self

    def __repr__(self) -> str:
        return describe(self)


def as_value(value: Value) -> Value:
    """A Python number as it is, anything symbolic as its Expr. Raises TikError on anything else."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Symbolic):
        return value.expr()
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    raise TikError(f"{value!r} is neither a number nor a Scalar, loop variable or Expr")


def is_float(value: Value) -> bool:
    """Whether arithmetic with this value is floating arithmetic."""
    return value.dtype in FLOATS if isinstance(value, Expr) else isinstance(value, float)


def _wider(a: Value, b: Value) -> str:
    dtypes = [value.dtype for value in (a, b) if isinstance(value, Expr)]
    return max(dtypes, key=lambda dtype: int("".join(c for c in dtype if c.isdigit()) or 1))


def _pair(a: Value, b: Value) -> tuple[Value, Value]:
    """Both operands; a whole float immediate takes the type of a whole Expr (tik_api.md 2.3)."""
    a, b = as_value(a), as_value(b)
    if isinstance(a, float) and not is_float(b) and a.is_integer():
        a = int(a)
    elif isinstance(b, float) and not is_float(a) and b.is_integer():
        b = int(b)
    return a, b


def _sum(a: Value, b: Value, sign: int) -> Value:
    a, b = _pair(a, b)
    if is_float(a) or is_float(b):
        return _operation("+" if sign == 1 else "-", a, b)
    if isinstance(b, int):
        return Expr(a.terms, a.const + sign * b, a.dtype)
    if isinstance(a, int):
        terms = b.terms if sign == 1 else tuple((atom, -factor) for atom, factor in b.terms)
        return Expr(terms, a + sign * b.const, b.dtype)
    factors: dict[Atom, int] = dict(a.terms)
    for atom, factor in b.terms:
        factors[atom] = factors.get(atom, 0) + sign * factor
    terms = tuple((atom, factor) for atom, factor in factors.items() if factor)
    const = a.const + sign * b.const
    return Expr(terms, const, _wider(a, b)) if terms else const


def _product(a: Value, b: Value) -> Value:
    a, b = _pair(a, b)
    if (isinstance(a, Expr) and isinstance(b, Expr)) or is_float(a) or is_float(b):
        return _operation("*", a, b)
    if isinstance(a, int):
        a, b = b, a
    if b == 0:
        return 0
    return Expr(tuple((atom, factor * b) for atom, factor in a.terms), a.const * b, a.dtype)


def _operation(symbol: str, a: Value, b: Value) -> Value:
    a, b = _pair(a, b)
    floating = is_float(a) or is_float(b)
    table = FLOAT_OPERATIONS if floating else INTEGER_OPERATIONS
    if symbol not in table:
        raise TikError(f"{symbol} takes whole numbers, not floating ones")
    if symbol in "/%" and not isinstance(b, Expr) and b == 0:
        raise TikError(f"{symbol} by zero")
    dtype = "float32" if floating else _wider(a, b)
    return Expr(((Operation(symbol, table[symbol], (a, b), dtype), 1),), 0, dtype)


def condition(symbol: str, *operands: Value) -> Value:
    """A comparison or all/any/negate; a plain bool where the operands, or their difference, are Python numbers."""
    values = tuple(as_value(operand) for operand in operands)
    if len(values) == 2 and symbol in ("<", "<=", ">", ">=", "==", "!=") and not any(map(is_float, values)):
        difference = (
            _sum(values[0], values[1], -1) if any(isinstance(v, Expr) for v in values) else values[0] - values[1]
        )
        if not isinstance(difference, Expr):
            return CONDITIONS[symbol](difference, 0)
    if not any(isinstance(value, Expr) for value in values):
        return CONDITIONS[symbol](*values)
    return Expr(((Operation(symbol, CONDITIONS[symbol], values, "bool"), 1),), 0, "bool")


def applied(name: str, function: Callable[..., Any], operands: tuple[Value, ...], dtype: str) -> Value:
    """``function`` of the operands, as a number where all of them are numbers, else as an Expr."""
    values = tuple(as_value(operand) for operand in operands)
    if not any(isinstance(value, Expr) for value in values):
        return function(*values)
    return Expr(((Operation(name, function, values, dtype), 1),), 0, dtype)


def evaluator(value: Value) -> Any:
    """A number stays one; an Expr becomes a function of the running program's registers."""
    if not isinstance(value, Expr):
        return value
    parts = [(_atom(atom), factor) for atom, factor in value.terms]
    const = value.const
    if len(parts) == 1:
        (first, factor), atom = parts[0], value.terms[0][0]
        if factor == 1 and const == 0:
            return first
        if isinstance(atom, Variable):
            slot = atom.slot
            return lambda r: r[slot] * factor + const
        return lambda r: first(r) * factor + const
    if all(isinstance(atom, Variable) for atom, _ in value.terms):
        slots = [(atom.slot, factor) for atom, factor in value.terms if isinstance(atom, Variable)]
        if len(slots) == 2:
            (slot_a, factor_a), (slot_b, factor_b) = slots
            return lambda r: r[slot_a] * factor_a + r[slot_b] * factor_b + const
    return lambda r: const + sum(get(r) * factor for get, factor in parts)


def _atom(atom: Atom) -> Evaluator:
    if isinstance(atom, Variable):
        return operator.itemgetter(atom.slot)
    apply, operands = atom.apply, [evaluator(operand) for operand in atom.operands]
    getters: Sequence[Evaluator] = [o if callable(o) else _constant(o) for o in operands]
    if len(getters) == 2:
        first, second = getters
        if atom.symbol == "all":
            return lambda r: first(r) and second(r)
        if not callable(operands[1]):
            known = operands[1]
            return lambda r: apply(first(r), known)
        return lambda r: apply(first(r), second(r))
    return lambda r: apply(*(get(r) for get in getters))


def _constant(value: Any) -> Evaluator:
    return lambda r: value


def variables(value: Value) -> Iterator[Variable]:
    """The registers that a value depends on."""
    if not isinstance(value, Expr):
        return
    for atom, _ in value.terms:
        if isinstance(atom, Variable):
            yield atom
        else:
            for operand in atom.operands:
                yield from variables(operand)


def describe(value: Value) -> str:
    """The value as a reader would write it."""
    if not isinstance(value, Expr):
        return str(value)
    parts = []
    for atom, factor in value.terms:
        name = atom.name if isinstance(atom, Variable) else _describe_operation(atom)
        parts.append(name if factor == 1 else f"{factor}*{name}")
    if value.const:
        parts.append(str(value.const))
    return " + ".join(parts)


def describe_shape(sizes: Sequence[Value]) -> str:
    """Sizes as a reader would write a shape."""
    return f"[{', '.join(map(describe, sizes))}]"


def _describe_operation(operation: Operation) -> str:
    operands = [describe(operand) for operand in operation.operands]
    if operation.symbol.isidentifier():
        return f"{operation.symbol}({', '.join(operands)})"
    return f"({operands[0]} {operation.symbol} {operands[1]})"
