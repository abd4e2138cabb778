"""Running a recorded program on numpy arrays.

Every statement becomes a Python function of the registers the first time it is reached; operands at constant places
are bound to numpy views once. Cores run one after the other on the same local memory, whose contents are undefined
(poisoned) again at every declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci.effects import effect, element_reader, element_writer
from autotune.kernels.davinci.errors import RangeError, TikError, Undefined, UninitialisedRead
from autotune.kernels.davinci.expr import Expr, Registers, evaluator
from autotune.kernels.davinci.fusion import ElementCopies, fill_loop
from autotune.kernels.davinci.limits import guarded
from autotune.kernels.davinci.memory import poison
from autotune.kernels.davinci.merging import condensed
from autotune.kernels.davinci.operands import always, bind, getter
from autotune.kernels.davinci.printing import present
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
from autotune.kernels.davinci.recorder import CORE_REGISTER
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.tensor import round_to

Step = Callable[[Registers], Any]
"""A linked statement; a true result leaves the block: break, continue or return."""

_RAISED: dict[type, type[TikError]] = {Undefined: UninitialisedRead}
"""What an arithmetic failure of a statement is raised as; TikError where it is not named."""


def run(
    program: Program,
    scalars: dict[int, Any] | None = None,
    order: Sequence[int] | None = None,
    linker: Linker | None = None,
) -> None:
    """Runs the program on every core. GM buffers hold their arrays already; ``scalars`` are input registers.

    order: the cores in the order in which they run. linker: what else is done with each statement.
    Raises OutOfBounds and other TikErrors with the kernel statement's file and line.
    """
    linker = linker or Linker(program.soc.saturates)
    body = linker.steps(program.body)
    with np.errstate(all="ignore"):
        for core in order or range(program.block_num):
            registers = linker.registers(program)
            for slot, value in (scalars or {}).items():
                registers[slot] = value
            registers[CORE_REGISTER] = core
            body(registers)


class Linker:
    """Turns statements into functions. saturate: floating overflow stays finite, as on the 910A."""

    def __init__(self, saturate: bool) -> None:
        self.saturate = saturate

    def registers(self, program: Program) -> Registers:
        """The registers of a core before its first statement."""
        return [0] * program.registers

    def statements(self, block: Block) -> Iterator[Statement | ElementCopies]:
        """What a block is run as."""
        return condensed(block)

    def steps(self, block: Block) -> Step:
        """A block as one function, whose statements are linked when they are first reached."""
        linked: list[Step] = []
        reached: list[Statement | ElementCopies] = []
        ahead = self.statements(block)

        def run_block(r: Registers) -> Any:
            try:
                for step in linked:
                    signal = step(r)
                    if signal:
                        return signal
                for statement in ahead:
                    reached.append(statement)
                    step = self.link(statement)
                    linked.append(step)
                    signal = step(r)
                    if signal:
                        return signal
            except ArithmeticError as error:
                where = getattr(reached[linked.index(step)], "where", None)
                raise _RAISED.get(type(error), TikError)(str(error), where) from error
            return None

        return run_block

    def link(self, statement: Statement | ElementCopies) -> Step:
        """One statement as a function."""
        if isinstance(statement, ElementCopies):
            return statement.step()
        link: Callable[[Any], Step] = getattr(self, _LINKS[type(statement)])
        return link(statement)

    def leave(self, statement: Leave) -> Step:
        """tik_break, tik_continue, tik_return."""
        return lambda r: statement.kind

    def declare(self, statement: Declare) -> Step:
        """Undefined contents for a local tensor."""
        array = statement.buffer.allocate()
        noise = poison(array.dtype, statement.buffer.shadowed, array.size)
        return lambda r: np.copyto(array, noise)

    def loop(self, loop: Loop) -> Step:
        """for_range; the loop over cores runs its body once."""
        body, slot = self.steps(loop.body), loop.slot
        if loop.block_num > 1:
            return _cores_loop(loop, body)
        start, stop = getter(loop.start), getter(loop.stop)
        fill = self.whole_loop(loop)

        def run_loop(r: Registers) -> Any:
            if fill is not None and fill(r):
                return None
            for index in range(start(r), stop(r)):
                r[slot] = index
                signal = body(r)
                if signal == "break":
                    return None
                if signal == "return":
                    return signal
            return None

        return run_loop

    def whole_loop(self, loop: Loop) -> Any:
        """The loop as one operation, None where it is run turn by turn."""
        return fill_loop(loop)

    def branch(self, branch: Branch) -> Step:
        """if_scope, elif_scope, else_scope."""
        arms = [(getter(condition), self.steps(block)) for condition, block in branch.arms]

        def run_branch(r: Registers) -> Any:
            for holds, body in arms:
                if holds(r):
                    return body(r)
            return None

        return run_branch

    def set_scalar(self, statement: SetScalar) -> Step:
        """A register takes a value of its own type."""
        slot, dtype = statement.slot, statement.dtype
        if isinstance(statement.value, Access):
            get = element_reader(statement.value, statement)
            exact = statement.value.dtype == dtype
        else:
            value = evaluator(statement.value)
            get, exact = always(value), not callable(value)

        def take(r: Registers) -> None:
            r[slot] = get(r)

        def take_rounded(r: Registers) -> None:
            r[slot] = round_to(dtype, get(r))

        return take if exact else take_rounded

    def show(self, statement: Print) -> Step:
        """debug_print."""
        return lambda r: statement.show(lambda value: present(value, r))

    def instruction(self, instruction: Instruction) -> Step:
        """One call, with a check of its symbolic numbers."""
        step = self._call(instruction)
        if not instruction.limits:
            return step
        return guarded(instruction.limits, instruction.row.name, instruction.where, step)  # type: ignore[no-any-return]

    def _call(self, instruction: Instruction) -> Step:
        if instruction.row is STORE_ELEMENT:
            return element_writer(instruction)
        targets = [bind(access, instruction) for access in instruction.outputs]
        operands = [bind(access, instruction) for access in instruction.inputs]
        immediates = [evaluator(value) for value in instruction.immediates]
        operands += [(not callable(value), value) for value in immediates]
        arrays = len(instruction.inputs)
        apply = effect(instruction, self.saturate)
        if all(constant for constant, _ in (*targets, *operands)):
            places, values = [place for _, place in targets], [value for _, value in operands]
            if _empty(places, values[:arrays]):
                return lambda r: None
            return lambda r: apply(r, places, values)
        place_of = [always(place) if constant else place for constant, place in targets]
        if len(targets) == 1 and all(constant and value is not None for constant, value in operands):
            place, fixed = place_of[0], [value for _, value in operands]

            def step_at(r: Registers) -> None:
                target = place(r)
                if target is not None:
                    apply(r, (target,), fixed)

            return step_at
        value_of = [always(value) if constant else value for constant, value in operands]

        def step(r: Registers) -> None:
            places, values = [place(r) for place in place_of], [value(r) for value in value_of]
            if not _empty(places, values[:arrays]):
                apply(r, places, values)

        return step


def _cores_loop(loop: Loop, body: Step) -> Step:
    """The loop over cores, on one of them: its body once, or not at all where the symbolic block_num is too small."""
    if not isinstance(loop.stop, Expr):
        return body
    stop = getter(loop.stop)

    def run_if_needed(r: Registers) -> Any:
        if stop(r) > loop.block_num:
            raise RangeError(f"block_num is {stop(r)}; the chip has {loop.block_num} cores", loop.where)
        return body(r) if r[CORE_REGISTER] < stop(r) else None

    return run_if_needed


_LINKS = {
    Leave: "leave",
    Declare: "declare",
    Loop: "loop",
    Branch: "branch",
    SetScalar: "set_scalar",
    Instruction: "instruction",
    Print: "show",
}
"""Statements to the methods that link them, which a subclass may have its own of."""


def _empty(places: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether an array operand has no elements, as with a repeat of 0."""
    for array in places:
        if array is None:
            return True
    for array in operands:  # noqa: SIM110 - a generator costs as much as a small instruction
        if array is None:
            return True
    return False
