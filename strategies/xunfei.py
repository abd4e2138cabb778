"""The strategy that the public kernels keep for another customer's models."""

from __future__ import annotations

from autotune.strategies.sparse import SparseTiling


class XunfeiTiling(SparseTiling):
    """The blocks of ``sparse`` under a second public name, kept so that models that ask for it find it.

    Source: the rule of ``xunfei_tiling`` (davinci_timing.md section 4).
    """

    @classmethod
    def strategy_name(cls) -> str:
        return "xunfei"
