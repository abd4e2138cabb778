"""A walk that also counts: what every pipe waited for, the bytes it moved, its work at full rate.

The tally stands beside a core's clocks. A remembered turn brings its own as often as it is taken, so that the tally
equals that of walking every turn exactly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from autotune.kernels.davinci import costs, isa
from autotune.kernels.davinci.clocks import BY_SCALAR, MTE1, PIPES, Core, V
from autotune.kernels.davinci.conditions import Conditions
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.errors import Where
from autotune.kernels.davinci.expr import Registers
from autotune.kernels.davinci.fusion import ElementCopies
from autotune.kernels.davinci.memory import GM
from autotune.kernels.davinci.program import Access, Instruction, Program, SetScalar, Statement
from autotune.kernels.davinci.regions import Keys
from autotune.kernels.davinci.rows_cube import FEEDS_ITSELF
from autotune.kernels.davinci.steering import Steering
from autotune.kernels.davinci.timing import Seen, Step, Turn, Walk

READ, DRAIN, RESTART = "scalar read", "starts after a barrier", "starts after a wait"
"""Causes that have no other pipe in them: S reads a tensor, V drains for its own result, V starts after a pause."""

NAMES = (*PIPES, isa.S)
"""Pipes by their index; S is the last, and also index -1."""
S = len(PIPES)

Route = tuple[str, str]
"""Memories that a move goes from and to."""


class StallKey(NamedTuple):
    """A pipe, by its index, that stands still at a kernel line for a cause."""

    pipe: int
    cause: str
    where: Where


class Moved(NamedTuple):
    """Bytes on a route."""

    route: Route


class FullRate(NamedTuple):
    """Cycles that a pipe's work takes at full rate: tiles, repeats and bytes, without any head."""

    pipe: int


class Times(NamedTuple):
    """How often a stall happened."""

    key: StallKey


Tally: TypeAlias = "Counter[StallKey | Moved | FullRate | Times]"


class TallyCore(Core):
    """A core's clocks, and a tally of what happened on the way."""

    __slots__ = ("tally",)

    def __init__(self, profile: Profile = DEFAULT) -> None:
        super().__init__(profile)
        self.tally: Tally = Counter()

    def copy(self) -> Core:
        """An independent core in the same state."""
        other = super().copy()
        assert isinstance(other, TallyCore)
        other.tally = Counter(self.tally)
        return other

    def stall(self, pipe: int, cause: str, where: Where, cycles: int) -> None:
        """Counts one stall; none of no length."""
        if cycles > 0:
            key = StallKey(pipe, cause, where)
            self.tally[key] += cycles
            self.tally[Times(key)] += 1

    def last(self, reads: Keys, writes: Keys, pipe: int) -> tuple[int, int]:
        """When, and by which other pipe, the last mark is made that ``ready`` waits for; (0, pipe) if by none."""
        marks = [self.written[key] for key in (*reads, *writes) if key in self.written]
        marks += [(end, reader) for key in writes for reader, end in self.read.get(key, {}).items()]
        return max([mark for mark in marks if mark[1] != pipe], default=(0, pipe))


class TallyTurn(Turn):
    """A remembered block that adds a known turn's tally as often as it is taken."""

    def __init__(self, body: Step, steering: Steering) -> None:
        super().__init__(body, steering)
        self._tallies: dict[int, tuple[Seen, Tally]] = {}
        self._taken: Counter[int] = Counter()

    def settle(self, core: Core) -> None:
        """Brings clocks and tally up to date."""
        super().settle(core)
        assert isinstance(core, TallyCore)
        for number, turns in self._taken.items():
            for key, amount in self._tallies[number][1].items():
                core.tally[key] += turns * amount
        self._taken.clear()

    def _count(self, known: Seen, turns: int) -> None:
        super()._count(known, turns)
        self._taken[id(known)] += turns

    def _walk(self, core: Core, r: Registers, steers: tuple[Any, ...]) -> Seen:
        assert isinstance(core, TallyCore)
        at = self.at
        self.settle(core)
        self.at = at
        before, core.tally = core.tally, Counter()
        seen = super()._walk(core, r, steers)
        self._tallies[id(seen)] = (seen, core.tally)
        before.update(core.tally)
        core.tally = before
        return seen


