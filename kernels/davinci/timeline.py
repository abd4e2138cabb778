"""Every instruction of one core with its start and end, as a Chrome trace that Perfetto opens (ui.perfetto.dev)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.clocks import MTE1, PIPES
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.errors import Where
from autotune.kernels.davinci.expr import Registers
from autotune.kernels.davinci.fusion import ElementCopies
from autotune.kernels.davinci.operands import getter
from autotune.kernels.davinci.program import Access, Instruction, Program, SetScalar, Statement
from autotune.kernels.davinci.rows_cube import FEEDS_ITSELF
from autotune.kernels.davinci.timing import Step, Walk, estimate

MOST_EVENTS = 100_000
"""Events after which a timeline is cut: some 30 MB of JSON."""

ROWS = (isa.S, isa.MTE2, isa.MTE1, isa.M, isa.FIX, isa.V, isa.MTE3)
"""Rows of the picture, from top to bottom: the way that data flows."""

Texts = Callable[[Registers], list[str]]


@dataclass(frozen=True)
class Event:
    """One instruction on its pipe, in cycles from the start of the kernel. outputs, inputs: tensors as they were."""

    pipe: str
    name: str
    start: int
    cycles: int
    where: Where
    outputs: list[str]
    inputs: list[str]


@dataclass(frozen=True)
class Timeline:
    """The events of one core, in the order of issue. cut: it has more than these."""

    core: int
    clock_mhz: int
    model: str
    events: list[Event]
    cut: bool

    def write(self, path: Path) -> None:
        """As a Chrome trace: one row per pipe, times in microseconds. Raises OSError."""
        with path.open("w", encoding="utf-8") as file:
            self._write(file)

    def _write(self, file: TextIO) -> None:
        file.write('{"traceEvents": [\n')
        file.write(",\n".join(json.dumps(item, separators=(",", ":")) for item in self._items()))
        about = {"core": self.core, "model": self.model, "clock_mhz": self.clock_mhz, "cut": self.cut}
        file.write(f'\n], "displayTimeUnit": "ns", "otherData": {json.dumps(about)}}}\n')

    def _items(self) -> Iterator[dict[str, Any]]:
        process = {"ph": "M", "pid": self.core}
        yield {**process, "name": "process_name", "args": {"name": f"core {self.core}"}}
        used = {event.pipe for event in self.events}
        for row in [row for row, pipe in enumerate(ROWS) if pipe in used]:
            yield {**process, "tid": row, "name": "thread_name", "args": {"name": ROWS[row]}}
            yield {**process, "tid": row, "name": "thread_sort_index", "args": {"sort_index": row}}
        for event in self.events:
            yield {
                "ph": "X", "pid": self.core, "tid": ROWS.index(event.pipe), "name": event.name,
                "ts": event.start / self.clock_mhz, "dur": event.cycles / self.clock_mhz,
                "args": {
                    "line": f"{event.where[0]}:{event.where[1]}", "cycles": event.cycles, "outputs": event.outputs,
                    "inputs": event.inputs,
                },
            }  # fmt: skip


def timeline(
    program: Program, core: int | None = None, most_events: int = MOST_EVENTS, profile: Profile = DEFAULT
) -> Timeline:
    """Walks every turn of one core, by default the slowest, until it has that many events.

    Raises IndexError for a core that the program does not use.
    """
    found = estimate(program, profile=profile)
    index = found.core_cycles.index(max(found.core_cycles)) if core is None else core
    if not 0 <= index < program.block_num:
        raise IndexError(f"core {index}; the program uses cores 0 to {program.block_num - 1}")
    walk, cut = _TimelineWalk(program, most_events, profile), False
    try:
        walk.cores([index])
    except _Full:
        cut = True
    return Timeline(index, program.soc.clock_mhz, found.model, walk.events, cut)


class _Full(Exception):
    """The timeline has as many events as it may."""


class _TimelineWalk(Walk):
    """A walk of every turn that writes down what it sees."""

    def __init__(self, program: Program, most_events: int, profile: Profile) -> None:
        super().__init__(program, False, profile)
        self.events: list[Event] = []
        self._most = most_events

    def link(self, statement: Statement | ElementCopies) -> Step:
        """One statement, written down where it takes a pipe's time."""
        step = super().link(statement)
        if isinstance(statement, Instruction) and statement.row.pipe != isa.S:
            return self._issued(statement, step)
        if isinstance(statement, (Instruction, ElementCopies)):
            return self._scalar(statement, step)
        if isinstance(statement, SetScalar) and isinstance(statement.value, Access):
            return self._scalar(statement, step)
        return step

    def _add(self, *event: Any) -> None:
        if len(self.events) >= self._most:
            raise _Full
        self.events.append(Event(*event))

    def _issued(self, instruction: Instruction, step: Step) -> Step:
        name, where = instruction.row.name, instruction.where
        pipe, issue = PIPES.index(instruction.row.pipe), self.profile["issue"]
        outputs, inputs = _texts(instruction.outputs), _texts(instruction.inputs)

        def run(core: Any, r: Registers) -> None:
            began, busy = core.now, core.busy[pipe]
            step(core, r)
            if core.busy[pipe] == busy:
                return
            full = core.now - began - issue
            if full:
                self._add(isa.S, f"queue of {PIPES[pipe]} is full", began + issue, full, where, [], [])
            start = core.queues[pipe][-1]
            operands = (outputs(r), inputs(r))
            self._add(PIPES[pipe], name, start, core.free[pipe] - start, where, *operands)
            if instruction.row in FEEDS_ITSELF:
                self._add(PIPES[MTE1], f"loads of {name}", start, core.free[pipe] - start, where, *operands)

        return run

    def _scalar(self, statement: Instruction | SetScalar | ElementCopies, step: Step) -> Step:
        name, outputs, inputs = _of_scalar(statement)

        def run(core: Any, r: Registers) -> None:
            began = core.now
            step(core, r)
            self._add(isa.S, name, began, core.now - began, statement.where, outputs(r), inputs(r))

        return run


def _of_scalar(statement: Instruction | SetScalar | ElementCopies) -> tuple[str, Texts, Texts]:
    """Name, outputs and inputs of what S does itself, with its waits."""
    if isinstance(statement, ElementCopies):
        return "scalar reads and stores", _texts(statement.stores), _texts(statement.loads)
    if isinstance(statement, Instruction):
        return "scalar store", _texts(statement.outputs), _texts(())
    value = statement.value
    return "scalar read", _texts(()), _texts((value,) if isinstance(value, Access) else ())


def _texts(accesses: Any) -> Texts:
    """Operands as text, with the numbers that they have when the instruction is issued."""
    numbers = [(access, getter(access.offset), [*map(getter, access.shape)]) for access in accesses]

    def texts(r: Registers) -> list[str]:
        return [
            f"{access.buffer.name}[{int(offset(r))}] {' x '.join(str(int(size(r))) for size in shape)} {access.dtype}"
            for access, offset, shape in numbers
        ]

    return texts
