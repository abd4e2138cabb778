"""Which plans a sweep may try, in which order, and how large they are to the search."""

from collections.abc import Iterable, Iterator

import pytest

from autotune.candidates import candidates, coordinates, takes_more_room
from autotune.errors import PlanRejected
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import RULES
from autotune.strategies.registry import TilingPara, TilingStrategy
from tests.sweep.synthetic import CHIP

PROBLEM = AttentionProblem.of((1, 4, 512, 512, 64))


def anything(problem: AttentionProblem, plan: TilingPlan) -> None:
    """Accepts every plan."""


def at_most_64(problem: AttentionProblem, plan: TilingPlan) -> None:
    if max(plan.Br, plan.Bc) > 64:
        raise PlanRejected("more than 64")


@pytest.fixture
def foreign() -> Iterator[None]:
    """A strategy of somebody else, for as long as a test runs."""

    class Foreign(TilingStrategy):
        @classmethod
        def strategy_name(cls) -> str:
            return "foreign"

        def tiling(self) -> TilingPara:
            return TilingPara(64, 64, 64, 64, 8, 8)

        @classmethod
        def plans(cls, problem: AttentionProblem, hardware: Hardware) -> Iterable[TilingPlan]:
            yield TilingPlan(32, 32, CoreSplit("even", 1), strategy="foreign")
            yield TilingPlan(32, 64, CoreSplit("diagonal", 1), strategy="foreign")

    yield
    del TilingStrategy._strategies["foreign"]


def test_proposals_come_first_the_default_before_all() -> None:
    found = candidates(PROBLEM, CHIP, (), anything)
    assert found.first[0] == found.default == "Br=128;Bc=128;split=even/4"
    assert "Br=64;Bc=64;split=even/4" in found.first
    assert len(found.first) < 10
    assert found.plans[found.default].strategy == "sparse"
    assert len(found.plans) > 100


def test_check_filters_the_space_and_leaves_proposals() -> None:
    found = candidates(PROBLEM, CHIP, ("lattice",), at_most_64)
    assert found.first == (found.default,)
    assert {(p.Br, p.Bc) for p in found.plans.values()} == {
        (128, 128),
        *((Br, Bc) for Br in (16, 32, 48, 64) for Bc in (16, 32, 48, 64)),
    }


@pytest.mark.usefixtures("foreign")
def test_foreign_plans_get_the_cores_of_their_rule_and_unknown_rules_a_warning() -> None:
    found = candidates(PROBLEM, CHIP, ("foreign",), anything)
    assert list(found.plans) == ["Br=128;Bc=128;split=even/4", "Br=32;Bc=32;split=even/4"]
    [warning] = found.warnings
    assert warning == f"strategy 'foreign' asks for the core split 'diagonal'; known: {', '.join(RULES)}"


def test_coordinates_are_the_knobs_and_the_rule() -> None:
    plan = TilingPlan(128, 256, CoreSplit("balanced", 32), double_buffer=True, strategy="lattice")
    knobs = {"double_buffer": True, "slice_rows": 128, "exp": "float32", "core_split": "balanced"}
    assert coordinates(plan) == {"Br": 128, "Bc": 256, **knobs}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (TilingPlan(128, 272), True),
        (TilingPlan(144, 256), True),
        (TilingPlan(128, 256, double_buffer=True), True),
        (TilingPlan(256, 256, slice_rows=128), True),
        (TilingPlan(256, 256, slice_rows=64), False),
        (TilingPlan(128, 256, exp="float16"), False),
        (TilingPlan(112, 512), False),
        (TilingPlan(512, 240), False),
        (TilingPlan(512, 512, CoreSplit("balanced")), False),
    ],
)
def test_what_takes_more_room_than_128_x_256(other: TilingPlan, expected: bool) -> None:
    assert takes_more_room(coordinates(TilingPlan(128, 256)), coordinates(other)) is expected
