"""How fast GM answers: what the active cores share of DDR and L2, and which bytes are in L2.

The rule is simple. Where all GM tensors of a kernel fit in L2 together, the first touch of a byte comes from DDR, if no
earlier launch left it in L2, and any other from L2. So of what the reads of a tensor move, the part (its bytes) /
(bytes moved) comes from DDR; every move of a tensor is slowed alike. Where they do not fit, any touch finds its byte in
L2 with the chance that L2 holds of them: half of the time where they are twice as large. How close in time a reuse is
counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.kernels.davinci.memory import Buffer
from autotune.kernels.davinci.program import Program


@dataclass(frozen=True, eq=False)
class Supply:
    """DDR and L2 as one core sees them.

    ddr, l2: a core's share of their bandwidth as (cycles, bytes). held: per mille of the kernel's GM tensors that L2
    holds. moved: bytes that all cores' reads of a GM tensor move; what is not in it needs no first touch.
    """

    ddr: tuple[int, int]
    l2: tuple[int, int]
    held: int
    moved: Mapping[Buffer, int] = field(default_factory=dict)

    def first(self, buffer: Buffer) -> int:
        """Per mille of a tensor's reads that come from DDR."""
        moved = self.moved.get(buffer, 0)
        touched = min(1000, 1000 * buffer.nbytes // moved) if moved else 0
        return 1000 - (1000 - touched) * self.held // 1000


def supply(program: Program, numbers: Mapping[str, int], moved: Mapping[Buffer, int]) -> Supply:
    """What each active core of a program's chip has of its memory, whose bandwidths are ``numbers``."""
    soc, tensors = program.soc, _bytes(program)
    active = min(program.block_num, soc.cores) * soc.clock_mhz
    held = 1000 if fits(program) else 1000 * soc.l2_bytes // tensors
    return Supply(_share(numbers["ddr_bandwidth"], active), _share(numbers["l2_bandwidth"], active), held, moved)


def fits(program: Program) -> bool:
    """Whether L2 holds all GM tensors of a program together."""
    return _bytes(program) <= program.soc.l2_bytes


def _bytes(program: Program) -> int:
    return sum(buffer.nbytes for buffer in program.global_buffers)


def _share(gigabytes_per_second: int, active_megahertz: int) -> tuple[int, int]:
    """Without a bandwidth there is no limit."""
    return (active_megahertz, gigabytes_per_second * 1000) if gigabytes_per_second else (0, 1)
