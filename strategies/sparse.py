"""The default strategy of the public kernels."""

from __future__ import annotations

from autotune.plan import ceil_div
from autotune.strategies.registry import TilingPara, TilingStrategy


class SparseTiling(TilingStrategy):
    """128 x 128 blocks with real tails, whatever the head dimension: the default of the public kernels.

    128 is the side of the blocks in which the public kernels count their sparse windows, hence the name.
    Source: the rule of ``sparse_tiling`` (davinci_timing.md section 4).
    """

    @classmethod
    def strategy_name(cls) -> str:
        return "sparse"

    def tiling(self) -> TilingPara:
        Br, Bc = min(128, self.Nq), min(128, self.N)
        Tr, Tc = ceil_div(self.Nq, Br), ceil_div(self.N, Bc)
        return TilingPara(Br, self.Nq - (Tr - 1) * Br, Bc, self.N - (Tc - 1) * Bc, Tr, Tc)
