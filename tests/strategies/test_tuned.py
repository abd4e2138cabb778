"""Our own strategy ``tuned``: the served plan, made legal for our kernels."""

from __future__ import annotations

from typing import Any

import pytest

from autotune import client
from autotune.hardware import Hardware
from autotune.problem import AttentionProblem
from autotune.strategies.registry import TilingStrategy
from autotune.strategies.tuned import TunedTiling

CHIP = Hardware("Ascend310P3", 8, 1060)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers every question with 48 x 77 blocks and remembers it."""
    question: dict[str, Any] = {}
    served = client.TunedPlan(48, 4, 77, 77, 3, 1, client.CoreSplit("balanced", 30), "service", "exact", True)

    def best(shape: Any, **options: Any) -> client.TunedPlan:
        question.update(shape=shape, **options)
        return served._replace(core_split=client.CoreSplit(question.get("rule", "balanced"), 30))

    monkeypatch.setattr(client, "best", best)
    return question


def test_the_whole_problem_is_asked(asked: dict[str, Any]) -> None:
    problem = AttentionProblem.of((1, 1, 100, 77, 40), attn_mask="causal", window=(511, 0))
    list(TunedTiling.plans(problem, CHIP))
    assert asked["shape"] == [1, 1, 100, 77, 40] and asked["device"] == "Ascend310P3"
    assert (asked["attn_mask"], asked["window"], asked["dropout"]) == ("causal", [511, 0], False)


def test_blocks_are_whole_tiles_and_the_cores_those_of_the_chip(asked: dict[str, Any]) -> None:
    problem = AttentionProblem.of((2, 8, 100, 77, 40))
    (plan,) = TilingStrategy.from_strategy_name("tuned").plans(problem, CHIP)
    plan.check_lengths(problem)
    assert (plan.Br, plan.Bc, plan.double_buffer, plan.strategy) == (48, 80, True, "tuned")
    assert (plan.core_split.rule, plan.core_split.block_num) == ("balanced", 8)


def test_a_split_rule_that_is_unknown_here_is_replaced(asked: dict[str, Any]) -> None:
    asked["rule"] = "striped"
    (plan,) = TunedTiling.plans(AttentionProblem.of((2, 8, 100, 77, 40)), CHIP)
    assert plan.core_split.rule == "even"


def test_the_public_interface_asks_for_one_head(asked: dict[str, Any]) -> None:
    assert tuple(TunedTiling(100, 77, 40).tiling()) == (48, 4, 77, 77, 3, 1)
    assert asked["shape"] == (1, 1, 100, 77, 40)