class TallyWalk(Walk):
    """A walk whose steps also say what they waited for."""

    def __init__(self, program: Program, remember: bool, profile: Profile, conditions: Conditions) -> None:
        super().__init__(program, remember, profile, conditions)
        self._ideal = replace(self.chip, numbers=_without_heads(self.profile))
        self._work: dict[Instruction, Tally] = {}

    def new_core(self) -> Core:
        """The clocks at the start of a kernel."""
        return TallyCore(self.profile)

    def new_turn(self, body: Step, steering: Steering) -> Turn:
        """A remembered block."""
        return TallyTurn(body, steering)

    def link(self, statement: Statement | ElementCopies) -> Step:
        """One statement, watched where it can wait."""
        step = super().link(statement)
        if isinstance(statement, Instruction):
            return self._store(statement, step) if statement.row.pipe == isa.S else self._issued(statement, step)
        if isinstance(statement, ElementCopies):
            return self._copied(statement, step)
        return self._loaded(statement, step) if isinstance(statement, SetScalar) else step

    def cycles(self, instruction: Instruction, shapes: list[Any], atomic: bool) -> int:
        """Cycles on its pipe; what it moves and its cycles at full rate are kept for the tally."""
        cycles = super().cycles(instruction, shapes, atomic)
        if cycles:
            self._work[instruction] = self._full(instruction, shapes)
        return cycles

    def _full(self, instruction: Instruction, shapes: list[Any]) -> Tally:
        """Bytes of a move, and cycles without heads; those of a product by its tiles."""
        pipe, work = PIPES.index(instruction.row.pipe), costs.work(instruction, shapes, self._ideal)
        if work.bytes:
            route = (instruction.inputs[0].buffer.scope, instruction.outputs[0].buffer.scope)
            return Counter({Moved(route): work.bytes, FullRate(pipe): work.cycles})
        tiles = instruction.row in FEEDS_ITSELF
        return Counter({FullRate(pipe): _tiles(shapes) if tiles else work.cycles})

    def _issued(self, instruction: Instruction, step: Step) -> Step:
        reads, writes = self.together(instruction.inputs), self.together(instruction.outputs)
        pipe, both, where = PIPES.index(instruction.row.pipe), instruction.row in FEEDS_ITSELF, instruction.where
        issue, queue = self.profile["issue"], f"queue of {instruction.row.pipe} is full"

        def run(core: Any, r: Registers) -> None:
            began, free, fed, busy = core.now, core.free[pipe], core.free[MTE1], core.busy[pipe]
            _, other = core.last(reads(r), writes(r), pipe)
            step(core, r)
            cycles = core.busy[pipe] - busy
            if not cycles:
                return
            core.tally.update(self._work[instruction])
            core.stall(S, queue, where, core.now - began - issue)
            start, ready = core.queues[pipe][-1], max(free, core.now)
            if both:
                core.stall(pipe, "waits for MTE1", where, fed - ready)
                ready = max(ready, fed)
            core.stall(pipe, f"waits for {NAMES[other]}", where, start - ready)
            if pipe == V:
                core.stall(pipe, RESTART if start > free else DRAIN, where, core.free[pipe] - start - cycles)

        return run

    def _loaded(self, statement: SetScalar, step: Step) -> Step:
        source, where = statement.value, statement.where
        if not isinstance(source, Access):
            return step
        keys = self.together([source])
        latency = self.profile["scalar_read_global" if source.buffer.scope == GM else "scalar_read"]

        def run(core: Any, r: Registers) -> None:
            began, (_, other) = core.now, core.last(keys(r), (), BY_SCALAR)
            step(core, r)
            core.stall(S, f"waits for {NAMES[other]}", where, core.now - began - latency)
            core.stall(S, READ, where, latency)

        return run

    def _store(self, instruction: Instruction, step: Step) -> Step:
        keys, where, write = self.together(instruction.outputs), instruction.where, self.profile["scalar_write"]

        def run(core: Any, r: Registers) -> None:
            began, (_, other) = core.now, core.last((), keys(r), BY_SCALAR)
            step(core, r)
            core.stall(S, f"waits for {NAMES[other]}", where, core.now - began - write)

        return run

    def _copied(self, copies: ElementCopies, step: Step) -> Step:
        source, target, where = self.together(copies.loads), self.together(copies.stores), copies.where
        read, pairs = self.profile["scalar_read"], len(copies.slots)
        work = pairs * (read + self.profile["scalar_write"])

        def run(core: Any, r: Registers) -> None:
            began, waited = core.now, core.last(source(r), (), BY_SCALAR)
            _, other = core.last((), target(r), BY_SCALAR)
            first = max(waited[0] + core.sync - began, 0) if waited[1] != BY_SCALAR else 0
            step(core, r)
            core.stall(S, f"waits for {NAMES[waited[1]]}", where, first)
            core.stall(S, f"waits for {NAMES[other]}", where, core.now - began - work - first)
            core.stall(S, READ, where, pairs * read)

        return run


def _without_heads(profile: Profile) -> Profile:
    """Constants under which only repeats, tiles and bytes count: no heads, and bursts of any length in whole blocks."""
    heads = [name for name in profile.constants if name.endswith(("_head", "_least", "_partial_mask", "_odd"))]
    return replace(profile, constants={**profile.constants, **dict.fromkeys(heads, 0), "packet_bytes": 32})


def _tiles(shapes: list[Any]) -> int:
    """Tiles of 16 x 16 x 16 that matmul or conv2d multiplies."""
    columns, rows, _ = shapes[0]
    depth: int = shapes[1][0]
    return int(rows // 16 * depth * columns)
