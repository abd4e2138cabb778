"""The search space: every block on the 16-grid that may fit the chip."""

from __future__ import annotations

from itertools import product
from typing import Iterable, Iterator, Tuple

from autotune.hardware import Hardware
from autotune.plan import TILE, CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies import limits
from autotune.strategies.core_split import block_num, distinct_rules
from autotune.strategies.registry import SPACE, TilingPara, TilingStrategy

PUBLIC_CHIP = Hardware("Ascend910A", 32, 1000, 262144, 1048576, 65536, 65536, 262144)
"""The chip of the public kernels, whose interface says nothing of the chip (davinci_timing.md 1.1)."""


class LatticeTiling(TilingStrategy):
    """Every (Br, Bc) on the 16-grid that fits UB, L1 and L0, with each core split and K/V buffering.

    The cube multiplies 16 x 16 x 16 tiles, so a block side that is no multiple of 16 only wastes its last tile.
    Order: largest block first (by Br*Bc, then by Br), since a large block reads the keys less often; then the core
    splits that differ, then one K/V buffer before two.
    """

    role = SPACE

    @classmethod
    def strategy_name(cls) -> str:
        return "lattice"

    def tiling(self) -> TilingPara:
        """The first plan on the Ascend 910A, for our kernels; the public ones need more room."""
        problem = AttentionProblem("flash_attention", 1, 1, self.Nq, self.N, self.d)
        return next(iter(self.plans(problem, PUBLIC_CHIP))).tiling(problem)

    @classmethod
    def plans(cls, problem: AttentionProblem, hardware: Hardware) -> Iterable[TilingPlan]:
        for Br, Bc in sorted(blocks(problem, hardware), key=lambda block: (-block[0] * block[1], -block[0])):
            cores = block_num(problem, Br, Bc, hardware)
            for rule, double_buffer in product(distinct_rules(problem, Br, Bc, hardware), (False, True)):
                if not limits.broken(problem, Br, Bc, hardware, double_buffer):
                    yield TilingPlan(Br, Bc, CoreSplit(rule, cores), double_buffer, cls.strategy_name())


def blocks(problem: AttentionProblem, hardware: Hardware) -> Iterator[Tuple[int, int]]:
    """The (Br, Bc) that keep every limit with one K/V buffer; needs grow with both sides, so a row ends at a break."""
    for Br in range(TILE, pad(problem.Nq) + 1, TILE):
        for Bc in range(TILE, pad(problem.N) + 1, TILE):
            if limits.broken(problem, Br, Bc, hardware):
                break
            yield Br, Bc
        if limits.broken(problem, Br, TILE, hardware):
            return
