"""The plan that the service has for the problem."""

from __future__ import annotations

from typing import Iterable

from autotune import client
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, TilingPlan, pad
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import RULES, block_num, public_rule
from autotune.strategies.registry import ON_REQUEST, TilingPara, TilingStrategy


class TunedTiling(TilingStrategy):
    """The plan that the service at AUTOTUNE_URL answers, or the default with a warning.

    Not pure, unlike every other strategy: its plan changes when the service learns a better one. So a sweep asks it
    only by name, for instance to start from what another machine's service knows.
    """

    role = ON_REQUEST

    @classmethod
    def strategy_name(cls) -> str:
        return "tuned"

    def tiling(self) -> TilingPara:
        """The tiling of one head on the Ascend 910A."""
        return TilingPara(*client.best((1, 1, self.Nq, self.N, self.d)).tiling)

    @classmethod
    def plans(cls, problem: AttentionProblem, hardware: Hardware) -> Iterable[TilingPlan]:
        served = client.best(device=hardware.name, **problem.to_json())
        Br, Bc = pad(served.Br), pad(served.Bc)
        served_rule = served.core_split.rule if served.core_split else ""
        rule = served_rule if served_rule in RULES else public_rule(problem, Br, Bc, hardware)
        split = CoreSplit(rule, block_num(problem, Br, Bc, hardware))
        yield TilingPlan(Br, Bc, split, served.double_buffer, cls.strategy_name())
