"""Which core wrote which 32-byte block of GM: two cores on one block tread on each other (tik_api.md 5.1)."""

from __future__ import annotations

import numpy as np

from autotune.kernels.davinci.errors import RaceError, Where
from autotune.kernels.davinci.memory import BLOCK, GM, Buffer
from autotune.kernels.davinci.watch import Executed, Touched

NOBODY = -1


class Races:
    """Remembers the writer of every block of every GM tensor."""

    def __init__(self) -> None:
        self._writers: dict[Buffer, np.ndarray] = {}
        self._statements: list[tuple[int, Where]] = []

    def note(self, executed: Executed) -> None:
        """Takes down what a call wrote. Raises RaceError where another core wrote the same block."""
        for output in executed.outputs:
            if output.buffer.scope == GM:
                self._note(executed, output)

    def _note(self, executed: Executed, output: Touched) -> None:
        blocks = _blocks(output)
        writers = self._of(output.buffer, int(blocks[-1]) + 1)
        before = writers[blocks]
        cores = np.array([core for core, _ in self._statements] or [NOBODY])[before]
        foreign = blocks[(before != NOBODY) & (cores != executed.core)]
        if foreign.size:
            core, where = self._statements[writers[foreign[0]]]
            run = int(np.argmax(np.diff(foreign, append=-1) != 1)) + 1
            raise RaceError(
                f"cores {core} and {executed.core} both write bytes {foreign[0] * BLOCK} to "
                f"{(foreign[0] + run) * BLOCK - 1} of GM tensor {output.buffer.name} without atomic addition; "
                f"core {core} did in {where[0]}:{where[1]}",
                executed.where,
            )
        if (executed.core, executed.where) not in self._statements[-1:]:
            self._statements.append((executed.core, executed.where))
        writers[blocks] = len(self._statements) - 1

    def _of(self, buffer: Buffer, blocks: int) -> np.ndarray:
        writers = self._writers.get(buffer)
        if writers is None or len(writers) < blocks:
            grown = np.full(max(blocks, -(-buffer.nbytes // BLOCK)), NOBODY, np.int32)
            if writers is not None:
                grown[: len(writers)] = writers
            self._writers[buffer] = writers = grown
        return writers


def _blocks(operand: Touched) -> np.ndarray:
    """The numbers of the blocks that an operand lies in, in order."""
    low, high = operand.span()
    start = low // BLOCK * BLOCK
    touched = np.zeros(-(-(high - start) // BLOCK) * BLOCK, bool)
    operand.cells(touched, start)[...] = True
    return start // BLOCK + np.flatnonzero(touched.reshape(-1, BLOCK).any(axis=1))
