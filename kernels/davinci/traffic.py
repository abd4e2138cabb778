"""How many bytes of each GM tensor a program's reads move, counted without clocks.

Only control flow is followed. A loop whose turns are all alike is counted once, times its turns.
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
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.steering import Course

Count = Callable[[Core, Registers, int], Any]
"""Follows a statement that is run so many times; a true result leaves the block."""


class Traffic:
    """The reads of a program's GM tensors; workspaces, which the kernel fills itself, are not counted."""

    def __init__(self, program: Program, course: Course) -> None:
        self._program, self._course = program, course
        self._moved: Counter[Buffer] = Counter()

    def moved(self) -> dict[Buffer, int]:
        """Bytes that the reads of all cores move, by tensor."""
        follow = self._block(self._program.body)
        for index in range(self._program.block_num) if follow else ():
            registers = [0] * self._program.registers
            registers[CORE_REGISTER] = index
            follow(Core(), registers, 1)
        return dict(self._moved)

    def _block(self, block: Block) -> Any:
        """None where a block neither reads GM nor steers."""
        steps = [step for step in map(self._link, block) if step is not None]
        if not steps:
            return None

        def follow(core: Core, r: Registers, times: int) -> Any:
            for step in steps:
                signal = step(core, r, times)
                if signal:
                    return signal
            return None

        return follow

    def _link(self, statement: Any) -> Count | None:
        link = _LINKS.get(type(statement))
        return link(self, statement) if link is not None else None

    def _leave(self, statement: Leave) -> Count:
        return lambda core, r, times: statement.kind

    def _branch(self, branch: Branch) -> Count | None:
        arms = [(getter(condition), self._block(block)) for condition, block in branch.arms]
        if not any(arm for _, arm in arms):
            return None

        def follow(core: Core, r: Registers, times: int) -> Any:
            for holds, arm in arms:
                if holds(r):
                    return arm and arm(core, r, times)
            return None

        return follow

    def _loop(self, loop: Loop) -> Count | None:
        body = self._block(loop.body)
        if body is None or loop.block_num > 1:
            return body  # type: ignore[no-any-return]
        slot, start, stop = loop.slot, getter(loop.start), getter(loop.stop)
        steering = self._course.steering(loop.body)
        alike = not (slot in steering.registers or steering.stores or steering.assigned)

        def follow(core: Core, r: Registers, times: int) -> Any:
            index, end = start(r), stop(r)
            while index < end:
                r[slot] = index
                turns = end - index if alike else 1
                signal = body(core, r, times * turns)
                if signal in ("break", "return"):
                    return signal if signal == "return" else None
                index += turns
            return None

        return follow

    def _set_scalar(self, statement: SetScalar) -> Count | None:
        slot, source = statement.slot, statement.value
        if not isinstance(source, Access):
            value = always(evaluator(source))

            def compute(core: Core, r: Registers, times: int) -> None:
                r[slot] = value(r)

            return compute
        if "int" not in source.dtype:
            return None
        buffer, place = id(source.buffer), getter(source.offset)

        def load(core: Core, r: Registers, times: int) -> None:
            r[slot] = core.integers.get((buffer, place(r)), 0)

        return load

    def _instruction(self, instruction: Instruction) -> Count | None:
        if instruction.row is STORE_ELEMENT:
            return self._store(instruction)
        source = instruction.inputs[0] if instruction.inputs else None
        if source is None or source.buffer.scope != GM or source.buffer.workspace:
            return None
        sizes = [getter(size) for size in source.shape]
        buffer, element, moved = source.buffer, SIZES[source.dtype], self._moved

        def read(core: Core, r: Registers, times: int) -> None:
            moved[buffer] += times * element * prod([max(int(size(r)), 0) for size in sizes])

        return read

    def _store(self, instruction: Instruction) -> Count | None:
        access = instruction.outputs[0]
        if "int" not in access.dtype:
            return None
        buffer, place, value = id(access.buffer), getter(access.offset), getter(instruction.immediates[0])

        def store(core: Core, r: Registers, times: int) -> None:
            core.integers[buffer, place(r)] = value(r)

        return store


_LINKS: dict[type, Callable[[Traffic, Any], Count | None]] = {
    Leave: Traffic._leave,
    Branch: Traffic._branch,
    Loop: Traffic._loop,
    SetScalar: Traffic._set_scalar,
    Instruction: Traffic._instruction,
}
