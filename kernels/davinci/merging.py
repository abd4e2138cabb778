"""Neighbouring statements of a block that need not be executed one by one, with the same results.

An unrolled run is the same call on parts of its tensors that advance evenly: one call with one more axis. A
declaration whose tensor the block overwrites as a whole before it reads it needs no undefined contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TypeAlias

from autotune.kernels.davinci import isa, semantics
from autotune.kernels.davinci.expr import Expr
from autotune.kernels.davinci.fusion import ElementCopies, fused
from autotune.kernels.davinci.memory import GM, Buffer
from autotune.kernels.davinci.operands import same_place
from autotune.kernels.davinci.program import Access, Block, Declare, Instruction, SetScalar, Statement

Statements: TypeAlias = "Sequence[Statement | ElementCopies]"


def condensed(block: Block) -> Iterator[Statement | ElementCopies]:
    """A block's statements, with unrolled runs as one and without declarations that nothing shows."""
    statements, index = list(fused(block)), 0
    while index < len(statements):
        statement, run = statements[index], _run(statements, index)
        if len(run) > 1:
            yield _merged(run)
        elif not isinstance(statement, Declare) or not _overwritten(statements, index):
            yield statement
        index += max(len(run), 1)


def _run(statements: Statements, index: int) -> list[Instruction]:
    """The unrolled run that begins at ``index``; no more than its first call where there is none."""
    first = statements[index]
    if not isinstance(first, Instruction) or not _mergeable(first):
        return []
    run, steps = [first], None
    for following in statements[index + 1 :]:
        found = _steps(run[-1], following) if isinstance(following, Instruction) else None
        if found is None or (steps is not None and found != steps) or not _apart(first, found):
            break
        assert isinstance(following, Instruction)
        run.append(following)
        steps = found
    return run


def _merged(run: Sequence[Instruction]) -> Instruction:
    """An unrolled run as one call."""
    first, steps = run[0], _steps(run[0], run[1])
    assert steps is not None
    accesses = [
        Access(one.buffer, one.dtype, one.offset, (len(run), *one.shape), (step, *one.strides), one.multiple)
        for one, step in zip(_accesses(first), steps)
    ]
    return Instruction(first.row, (accesses[0],), tuple(accesses[1:]), first.immediates, first.where)


def _accesses(instruction: Instruction) -> tuple[Access, ...]:
    return (*instruction.outputs, *instruction.inputs)


def _mergeable(instruction: Instruction) -> bool:
    row, accesses = instruction.row, _accesses(instruction)
    by_element = row.into is not None or row.compute is semantics.first
    if not by_element or row.form in (isa.REPEATED, isa.CUBE) or instruction.mask is not None:
        return False
    if len(instruction.outputs) != 1 or instruction.limits or instruction.outputs[0].buffer.scope == GM:
        return False
    return not any(isinstance(number, Expr) for one in accesses for number in (*one.shape, *one.strides))


def _steps(a: Instruction, b: Instruction) -> list[int] | None:
    """How far each operand advances from one call to the next, in elements; None where they are not alike."""
    if a.row is not b.row or a.immediates != b.immediates or not _mergeable(b):
        return None
    if any(isinstance(value, Expr) for value in a.immediates):
        return None
    steps = []
    for one, other in zip(_accesses(a), _accesses(b)):
        alike = one.buffer is other.buffer and one.dtype == other.dtype and one.multiple == other.multiple
        if not alike or one.shape != other.shape or one.strides != other.strides:
            return None
        step = other.offset - one.offset
        if not isinstance(step, int) or step < 0:
            return None
        steps.append(step)
    return steps


def _apart(instruction: Instruction, steps: list[int]) -> bool:
    """Whether no call of a run writes what another reads or writes."""
    output = instruction.outputs[0]
    if steps[0] < _extent(output):
        return False
    shared = [i for i, one in enumerate(instruction.inputs) if one.buffer is output.buffer]
    return all(steps[1 + i] == steps[0] and same_place(instruction.inputs[i], output) for i in shared)


def _extent(access: Access) -> int:
    return 1 + sum(int((size - 1) * stride) for size, stride in zip(access.shape, access.strides))


def _overwritten(statements: Statements, index: int) -> bool:
    """Whether the tensor declared at ``index`` is written as a whole before anything else is done with it."""
    declared = statements[index]
    assert isinstance(declared, Declare)
    buffer = declared.buffer
    for statement in statements[index + 1 :]:
        if isinstance(statement, Instruction):
            if any(access.buffer is buffer for access in _accesses(statement)):
                return _fills(statement, buffer)
        elif isinstance(statement, SetScalar):
            if isinstance(statement.value, Access) and statement.value.buffer is buffer:
                return False
        elif not isinstance(statement, Declare):
            return False
    return False


def _fills(instruction: Instruction, buffer: Buffer) -> bool:
    target = instruction.outputs[0]
    if target.buffer is not buffer or instruction.mask is not None or instruction.row.form == isa.SCALAR:
        return False
    if any(access.buffer is buffer for access in (*instruction.inputs, *instruction.outputs[1:])):
        return False
    whole = target.dtype == buffer.dtype and isinstance(target.offset, int) and target.offset == 0
    return whole and all(isinstance(n, int) for n in (*target.shape, *target.strides)) and _dense(target, buffer.size)


def _dense(access: Access, size: int) -> bool:
    """Whether an access is all of ``size`` elements, each once."""
    axes = sorted((stride, length) for stride, length in zip(access.strides, access.shape) if length > 1)
    expected = 1
    for stride, length in axes:
        if stride != expected:
            return False
        expected *= length
    return prod(access.shape) == size
