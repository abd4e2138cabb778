"""How fast GM answers: what the active cores share of DDR and L2, and which bytes are in L2.

The rule is simple. Where all GM tensors of a kernel fit in L2 together, the first touch of a byte comes from DDR and
every other from L2, so that of what a tensor's reads move, the part (its bytes) / (bytes moved) is slow; every move of
a tensor is slowed alike. Where they do not fit, everything goes to DDR: reuse that is close in time is not credited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.kernels.davinci.memory import Buffer
from autotune.kernels.davinci.program import Program


@dataclass(frozen=True, eq=False)
class Supply:
    """DDR and L2 as one core sees them.

    ddr, l2: a core's share of their bandwidth as (cycles, bytes). resident: whether the kernel's GM tensors fit in L2.
    moved: bytes that all cores' reads of a GM tensor move; where they fit, a tensor that is not in it is in L2 already.
    """

    ddr: tuple[int, int]
    l2: tuple[int, int]
    resident: bool
    moved: Mapping[Buffer, int] = field(default_factory=dict)

    def first(self, buffer: Buffer) -> int:
        """Per mille of a tensor's reads that come from DDR."""
        if not self.resident:
            return 1000
        moved = self.moved.get(buffer, 0)
        return min(1000, 1000 * buffer.nbytes // moved) if moved else 0


def supply(program: Program, numbers: Mapping[str, int], moved: Mapping[Buffer, int]) -> Supply:
    """What each active core of a program's chip has of its memory, whose bandwidths are ``numbers``."""
    soc = program.soc
    active = min(program.block_num, soc.cores) * soc.clock_mhz
    return Supply(
        _share(numbers["ddr_bandwidth"], active), _share(numbers["l2_bandwidth"], active), resident(program), moved
    )


def _share(gigabytes_per_second: int, active_megahertz: int) -> tuple[int, int]:
    """Without a bandwidth there is no limit."""
    return (active_megahertz, gigabytes_per_second * 1000) if gigabytes_per_second else (0, 1)


def resident(program: Program) -> bool:
    """Whether all GM tensors of a kernel fit in L2 together."""
    return sum(buffer.nbytes for buffer in program.global_buffers) <= program.soc.l2_bytes
