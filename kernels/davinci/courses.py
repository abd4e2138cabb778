"""Which cores of a kernel do the same work, told from their control flow alone.

A core's course is the list of everything that steers it: arms taken, turns of loops, shapes. Cores with equal courses
take the same time, so only the first of them has to be timed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from autotune.kernels.davinci.clocks import Core
from autotune.kernels.davinci.expr import Registers, evaluator
from autotune.kernels.davinci.operands import always, getter
from autotune.kernels.davinci.program import Access, Block, Branch, Leave, Loop, SetScalar, Statement
from autotune.kernels.davinci.recorder import CORE_REGISTER
from autotune.kernels.davinci.steering import Course, Steering, inside


class Log:
    """What steered a core so far.

    operations: scalar operations since the start. events: each with the operations before it. Where nothing else
    happens between two events, the order of scalar operations makes no difference.
    """

    __slots__ = ("events", "operations")

    def __init__(self) -> None:
        self.operations, self.events = 0, list[Hashable]()

    def write(self, event: Hashable) -> None:
        """Something steers."""
        self.events.append((self.operations, event))


Follow = Callable[[Log, Registers], Any]
"""Writes down what steers a statement; a true result leaves the block."""


class Courses:
    """Tells the courses of a block apart, from the registers at its entry."""

    def __init__(self, course: Course, block: Block) -> None:
        self._course, self._core = course, Core()
        self._follow = None if course.looks_at_memory(block) else self._block(block)

    def of(self, registers: Registers) -> Hashable | None:
        """Equal for equal courses; None where whole numbers in buffers steer, which are not followed here."""
        if self._follow is None:
            return None
        log = Log()
        self._follow(log, list(registers))
        return log.operations, tuple(log.events)

    def _block(self, block: Block) -> Follow:
        steps = [step for step in map(self._statement, block) if step is not None]

        def follow(log: Log, r: Registers) -> Any:
            for step in steps:
                signal = step(log, r)
                if signal:
                    return signal
            return None

        return follow

    def _statement(self, statement: Statement) -> Follow | None:
        if isinstance(statement, Leave):
            return lambda log, r: statement.kind
        if isinstance(statement, Branch):
            return self._branch(statement)
        if isinstance(statement, Loop):
            return self._loop(statement)
        if isinstance(statement, SetScalar) and not isinstance(statement.value, Access):
            return self._set_scalar(statement)
        return self._decisions(statement)

    def _branch(self, branch: Branch) -> Follow:
        arms = [
            (getter(condition), number, self._block(block)) for number, (condition, block) in enumerate(branch.arms)
        ]
        computes = all(map(_computes, (statement for _, block in branch.arms for statement in block)))

        def follow(log: Log, r: Registers) -> Any:
            log.operations += 1
            for holds, number, arm in arms:
                if holds(r):
                    if not computes:
                        log.write(number)
                    return arm(log, r)
            if not computes:
                log.write(None)
            return None

        return follow

    def _loop(self, loop: Loop) -> Follow:
        """Turns that are steered alike take the same course."""
        if loop.block_num > 1:
            return self._block(loop.body)
        slot, start, stop = loop.slot, getter(loop.start), getter(loop.stop)
        steering, core = self._course.steering(loop.body), self._core
        if CORE_REGISTER in steering.registers:
            return self._turns(loop)
        turn, varies = self._turn(loop.body, steering), slot in steering.registers

        def follow(log: Log, r: Registers) -> Any:
            first, end = start(r), stop(r)
            log.write(end - first)
            steers: tuple[Any, ...] | None = None
            signal = None
            for index in range(first, end if varies or turn is not None else min(end, first + 1)):
                r[slot] = index
                before, steers = steers, steering.now(core, r)
                if steers != before:
                    log.write((index - first, steers))
                if turn is not None:
                    signal = turn(steers, r)
                    if signal in ("break", "return"):
                        break
            return signal if signal == "return" else None

        return follow

    def _turns(self, loop: Loop) -> Follow:
        """Turns that the core's number steers: it must not tell cores apart that do the same after all."""
        slot, start, stop, body = loop.slot, getter(loop.start), getter(loop.stop), self._block(loop.body)

        def follow(log: Log, r: Registers) -> Any:
            first, end = start(r), stop(r)
            log.write(end - first)
            for index in range(first, end):
                r[slot] = index
                log.operations += 1
                signal = body(log, r)
                if signal in ("break", "return"):
                    return signal if signal == "return" else None
            return None

        return follow

    def _turn(self, block: Block, steering: Steering) -> Callable[[Any, Registers], Any] | None:
        """Sets the steering registers as a turn does; None where it only sets the indices of its loops."""
        within = list(inside(block))
        indices = {statement.slot for statement in within if isinstance(statement, Loop)}
        if indices.issuperset(steering.assigned) and not any(isinstance(statement, Leave) for statement in within):
            return None
        body = self._block(block)
        seen: dict[Any, tuple[list[Any], Any]] = {}

        def turn(steers: Any, r: Registers) -> Any:
            known = seen.get(steers)
            if known is None:
                signal = body(Log(), r)
                seen[steers] = [r[slot] for slot in steering.assigned], signal
                return signal
            values, signal = known
            for slot, value in zip(steering.assigned, values):
                r[slot] = value
            return signal

        return turn

    def _set_scalar(self, statement: SetScalar) -> Follow:
        slot, value = statement.slot, always(evaluator(statement.value))

        def follow(log: Log, r: Registers) -> None:
            log.operations += 1
            r[slot] = value(r)

        return follow

    def _decisions(self, statement: Statement) -> Follow | None:
        numbers = [always(evaluator(value)) for value in self._course.decisions(statement)]
        if not numbers:
            return None
        return lambda log, r: log.write(tuple([number(r) for number in numbers]))


def _computes(statement: Statement) -> bool:
    return isinstance(statement, SetScalar) and not isinstance(statement.value, Access)
