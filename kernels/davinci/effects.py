"""What a linked instruction does: arrays in, one rounding, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.atomics import to_global
from autotune.kernels.davinci.errors import OutOfBounds
from autotune.kernels.davinci.expr import Evaluator, Expr, Registers, evaluator
from autotune.kernels.davinci.memory import GM
from autotune.kernels.davinci.operands import Array, always, flat, getter, same_place, store_for
from autotune.kernels.davinci.program import Access, Instruction, SetScalar
from autotune.kernels.davinci.tensor import round_to

Apply = Callable[[Registers, Sequence[Array], Sequence[Any]], None]
"""Does an instruction's work on its target arrays and its operands."""


def effect(instruction: Instruction, saturate: bool) -> Apply:
    """What a call does with the arrays it writes and its operands."""
    compute = _compute(instruction)
    stores = [store_for(instruction, access, saturate) for access in instruction.outputs]
    store, output = stores[0], instruction.outputs[0]
    if output.buffer.scope == GM and instruction.row.form == isa.MOVE:
        return to_global(instruction, compute, store, saturate)
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


def element_reader(access: Access, statement: SetScalar) -> Evaluator:
    """Reads one element. Raises OutOfBounds."""
    array, offset = flat(access.buffer, access.dtype), evaluator(access.offset)
    item, place = array.item, always(offset)

    def read(r: Registers) -> Any:
        index = place(r)
        if not 0 <= index < array.size:
            raise OutOfBounds(f"element {index} of {access.buffer}, which has {array.size}", statement.where)
        return item(index)

    return read


def element_writer(instruction: Instruction) -> Evaluator:
    """Stores one element. Raises OutOfBounds."""
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
