"""What hazards are tracked by: parts of a buffer, where a program uses its parts one by one.

A buffer is cut at the ends of all its accesses with constant places; a ring of slices then counts as several
buffers. An access at a symbolic place touches the whole buffer, unless the place repeats (it has a remainder in it),
as in a ring that a loop goes around. Strided accesses count from their first to their last byte.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from autotune.kernels.davinci.expr import Expr, Operation, Registers, Value
from autotune.kernels.davinci.memory import GM, SIZES, Buffer
from autotune.kernels.davinci.operands import getter
from autotune.kernels.davinci.program import Access, Instruction, SetScalar, Statement

Key = Any
"""A buffer's id, or a tuple of it with the number of a copy, of a part, or of both."""
Keys = tuple[Key, ...]

MOST_PARTS = 32
"""A buffer with more parts is tracked as a whole: scattered single elements are no ring."""


class Regions:
    """The parts of every buffer of a program."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        cuts: dict[Buffer, set[int]] = {}
        self._bounds: dict[int, tuple[int, int]] = {}
        for access in _accesses(statements):
            known = cuts.get(access.buffer)
            if access.buffer.scope == GM or (known is not None and len(known) > MOST_PARTS + 1):
                continue
            bounds = _constant_bounds(access)
            if bounds is not None:
                self._bounds[id(access)] = bounds
                cuts.setdefault(access.buffer, {0, access.buffer.nbytes}).update(bounds)
        self._cuts = {buffer: sorted(ends) for buffer, ends in cuts.items() if 2 < len(ends) <= MOST_PARTS + 1}

    def all_keys(self, buffer: Buffer) -> Keys:
        """Every key under which a buffer can be tracked."""
        parts = range(len(self._cuts[buffer]) - 1) if buffer in self._cuts else None
        turns = range(buffer.copies) if buffer.turn is not None else None
        if parts is None and turns is None:
            return (id(buffer),)
        return tuple(_key(buffer, turn, part) for turn in turns or (None,) for part in parts or (None,))

    def bytes_of(self, buffer: Buffer, copy_bytes: int) -> dict[Key, tuple[int, int]]:
        """First and end byte of every key's part, from the start of a buffer whose copies lie copy_bytes apart."""
        ends = self._cuts.get(buffer, [0, copy_bytes])
        starts = range(0, copy_bytes * (buffer.copies if buffer.turn is not None else 1), copy_bytes)
        places = [(start + low, start + high) for start in starts for low, high in pairwise(ends)]
        return dict(zip(Regions.all_keys(self, buffer), places))

    def decides(self, access: Access) -> tuple[Value, ...]:
        """Symbolic numbers that choose the copy and the parts an access touches."""
        symbolic = (access.buffer.turn,) if access.buffer.turn is not None else ()
        return (*symbolic, access.offset) if self._moves(access) else symbolic

    def keys(self, access: Access) -> Keys | Callable[[Registers], Keys]:
        """What an access touches; a function of the registers where that is symbolic."""
        buffer, cuts = access.buffer, self._cuts.get(access.buffer)
        if cuts is None:
            if buffer.turn is None:
                return (id(buffer),)
            turn_of = getter(buffer.turn)
            return lambda r: (_key(buffer, turn_of(r), None),)
        place = self._parts(access, cuts)
        if buffer.turn is None and not callable(place):
            return tuple(_key(buffer, None, part) for part in place)
        parts_of = place if callable(place) else lambda r: place
        turn_of = getter(buffer.turn) if buffer.turn is not None else lambda r: None
        return lambda r: tuple([_key(buffer, turn_of(r), part) for part in parts_of(r)])

    def _moves(self, access: Access) -> bool:
        return access.buffer in self._cuts and id(access) not in self._bounds and _repeats(access)

    def _parts(self, access: Access, cuts: list[int]) -> Any:
        bounds = self._bounds.get(id(access))
        if bounds is not None:
            return range(bisect_right(cuts, bounds[0]) - 1, bisect_left(cuts, bounds[1]))
        if not self._moves(access):
            return range(len(cuts) - 1)
        size = SIZES[access.dtype]
        first, length = getter(access.offset), _extent(access) * size

        def parts(r: Registers) -> range:
            low = first(r) * size
            return range(max(bisect_right(cuts, low) - 1, 0), min(bisect_left(cuts, low + length), len(cuts) - 1))

        return parts


def _key(buffer: Buffer, turn: int | None, part: int | None) -> Key:
    return (id(buffer), turn, part)


def _accesses(statements: Iterable[Statement]) -> Iterable[Access]:
    for statement in statements:
        if isinstance(statement, Instruction):
            yield from (*statement.outputs, *statement.inputs)
        elif isinstance(statement, SetScalar) and isinstance(statement.value, Access):
            yield statement.value


def _extent(access: Access) -> int:
    """Elements from the first to behind the last that an access with constant shape touches."""
    last = 0
    for size, stride in zip(access.shape, access.strides):
        last += (size - 1) * stride
    return last + 1


def _sized(access: Access) -> bool:
    for number in (*access.shape, *access.strides):
        if isinstance(number, Expr):
            return False
    return 0 not in access.shape


def _constant_bounds(access: Access) -> tuple[int, int] | None:
    """First and end byte, None where they are symbolic or outside the buffer."""
    if not isinstance(access.offset, int) or not _sized(access):
        return None
    size = SIZES[access.dtype]
    low, high = access.offset * size, (access.offset + _extent(access)) * size
    return (low, high) if 0 <= low < high <= access.buffer.nbytes else None


def _repeats(access: Access) -> bool:
    """Whether a symbolic place comes around again: it has a remainder in it."""
    return _sized(access) and _has_remainder(access.offset)


def _has_remainder(value: Value) -> bool:
    if not isinstance(value, Expr):
        return False
    return any(
        isinstance(atom, Operation) and (atom.symbol == "%" or any(map(_has_remainder, atom.operands)))
        for atom, _ in value.terms
    )
