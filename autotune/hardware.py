"""What a strategy may know of a chip. Standard library only, Python 3.8 syntax."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping


@dataclass(frozen=True)
class Hardware:
    """Sizes of one chip's memories (bytes, per core), its cores and its clock (MHz).

    A chip without one of the on-chip memories (a CPU) has 0 there, which means: no such limit.
    """

    name: str
    cores: int
    clock_mhz: int
    ub_bytes: int = 0
    l1_bytes: int = 0
    l0a_bytes: int = 0
    l0b_bytes: int = 0
    l0c_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Field names to values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Hardware:
        """The inverse of ``to_json``."""
        return cls(**value)
