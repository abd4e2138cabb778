"""Running a recorded program on numpy arrays.

Every statement becomes a Python function of the registers the first time it is reached; operands at constant places
are bound to numpy views once. Cores run one after the other on the same local memory, whose contents are undefined
(poisoned) again at every declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.errors import OutOfBounds
from autotune.kernels.davinci.expr import Evaluator, Expr, Registers, evaluator
from autotune.kernels.davinci.fusion import ElementCopies, fill_loop, fused
from autotune.kernels.davinci.memory import GM, poison
from autotune.kernels.davinci.operands import (
    Array,
    always,
    bind,
    flat,
    getter,
    same_place,
    store_for,
)
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
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.tensor import round_to

Step = Callable[[Registers], Any]
"""A linked statement; a true result leaves the block: break, continue or return."""
Apply = Callable[[Registers, Sequence[Array], Sequence[Any]], None]
"""Does an instruction's work on its target arrays and its operands."""


def run(program: Program, scalars: dict[int, Any] | None = None) -> None:
    """Runs the program on every core. GM buffers hold their arrays already; ``scalars`` are input registers.

    Raises OutOfBounds and other TikErrors with the kernel statement's file and line.
    """
    body = _Linker(program.soc.saturates).steps(program.body)
    with np.errstate(all="ignore"):
        for core in range(program.block_num):
            registers: Registers = [0] * program.registers
            for slot, value in (scalars or {}).items():
                registers[slot] = value
            registers[CORE_REGISTER] = core
            body(registers)


class _Linker:
    """Turns statements into functions. saturate: floating overflow stays finite, as on the 910A."""

    def __init__(self, saturate: bool) -> None:
        self.saturate = saturate

    def steps(self, block: Block) -> Step:
        """A block as one function, linked when it is first run."""
        linked: list[Step] = []

        def run_block(r: Registers) -> Any:
            if not linked:
                linked.extend(self.link(statement) for statement in fused(block))
            for step in linked:
                signal = step(r)
                if signal:
                    return signal
            return None

        return run_block

    def link(self, statement: Statement | ElementCopies) -> Step:
        """One statement as a function."""
        if isinstance(statement, ElementCopies):
            return statement.step()
        link: Callable[[_Linker, Any], Step] = _LINKS[type(statement)]
        return link(self, statement)

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
            return body
        start, stop = getter(loop.start), getter(loop.stop)
        fill = fill_loop(loop)

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
            get = _element(statement.value, statement)
            exact = statement.value.dtype == dtype
        else:
            value = evaluator(statement.value)
            get, exact = always(value), not callable(value)

        def take(r: Registers) -> None:
            r[slot] = get(r)

        def take_rounded(r: Registers) -> None:
            r[slot] = round_to(dtype, get(r))

        return take if exact else take_rounded

    def instruction(self, instruction: Instruction) -> Step:
        """One call."""
        if instruction.row is STORE_ELEMENT:
            return _store_element(instruction)
        targets = [bind(access, instruction) for access in instruction.outputs]
        operands = [bind(access, instruction) for access in instruction.inputs]
        immediates = [evaluator(value) for value in instruction.immediates]
        operands += [(not callable(value), value) for value in immediates]
        arrays = len(instruction.inputs)
        apply = self._apply(instruction)
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

    def _apply(self, instruction: Instruction) -> Apply:
        compute = _compute(instruction)
        stores = [store_for(instruction, access, self.saturate) for access in instruction.outputs]
        store, output = stores[0], instruction.outputs[0]
        if output.buffer.scope == GM and instruction.row.form == isa.MOVE:
            return _move_to_global
        if len(stores) > 1:

            def apply_many(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
                for put, place, result in zip(stores, places, compute(*values)):
                    put(place, result)

            return apply_many
        if isinstance(instruction.mask, Expr):
            lanes = getter(instruction.mask)

            def apply_masked(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
                place, kept = places[0], places[0].copy()
                store(place, compute(*values))
                np.copyto(place, kept, where=np.arange(place[0].size).reshape(place.shape[1:]) >= lanes(r))

            return apply_masked
        if _reads_own_results(instruction):
            arrays = len(instruction.inputs)

            def apply_in_turn(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
                for i in range(places[0].shape[0]):
                    one = [value[i : i + 1] for value in values[:arrays]]
                    store(places[0][i : i + 1], compute(*one, *values[arrays:]))

            return apply_in_turn

        def apply(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
            store(places[0], compute(*values))

        return apply


_LINKS: dict[type, Callable[[_Linker, Any], Step]] = {
    Leave: _Linker.leave,
    Declare: _Linker.declare,
    Loop: _Linker.loop,
    Branch: _Linker.branch,
    SetScalar: _Linker.set_scalar,
    Instruction: _Linker.instruction,
}


def _empty(places: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether an array operand has no elements, as with a repeat of 0."""
    for array in places:
        if array is None:
            return True
    for array in operands:
        if array is None:
            return True
    return False


def _move_to_global(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
    if r[ATOMIC_REGISTER]:
        places[0][...] += values[0]
    else:
        np.copyto(places[0], values[0], casting="unsafe")


def _compute(instruction: Instruction) -> Callable[..., Any]:
    compute = instruction.row.compute
    if not instruction.row.reduces:
        return compute
    chosen = instruction.mask.reshape(-1) if isinstance(instruction.mask, np.ndarray) else None

    def reduce(values: Array) -> Any:
        lanes = values.reshape(values.shape[0], -1)
        return compute(lanes if chosen is None else lanes[:, chosen])

    return reduce


def _reads_own_results(instruction: Instruction) -> bool:
    """Whether a repeat may read or overwrite what an earlier repeat of the same instruction wrote."""
    output = instruction.outputs[0]
    if instruction.row.form != isa.REPEATED or instruction.row.reduces:
        return False
    step = output.strides[0]
    if isinstance(step, int) and step == 0:
        return True
    shared = [access for access in instruction.inputs if access.buffer is output.buffer]
    return not all(same_place(access, output) for access in shared)


def _element(access: Access, statement: SetScalar) -> Evaluator:
    """Reads one element."""
    array, offset = flat(access.buffer, access.dtype), evaluator(access.offset)
    item, place = array.item, always(offset)

    def read(r: Registers) -> Any:
        index = place(r)
        if not 0 <= index < array.size:
            raise OutOfBounds(f"element {index} of {access.buffer}, which has {array.size}", statement.where)
        return item(index)

    return read


def _store_element(instruction: Instruction) -> Step:
    access, value = instruction.outputs[0], evaluator(instruction.immediates[0])
    array, dtype, place = flat(access.buffer, access.dtype), access.dtype, getter(access.offset)
    get = always(value if callable(value) else round_to(dtype, value))

    def put(r: Registers) -> None:
        index = place(r)
        if not 0 <= index < array.size:
            raise OutOfBounds(f"element {index} of {access.buffer}, which has {array.size}", instruction.where)
        try:
            array[index] = get(r)
        except OverflowError:
            array[index] = round_to(dtype, get(r))

    return put
