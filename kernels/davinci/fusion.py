"""Element by element loops of a kernel as single numpy operations, with the same results.

Two idioms fill the public kernels, which move rows of a matrix through a Scalar:

    unrolled      s0.set_as(a[0]); b[0].set_as(s0); s1.set_as(a[16]); b[1].set_as(s1); ...
    fill loop     with for_range(0, m) as i: s.set_as(a[i]); duplicate(b[i * 16 ...], s)

Both are fused only where source and destination are different tensors, so that order cannot matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autotune.kernels.davinci.expr import Expr, Registers, Variable
from autotune.kernels.davinci.operands import flat, getter
from autotune.kernels.davinci.program import (
    Access,
    Block,
    Instruction,
    Loop,
    SetScalar,
    Statement,
)
from autotune.kernels.davinci.rows_scalar import STORE_ELEMENT
from autotune.kernels.davinci.rows_vector import WHOLE_ROWS

SHORTEST = 4
"""Pairs from which on an unrolled run is fused."""


class ElementCopies:
    """b[to[i]] = a[origin[i]], through one register each."""

    __slots__ = ("loads", "origin", "slots", "source", "stores", "target", "to", "where")

    def __init__(self, pairs: list[tuple[SetScalar, Instruction]]) -> None:
        self.loads: list[Access] = [load.value for load, _ in pairs]
        self.stores = [store.outputs[0] for _, store in pairs]
        self.source, self.target = self.loads[0], self.stores[0]
        self.origin = np.array([access.offset for access in self.loads])
        self.to = np.array([access.offset for access in self.stores])
        self.slots = [load.slot for load, _ in pairs]
        self.where = pairs[0][0].where

    def step(self) -> Callable[[Registers], None]:
        """As a function of the registers; an index out of range raises IndexError."""
        source, target = flat(self.source.buffer, self.source.dtype), flat(self.target.buffer, self.target.dtype)
        origin, to, slots = self.origin, self.to, self.slots

        def copy(r: Registers) -> None:
            values = source[origin]
            target[to] = values
            for slot, value in zip(slots, values.tolist()):
                r[slot] = value

        return copy


def fused(block: Block) -> Iterator[Statement | ElementCopies]:
    """The block's statements, with unrolled runs of element copies as one."""
    index = 0
    while index < len(block):
        pairs: list[tuple[SetScalar, Instruction]] = []
        while (pair := _pair(block, index + 2 * len(pairs))) and (not pairs or _together(pairs[0], pair)):
            pairs.append(pair)
        if len(pairs) >= SHORTEST:
            yield ElementCopies(pairs)
            index += 2 * len(pairs)
        else:
            yield block[index]
            index += 1


def _pair(block: Block, index: int) -> tuple[SetScalar, Instruction] | None:
    if index + 1 >= len(block):
        return None
    load, store = block[index], block[index + 1]
    if not isinstance(load, SetScalar) or not isinstance(store, Instruction) or store.row is not STORE_ELEMENT:
        return None
    source, target = load.value, store.outputs[0]
    if not isinstance(source, Access) or source.dtype != target.dtype or load.dtype != source.dtype:
        return None
    if source.buffer is target.buffer or _register(store.immediates[0]) != load.slot:
        return None
    return (load, store) if _inside(source) and _inside(target) else None


def _inside(access: Access) -> bool:
    """Whether a constant place lies in its buffer, so that no bounds need checking when it runs."""
    return isinstance(access.offset, int) and 0 <= access.offset < access.buffer.size


def _together(a: tuple[SetScalar, Instruction], b: tuple[SetScalar, Instruction]) -> bool:
    same_source = a[0].value.buffer is b[0].value.buffer
    return same_source and a[1].outputs[0].buffer is b[1].outputs[0].buffer


def _register(value: Any) -> int | None:
    """The slot of a value that is one register and nothing else."""
    if isinstance(value, Expr) and len(value.terms) == 1 and not value.const and value.terms[0][1] == 1:
        atom = value.terms[0][0]
        return atom.slot if isinstance(atom, Variable) else None
    return None


def fill_loop(loop: Loop) -> Any:
    """A fill loop as a function of the registers, None for any other loop."""
    if len(loop.body) != 2 or loop.block_num > 1:
        return None
    load, fill = loop.body
    if not isinstance(load, SetScalar) or not isinstance(fill, Instruction) or not isinstance(load.value, Access):
        return None
    source, target = load.value, fill.outputs[0]
    step, spacing = _advance(source.offset, loop.slot), _advance(target.offset, loop.slot)
    size = int(np.prod(target.shape)) if all(isinstance(n, int) for n in target.shape) else 0
    whole = fill.row is WHOLE_ROWS["h_duplicate"] and source.dtype == load.dtype == target.dtype
    if not whole or _register(fill.immediates[0]) != load.slot or source.buffer is target.buffer:
        return None
    if not step or not spacing or step < 0 or not 0 < size <= spacing or not _dense(target):
        return None
    values, places = flat(source.buffer, source.dtype), flat(target.buffer, target.dtype)
    start, stop = getter(loop.start), getter(loop.stop)
    value_at, place_at = getter(source.offset), getter(target.offset)
    slot, register = loop.slot, load.slot

    def fill_rows(r: Registers) -> bool:
        first, count = start(r), stop(r) - start(r)
        if count < 1:
            return True
        r[slot] = first
        low, at = value_at(r), place_at(r)
        if (
            low < 0
            or at < 0
            or low + (count - 1) * step >= values.size
            or at + (count - 1) * spacing + size > places.size
        ):
            return False
        taken = values[low : low + (count - 1) * step + 1 : step]
        rows = np.ndarray(
            (count, size), places.dtype, places, at * places.itemsize, (spacing * places.itemsize, places.itemsize)
        )
        rows[...] = taken[:, None]
        r[slot], r[register] = first + count - 1, taken[-1].item()
        return True

    return fill_rows


def _advance(offset: Any, slot: int) -> int | None:
    """How far an offset moves with each turn of the loop over ``slot``; None where that is not constant."""
    if not isinstance(offset, Expr):
        return None
    distance = 0
    for atom, factor in offset.terms:
        if not isinstance(atom, Variable):
            return None
        distance += factor if atom.slot == slot else 0
    return distance


def _dense(access: Access) -> bool:
    """Whether the accessed elements lie one after the other."""
    expected = 1
    for size, stride in zip(reversed(access.shape), reversed(access.strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
