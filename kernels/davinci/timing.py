"""How long a recorded program takes on its chip, without touching float data.

Each core has the in-order queues S, V, M, MTE1, MTE2, MTE3 and FIX. S issues every instruction in program order and
stops while a queue is full; an instruction starts when its queue is free and what it reads and overwrites is ready
(davinci_timing.md 5.1). Only whole numbers that steer control flow are computed.

Times are whole cycles, kept relative to the issuing clock. The state of a core is then the same after each turn of a
loop that has settled, and a turn seen before from the same state costs a dictionary look-up: the result equals the
full run exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci import costs, isa
from autotune.kernels.davinci.addresses import Addresses
from autotune.kernels.davinci.clocks import BY_SCALAR, MTE1, PIPES, Core, V
from autotune.kernels.davinci.conditions import USUAL, Conditions
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.courses import Courses
from autotune.kernels.davinci.expr import Registers, evaluator
from autotune.kernels.davinci.fusion import ElementCopies, fused
from autotune.kernels.davinci.memory import GM
from autotune.kernels.davinci.operands import always, getter
from autotune.kernels.davinci.program import (
    Access,
    Block,
    Branch,
    Declare,
    Instruction,
    Leave,
    Loop,
    Print,
    Program,
    SetScalar,
    Statement,
)
from autotune.kernels.davinci.recorder import ATOMIC_REGISTER, CORE_REGISTER
from autotune.kernels.davinci.regions import Keys, Regions
from autotune.kernels.davinci.rows_cube import FEEDS_ITSELF
from autotune.kernels.davinci.steering import Course, Steering, inside
from autotune.kernels.davinci.supply import fits, supply
from autotune.kernels.davinci.traffic import Traffic

Step = Callable[[Core, Registers], Any]
"""A statement's effect on a core's clocks; a true result leaves the block."""

_S = len(PIPES)


@dataclass(frozen=True)
class Estimate:
    """The emulated time of one launch.

    cycles: of the slowest core. time_us: microseconds with the launch, as the conditions have it. busy: cycles per pipe
    on the slowest core. core_cycles: per core. model: the timing model's version.
    """

    cycles: int
    time_us: float
    busy: dict[str, int]
    core_cycles: tuple[int, ...]
    model: str


def estimate(
    program: Program, remember: bool = True, profile: Profile = DEFAULT, conditions: Conditions = USUAL
) -> Estimate:
    """Times the program on the chip it was recorded for, with the numbers of a profile.

    remember: whether a loop's turn that was seen before from the same state is looked up; walking every turn gives
    the same cycles.
    """
    return summary(program, Walk(program, remember, profile, conditions).cores(), profile, conditions)


def summary(program: Program, cores: Sequence[Core], profile: Profile, conditions: Conditions = USUAL) -> Estimate:
    """The estimate that follows from every core's clocks after the whole kernel."""
    cycles = [core.finish() for core in cores]
    slowest = cores[cycles.index(max(cycles))]
    soc = program.soc
    total = sum(sorted(cycles, reverse=True)[:: soc.cores])  # blocks beyond the chip's cores run in waves
    busy = dict(zip((*PIPES, isa.S), slowest.busy))
    numbers = costs.on(soc, profile)
    launch = numbers["kernel_floor"] + numbers["block_skew"] * (min(len(cycles), soc.cores) - 1)
    if conditions.host:
        launch = numbers["launch"] + numbers["launch_per_block"] * len(cycles)
    return Estimate(total, total / soc.clock_mhz + launch / 1000, busy, tuple(cycles), costs.version(profile))


