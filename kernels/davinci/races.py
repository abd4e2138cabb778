"""Which core wrote which byte of GM: two cores on one byte tread on each other (tik_api.md 5.1).

A move writes the bytes that it moves; a scalar store its whole 32-byte block.
"""

from __future__ import annotations

import numpy as np

from autotune.kernels.davinci.errors import RaceError, Where
from autotune.kernels.davinci.isa import SCALAR
from autotune.kernels.davinci.memory import BLOCK, GM, Buffer
from autotune.kernels.davinci.program import Instruction
from autotune.kernels.davinci.watch import Executed, Touched

NOBODY = 0


class Races:
    """Remembers the last writer of every byte of GM."""

    def __init__(self) -> None:
        self._writers: dict[Buffer, np.ndarray] = {}
        self._cores = np.array([NOBODY])
        self._writes: list[tuple[int, Where]] = [(NOBODY, ("", 0))]
        self._numbers: dict[tuple[int, Where], int] = {}

    def note(self, executed: Executed) -> None:
        """Takes down what a call wrote. Raises RaceError where another core wrote one of its bytes."""
        statement = executed.instruction
        whole_blocks = isinstance(statement, Instruction) and statement.row.form == SCALAR
        for output in executed.outputs:
            if output.buffer.scope == GM:
                self._note(executed, output, _bytes(output, whole_blocks))

    def _note(self, executed: Executed, output: Touched, places: np.ndarray) -> None:
        writers = self._of(output.buffer, int(places[-1]) + 1)
        before = writers[places]
        foreign = places[(before != NOBODY) & (self._cores[before] != executed.core)]
        if foreign.size:
            core, where = self._writes[writers[foreign[0]]]
            run = int(np.argmax(np.diff(foreign, append=-1) != 1))
            raise RaceError(
                f"cores {core} and {executed.core} both write bytes {foreign[0]} to {foreign[run]} of GM tensor "
                f"{output.buffer.name} without atomic addition; core {core} did in {where[0]}:{where[1]}",
                executed.where,
            )
        writers[places] = self._number(executed)

    def _number(self, executed: Executed) -> int:
        """The number of this core's statement among all that wrote to GM."""
        write = (executed.core, executed.where)
        if write not in self._numbers:
            self._numbers[write] = len(self._writes)
            self._writes.append(write)
            self._cores = np.append(self._cores, executed.core)
        return self._numbers[write]

    def _of(self, buffer: Buffer, size: int) -> np.ndarray:
        writers = self._writers.get(buffer, np.zeros(0, np.int32))
        if len(writers) < size:
            writers = np.pad(writers, (0, max(size, buffer.nbytes) - len(writers)), constant_values=NOBODY)
            self._writers[buffer] = writers
        return writers


def _bytes(operand: Touched, whole_blocks: bool) -> np.ndarray:
    """The bytes of a tensor that are written, in order."""
    low, high = operand.span()
    if whole_blocks:
        return np.arange(low // BLOCK * BLOCK, -(-high // BLOCK) * BLOCK)
    touched = np.zeros(high - low, bool)
    operand.cells(touched, low)[...] = True
    return low + np.flatnonzero(touched)
