"""autotune/plan.py: what is a plan, its tails and counts on a problem, its canonical key, its JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import PlanError
from autotune.plan import CoreSplit, TilingPlan, ceil_div, pad
from autotune.problem import AttentionProblem

blocks = st.integers(1, 64).map(lambda tiles: 16 * tiles)
splits = st.builds(CoreSplit, st.sampled_from(["even", "balanced"]), st.integers(1, 65535))
plans = st.builds(
    TilingPlan, blocks, blocks, splits, st.booleans(), st.sampled_from(["", "sparse", "lattice"]),
    slice_rows=st.integers(0, 8).map(lambda tiles: 16 * tiles), exp=st.sampled_from(["float32", "float16"]),
)  # fmt: skip
lengths = st.integers(1, 1500)


def problem_of(queries: int, keys: int) -> AttentionProblem:
    return AttentionProblem.of((1, 2, queries, keys, 64))


@given(plans)
def test_json_both_ways(plan: TilingPlan) -> None:
    again = TilingPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert again.strategy == plan.strategy


def test_the_stored_form() -> None:
    assert TilingPlan(128, 256, CoreSplit("balanced", 32), strategy="lattice").to_json() == {
        "Br": 128,
        "Bc": 256,
        "core_split": {"rule": "balanced", "block_num": 32},
        "double_buffer": False,
        "slice_rows": 0,
        "exp": "float32",
        "strategy": "lattice",
    }


def test_reads_a_plan_stored_before_a_knob_was_added() -> None:
    assert TilingPlan.from_json({"Br": 128, "Bc": 64}) == TilingPlan(128, 64, CoreSplit("even", 1), False)


def test_reads_a_served_plan_with_its_derived_numbers() -> None:
    served = {"Br": 128, "last_Br": 1, "Bc": 64, "last_Bc": 2, "Tr": 3, "Tc": 4, "core_split": {"block_num": 8}}
    assert TilingPlan.from_json(served) == TilingPlan(128, 64, CoreSplit("even", 8))


@given(plans, plans)
def test_two_plans_have_one_key_exactly_when_they_are_equal(one: TilingPlan, other: TilingPlan) -> None:
    assert (one.key == other.key) == (one == other)


@given(plans)
def test_neither_the_proposer_nor_the_worked_out_split_makes_another_plan(plan: TilingPlan) -> None:
    split = CoreSplit(plan.core_split.rule, plan.core_split.block_num, (((0, 0, 1),),))
    other = replace(plan, core_split=split, strategy="somebody else")
    assert other == plan
    assert other.key == plan.key
    assert len({other, plan}) == 1


def test_keys() -> None:
    assert TilingPlan(128, 256, CoreSplit("balanced", 32)).key == "Br=128;Bc=256;split=balanced/32"
    assert TilingPlan(16, 32, double_buffer=True).key == "Br=16;Bc=32;split=even/1;double_buffer=true"


@given(plans, lengths, lengths)
def test_blocks_and_tails_cover_the_lengths_exactly(plan: TilingPlan, queries: int, keys: int) -> None:
    tiling = plan.tiling(problem_of(queries, keys))
    assert (tiling.Br, tiling.Bc) == (plan.Br, plan.Bc)
    assert (tiling.Tr - 1) * tiling.Br + tiling.last_Br == queries
    assert (tiling.Tc - 1) * tiling.Bc + tiling.last_Bc == keys
    assert 1 <= tiling.last_Br <= tiling.Br
    assert 1 <= tiling.last_Bc <= tiling.Bc


@given(plans, lengths, lengths)
def test_refuses_a_block_taller_than_the_padded_length(plan: TilingPlan, queries: int, keys: int) -> None:
    too_tall = [
        name for name, block, length in (("Br", plan.Br, queries), ("Bc", plan.Bc, keys)) if block > length + 15
    ]
    if plan.Br >= queries + 16 or plan.Bc >= keys + 16:
        with pytest.raises(PlanError, match=rf"^{too_tall[0]} is .*taller than the padded length") as caught:
            plan.check_lengths(problem_of(queries, keys))
        assert caught.value.field == too_tall[0]
    else:
        plan.check_lengths(problem_of(queries, keys))


@pytest.mark.parametrize("name", ["Br", "Bc"])
@pytest.mark.parametrize("value", [0, 8, 24, -16, 16.0, True, "128", None])
def test_refuses_a_block_that_is_no_multiple_of_16(name: str, value: Any) -> None:
    with pytest.raises(PlanError) as caught:
        TilingPlan(**{"Br": 16, "Bc": 16, name: value})
    assert str(caught.value) == f"{name} is {value!r}; it must be a multiple of 16, at least 16"
    assert caught.value.field == name


@pytest.mark.parametrize("block_num", [0, 65536, -1, 1.0, True, None])
def test_refuses_a_number_of_cores(block_num: Any) -> None:
    with pytest.raises(PlanError, match="it must be 1 to 65535") as caught:
        TilingPlan(16, 16, CoreSplit("even", block_num))
    assert caught.value.field == "block_num"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "Br"),
        ({"Br": 16}, "Bc"),
        ({"Br": 16, "Bc": 16, "Bd": 16}, "Bd"),
        ({"Br": 16, "Bc": 16, "core_split": "even"}, "core_split"),
        ({"Br": 16, "Bc": 16, "core_split": {"rule": 1}}, "core_split"),
        ({"Br": 16, "Bc": 16, "double_buffer": 1}, "double_buffer"),
        ({"Br": 16, "Bc": 16, "strategy": None}, "strategy"),
        ({"Br": 16, "Bc": 16, "slice_rows": 8}, "slice_rows"),
        ({"Br": 16, "Bc": 16, "slice_rows": -16}, "slice_rows"),
        ({"Br": 16, "Bc": 16, "slice_rows": True}, "slice_rows"),
        ({"Br": 16, "Bc": 16, "exp": "float64"}, "exp"),
        ({"Br": 16, "Bc": 16, "exp": None}, "exp"),
    ],
)
def test_refuses_json_that_is_no_plan(value: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError) as caught:
        TilingPlan.from_json(value)
    assert caught.value.field == field


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_ceil_div_is_the_least_number_of_parts_that_hold_the_total(total: int, part: int) -> None:
    parts = ceil_div(total, part)
    assert (parts - 1) * part < total <= parts * part


@given(st.integers(1, 10**6))
def test_pad_is_the_next_multiple_of_16(length: int) -> None:
    assert pad(length) % 16 == 0
    assert length <= pad(length) < length + 16
