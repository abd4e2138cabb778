"""The public strategy for one image model's self and cross attention."""

from __future__ import annotations

from autotune.strategies.registry import TilingPara, TilingStrategy

TEXT_LENGTH = 77
"""Tokens of the text encoder that the cross attention of image models reads."""


class WukongTiling(TilingStrategy):
    """64 x 64 blocks; all keys in one block where there are at most 77, as in cross attention with a text.

    Small blocks leave room in UB for wide heads (up to 160). ``tiling`` gives the public numbers with their faults
    (public_kernel_faults.md, row 4 and S8): counts are rounded down, so tails are dropped, and at N = 256 one key
    block of the four is visited. ``plans`` keeps the blocks and has no such fault, since tails follow from the problem.
    """

    @classmethod
    def strategy_name(cls) -> str:
        return "wukong"

    def tiling(self) -> TilingPara:
        if self.N <= TEXT_LENGTH:
            Br, Bc, Tc = min(self.Nq, 64), self.N, 1
        else:
            Br, Bc, Tc = 64, 64, 1 if self.N == 256 else self.N // 64
        return TilingPara(Br, Br, Bc, Bc, self.Nq // Br, Tc)
