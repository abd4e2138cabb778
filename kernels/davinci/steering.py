"""What steers a block: the numbers that decide which of its statements run, and how much each of them does.

Offsets steer nothing: the same work on other rows takes the same time. A Scalar counts only if, in the end, a loop's
bound, a condition, a shape or a stride depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from autotune.kernels.davinci.clocks import MTE1, PIPES, Core, Footprint
from autotune.kernels.davinci.expr import Expr, Operation, Registers, Value, Variable
from autotune.kernels.davinci.isa import S
from autotune.kernels.davinci.memory import Buffer
from autotune.kernels.davinci.operands import getter
from autotune.kernels.davinci.program import Access, Block, Branch, Instruction, Loop, SetScalar, Statement
from autotune.kernels.davinci.recorder import ATOMIC_REGISTER
from autotune.kernels.davinci.regions import Regions
from autotune.kernels.davinci.rows_cube import FEEDS_ITSELF
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT

Outcome = Callable[[Core, Registers], Any]
_PIPES = {pipe: index for index, pipe in enumerate(PIPES)}


@dataclass(frozen=True)
class Symbolic:
    """A symbolic number, the registers it depends on, and a key that is equal for equal numbers."""

    value: Expr
    registers: frozenset[int]
    text: Any


@dataclass(frozen=True)
class Assignment:
    """A register that a statement sets, from a number or from the whole number at ``place`` in a buffer.

    source: the symbolic number or place, None where it is constant.
    """

    slot: int
    source: Symbolic | None
    buffer: Buffer | None
    place: Value = 0


@dataclass
class Facts:
    """What a block and all blocks in it decide, set and touch."""

    decisions: dict[Any, Symbolic] = field(default_factory=dict)
    assignments: list[Assignment] = field(default_factory=list)
    assigned: set[int] = field(default_factory=set)
    stores: bool = False
    pipes: set[int] = field(default_factory=set)
    buffers: dict[Buffer, None] = field(default_factory=dict)

    def add(self, other: Facts) -> None:
        """Takes in what an inner block does."""
        self.decisions.update(other.decisions)
        self.assignments += other.assignments
        self.assigned |= other.assigned
        self.stores |= other.stores
        self.pipes |= other.pipes
        self.buffers.update(other.buffers)


@dataclass(frozen=True)
class Steering:
    """outcomes: numbers that are fixed once the block is entered, and decide its course together with what the block
    does itself; with the stored whole numbers where ``memory`` says so. assigned: steering registers that the block
    sets. stores: whether it stores whole numbers. registers: all that the outcomes look at."""

    outcomes: tuple[Outcome, ...]
    memory: bool
    assigned: tuple[int, ...]
    stores: bool
    footprint: Footprint
    registers: frozenset[int]

    def now(self, core: Core, r: Registers) -> tuple[Any, ...]:
        """What steers the block, at its entry."""
        values = [outcome(core, r) for outcome in self.outcomes]
        if self.memory:
            values.append(core.stored)
        return tuple(values)


class Course:
    """How the course of a program, and of each of its blocks, is decided."""

    def __init__(self, body: Block, regions: Regions) -> None:
        self._regions = regions
        self._facts: dict[int, Facts] = {}
        whole = self._of(body)
        relevant = {ATOMIC_REGISTER}.union(*(decision.registers for decision in whole.decisions.values()))
        while True:
            before = len(relevant)
            for assignment in whole.assignments:
                if assignment.slot in relevant and assignment.source is not None:
                    relevant |= assignment.source.registers
            if len(relevant) == before:
                break
        self._relevant = relevant

    def steering(self, block: Block) -> Steering:
        """What decides the course of a block: of every number that does, the parts that the block does not change."""
        facts = self._of(block)
        assigned, memory = facts.assigned, False
        outcomes: dict[Any, Outcome] = {ATOMIC_REGISTER: lambda core, r: r[ATOMIC_REGISTER]}
        looked_at = {ATOMIC_REGISTER}
        numbers: list[Value] = [decision.value for decision in facts.decisions.values()]
        for assignment in facts.assignments:
            if assignment.slot not in self._relevant:
                continue
            used = assignment.source.registers if assignment.source is not None else frozenset()
            if assignment.buffer is None or used & assigned or facts.stores:
                numbers.append(assignment.source.value if assignment.source is not None else 0)
                memory |= assignment.buffer is not None
            else:
                place, buffer = assignment.place, id(assignment.buffer)
                outcomes[buffer, _text(place)] = _loaded(buffer, place)
                looked_at |= used
        for number in numbers:
            for part in _fixed_parts(number, assigned):
                outcomes[_text(part)] = _evaluated(part)
                looked_at |= _registers(part)
        keys = frozenset([key for buffer in facts.buffers for key in self._regions.all_keys(buffer)])
        return Steering(
            tuple(outcomes.values()),
            memory,
            tuple(sorted(assigned & self._relevant)),
            facts.stores,
            Footprint(tuple(sorted(facts.pipes)), keys),
            frozenset(looked_at),
        )

    def looks_at_memory(self, block: Block) -> bool:
        """Whether whole numbers that lie in buffers steer a block."""
        facts = self._of(block)
        loads = (assignment for assignment in facts.assignments if assignment.buffer is not None)
        return facts.stores or any(assignment.slot in self._relevant for assignment in loads)

    def decisions(self, statement: Statement) -> list[Expr]:
        """Symbolic numbers that decide how much a statement other than a loop or a branch does."""
        return [decision.value for decision in self._gathered([statement]).decisions.values()]

    def _of(self, block: Block) -> Facts:
        known = self._facts.get(id(block))
        if known is None:
            known = self._facts[id(block)] = self._gathered(block)
        return known

    def _gathered(self, block: Block) -> Facts:
        facts = Facts()
        for statement in block:
            if isinstance(statement, Instruction):
                self._instruction(facts, statement)
            elif isinstance(statement, SetScalar):
                self._set_scalar(facts, statement)
            elif isinstance(statement, Loop):
                self._decide(facts, statement.start, statement.stop)
                if statement.block_num == 1:  # the core's index is set once for the whole kernel
                    facts.assigned.add(statement.slot)
                facts.add(self._of(statement.body))
            elif isinstance(statement, Branch):
                for condition, arm in statement.arms:
                    self._decide(facts, condition)
                    facts.add(self._of(arm))
        return facts

    def _instruction(self, facts: Facts, statement: Instruction) -> None:
        row = statement.row
        for access in (*statement.outputs, *statement.inputs):
            facts.buffers[access.buffer] = None
            self._decide(facts, *access.shape, *access.strides, *self._regions.decides(access))
        if row.pipe != S:
            facts.pipes.add(_PIPES[row.pipe])
        if row in FEEDS_ITSELF:
            facts.pipes.add(MTE1)
        if row is STORE_ELEMENT and "int" in statement.outputs[0].dtype:
            facts.stores = True
            self._decide(facts, statement.outputs[0].offset, statement.immediates[0])

    def _set_scalar(self, facts: Facts, statement: SetScalar) -> None:
        facts.assigned.add(statement.slot)
        value = statement.value
        if not isinstance(value, Access):
            facts.assignments.append(Assignment(statement.slot, _symbolic(value), None))
            return
        facts.buffers[value.buffer] = None
        self._decide(facts, *self._regions.decides(value))
        if "int" in value.dtype:
            facts.assignments.append(Assignment(statement.slot, _symbolic(value.offset), value.buffer, value.offset))

    @staticmethod
    def _decide(facts: Facts, *values: Value) -> None:
        for value in values:
            if isinstance(value, Expr):
                symbolic = _symbolic(value)
                if symbolic is not None:
                    facts.decisions[symbolic.text] = symbolic


def inside(block: Block) -> Iterator[Statement]:
    """The statements of a block and of every block in it."""
    for statement in block:
        yield statement
        if isinstance(statement, Loop):
            yield from inside(statement.body)
        elif isinstance(statement, Branch):
            for _, arm in statement.arms:
                yield from inside(arm)


def _symbolic(value: Value) -> Symbolic | None:
    return Symbolic(value, frozenset(_registers(value)), _text(value)) if isinstance(value, Expr) else None


def _registers(value: Value) -> set[int]:
    if not isinstance(value, Expr):
        return set()
    found: set[int] = set()
    for atom, _ in value.terms:
        if isinstance(atom, Variable):
            found.add(atom.slot)
        else:
            found.update(*map(_registers, atom.operands))
    return found


def _fixed_parts(value: Value, assigned: set[int]) -> Iterator[Expr]:
    """The largest parts of a number that depend on none of the assigned registers."""
    if not isinstance(value, Expr):
        return
    if not _registers(value) & assigned:
        yield value
        return
    for atom, _ in value.terms:
        if isinstance(atom, Operation):
            part = Expr(((atom, 1),), 0, atom.dtype)
            if _registers(part) & assigned:
                for operand in atom.operands:
                    yield from _fixed_parts(operand, assigned)
            else:
                yield part
        elif atom.slot not in assigned:
            yield Expr(((atom, 1),), 0, atom.dtype)


def _text(value: Value) -> Any:
    if not isinstance(value, Expr):
        return value
    return tuple([(_atom(atom), factor) for atom, factor in value.terms]), value.const


def _atom(atom: Variable | Operation) -> Any:
    return atom.slot if isinstance(atom, Variable) else (atom.symbol, *map(_text, atom.operands))


def _evaluated(value: Value) -> Outcome:
    get = getter(value)
    return lambda core, r: get(r)


def _loaded(buffer: int, offset: Value) -> Outcome:
    place = getter(offset)
    return lambda core, r: core.integers.get((buffer, place(r)), 0)