class Walk:
    """Turns statements into functions of a core's clocks, and runs them for every core.

    A subclass can see more of a walk than its times: it keeps that on its own core, and through its own turns.
    """

    def __init__(self, program: Program, remember: bool, profile: Profile, conditions: Conditions = USUAL) -> None:
        self.program, self.remember, self.profile = program, remember, costs.on(program.soc, profile)
        self.regions = (Addresses if conditions.address_reuse else Regions)(inside(program.body))
        self.course = Course(program.body, self.regions)
        moved = Traffic(program).moved() if fits(program) and not conditions.warm else {}
        gm = supply(program, self.profile.constants, moved)
        self.chip = costs.Chip(self.profile, profile.rates or program.soc.rates, gm, program.soc.l0c_bytes)

    def cores(self, indices: Iterable[int] | None = None) -> list[Core]:
        """The clocks of every core, or of some, after the whole kernel.

        What stands before the loop over cores is walked once, and so are cores with the same course: they share their
        clocks.
        """
        body = self.program.body
        split = next((i for i, s in enumerate(body) if isinstance(s, Loop) and s.block_num > 1), len(body))
        first, registers = self.new_core(), [0] * self.program.registers
        returned = self.block(body[:split])(first, registers)
        rest = self.block(body[split:])
        courses = Courses(self.course, body[split:]) if self.remember else None
        cores: list[Core] = []
        walked: dict[Hashable, Core] = {}
        for index in range(self.program.block_num) if indices is None else indices:
            own = list(registers)
            own[CORE_REGISTER] = index
            course = courses.of(own) if courses is not None and not returned else None
            core = walked.get(course)
            if core is None:
                core = first.copy()
                if not returned:
                    rest(core, own)
                if course is not None:
                    walked[course] = core
            cores.append(core)
        return cores

    def new_core(self) -> Core:
        """The clocks at the start of a kernel."""
        return Core(self.profile)

    def new_turn(self, body: Step, steering: Steering) -> Turn:
        """A remembered block."""
        return Turn(body, steering)

    def block(self, block: Block) -> Step:
        """Statements in order; linked when first run."""
        linked: list[Step] = []

        def run(core: Core, r: Registers) -> Any:
            if not linked:
                linked.extend(self.link(statement) for statement in fused(block))
            for step in linked:
                signal = step(core, r)
                if signal:
                    return signal
            return None

        return run

    def turn(self, block: Block, overhead: int = 0) -> Turn:
        """A block after so many scalar cycles, remembered by the state it starts from."""
        steps = self.block(block)

        def body(core: Core, r: Registers) -> Any:
            core.now += overhead
            return steps(core, r)

        return self.new_turn(body, self.course.steering(block))

    def link(self, statement: Statement | ElementCopies) -> Step:
        """One statement."""
        link: Callable[[Walk, Any], Step] = _LINKS[type(statement)]
        return link(self, statement)

    def leave(self, statement: Leave) -> Step:
        """break, continue, return."""
        return lambda core, r: statement.kind

    def show(self, statement: Print) -> Step:
        """debug_print shows numbers, which this walk does not have."""
        return lambda core, r: None

    def declare(self, statement: Declare) -> Step:
        """Costs nothing; the address of a buffer is the same in every turn, so hazards outlive the declaration."""
        return lambda core, r: None

    def branch(self, branch: Branch) -> Step:
        """A condition costs one scalar operation."""
        arms = [(getter(condition), self.block(block)) for condition, block in branch.arms]
        operation = self.profile["scalar_operation"]

        def run(core: Core, r: Registers) -> Any:
            core.now += operation
            for holds, body in arms:
                if holds(r):
                    return body(core, r)
            return None

        return run

    def loop(self, loop: Loop) -> Step:
        """A turn costs one scalar operation; settled loops are not walked again."""
        if loop.block_num > 1:
            return self.block(loop.body)
        if not self.remember:
            return self._plain_loop(loop)
        slot, start, stop = loop.slot, getter(loop.start), getter(loop.stop)
        turn = self.turn(loop.body, self.profile["scalar_operation"])
        steering = turn.steering
        varies = slot in steering.registers or steering.stores

        def run(core: Core, r: Registers) -> Any:
            index, end, signal, steers = start(r), stop(r), None, None
            while index < end:
                r[slot] = index
                if steers is None:
                    steers = steering.now(core, r)
                before, steered = turn.at, steers
                known = turn.turn(core, r, steers)
                index += 1
                if known.signal in ("break", "return"):
                    signal = known.signal
                    break
                if known.after == before:
                    first = index
                    while index < end:
                        if varies:
                            r[slot] = index
                            steers = steering.now(core, r)
                            if steers != steered:
                                break
                            index += 1
                        else:
                            index = end
                    turn.repeat(known, index - first)
                    r[slot] = index - 1
                elif varies:
                    steers = None
            turn.settle(core)
            return signal if signal == "return" else None

        return run

    def _plain_loop(self, loop: Loop) -> Step:
        slot, start, stop, body = loop.slot, getter(loop.start), getter(loop.stop), self.block(loop.body)
        operation = self.profile["scalar_operation"]

        def run(core: Core, r: Registers) -> Any:
            for index in range(start(r), stop(r)):
                r[slot] = index
                core.now += operation
                signal = body(core, r)
                if signal == "break":
                    return None
                if signal == "return":
                    return signal
            return None

        return run

    def set_scalar(self, statement: SetScalar) -> Step:
        """Registers that steer take their value; a read of a tensor waits for who writes it."""
        slot, source, operation = statement.slot, statement.value, self.profile["scalar_operation"]
        if not isinstance(source, Access):
            value = always(evaluator(source))

            def compute(core: Core, r: Registers) -> None:
                core.now += operation
                core.busy[_S] += operation
                r[slot] = value(r)

            return compute
        buffer, keys = source.buffer, always(self.regions.keys(source))
        latency = self.profile["scalar_read_global" if buffer.scope == GM else "scalar_read"]
        place = getter(source.offset) if "int" in source.dtype else None

        def load(core: Core, r: Registers) -> None:
            core.now = core.ready(keys(r), (), BY_SCALAR, core.now) + latency
            core.busy[_S] += latency
            if place is not None:
                r[slot] = core.integers.get((id(buffer), place(r)), 0)

        return load

    def copies(self, copies: ElementCopies) -> Step:
        """Reads and stores of single elements in turn: only the first pair can have to wait."""
        source, target = self.together(copies.loads), self.together(copies.stores)
        first = self.profile["scalar_read"]
        rest = len(copies.slots) * (first + self.profile["scalar_write"]) - first

        def run(core: Core, r: Registers) -> None:
            read = core.ready(source(r), (), BY_SCALAR, core.now) + first
            targets = target(r)
            core.now = core.ready((), targets, BY_SCALAR, read) + rest
            core.busy[_S] += first + rest
            core.touch((), targets, BY_SCALAR, core.now)

        return run

    def instruction(self, instruction: Instruction) -> Step:
        """One call: waits, runs on its pipe, and leaves its mark on what it touches."""
        if instruction.row.pipe == isa.S:
            return self._store_element(instruction)
        accesses = (*instruction.outputs, *instruction.inputs)
        shape_of = [_shape(access) for access in accesses]
        reads, writes = self.together(instruction.inputs), self.together(instruction.outputs)
        pipe, issue, restart = PIPES.index(instruction.row.pipe), self.profile["issue"], self.profile["vector_start"]
        vector, both = pipe == V, instruction.row in FEEDS_ITSELF
        latency = costs.latency(instruction, self.profile)
        to_global = instruction.outputs[0].buffer.scope == GM
        fixed = None
        if not any(callable(shape) for shape in shape_of) and not to_global:
            fixed = self.cycles(instruction, shape_of, False)

        def run(core: Core, r: Registers) -> None:
            cycles = fixed
            if cycles is None:
                shapes = [shape(r) if callable(shape) else shape for shape in shape_of]
                cycles = self.cycles(instruction, shapes, bool(to_global and r[ATOMIC_REGISTER]))
            core.now += issue
            core.busy[_S] += issue
            if not cycles:
                return
            core.wait_for_room(pipe)
            read, written = reads(r), writes(r)
            free = max(core.free[pipe], core.free[MTE1]) if both else core.free[pipe]
            start = core.ready(read, written, pipe, max(free, core.now))
            end = start + cycles
            if vector and (core.barrier(read, written) or start > free):
                end += restart
            core.free[pipe] = end
            if both:
                core.free[MTE1] = end
            if latency:
                end += latency
                core.done[pipe] = end
            core.busy[pipe] += cycles
            core.queues[pipe].append(start)
            core.touch(read, written, pipe, end)

        return run

    def cycles(self, instruction: Instruction, shapes: list[Any], atomic: bool) -> int:
        """Cycles on its pipe; 0 where nothing is touched."""
        if any(0 in shape for shape in shapes):
            return 0
        return costs.work(instruction, shapes, self.chip, atomic).cycles

    def together(self, accesses: Sequence[Access]) -> Callable[[Registers], Keys]:
        """What several operands touch."""
        parts: list[Any] = [self.regions.keys(access) for access in accesses]
        if not any(callable(part) for part in parts):
            keys = tuple(dict.fromkeys(key for part in parts for key in part))
            return lambda r: keys
        getters = [always(part) for part in parts]
        return lambda r: tuple(dict.fromkeys([key for get in getters for key in get(r)]))

    def _store_element(self, instruction: Instruction) -> Step:
        """S waits for the readers and writers of the tensor, then writes; whole numbers are remembered."""
        access = instruction.outputs[0]
        buffer, keys, write = id(access.buffer), always(self.regions.keys(access)), self.profile["scalar_write"]
        place, value = getter(access.offset), getter(instruction.immediates[0])
        whole = "int" in access.dtype

        def run(core: Core, r: Registers) -> None:
            targets = keys(r)
            core.now = core.ready((), targets, BY_SCALAR, core.now) + write
            core.busy[_S] += write
            core.touch((), targets, BY_SCALAR, core.now)
            if whole:
                core.integers[buffer, place(r)] = value(r)
                core.stored = hash((core.stored, buffer, place(r), value(r)))

        return run


