"""What steers a block: the numbers that decide which of its statements run, and how much each of them does.

Offsets steer nothing: the same work on other rows takes the same time. A Scalar counts only if, in the end, a loop's
bound, a condition, a shape or a stride depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci.clocks import PIPES, Core, Footprint
from autotune.kernels.davinci.expr import Expr, Operation, Registers, Value, Variable
from autotune.kernels.davinci.isa import S
from autotune.kernels.davinci.memory import Buffer
from autotune.kernels.davinci.operands import getter
from autotune.kernels.davinci.program import Access, Block, Branch, Instruction, Loop, SetScalar, Statement
from autotune.kernels.davinci.recorder import ATOMIC_REGISTER
from autotune.kernels.davinci.regions import Regions
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT

Outcome = Callable[[Core, Registers], Any]


@dataclass(frozen=True)
class Steering:
    """outcomes: numbers that are fixed once the block is entered. slots: registers that decide the others, together
    with the stored whole numbers where ``memory`` says so. assigned: steering registers that the block sets.
    stores: whether it stores whole numbers."""

    outcomes: tuple[Outcome, ...]
    slots: tuple[int, ...]
    memory: bool
    assigned: tuple[int, ...]
    stores: bool
    footprint: Footprint

    def now(self, core: Core, r: Registers) -> tuple[Any, ...]:
        """What steers the block, at its entry."""
        values = [outcome(core, r) for outcome in self.outcomes]
        values += [r[slot] for slot in self.slots]
        if self.memory:
            values.append(core.stored)
        return tuple(values)


def relevant_slots(body: Block, regions: Regions) -> frozenset[int]:
    """Registers on which, through other registers and stored whole numbers, the course of a program depends."""
    statements = list(inside(body))
    relevant = {ATOMIC_REGISTER}
    for statement in statements:
        for value in _decides(statement, regions):
            relevant |= registers(value)
    while True:
        before = len(relevant)
        for statement in statements:
            if isinstance(statement, SetScalar) and statement.slot in relevant:
                relevant |= registers(_source(statement))
        if len(relevant) == before:
            return frozenset(relevant)


def steering(block: Block, relevant: frozenset[int], regions: Regions) -> Steering:
    """What decides the course of a block. A number is taken by its outcome where the block does not change it on the
    way, else by the registers that it starts from."""
    statements = list(inside(block))
    assigned = {slot for statement in statements for slot in _sets(statement)}
    stores = any(_stores_whole(statement) for statement in statements)
    outcomes: dict[Any, Outcome] = {}
    slots, memory = {ATOMIC_REGISTER}, False
    for statement in statements:
        for value in _decides(statement, regions):
            used = registers(value)
            if used and not used & assigned:
                outcomes.setdefault(_text(value), _evaluated(value))
            slots |= used - assigned if used & assigned else set()
        if not isinstance(statement, SetScalar) or statement.slot not in relevant:
            continue
        source = _source(statement)
        used, loads = registers(source), isinstance(statement.value, Access)
        if used & assigned or (loads and stores):
            slots |= used - assigned
            memory |= loads
        elif loads:
            buffer = statement.value.buffer
            outcomes.setdefault(("load", id(buffer), _text(source)), _loaded(id(buffer), source))
        elif used:
            outcomes.setdefault(_text(source), _evaluated(source))
    return Steering(
        tuple(outcomes.values()),
        tuple(sorted(slots)),
        memory,
        tuple(sorted(assigned & relevant)),
        stores,
        _footprint(statements, regions),
    )


def inside(block: Block) -> Iterator[Statement]:
    """The statements of a block and of every block in it."""
    for statement in block:
        yield statement
        if isinstance(statement, Loop):
            yield from inside(statement.body)
        elif isinstance(statement, Branch):
            for _, arm in statement.arms:
                yield from inside(arm)


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


def _footprint(statements: list[Statement], regions: Regions) -> Footprint:
    pipes: set[int] = set()
    buffers: dict[Buffer, None] = {}
    for statement in statements:
        if isinstance(statement, Instruction):
            buffers.update({access.buffer: None for access in (*statement.outputs, *statement.inputs)})
            if statement.row.pipe != S:
                pipes.add(PIPES.index(statement.row.pipe))
            if statement.row.name == "matmul":
                pipes.add(PIPES.index("MTE1"))
        elif isinstance(statement, SetScalar) and isinstance(statement.value, Access):
            buffers[statement.value.buffer] = None
    return Footprint(tuple(sorted(pipes)), tuple(key for buffer in buffers for key in regions.all_keys(buffer)))


def _evaluated(value: Value) -> Outcome:
    get = getter(value)
    return lambda core, r: get(r)


def _loaded(buffer: int, offset: Value) -> Outcome:
    place = getter(offset)
    return lambda core, r: core.integers.get((buffer, place(r)), 0)


def _text(value: Value) -> Any:
    """A key that is equal for equal expressions."""
    if not isinstance(value, Expr):
        return value
    return tuple((_atom(atom), factor) for atom, factor in value.terms), value.const


def _atom(atom: Variable | Operation) -> Any:
    return atom.slot if isinstance(atom, Variable) else (atom.symbol, *map(_text, atom.operands))


def _sets(statement: Statement) -> tuple[int, ...]:
    if isinstance(statement, Loop) and statement.block_num > 1:
        return ()  # the core's index is set once for the whole kernel
    return (statement.slot,) if isinstance(statement, (SetScalar, Loop)) else ()


def _decides(statement: Statement, regions: Regions) -> Iterator[Value]:
    """Numbers that decide the course of a statement itself."""
    if isinstance(statement, Loop):
        yield from (statement.start, statement.stop)
    elif isinstance(statement, Branch):
        yield from (condition for condition, _ in statement.arms)
    elif isinstance(statement, SetScalar) and isinstance(statement.value, Access):
        yield from regions.decides(statement.value)
    elif isinstance(statement, Instruction):
        for access in (*statement.outputs, *statement.inputs):
            yield from access.shape
            yield from access.strides
            yield from regions.decides(access)
        if _stores_whole(statement):
            yield from (statement.outputs[0].offset, statement.immediates[0])


def _source(statement: SetScalar) -> Value:
    """The numbers a Scalar's value comes from: an Expr, or the place of a whole number in a tensor."""
    if not isinstance(statement.value, Access):
        return statement.value
    return statement.value.offset if "int" in statement.value.dtype else 0


def _stores_whole(statement: Statement) -> bool:
    return isinstance(statement, Instruction) and statement.row is STORE_ELEMENT and "int" in statement.outputs[0].dtype
