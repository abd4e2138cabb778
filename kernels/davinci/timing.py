"""How long a recorded program takes on its chip, without touching float data.

Each core has the in-order queues S, V, M, MTE1, MTE2 and MTE3. S issues every instruction in program order and stops
while a queue is full; an instruction starts when its queue is free and what it reads and overwrites is ready
(davinci_timing.md 5.1). Only whole numbers that steer control flow are computed.

Times are whole cycles, kept relative to the issuing clock. The state of a core is then the same after each turn of a
loop that has settled, and a turn seen before from the same state costs a dictionary look-up: the result equals the
full run exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci import costs, isa
from autotune.kernels.davinci.dependence import Dependence, dependence
from autotune.kernels.davinci.expr import Registers, evaluator
from autotune.kernels.davinci.memory import GM, Buffer
from autotune.kernels.davinci.operands import always, getter
from autotune.kernels.davinci.program import (
    Access,
    Block,
    Branch,
    Declare,
    Instruction,
    Leave,
    Loop,
    Program,
    SetScalar,
    Statement,
)
from autotune.kernels.davinci.recorder import ATOMIC_REGISTER, CORE_REGISTER
from autotune.kernels.davinci.soc import SoC

PIPES = (isa.V, isa.M, isa.MTE1, isa.MTE2, isa.MTE3)
"""The queues that S fills."""
_V, _MTE1 = PIPES.index(isa.V), PIPES.index(isa.MTE1)


@dataclass(frozen=True)
class Estimate:
    """The emulated time of one launch.

    cycles: of the slowest core. time_us: microseconds with the device-side floor. busy: cycles per pipe on the
    slowest core. core_cycles: per core. model: the timing model's version.
    """

    cycles: int
    time_us: float
    busy: dict[str, int]
    core_cycles: tuple[int, ...]
    model: str


class Core:
    """One core's clocks, all relative to ``base`` + ``now`` = the cycle at which S issues next."""

    __slots__ = ("base", "busy", "free", "integers", "now", "queues", "read", "scalar_busy", "stored",
                 "vector_read", "vector_written", "written")  # fmt: skip

    def __init__(self) -> None:
        self.base = 0
        self.now = 0
        self.free = [0] * len(PIPES)
        self.queues: list[list[int]] = [[] for _ in PIPES]
        self.written: dict[Any, tuple[int, int]] = {}
        self.read: dict[Any, dict[int, int]] = {}
        self.vector_written: set[Any] = set()
        self.vector_read: set[Any] = set()
        self.busy = [0] * len(PIPES)
        self.scalar_busy = 0
        self.integers: dict[tuple[int, int], int] = {}
        self.stored = 0

    def ready(self, reads: list[Any], writes: list[Any], pipe: int, start: int) -> int:
        """The first cycle from ``start`` on at which other pipes are done with what is read and overwritten."""
        for key in (*reads, *writes):
            known = self.written.get(key)
            if known is not None and known[1] != pipe and known[0] + _SYNC > start:
                start = known[0] + _SYNC
        for key in writes:
            for reader, end in self.read.get(key, _NOBODY).items():
                if reader != pipe and end + _SYNC > start:
                    start = end + _SYNC
        return start

    def barrier(self, reads: list[Any], writes: list[Any]) -> bool:
        """Whether the vector pipe must drain first: it wrote, or read and will overwrite, one of these since it last did."""
        needed = any(key in self.vector_written for key in (*reads, *writes))
        needed = needed or any(key in self.vector_read for key in writes)
        if needed:
            self.vector_written.clear()
            self.vector_read.clear()
        self.vector_written.update(writes)
        self.vector_read.update(reads)
        return needed

    def touch(self, reads: list[Any], writes: list[Any], pipe: int, end: int) -> None:
        """Leaves the mark of an instruction that ends at ``end``."""
        for key in reads:
            self.read.setdefault(key, {})[pipe] = end
        for key in writes:
            self.written[key] = (end, pipe)

    def freeze(self) -> tuple[Any, ...]:
        """Everything that the future depends on, relative to now; what lies in the past is left out."""
        now = self.now
        return (
            tuple(max(t - now, 0) for t in self.free),
            tuple(tuple(t - now for t in queue if t > now) for queue in self.queues),
            frozenset((key, end - now, pipe) for key, (end, pipe) in self.written.items() if end + _SYNC > now),
            frozenset(
                (key, pipe, end - now)
                for key, ends in self.read.items()
                for pipe, end in ends.items()
                if end + _SYNC > now
            ),
            frozenset(self.vector_written),
            frozenset(self.vector_read),
        )

    def thaw(self, frozen: tuple[Any, ...]) -> None:
        """The inverse of ``freeze``, at the present clock."""
        free, queues, written, read, vector_written, vector_read = frozen
        self.base, self.now = self.base + self.now, 0
        self.free = list(free)
        self.queues = [list(queue) for queue in queues]
        self.written = {key: (end, pipe) for key, end, pipe in written}
        self.read = {}
        for key, pipe, end in read:
            self.read.setdefault(key, {})[pipe] = end
        self.vector_written, self.vector_read = set(vector_written), set(vector_read)

    def finish(self) -> int:
        """The cycle at which everything issued so far has ended."""
        ends = [end for end, _ in self.written.values()]
        ends += [end for by_pipe in self.read.values() for end in by_pipe.values()]
        return self.base + max([self.now, *self.free, *ends])


