"""Hazards by address: tensors that lie at the same place one after the other wait for each other's users."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from autotune.kernels.davinci.expr import Registers
from autotune.kernels.davinci.memory import GM, Buffer, charged_bytes
from autotune.kernels.davinci.program import Access, Declare, Statement
from autotune.kernels.davinci.regions import Key, Keys, Regions


class Addresses(Regions):
    """The regions of a program's tensors, each as the pieces of its memory that it lies on.

    A local memory is cut at the ends of all regions in it; tensors are laid out as the recorder charges them.
    """

    def __init__(self, statements: Iterable[Statement]) -> None:
        known = list(statements)
        super().__init__(known)
        spans: dict[Key, tuple[str, int, int]] = {}
        for statement in known:
            if isinstance(statement, Declare):
                spans.update(self._spans(statement.buffer))
        ends: dict[str, set[int]] = {}
        for scope, low, high in spans.values():
            ends.setdefault(scope, set()).update((low, high))
        places = {scope: sorted(found) for scope, found in ends.items()}
        self._pieces: dict[Key, Keys] = {
            key: tuple([(scope, i) for i in range(bisect_left(places[scope], low), bisect_left(places[scope], high))])
            for key, (scope, low, high) in spans.items()
        }

    def all_keys(self, buffer: Buffer) -> Keys:
        """Every key under which a buffer can be tracked."""
        return self._on(super().all_keys(buffer))

    def keys(self, access: Access) -> Keys | Callable[[Registers], Keys]:
        """What an access touches; a function of the registers where that is symbolic."""
        found = super().keys(access)
        if not callable(found):
            return self._on(found)
        of = found
        return lambda r: self._on(of(r))

    def _on(self, keys: Keys) -> Keys:
        return tuple([piece for key in keys for piece in self._pieces.get(key, (key,))])

    def _spans(self, buffer: Buffer) -> dict[Key, tuple[str, int, int]]:
        """By the keys of the plain regions: memory, first and end byte."""
        if buffer.scope == GM:
            return {}
        return {
            key: (buffer.scope, buffer.address + low, buffer.address + high)
            for key, (low, high) in self.bytes_of(buffer, charged_bytes(buffer) // buffer.copies).items()
        }
