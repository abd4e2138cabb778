"""What steers a block: the numbers that decide which of its statements run and how much each does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci.expr import Expr, Operation, Value, Variable
from autotune.kernels.davinci.program import (
    Access,
    Block,
    Branch,
    Instruction,
    Loop,
    SetScalar,
    Statement,
)
from autotune.kernels.davinci.recorder import ATOMIC_REGISTER
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT


@dataclass(frozen=True)
class Dependence:
    """outcomes: conditions, bounds and sizes that are fixed once the block is entered. slots: registers that decide
    the others. assigned: registers that the block sets. writes_integers: whether it stores whole numbers that a
    later statement might read."""

    outcomes: tuple[Value, ...]
    slots: frozenset[int]
    assigned: frozenset[int]
    writes_integers: bool


def dependence(block: Block) -> Dependence:
    """What decides the course of a block. A number is taken by its outcome where the block does not change it on the
    way, else by the registers that it starts from."""
    statements = list(_inside(block))
    assigned = frozenset(slot for statement in statements for slot in _sets(statement))
    outcomes: dict[Any, Value] = {}
    slots: set[int] = {ATOMIC_REGISTER}
    for statement in statements:
        for value in _steers(statement):
            used = registers(value)
            if not used:
                continue
            if used & assigned:
                slots |= used
            else:
                outcomes[_text(value)] = value
    return Dependence(
        tuple(outcomes.values()),
        frozenset(slots - assigned | (slots & {ATOMIC_REGISTER})),
        assigned,
        any(_stores_integer(statement) for statement in statements),
    )


def registers(value: Value) -> set[int]:
    """The slots a value depends on."""
    if not isinstance(value, Expr):
        return set()
    found: set[int] = set()
    for atom, _ in value.terms:
        if isinstance(atom, Variable):
            found.add(atom.slot)
        else:
            found.update(*(registers(operand) for operand in atom.operands))
    return found


def _text(value: Value) -> Any:
    """A key that is equal for equal expressions."""
    if not isinstance(value, Expr):
        return value
    return (
        tuple((_atom(atom), factor) for atom, factor in value.terms),
        value.const,
    )


def _atom(atom: Variable | Operation) -> Any:
    return atom.slot if isinstance(atom, Variable) else (atom.symbol, *map(_text, atom.operands))


def _inside(block: Block) -> Iterator[Statement]:
    for statement in block:
        yield statement
        if isinstance(statement, Loop):
            yield from _inside(statement.body)
        elif isinstance(statement, Branch):
            for _, arm in statement.arms:
                yield from _inside(arm)


def _sets(statement: Statement) -> Iterable[int]:
    return (statement.slot,) if isinstance(statement, (SetScalar, Loop)) else ()


def _steers(statement: Statement) -> Iterator[Value]:
    if isinstance(statement, Loop):
        yield from (statement.start, statement.stop)
    elif isinstance(statement, Branch):
        yield from (condition for condition, _ in statement.arms)
    elif isinstance(statement, SetScalar):
        yield from _set_from(statement)
    elif isinstance(statement, Instruction):
        for access in (*statement.outputs, *statement.inputs):
            yield from access.shape
            yield from access.strides
            if access.buffer.turn is not None:
                yield access.buffer.turn


def _set_from(statement: SetScalar) -> Iterator[Value]:
    value = statement.value
    if not isinstance(value, Access):
        yield value
    elif "int" in value.dtype:
        yield value.offset


def _stores_integer(statement: Statement) -> bool:
    return isinstance(statement, Instruction) and statement.row is STORE_ELEMENT and "int" in statement.outputs[0].dtype