_SYNC = costs.value("sync_latency")
_ISSUE = costs.value("issue")
_DEPTH = costs.value("queue_depth")
_START = costs.value("vector_start")


@dataclass
class _Seen:
    """What one turn of a loop did from a known state."""

    after: tuple[Any, ...]
    cycles: int
    busy: list[int]
    scalar_busy: int
    registers: list[tuple[int, Any]]
    signal: Any


Step = Callable[[Core, Registers], Any]


def estimate(program: Program, remember: bool = True) -> Estimate:
    """Times the program on the chip it was recorded for.

    remember: whether a loop's turn that was seen before from the same state is looked up; walking every turn gives
    the same cycles.
    """
    walk = _Walk(program, remember)
    cores = [walk.core(index) for index in range(program.block_num)]
    cycles = [core.finish() for core in cores]
    slowest = cores[cycles.index(max(cycles))]
    soc = program.soc
    total = sum(sorted(cycles, reverse=True)[:: soc.cores])  # blocks beyond the chip's cores run in waves
    busy = {pipe: slowest.busy[index] for index, pipe in enumerate(PIPES)}
    busy[isa.S] = slowest.scalar_busy
    time_us = total / soc.clock_mhz + costs.value("kernel_floor") / 1000
    return Estimate(total, time_us, busy, tuple(cycles), costs.version())


