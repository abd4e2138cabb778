"""How many bytes of each GM tensor a program's reads move, counted without clocks.

Only control flow is followed. A turn of a loop that was counted before, with everything that steers it the same, is not
followed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

from autotune.kernels.davinci.clocks import Core
from autotune.kernels.davinci.expr import Registers, evaluator
from autotune.kernels.davinci.memory import GM, SIZES, Buffer
from autotune.kernels.davinci.operands import always, getter
from autotune.kernels.davinci.program import Access, Block, Branch, Instruction, Leave, Loop, Program, SetScalar
from autotune.kernels.davinci.recorder import CORE_REGISTER
from autotune.kernels.davinci.regions import Regions
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.steering import Course

Follow = Callable[[Core, Registers], Any]
"""Follows a statement; a true result leaves the block."""


class Traffic:
    """The reads of a program's GM tensors; workspaces, which the kernel fills itself, are not counted."""

    def __init__(self, program: Program) -> None:
        self._program, self._body = program, _skeleton(program.body)
        self._course = Course(self._body, Regions(()))
        self._moved: Counter[Buffer] = Counter()

    def moved(self) -> dict[Buffer, int]:
        """Bytes that the reads of all cores move, by tensor."""
        follow = self._block(self._body)
        for index in range(self._program.block_num):
            registers = [0] * self._program.registers
            registers[CORE_REGISTER] = index
            follow(Core(), registers)
        return dict(self._moved)

    def _block(self, block: Block) -> Follow:
        steps = [_LINKS[type(statement)](self, statement) for statement in block]

        def follow(core: Core, r: Registers) -> Any:
            for step in steps:
                signal = step(core, r)
                if signal:
                    return signal
            return None

        return follow

    def _leave(self, statement: Leave) -> Follow:
        return lambda core, r: statement.kind

    def _branch(self, branch: Branch) -> Follow:
        arms = [(getter(condition), self._block(block)) for condition, block in branch.arms]

        def follow(core: Core, r: Registers) -> Any:
            for holds, arm in arms:
                if holds(r):
                    return arm(core, r)
            return None

        return follow

    def _loop(self, loop: Loop) -> Follow:
        body = self._block(loop.body)
        if loop.block_num > 1:
            return body
        slot, start, stop = loop.slot, getter(loop.start), getter(loop.stop)
        turn = self._turn(loop.body, body)
        steering = self._course.steering(loop.body)
        alike = not (slot in steering.registers or steering.stores or steering.assigned)

        def follow(core: Core, r: Registers) -> Any:
            index, end = start(r), stop(r)
            while index < end:
                r[slot] = index
                turns = end - index if alike else 1
                signal = turn(core, r, turns)
                if signal in ("break", "return"):
                    return signal if signal == "return" else None
                index += turns
            return None

        return follow

    def _turn(self, block: Block, body: Follow) -> Callable[[Core, Registers, int], Any]:
        """A loop's body, so many times; what one turn moves is remembered by all that steers it."""
        steering = self._course.steering(block)
        seen: dict[Any, tuple[Counter[Buffer], tuple[tuple[int, Any], ...], Any]] = {}

        def turn(core: Core, r: Registers, times: int) -> Any:
            steers = steering.now(core, r)
            known = seen.get(steers)
            if known is None:
                before, self._moved = self._moved, Counter()
                signal = body(core, r)
                known = self._moved, tuple([(slot, r[slot]) for slot in steering.assigned]), signal
                self._moved = before
                if not steering.stores:
                    seen[steers] = known
            moved, registers, signal = known
            for buffer, count in moved.items():
                self._moved[buffer] += count * times
            for slot, value in registers:
                r[slot] = value
            return signal

        return turn

    def _set_scalar(self, statement: SetScalar) -> Follow:
        slot, source = statement.slot, statement.value
        if not isinstance(source, Access):
            value = always(evaluator(source))

            def compute(core: Core, r: Registers) -> None:
                r[slot] = value(r)

            return compute
        buffer, place = id(source.buffer), getter(source.offset)

        def load(core: Core, r: Registers) -> None:
            r[slot] = core.integers.get((buffer, place(r)), 0)

        return load

    def _instruction(self, instruction: Instruction) -> Follow:
        if instruction.row is STORE_ELEMENT:
            access = instruction.outputs[0]
            stored, place, value = id(access.buffer), getter(access.offset), getter(instruction.immediates[0])

            def store(core: Core, r: Registers) -> None:
                core.integers[stored, place(r)] = value(r)

            return store
        source = instruction.inputs[0]
        sizes, buffer, element = [getter(size) for size in source.shape], source.buffer, SIZES[source.dtype]

        def read(core: Core, r: Registers) -> None:
            self._moved[buffer] += element * prod([max(int(size(r)), 0) for size in sizes])

        return read


def _skeleton(block: Block) -> Block:
    """A block without what neither reads GM nor steers; an instruction is left with what it reads."""
    kept = [_KEPT[type(statement)](statement) for statement in block if type(statement) in _KEPT]
    return [statement for statement in kept if statement is not None]


def _kept_instruction(instruction: Instruction) -> Instruction | None:
    if instruction.row is STORE_ELEMENT:
        return instruction if "int" in instruction.outputs[0].dtype else None
    source = instruction.inputs[0] if instruction.inputs else None
    if source is None or source.buffer.scope != GM or source.buffer.workspace:
        return None
    return Instruction(instruction.row, (), (source,), (), instruction.where)


def _kept_scalar(statement: SetScalar) -> SetScalar | None:
    source = statement.value
    return None if isinstance(source, Access) and "int" not in source.dtype else statement


def _kept_loop(loop: Loop) -> Loop | None:
    body = _skeleton(loop.body)
    if not body:
        return None
    return Loop(loop.slot, loop.start, loop.stop, loop.thread_num, loop.block_num, body, loop.where)


def _kept_branch(branch: Branch) -> Branch | None:
    arms = [(condition, _skeleton(block)) for condition, block in branch.arms]
    return Branch(arms, branch.where) if any(block for _, block in arms) else None


_KEPT: dict[type, Callable[[Any], Any]] = {
    Leave: lambda statement: statement,
    Branch: _kept_branch,
    Loop: _kept_loop,
    SetScalar: _kept_scalar,
    Instruction: _kept_instruction,
}
_LINKS: dict[type, Callable[[Traffic, Any], Follow]] = {
    Leave: Traffic._leave,
    Branch: Traffic._branch,
    Loop: Traffic._loop,
    SetScalar: Traffic._set_scalar,
    Instruction: Traffic._instruction,
}
