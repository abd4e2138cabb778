"""The trace of a run: a line for each executed instruction."""

from __future__ import annotations

from typing import TextIO

from autotune.kernels.davinci.isa import S
from autotune.kernels.davinci.program import SetScalar
from autotune.kernels.davinci.watch import Executed, Watcher


class Tracer(Watcher):
    """Writes, for each instruction: core, pipe, name, what it writes <- what it reads, its numbers, kernel line.

    An operand is its tensor with the first element, then elements@stride for each axis longer than 1. A line is
    written before the instruction happens, so that the last one names what failed.
    """

    def __init__(self, file: TextIO, scalar_names: list[str]) -> None:
        self._file, self._scalar_names = file, scalar_names

    def before(self, executed: Executed) -> None:
        """Writes the line."""
        statement = executed.instruction
        if isinstance(statement, SetScalar):
            pipe, outputs = S, self._scalar_names[statement.slot]
        else:
            pipe, outputs = statement.row.pipe, ", ".join(map(str, executed.outputs))
        sources = ", ".join(map(str, (*executed.inputs, *executed.numbers)))
        file, line = executed.where
        atomic = " atomic" if executed.atomic and pipe != S else ""
        self._file.write(f"{executed.core} {pipe} {executed.name}{atomic} {outputs} <- {sources} ({file}:{line})\n")