class _Walk:
    """Turns statements into functions of a core's clocks, and runs them for every core."""

    def __init__(self, program: Program, remember: bool) -> None:
        self.program, self.soc, self.remember = program, program.soc, remember
        self.steps = [self.link(statement) for statement in program.body]

    def core(self, index: int) -> Core:
        """The clocks of one core after the whole kernel."""
        core, registers = Core(), [0] * self.program.registers
        registers[CORE_REGISTER] = index
        for step in self.steps:
            if step(core, registers):
                break
        return core

    def block(self, block: Block) -> Step:
        """Statements in order; linked when first run."""
        linked: list[Step] = []

        def run(core: Core, r: Registers) -> Any:
            if not linked:
                linked.extend(self.link(statement) for statement in block)
            for step in linked:
                signal = step(core, r)
                if signal:
                    return signal
            return None

        return run

    def link(self, statement: Statement) -> Step:
        """One statement."""
        return _LINKS[type(statement)](self, statement)

    def leave(self, statement: Leave) -> Step:
        """break, continue, return."""
        return lambda core, r: statement.kind

    def declare(self, statement: Declare) -> Step:
        """Costs nothing; the address of a buffer is the same in every turn, so hazards outlive the declaration."""
        return lambda core, r: None

    def branch(self, branch: Branch) -> Step:
        """A condition costs one scalar operation."""
        arms = [(getter(condition), self.block(block)) for condition, block in branch.arms]
        cost = costs.value("scalar_operation")

        def run(core: Core, r: Registers) -> Any:
            core.now += cost
            for holds, body in arms:
                if holds(r):
                    return body(core, r)
            return None

        return run

    def loop(self, loop: Loop) -> Step:
        """A turn costs one scalar operation; settled loops are not walked again."""
        body, slot = self.block(loop.body), loop.slot
        if loop.block_num > 1:
            return body
        start, stop = getter(loop.start), getter(loop.stop)
        looked_up = self.remember and _size(loop.body) >= SMALLEST
        turn = _Turn(body, dependence(loop.body)) if looked_up else body
        cost = costs.value("scalar_operation")

        def run(core: Core, r: Registers) -> Any:
            for index in range(start(r) or 0, stop(r) or 0):
                r[slot] = index
                core.now += cost
                signal = turn(core, r)
                if signal == "break":
                    return None
                if signal == "return":
                    return signal
            return None

        return run

    def set_scalar(self, statement: SetScalar) -> Step:
        """Registers that steer control flow take their value; a read of a tensor waits for who writes it."""
        slot, source = statement.slot, statement.value
        operation = costs.value("scalar_operation")
        if not isinstance(source, Access):
            value = always(evaluator(source))

            def compute(core: Core, r: Registers) -> None:
                core.now += operation
                core.scalar_busy += operation
                r[slot] = value(r)

            return compute
        buffer = source.buffer
        latency = costs.value("scalar_read_global" if buffer.scope == GM else "scalar_read")
        key_of = _key(buffer)
        place = getter(source.offset) if "int" in source.dtype else None

        def load(core: Core, r: Registers) -> None:
            key = key_of(r)
            written = core.written.get(key)
            if written is not None and written[0] + _SYNC > core.now:
                core.now = written[0] + _SYNC
            core.now += latency
            core.scalar_busy += latency
            if place is not None:
                r[slot] = core.integers.get((id(buffer), place(r)), 0)

        return load

    def instruction(self, instruction: Instruction) -> Step:
        """One call: waits, runs on its pipe, and leaves its mark on what it touches."""
        if instruction.row.pipe == isa.S:
            return self._store_element(instruction)
        accesses = (*instruction.outputs, *instruction.inputs)
        shape_of = [_shape(access) for access in accesses]
        reads = [_key(access.buffer) for access in instruction.inputs]
        writes = [_key(access.buffer) for access in instruction.outputs]
        pipe = PIPES.index(instruction.row.pipe)
        vector, both = pipe == _V, instruction.row.name == "matmul"
        soc, to_global = self.soc, instruction.outputs[0].buffer.scope == GM
        fixed = None
        if not any(callable(shape) for shape in shape_of) and not to_global:
            fixed = _busy(instruction, shape_of, soc, False)

        def run(core: Core, r: Registers) -> None:
            cycles = fixed
            if cycles is None:
                shapes = [shape(r) if callable(shape) else shape for shape in shape_of]
                cycles = _busy(instruction, shapes, soc, bool(to_global and r[ATOMIC_REGISTER]))
            core.now += _ISSUE
            core.scalar_busy += _ISSUE
            if not cycles:
                return
            queue, now = core.queues[pipe], core.now
            if len(queue) >= _DEPTH:
                waiting = [t for t in queue if t > now]
                if len(waiting) >= _DEPTH:
                    core.now = now = waiting[-_DEPTH]
                    waiting = [t for t in waiting if t > now]
                core.queues[pipe] = queue = waiting
            free = max(core.free[pipe], core.free[_MTE1]) if both else core.free[pipe]
            read_keys, write_keys = [key(r) for key in reads], [key(r) for key in writes]
            start = core.ready(read_keys, write_keys, pipe, max(free, now))
            end = start + cycles
            if vector and (core.barrier(read_keys, write_keys) or start > free):
                end += _START
            core.free[pipe] = end
            if both:
                core.free[_MTE1] = end
            core.busy[pipe] += cycles
            queue.append(start)
            core.touch(read_keys, write_keys, pipe, end)

        return run

    def _store_element(self, instruction: Instruction) -> Step:
        """S waits for the readers and writers of the tensor, then writes; whole numbers are remembered."""
        access = instruction.outputs[0]
        buffer, key_of = access.buffer, _key(access.buffer)
        place, value = getter(access.offset), getter(instruction.immediates[0])
        whole = "int" in access.dtype
        cost = costs.value("scalar_write")

        def run(core: Core, r: Registers) -> None:
            key = key_of(r)
            now = core.now
            known = core.written.get(key)
            if known is not None and known[1] >= 0:
                now = max(now, known[0] + _SYNC)
            for end in core.read.get(key, _NOBODY).values():
                now = max(now, end + _SYNC)
            core.now = now + cost
            core.scalar_busy += cost
            core.written[key] = (core.now, -1)
            if whole:
                core.integers[id(buffer), place(r)] = value(r)
                core.stored = hash((core.stored, id(buffer), place(r), value(r)))

        return run


