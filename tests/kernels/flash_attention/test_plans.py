"""What a plan means to the forward kernel: its bytes, its refusals, its work."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import PlanRejected
from autotune.hardware import Hardware
from autotune.kernels.flash_attention import backward_plans, plans
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, CoreWork, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

CHIP = Hardware("Ascend910A", 32, 1000, 262144, 1048576, 65536, 65536, 262144)
SCOPES = {"UB": "local.UB", "L1": "local.L1", "L0A": "local.L0A", "L0B": "local.L0B", "L0C": "local.L0C"}
PROBLEM = AttentionProblem.of((1, 2, 256, 256, 64))
PLAN = TilingPlan(64, 128)


def recorded_bytes(problem: AttentionProblem, plan: TilingPlan) -> dict[str, int]:
    """Peak bytes of each memory as the recorder accounts them."""
    target = EmulatedTarget("Ascend910A")
    program = target.compile(problem, complete(plan, problem, target.hardware)).tik.program
    return {memory: program.peak_bytes[scope] for memory, scope in SCOPES.items()}


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.tuples(st.integers(1, 700), st.integers(1, 700)),
    head_dim=st.sampled_from([1, 16, 40, 64, 80, 100, 128, 200, 256]),
    blocks=st.tuples(st.integers(1, 16), st.integers(1, 40)),
    mask=st.sampled_from(["none", "causal", "full", "shared"]),
    double_buffer=st.booleans(),
    slice_rows=st.integers(0, 6),
    exp=st.sampled_from(["float32", "float16"]),
    window=st.none() | st.tuples(st.integers(0, 300), st.integers(0, 300)),
    block_window=st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_bytes_are_those_that_the_recorder_accounts(
    lengths: tuple[int, int], head_dim: int, blocks: tuple[int, int], mask: str, double_buffer: bool, slice_rows: int,
    exp: str, window: tuple[int, int] | None, block_window: tuple[int, int] | None,
) -> None:  # fmt: skip
    problem = AttentionProblem.of((1, 1, *lengths, head_dim), attn_mask=mask, window=window, block_window=block_window)
    Br, Bc = (16 * min(block, -(-length // 16)) for block, length in zip(blocks, lengths))
    plan = TilingPlan(Br, Bc, double_buffer=double_buffer, slice_rows=16 * slice_rows, exp=exp)
    try:
        geometry = plans.check(problem, plan, CHIP)
    except PlanRejected:
        with pytest.raises(PlanRejected):
            recorded_bytes(problem, plan)
        return
    expected = {memory: needed(geometry) for memory, _, needed in plans.BUDGETS}
    assert recorded_bytes(problem, plan) == expected


def test_bytes_of_a_block_by_hand() -> None:
    """Br 64, Bc 128, d 64: 4 query tiles, 8 key tiles in chunks of 4, 4 tiles of head dimension."""
    geometry = plans.check(PROBLEM, PLAN, CHIP)
    assert (geometry.rows, geometry.keys, geometry.depth, geometry.chunk, geometry.part) == (4, 8, 4, 4, 4)
    scores, output, largest = 64 * 4 * 128, 64 * 4 * (64 + 16), 64 * 4 * 64
    folds, halves, vectors = 2 * 64 * 4 * 16, 2 * 2 * 64 * 64, (1 + 1 + 1 + 2) * 4 * 64
    assert geometry.ub_bytes() == scores + output + largest + folds + halves + vectors
    assert geometry.l0c_bytes() == 64 * 4 * 2 * 64 + output
    assert geometry.l1_bytes() == 2 * (2 * 64 * 64 + 64 * 128 + 16 * 64 + 2 * 128 * 64)
    assert geometry.l0a_bytes() == 2 * 2 * 64 * 80
    assert geometry.l0b_bytes() == 2 * 2 * 64 * 64 + 2 * 64 * 64


def test_bytes_of_fp16_slices_by_hand() -> None:
    """Br 128 in slices of 64, Bc 256, d 64: 2 chunks of 8 key tiles."""
    geometry = plans.check(PROBLEM, TilingPlan(128, 256, slice_rows=64, exp="float16"), CHIP)
    assert (geometry.rows, geometry.slice, geometry.chunk, geometry.ring) == (8, 4, 8, 2)
    scores, output, largest = 64 * 2 * 256, 128 * 4 * (64 + 16), 64 * 2 * 128
    folds, half = 2 * 64 * 2 * 16, 2 * 64 * 128
    vectors = 2 * 128 * 4 + 4 * 64 * 4 + 2 * 128 * 2
    assert geometry.ub_bytes() == scores + output + largest + folds + half + vectors
    assert geometry.l0c_bytes() == 64 * 4 * (2 * 128 + 64 + 16)
    assert geometry.l1_bytes() == 2 * (2 * 128 * 64 + 64 * 256 + 16 * 128 + 128 * 16 + 2 * 256 * 64)
    assert geometry.l0b_bytes() == 2 * (2 * 128 * 64 + 64 * 64 + 64 * 16)


def test_double_buffering_doubles_only_key_and_value_tiles() -> None:
    once, twice = (plans.check(PROBLEM, replace(PLAN, double_buffer=on), CHIP) for on in (False, True))
    assert twice.l1_bytes() - once.l1_bytes() == 2 * 2 * 128 * 64
    assert twice.ub_bytes() == once.ub_bytes()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"op": "flash_attention_grad"}, "flash_attention_grad"),
        ({"dtype": "bfloat16"}, "float16"),
    ],
)
def test_what_the_kernel_does_not_compute_is_refused_by_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(PlanRejected, match=word):
        plans.check(AttentionProblem.of((1, 2, 256, 256, 64), **options), PLAN, CHIP)


@pytest.mark.parametrize("mask", ["full", "shared"])
def test_an_fp16_exponential_is_refused_for_masks_that_are_data(mask: str) -> None:
    problem = AttentionProblem.of((1, 2, 256, 256, 64), attn_mask=mask)
    with pytest.raises(PlanRejected, match=f"fp16 exponential cannot follow the mask '{mask}'"):
        plans.check(problem, replace(PLAN, exp="float16"), CHIP)


@pytest.mark.parametrize("window", [{"window": (5, 0)}, {"block_window": (0, 0)}])
def test_an_fp16_exponential_is_refused_for_windows(window: dict[str, Any]) -> None:
    problem = AttentionProblem.of((1, 2, 256, 256, 64), **window)
    with pytest.raises(PlanRejected, match="fp16 exponential cannot follow a window"):
        plans.check(problem, replace(PLAN, exp="float16"), CHIP)


@pytest.mark.parametrize("op", ["flash_attention", "flash_attention_grad"])
def test_high_precision_needs_an_fp32_exponential(op: str) -> None:
    problem = AttentionProblem.of((1, 2, 256, 256, 64), op=op, high_precision=True)
    check = backward_plans.check if op == "flash_attention_grad" else plans.check
    check(problem, PLAN, CHIP)
    with pytest.raises(PlanRejected, match="high_precision needs exp=float32"):
        check(problem, replace(PLAN, exp="float16"), CHIP)


def test_too_large_a_block_is_refused_with_both_numbers() -> None:
    problem = AttentionProblem.of((1, 1, 4096, 4096, 64))
    with pytest.raises(PlanRejected, match=r"256 x 512 do not fit: UB needs \d+ bytes, has 262144"):
        plans.check(problem, TilingPlan(256, 512), CHIP)


def test_a_block_taller_than_the_sequence_is_refused() -> None:
    with pytest.raises(PlanRejected, match="Br is 512, taller than the padded length 256"):
        plans.check(PROBLEM, TilingPlan(512, 64), CHIP)


def test_a_chip_without_fp32_exponential_is_refused() -> None:
    with pytest.raises(PlanRejected, match="Ascend310 has no fp32 exponential"):
        plans.check(PROBLEM, PLAN, replace(CHIP, name="Ascend310"))


def test_tensors_beyond_32_bit_addresses_are_refused() -> None:
    problem = AttentionProblem.of((64, 64, 8192, 128, 128))
    with pytest.raises(PlanRejected, match=f"q and o has {64 * 64 * 8192 * 128} elements"):
        plans.check(problem, PLAN, CHIP)


def test_a_check_needs_no_work_and_little_time_whatever_the_shape() -> None:
    plans.check(AttentionProblem.of((1, 1, 1 << 20, 1 << 20, 64)), TilingPlan(128, 256), CHIP)


WHOLE = (((0, 0, 4),), ((1, 0, 4),))
"""PROBLEM has 2 heads of 4 row blocks."""


@pytest.mark.parametrize(
    "work",
    [
        WHOLE,
        (((0, 0, 3),), ((0, 3, 4), (1, 0, 4))),
        (((1, 0, 4), (0, 0, 4)), ()),
        (((0, 1, 2), (1, 1, 4)), ((0, 0, 1), (0, 2, 4), (1, 0, 1))),
    ],
)
def test_work_that_covers_all_row_blocks_once_is_accepted(work: CoreWork) -> None:
    plans.check_work(PROBLEM, replace(PLAN, core_split=CoreSplit("even", 2, work)))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ((), "work for 0 cores, block_num is 2"),
        ((((0, 0, 4),), ((1, 0, 3),)), "covers 7 row blocks, the problem has 8"),
        ((((0, 0, 4),), ((0, 3, 4), (1, 0, 4))), "row block 3 of 8 is computed by no core or by two"),
        ((((0, 0, 4),), ((1, 1, 4),)), "row block 4 of 8"),
    ],
)
def test_work_with_gaps_or_doubles_is_refused(work: CoreWork, message: str) -> None:
    with pytest.raises(PlanRejected, match=message):
        plans.check_work(PROBLEM, replace(PLAN, core_split=CoreSplit("even", 2, work)))


def test_neighbouring_runs_are_joined() -> None:
    split = CoreSplit("even", 2, (((0, 1, 4), (1, 0, 2)), ((0, 0, 1), (1, 2, 4))))
    assert plans.work_runs(replace(PLAN, core_split=split), 4) == [[(1, 6)], [(0, 1), (6, 8)]]


@given(head_dim=st.integers(1, 256))
def test_the_scale_is_a_power_of_two_and_a_rest(head_dim: int) -> None:
    scale = plans.Scale.of(head_dim)
    assert math.log2(scale.exact).is_integer() and 0.5 < scale.rest <= 1
    assert math.isclose(scale.exact * scale.rest, head_dim**-0.5, rel_tol=1e-15)
    assert all(abs(term) <= 65504 for term in scale.mask_terms)
    assert abs(sum(scale.mask_terms) * scale.rest + 10000) < 0.005


def test_powers_of_four_need_no_rest() -> None:
    assert [d for d in range(1, 257) if plans.Scale.of(d).rest == 1] == [1, 4, 16, 64, 256]


@pytest.mark.parametrize(
    ("n", "buffers", "looped"), [(255, 1, False), (256, 1, True), (257, 2, True), (300, 2, True), (1 << 20, 2, True)]
)
def test_of_the_key_length_it_only_matters_whether_it_is_over_a_block(n: int, buffers: int, looped: bool) -> None:
    problem = AttentionProblem.of((1, 1, 256, n, 64))
    geometry = plans.check(problem, TilingPlan(64, 256, double_buffer=True), CHIP)
    assert (geometry.buffers, geometry.looped) == (buffers, looped)
