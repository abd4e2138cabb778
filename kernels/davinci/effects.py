"""What a linked instruction does: arrays in, one rounding, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.kernels.davinci import isa, semantics
from autotune.kernels.davinci.atomics import to_global
from autotune.kernels.davinci.errors import OutOfBounds
from autotune.kernels.davinci.expr import Evaluator, Registers, evaluator
from autotune.kernels.davinci.half import widen_into
from autotune.kernels.davinci.masks import LaneMask, lane_mask
from autotune.kernels.davinci.memory import GM
from autotune.kernels.davinci.operands import (
    Array,
    Store,
    always,
    finish_for,
    flat,
    getter,
    masked_store,
    same_place,
    store_for,
)
from autotune.kernels.davinci.program import Access, Instruction, SetScalar
from autotune.kernels.davinci.tensor import round_to

Apply = Callable[[Registers, Sequence[Array], Sequence[Any]], None]
"""Does an instruction's work on its target arrays and its operands."""


def effect(instruction: Instruction, saturate: bool) -> Apply:
    """What a call does with the arrays it writes and its operands."""
    row, compute = instruction.row, instruction.row.compute
    stores = [store_for(instruction, access, saturate) for access in instruction.outputs]
    store, output = stores[0], instruction.outputs[0]
    if output.buffer.scope == GM and row.form == isa.MOVE:
        return to_global(instruction, compute, store, saturate)
    into = _direct(instruction)
    if into is not None:
        return _in_turn(instruction, _straight(into, finish_for(row, output.dtype, saturate)))
    if len(stores) > 1:
        return _many(stores, compute)
    active = lane_mask(instruction.mask)
    if row.reduces:
        return _combining(compute, store, active)
    if active is not None and not masked_store(instruction):
        return _in_turn(instruction, _masked_when_run(compute, store, active))

    def apply(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        store(places[0], compute(*values))

    return _in_turn(instruction, apply)


def _direct(instruction: Instruction) -> Callable[..., Any] | None:
    """The call's work straight to its destination, where every element counts and the host's types allow it."""
    if instruction.mask is not None or len(instruction.outputs) > 1:
        return None
    row, output = instruction.row, instruction.outputs[0]
    copies = row.compute is semantics.first
    sources = {access.buffer.numpy_dtype(access.dtype) for access in instruction.inputs}
    held = output.buffer.numpy_dtype(output.dtype)
    if copies and held == np.float32 and sources == {np.dtype(np.float16)}:
        return widen_into
    if not sources <= {held} or (held == np.float16 and not row.exact):
        return None
    return np.copyto if copies else row.into


def _straight(into: Callable[..., Any], finish: Callable[[Array], None] | None) -> Apply:
    def apply_exact(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        into(places[0], *values)  # its result would leave the block

    if finish is None:
        return apply_exact

    def apply(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        place = places[0]
        into(place, *values)
        finish(place)

    return apply


def _many(stores: Sequence[Store], compute: Callable[..., Any]) -> Apply:
    def apply(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        for put, place, result in zip(stores, places, compute(*values)):
            put(place, result)

    return apply


def _combining(compute: Callable[..., Any], store: Store, active: LaneMask | None) -> Apply:
    def apply(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        lanes = None if active is None else active(r, values[0].shape[1:])
        store(places[0], compute(*values, active=lanes))

    return apply


def _masked_when_run(compute: Callable[..., Any], store: Store, active: LaneMask) -> Apply:
    def apply(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        store(places[0], compute(*values), active(r, places[0].shape[1:]))

    return apply


def _in_turn(instruction: Instruction, apply: Apply) -> Apply:
    """``apply`` repeat by repeat wherever one may read or overwrite what an earlier one wrote, else all at once."""
    output, arrays = instruction.outputs[0], len(instruction.inputs)
    if instruction.row.form != isa.REPEATED or len(output.shape) < 2:
        return apply
    pairs = enumerate(instruction.inputs)
    shared = [i for i, access in pairs if access.buffer is output.buffer and not same_place(access, output)]
    numbers = (*output.shape, *output.strides)
    if not shared and all(isinstance(n, int) for n in numbers) and _apart(output.shape, output.strides, 1):
        return apply

    def apply_in_turn(r: Registers, places: Sequence[Array], values: Sequence[Any]) -> None:
        place = places[0]
        alone = not any(np.may_share_memory(place, values[i]) for i in shared)
        if len(place) == 1 or (alone and _apart(place.shape, place.strides, place.itemsize)):
            apply(r, places, values)
            return
        for i in range(len(place)):
            apply(r, (place[i : i + 1],), [*(value[i : i + 1] for value in values[:arrays]), *values[arrays:]])

    return apply_in_turn


def _apart(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    """Whether each repeat ends before the next begins."""
    return strides[0] >= item + sum((size - 1) * stride for size, stride in zip(shape[1:], strides[1:]))


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