SMALLEST = 12
"""Statements from which on a loop's turns are remembered; shorter bodies are walked faster than looked up."""
_NOBODY: dict[int, int] = {}


class _Turn:
    """One turn of a loop, remembered by the state it starts from and by everything that steers it."""

    def __init__(self, body: Step, dependence: Dependence) -> None:
        self.body, self.dependence = body, dependence
        self.steering = [always(evaluator(value)) for value in dependence.outcomes]
        self.slots = sorted(dependence.slots)
        self.assigned = sorted(dependence.assigned)
        self.seen: dict[Any, _Seen] = {}

    def __call__(self, core: Core, r: Registers) -> Any:
        """The turn's effect on the core's clocks and registers."""
        steering = (*[value(r) for value in self.steering], *[r[slot] for slot in self.slots])
        if self.dependence.writes_integers:
            return self.body(core, r)
        key = (steering, core.stored, core.freeze())
        seen = self.seen.get(key)
        if seen is None:
            seen = self.seen[key] = self._walk(core, r)
            return seen.signal
        for pipe, cycles in enumerate(seen.busy):
            core.busy[pipe] += cycles
        core.scalar_busy += seen.scalar_busy
        core.now += seen.cycles
        core.thaw(seen.after)
        for slot, value in seen.registers:
            r[slot] = value
        return seen.signal

    def _walk(self, core: Core, r: Registers) -> _Seen:
        began, busy, scalar_busy = core.base + core.now, list(core.busy), core.scalar_busy
        signal = self.body(core, r)
        took = [after - before for after, before in zip(core.busy, busy)]
        registers = [(slot, r[slot]) for slot in self.assigned]
        cycles = core.base + core.now - began
        return _Seen(core.freeze(), cycles, took, core.scalar_busy - scalar_busy, registers, signal)


_LINKS: dict[type, Callable[[_Walk, Any], Step]] = {
    Leave: _Walk.leave,
    Declare: _Walk.declare,
    Branch: _Walk.branch,
    Loop: _Walk.loop,
    SetScalar: _Walk.set_scalar,
    Instruction: _Walk.instruction,
}


def _size(block: Block) -> int:
    """Statements of a block and everything inside it."""
    total = len(block)
    for statement in block:
        if isinstance(statement, Loop):
            total += _size(statement.body)
        elif isinstance(statement, Branch):
            total += sum(_size(arm) for _, arm in statement.arms)
    return total


def _key(buffer: Buffer) -> Callable[[Registers], Any]:
    """What hazards are tracked by: a buffer, or one of its copies in a loop that takes them in turn."""
    name = id(buffer)
    if buffer.turn is None:
        return lambda r: name
    turn = getter(buffer.turn)
    return lambda r: (name, turn(r))


def _shape(access: Access) -> Any:
    sizes = [evaluator(size) for size in access.shape]
    if not any(callable(size) for size in sizes):
        return access.shape
    getters = [always(size) for size in sizes]
    return lambda r: tuple(max(int(size(r)), 0) for size in getters)


def _busy(instruction: Instruction, shapes: list[Any], soc: SoC, atomic: bool) -> int:
    """Cycles on its pipe; 0 where nothing is touched."""
    if any(0 in shape for shape in shapes):
        return 0
    return costs.work(instruction, shapes, soc, atomic).cycles
