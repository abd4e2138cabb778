"""Strict mode: what a chip does wrong without a word is reported with the kernel line that makes it so.

Local memory and workspaces carry a flag for each byte: whether anything wrote it. Moves, fractal loads and transposes
hand the flags on, and are reported only where a whole burst or fractal holds nothing; a product is reported where no
element of it is defined; everything else where one active element it reads was never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.errors import OverlapError, UninitialisedRead
from autotune.kernels.davinci.memory import GM, Buffer, aligned_bytes
from autotune.kernels.davinci.program import Instruction
from autotune.kernels.davinci.races import Races
from autotune.kernels.davinci.watch import Executed, Touched, Watcher

TRANSPOSES = ("vtranspose", "vnchwconv", "vnchwconv_even")
"""Vector instructions that move elements and compute nothing."""


class Checker(Watcher):
    """Raises UninitialisedRead, OverlapError and RaceError."""

    def __init__(self, cores: int) -> None:
        self._written: dict[Buffer, np.ndarray] = {}
        self._races = Races() if cores > 1 else None

    def declare(self, buffer: Buffer) -> None:
        """Nothing of the tensor is written any more."""
        self._written[buffer] = np.zeros(aligned_bytes(buffer), bool)

    def after(self, executed: Executed) -> None:
        """Checks what was read, and notes what was written."""
        statement = executed.instruction
        if not isinstance(statement, Instruction):
            self._require(executed, executed.inputs)
            return
        check_overlap(executed, statement.row)
        if self._races and not executed.atomic:
            self._races.note(executed)
        if statement.row.form in (isa.MOVE, isa.LOAD) or statement.row.name in TRANSPOSES:
            self._move(executed)
        elif statement.row.form == isa.CUBE:
            self._product(executed, statement)
        else:
            self._require(executed, executed.inputs)
            for output in executed.outputs:
                self._mark(output, _applied(executed.mask, output))

    def _flags(self, buffer: Buffer) -> np.ndarray | None:
        """One flag a byte; None where everything is defined, as in inputs and outputs."""
        if buffer.workspace and buffer.array is not None and buffer not in self._written:
            self._written[buffer] = np.zeros(buffer.array.nbytes, bool)
        return self._written.get(buffer)

    def _defined(self, operand: Touched) -> np.ndarray:
        """Which elements were written."""
        flags = self._flags(operand.buffer)
        if flags is None:
            return np.ones(operand.shape, bool)
        return np.asarray(operand.cells(flags).all(axis=-1))

    def _mark(self, operand: Touched, defined: Any) -> None:
        """Elements are written, where ``defined`` says so with values that mean something."""
        flags = self._flags(operand.buffer)
        if flags is None:
            return
        cells = operand.cells(flags)
        if defined is None:
            cells[...] = True
        else:
            cells |= np.broadcast_to(defined, operand.shape)[..., None]

    def _carry(self, operand: Touched, defined: np.ndarray) -> None:
        flags = self._flags(operand.buffer)
        if flags is not None:
            operand.cells(flags)[...] = defined[..., None]

    def _require(self, executed: Executed, operands: tuple[Touched, ...]) -> None:
        for operand in operands:
            defined, mask = self._defined(operand), _applied(executed.mask, operand)
            missing = ~defined if mask is None else ~defined & mask
            if missing.any():
                raise _unwritten(executed, operand, missing)

    def _move(self, executed: Executed) -> None:
        if executed.atomic and executed.outputs[0].buffer.scope == GM:
            self._require(executed, executed.outputs)
        for operand in executed.inputs:
            missing = ~self._defined(operand)
            nothing = missing.reshape(len(missing), -1).all(axis=1)
            if nothing.any():
                first = int(nothing.argmax())
                missing[:first] = False
                raise _unwritten(executed, operand, missing)
        source, single = executed.inputs[0], len(executed.inputs) == 1
        for output in executed.outputs:
            if single and source.shape == output.shape:
                self._carry(output, self._defined(source))
            else:
                self._mark(output, None)

    def _product(self, executed: Executed, instruction: Instruction) -> None:
        """Row i is defined where row i of the left operand is, column j where that of the right one is."""
        left, right = (self._defined(operand) for operand in executed.inputs[:2])
        (output,) = executed.outputs
        if left.all() and right.all():
            self._mark(output, None)
            return
        rest = [np.zeros(operand.shape, np.float32) for operand in executed.inputs[2:]]
        numbers = [*rest, *executed.numbers]
        defined = np.ones(output.shape, bool)
        for operand, pair in zip(executed.inputs, ((~left, np.ones_like(right)), (np.ones_like(left), ~right))):
            tainted = instruction.row.compute(*(one.astype(np.float32) for one in pair), *numbers)
            if np.shape(tainted) != output.shape:
                self._mark(output, None)
                return
            defined &= np.asarray(tainted) == 0
            if not defined.any():
                raise _unwritten(executed, operand, pair[0] if operand is executed.inputs[0] else pair[1])
        self._carry(output, defined)


def _applied(mask: np.ndarray | None, operand: Touched) -> np.ndarray | None:
    """The mask where it is one of this operand's positions."""
    return mask if mask is not None and mask.shape == operand.shape[1:] else None


def _unwritten(executed: Executed, operand: Touched, missing: np.ndarray) -> UninitialisedRead:
    """The error that names the first missing element."""
    first = operand.element(np.unravel_index(int(missing.argmax()), missing.shape))
    buffer = operand.buffer
    return UninitialisedRead(
        f"{executed.name} reads {buffer.name}[{first}] in {buffer.scope}, which nothing wrote since its declaration "
        f"in line {buffer.where[1]}",
        executed.where,
    )


def check_overlap(executed: Executed, row: isa.Row) -> None:
    """Raises OverlapError where an instruction reads what it has already overwritten, or half overwrites it.

    The same place for source and destination is allowed, and so is reading ahead of what a later repeat overwrites
    (tik_api.md 2.11).
    """
    if row.reduces or row.form in (isa.CUBE, isa.SCALAR) or row.name in TRANSPOSES:
        return
    for output in executed.outputs:
        for source in executed.inputs:
            if source.buffer is output.buffer and source != output and _meet(source, output):
                _check_turns(executed, source, output, row.form == isa.REPEATED)


def _meet(a: Touched, b: Touched) -> bool:
    (low_a, high_a), (low_b, high_b) = a.span(), b.span()
    return low_a < high_b and low_b < high_a


def _check_turns(executed: Executed, source: Touched, output: Touched, by_repeats: bool) -> None:
    """Goes through the repeats; other instructions are one turn."""
    start = min(source.span()[0], output.span()[0])
    overwritten = np.zeros(max(source.span()[1], output.span()[1]) - start, bool)
    read, write = source.cells(overwritten, start), output.cells(overwritten, start)
    turns: Sequence[int | slice] = range(len(read)) if by_repeats and len(read) == len(write) else (slice(None),)
    for turn in turns:
        same = by_repeats and _first(source, turn) == _first(output, turn) and source.strides[1:] == output.strides[1:]
        if read[turn].any():
            raise _overlap(executed, source, output, f"repeat {turn} reads what an earlier one overwrote")
        write[turn] = True
        if not same and read[turn].any():
            raise _overlap(executed, source, output, "they share some elements, and do not start at the same place")


def _first(operand: Touched, turn: int | slice) -> int:
    return operand.offset + (turn * operand.strides[0] if isinstance(turn, int) else 0)


def _overlap(executed: Executed, source: Touched, output: Touched, reason: str) -> OverlapError:
    return OverlapError(f"{executed.name}: destination {output} overlaps source {source}: {reason}", executed.where)
