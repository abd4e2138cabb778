"""Row blocks of a height that fills the cores evenly."""

from __future__ import annotations

from typing import Iterable, Iterator, List, Tuple

from autotune.hardware import Hardware
from autotune.plan import TILE, CoreSplit, TilingPlan, ceil_div
from autotune.problem import AttentionProblem
from autotune.strategies.capacity import largest_key_block
from autotune.strategies.core_split import block_num, distinct_rules
from autotune.strategies.lattice import PUBLIC_CHIP
from autotune.strategies.limits import longest_side
from autotune.strategies.registry import TilingPara, TilingStrategy

MOST_BLOCKS = 4
"""Blocks proposed for a problem; the larger ones of those that fill the cores."""
ENOUGH = 0.97
"""Share of the fullest block's filling that a block needs: the rest is worth less than a larger block."""


class OccupancyTiling(TilingStrategy):
    """The heights whose row blocks fill the cores evenly, each with the largest key block that has room.

    The cores work in waves: with 33 row blocks on 32 cores, 31 cores wait for the second wave. For each number of waves
    the least Br whose row blocks make do with them; of these the ones that fill the cores about as well as the best
    (query rows there are, over cores x waves x Br), largest block first. Bc as in ``capacity``. Masks do not count
    here: they are the core split's business. Nothing for the backward op, which deals key blocks to the cores.
    """

    @classmethod
    def strategy_name(cls) -> str:
        return "occupancy"

    def tiling(self) -> TilingPara:
        """The first plan on the Ascend 910A, for our kernels, for one head."""
        problem = AttentionProblem("flash_attention", 1, 1, self.Nq, self.N, self.d)
        return next(iter(self.plans(problem, PUBLIC_CHIP))).tiling(problem)

    @classmethod
    def plans(cls, problem: AttentionProblem, hardware: Hardware) -> Iterable[TilingPlan]:
        if problem.op == "flash_attention_grad":
            return
        for Br, Bc in _fullest(problem, hardware)[:MOST_BLOCKS]:
            for rule in distinct_rules(problem, Br, Bc, hardware):
                split = CoreSplit(rule, block_num(problem, Br, Bc, hardware))
                yield TilingPlan(Br, Bc, split, strategy=cls.strategy_name())


def _fullest(problem: AttentionProblem, hardware: Hardware) -> List[Tuple[int, int]]:
    rows = {Br: Br * _waves(problem, Br, hardware) for Br in _heights(problem, hardware)}
    blocks = [(Br, largest_key_block(problem, Br, hardware)) for Br in rows]
    fitting = [(Br, Bc) for Br, Bc in blocks if Bc]
    fewest = min((rows[Br] for Br, _ in fitting), default=0)
    full = [(Br, Bc) for Br, Bc in fitting if ENOUGH * rows[Br] <= fewest]
    return sorted(full, key=lambda block: (-block[0] * block[1], -block[0]))


def _waves(problem: AttentionProblem, Br: int, hardware: Hardware) -> int:
    """Row blocks of the busiest core."""
    return ceil_div(problem.heads_total * ceil_div(problem.Nq, Br), hardware.cores)


def _heights(problem: AttentionProblem, hardware: Hardware) -> Iterator[int]:
    """From the largest down, the least Br for each number of waves that occurs."""
    waves = {Br: _waves(problem, Br, hardware) for Br in range(longest_side(problem.Nq, hardware), 0, -TILE)}
    least = {count: Br for Br, count in waves.items()}
    yield from least.values()
