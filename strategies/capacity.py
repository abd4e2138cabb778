"""Blocks without tails, as large as UB allows."""

from __future__ import annotations

from typing import Iterable, Iterator, List, Tuple

from autotune.hardware import Hardware
from autotune.plan import TILE, CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies import limits
from autotune.strategies.core_split import block_num, distinct_rules
from autotune.strategies.lattice import PUBLIC_CHIP
from autotune.strategies.registry import TilingPara, TilingStrategy

MOST_BLOCKS = 6
"""Blocks proposed for a problem: a long sequence has many divisors, and the small ones are not worth a trial."""


class CapacityTiling(TilingStrategy):
    """For each Br that divides the padded Nq, the largest Bc that divides the padded N and leaves room in UB.

    A tail costs as many instructions as a whole block, and each further block costs vector start-ups and another pass
    over O: so whole blocks, and few of them. Order: largest block first. Room: S of a block (Br x Bc) and its O
    (Br x head_dim, and 16 columns for the row sums) in fp32, which a forward kernel holds from the cube's result to
    the next key block; and every limit of ``limits.py``. Source: the buffer arithmetic of davinci_timing.md section 4.
    """

    @classmethod
    def strategy_name(cls) -> str:
        return "capacity"

    def tiling(self) -> TilingPara:
        """The first plan on the Ascend 910A, for our kernels."""
        problem = AttentionProblem("flash_attention", 1, 1, self.Nq, self.N, self.d)
        return next(iter(self.plans(problem, PUBLIC_CHIP))).tiling(problem)

    @classmethod
    def plans(cls, problem: AttentionProblem, hardware: Hardware) -> Iterable[TilingPlan]:
        blocks = sorted(_largest(problem, hardware), key=lambda block: (-block[0] * block[1], -block[0]))
        for Br, Bc in blocks[:MOST_BLOCKS]:
            for rule in distinct_rules(problem, Br, Bc, hardware):
                split = CoreSplit(rule, block_num(problem, Br, Bc, hardware))
                yield TilingPlan(Br, Bc, split, strategy=cls.strategy_name())


def largest_key_block(problem: AttentionProblem, Br: int, hardware: Hardware) -> int:
    """The largest Bc that divides the padded N and leaves room for blocks of Br query rows; 0 where there is none."""
    return max((Bc for Bc in _whole_blocks(problem.N, hardware) if _has_room(problem, Br, Bc, hardware)), default=0)


def _largest(problem: AttentionProblem, hardware: Hardware) -> Iterator[Tuple[int, int]]:
    for Br in _whole_blocks(problem.Nq, hardware):
        Bc = largest_key_block(problem, Br, hardware)
        if Bc:
            yield Br, Bc


def _whole_blocks(length: int, hardware: Hardware) -> List[int]:
    """Heights that divide the padded length."""
    return [
        height for height in range(TILE, limits.longest_side(length, hardware) + 1, TILE) if pad(length) % height == 0
    ]


def _has_room(problem: AttentionProblem, Br: int, Bc: int, hardware: Hardware) -> bool:
    scores_and_output = limits.FP32 * Br * (Bc + pad(problem.head_dim) + TILE)
    fits = not hardware.ub_bytes or scores_and_output <= hardware.ub_bytes
    return fits and not limits.broken(problem, Br, Bc, hardware)