@dataclass(frozen=True)
class Seen:
    """What one turn did from a known state; ``after`` is the number of the state it ended in."""

    after: int
    cycles: int
    busy: tuple[int, ...]
    registers: tuple[tuple[int, Any], ...]
    drained: bool
    signal: Any


class Turn:
    """A block, remembered by the state it starts from and by everything that steers it.

    States are numbered. From a state that was met before, a turn only moves on to the next number and adds up; the
    clocks are brought up to date by ``settle``, before anything else looks at them.
    """

    def __init__(self, body: Step, steering: Steering) -> None:
        self.body, self.steering = body, steering
        self.seen: dict[tuple[Any, int], Seen] = {}
        self.numbers: dict[Any, int] = {}
        self.states: list[Any] = []
        self.at: int | None = None
        self.cycles = 0
        self.busy = [0] * (_S + 1)
        self.drained = False

    def __call__(self, core: Core, r: Registers) -> Any:
        """One turn on its own."""
        signal = self.turn(core, r, self.steering.now(core, r)).signal
        self.settle(core)
        return signal

    def turn(self, core: Core, r: Registers, steers: tuple[Any, ...]) -> Seen:
        """One turn. The clocks may lag behind until ``settle``; steering registers never do."""
        if self.at is None:
            self.at = self._number(core.freeze(self.steering.footprint))
        known = self.seen.get((steers, self.at))
        if known is None:
            return self._walk(core, r, steers)
        self._count(known, 1)
        for slot, value in known.registers:
            r[slot] = value
        return known

    def repeat(self, known: Seen, turns: int) -> None:
        """As many more turns like the last one, which must have ended in the state it began in."""
        self._count(known, turns)

    def settle(self, core: Core) -> None:
        """Brings the core's clocks up to date."""
        if self.at is not None and (self.cycles or self.drained):
            core.now += self.cycles
            core.busy = [total + cycles for total, cycles in zip(core.busy, self.busy)]
            core.thaw(self.states[self.at], self.steering.footprint, self.drained)
            self.cycles, self.busy, self.drained = 0, [0] * (_S + 1), False
        self.at = None

    def _count(self, known: Seen, turns: int) -> None:
        self.at = known.after
        self.cycles += known.cycles * turns
        self.busy = [total + turns * cycles for total, cycles in zip(self.busy, known.busy)]
        self.drained |= known.drained

    def _number(self, frozen: Any) -> int:
        number = self.numbers.setdefault(frozen, len(self.states))
        if number == len(self.states):
            self.states.append(frozen)
        return number

    def _walk(self, core: Core, r: Registers, steers: tuple[Any, ...]) -> Seen:
        at = self.at
        assert at is not None
        self.settle(core)
        began, busy, drained_before = core.now, core.busy, core.drained
        core.busy, core.drained = [0] * (_S + 1), False
        signal = self.body(core, r)
        taken, drained = core.busy, core.drained
        core.busy = [total + cycles for total, cycles in zip(busy, taken)]
        core.drained |= drained_before
        self.at = self._number(core.freeze(self.steering.footprint))
        registers = tuple((slot, r[slot]) for slot in self.steering.assigned)
        seen = Seen(self.at, core.now - began, tuple(taken), registers, drained, signal)
        if not self.steering.stores:
            self.seen[steers, at] = seen
        return seen


_LINKS: dict[type, Callable[[Walk, Any], Step]] = {
    Leave: Walk.leave,
    Declare: Walk.declare,
    Print: Walk.show,
    Branch: Walk.branch,
    Loop: Walk.loop,
    SetScalar: Walk.set_scalar,
    Instruction: Walk.instruction,
    ElementCopies: Walk.copies,
}


def _shape(access: Access) -> Any:
    """A shape, or a function of the registers where it is symbolic."""
    sizes = [evaluator(size) for size in access.shape]
    if not any(callable(size) for size in sizes):
        return access.shape
    getters = [always(size) for size in sizes]
    return lambda r: tuple(max(int(size(r)), 0) for size in getters)
