"""What a plan means to the backward kernel: its bytes, its refusals, its work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import PlanRejected
from autotune.hardware import Hardware
from autotune.kernels.flash_attention import backward_plans
from autotune.kernels.flash_attention.plans import check_work
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, CoreWork, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

CHIP = Hardware("Ascend910A", 32, 1000, 262144, 1048576, 65536, 65536, 262144)
SCOPES = {"UB": "local.UB", "L1": "local.L1", "L0A": "local.L0A", "L0B": "local.L0B", "L0C": "local.L0C"}
PROBLEM = AttentionProblem.of((1, 2, 256, 512, 64), op="flash_attention_grad")
PLAN = TilingPlan(128, 128)


def recorded_bytes(problem: AttentionProblem, plan: TilingPlan) -> dict[str, int]:
    """Peak bytes of each memory as the recorder accounts them."""
    target = EmulatedTarget("Ascend910A")
    program = target.compile(problem, complete(plan, problem, target.hardware)).tik.program
    return {memory: program.peak_bytes[scope] for memory, scope in SCOPES.items()}


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.tuples(st.integers(1, 500), st.integers(1, 500)),
    head_dim=st.sampled_from([1, 16, 40, 64, 80, 100, 128, 200, 256]),
    blocks=st.tuples(st.integers(1, 32), st.integers(1, 24)),
    mask=st.sampled_from(["none", "causal", "full", "shared"]),
    double_buffer=st.booleans(),
    exp=st.sampled_from(["float32", "float16"]),
    extras=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    window=st.none() | st.tuples(st.integers(0, 300), st.integers(0, 300)),
    block_window=st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_bytes_are_those_that_the_recorder_accounts(
    lengths: tuple[int, int], head_dim: int, blocks: tuple[int, int], mask: str, double_buffer: bool, exp: str,
    extras: tuple[bool, bool, bool], window: tuple[int, int] | None, block_window: tuple[int, int] | None,
) -> None:  # fmt: skip
    problem = AttentionProblem.of(
        (1, 1, *lengths, head_dim), op="flash_attention_grad", attn_mask=mask, window=window, block_window=block_window,
        dropout=extras[0], alibi=extras[1], high_precision=extras[2],
    )  # fmt: skip
    Br, Bc = (16 * min(block, -(-length // 16)) for block, length in zip(blocks, lengths))
    plan = TilingPlan(Br, Bc, double_buffer=double_buffer, exp=exp)
    try:
        geometry = backward_plans.check(problem, plan, CHIP)
    except PlanRejected:
        with pytest.raises(PlanRejected):
            recorded_bytes(problem, plan)
        return
    expected = {memory: needed(geometry) for memory, _, needed in backward_plans.BUDGETS}
    assert recorded_bytes(problem, plan) == expected


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"op": "flash_attention"}, "op flash_attention"),
        ({"dtype": "bfloat16"}, "float16"),
    ],
)
def test_what_the_kernel_does_not_compute_is_refused_by_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(PlanRejected, match=word):
        backward_plans.check(replace(PROBLEM, **options), PLAN, CHIP)


def test_slices_are_refused() -> None:
    with pytest.raises(PlanRejected, match="no slice_rows"):
        backward_plans.check(PROBLEM, replace(PLAN, slice_rows=64), CHIP)


def test_too_large_a_block_is_refused_with_both_numbers() -> None:
    problem = AttentionProblem.of((1, 1, 4096, 4096, 64), op="flash_attention_grad")
    with pytest.raises(PlanRejected, match=r"256 x 512 do not fit: L0C needs \d+ bytes, has 262144"):
        backward_plans.check(problem, TilingPlan(256, 512), CHIP)


def test_a_check_needs_little_time_whatever_the_shape() -> None:
    problem = AttentionProblem.of((1, 1, 1 << 20, 1 << 20, 64), op="flash_attention_grad")
    backward_plans.check(problem, TilingPlan(512, 128), CHIP)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ((((0, 0, 4),), ((1, 0, 3),)), "covers 7 key blocks, the problem has 8"),
        ((((0, 0, 4),), ((0, 3, 4), (1, 0, 4))), "key block 3 of 8 is computed by no core or by two"),
    ],
)
def test_work_with_gaps_or_doubles_is_refused(work: CoreWork, message: str) -> None:
    """PROBLEM has 2 heads of 4 key blocks, and of 2 query blocks."""
    check_work(PROBLEM, replace(PLAN, core_split=CoreSplit("even", 2, (((0, 0, 4),), ((1, 0, 4),)))))
    with pytest.raises(PlanRejected, match=message):
        check_work(PROBLEM, replace(PLAN, core_split=CoreSplit("even", 2, work)))
