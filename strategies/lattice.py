"""The search space: every block on the 16-grid that may fit the chip."""

from __future__ import annotations

from itertools import chain, product
from typing import Iterable, Iterator, List, Tuple

from autotune.hardware import Hardware
from autotune.plan import EXPONENTIALS, TILE, CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies import limits
from autotune.strategies.core_split import block_num, distinct_rules
from autotune.strategies.registry import SPACE, TilingPara, TilingStrategy

PUBLIC_CHIP = Hardware("Ascend910A", 32, 1000, 262144, 1048576, 65536, 65536, 262144)
"""The chip of the public kernels, whose interface says nothing of the chip (davinci_timing.md 1.1)."""


SLICES = (0, 64, 128)
"""Slice heights tried where they divide Br: such rows fill long instructions and leave room in UB for many keys."""


class LatticeTiling(TilingStrategy):
    """Every (Br, Bc) of a grid that fits UB, L1 and L0, with each core split and each knob of the kernel.

    The cube multiplies 16 x 16 x 16 tiles, so sides are multiples of 16; the grid is finest where a step is a large
    part of the block. Order: largest block first (by Br*Bc, then by Br), since a large block reads the keys less
    often; then the core splits that differ, slice heights, the fp32 exponential before fp16, one K/V buffer before two.
    A chip without on-chip memories (a CPU) has none of these knobs, and blocks up to ``limits.MOST_SIDE`` each way.
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
        on_chip = hardware.ub_bytes > 0
        forward = problem.op == "flash_attention"
        masks_are_borders = problem.attn_mask in ("none", "causal") and not (problem.window or problem.block_window)
        half = (not forward or masks_are_borders) and not problem.high_precision and on_chip
        for Br, Bc in sorted(blocks(problem, hardware), key=lambda block: (-block[0] * block[1], -block[0])):
            cores = block_num(problem, Br, Bc, hardware)
            slices = [rows for rows in (SLICES if forward and on_chip else (0,)) if rows < Br and not Br % (rows or Br)]
            rules = distinct_rules(problem, Br, Bc, hardware)
            exps = EXPONENTIALS if half else ("float32",)
            for rule, rows, exp, double in product(rules, slices, exps, (False, True)[: 1 + on_chip]):
                if not limits.broken(problem, Br, Bc, hardware, double, rows):
                    split = CoreSplit(rule, cores)
                    yield TilingPlan(Br, Bc, split, double, cls.strategy_name(), slice_rows=rows, exp=exp)


def blocks(problem: AttentionProblem, hardware: Hardware) -> Iterator[Tuple[int, int]]:
    """The (Br, Bc) of the grid that keep every limit with one K/V buffer and one of the slice heights."""
    for Br in sides(problem.Nq, hardware):
        for Bc in sides(problem.N, hardware):
            if any(not limits.broken(problem, Br, Bc, hardware, slice_rows=rows) for rows in SLICES if rows < Br):
                yield Br, Bc


def sides(length: int, hardware: Hardware) -> List[int]:
    """Heights of a block: multiples of 16 up to 64, of 32 up to 256, of 64 up to 1024, and the longest there is."""
    longest = limits.longest_side(length, hardware)
    grid = chain(range(TILE, 65, TILE), range(96, 257, 2 * TILE), range(320, 1025, 4 * TILE))
    return sorted({height for height in grid if height <= longest} | {longest})
