"""Verification: what the small problem keeps of the real one, and which errors it finds."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import WrongAnswer
from autotune.kernels.flash_attention.windows import borders, some_see_nothing
from autotune.kernels.targets.emulated import EmulatedKernel, EmulatedTarget
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.verify import Verifier, reduced, reduced_plan
from tests.sweep.synthetic import CHIP, Bench

PLAN = TilingPlan(128, 256, CoreSplit("even", 4))
PROBLEM = AttentionProblem.of((2, 16, 1000, 4090, 64))

blocks = st.integers(1, 20).map(lambda tiles: 16 * tiles)
lengths = st.integers(1, 3000)
plans = st.builds(TilingPlan, blocks, blocks, st.builds(CoreSplit, st.just("even"), st.integers(1, 32)))
problems = st.builds(
    lambda batch, heads, nq, n, mask: AttentionProblem.of((batch, heads, nq, n, 16), attn_mask=mask),
    st.integers(1, 4), st.integers(1, 4), lengths, lengths, st.sampled_from(("none", "full", "shared", "causal")),
)  # fmt: skip


@given(problems, plans)
def test_the_small_problem_has_first_middle_and_tail_blocks(problem: AttentionProblem, plan: TilingPlan) -> None:
    small = reduced(problem, plan)
    assert small.Nq <= problem.Nq
    assert small.N <= problem.N
    assert small.heads_total == min(2, problem.batch) * min(problem.heads, 2 // min(2, problem.batch))
    assert plan.tiling(small).last_Br == plan.tiling(problem).last_Br
    assert plan.tiling(small).last_Bc == plan.tiling(problem).last_Bc
    assert plan.tiling(small).Tr >= min(3, plan.tiling(problem).Tr)
    if problem.attn_mask != "causal":
        assert plan.tiling(small).Tr == min(3, plan.tiling(problem).Tr)
        assert plan.tiling(small).Tc == min(3, plan.tiling(problem).Tc)


@given(lengths, plans)
def test_under_a_causal_mask_rows_cross_the_diagonal_behind_a_whole_block(length: int, plan: TilingPlan) -> None:
    """And the tail of the keys is seen, where the problem has more than one key block."""
    problem = AttentionProblem.of((1, 1, length, length, 16), attn_mask="causal")
    small, tiling = reduced(problem, plan), plan.tiling(problem)
    last_row = small.Nq - 1
    if tiling.Tc > 1 and max(plan.Br, plan.Bc) + plan.Br < problem.N:
        assert last_row >= plan.Bc
        assert last_row >= (plan.tiling(small).Tc - 1) * plan.Bc


@given(problems, plans)
def test_a_core_of_the_small_problem_computes_several_row_blocks(problem: AttentionProblem, plan: TilingPlan) -> None:
    small = reduced(problem, plan)
    split = reduced_plan(plan, small, CHIP).core_split
    row_blocks = small.heads_total * plan.tiling(small).Tr
    done = [sum(end - start for _, start, end in runs) for runs in split.work]
    assert sum(done) == row_blocks
    assert len(done) == split.block_num <= plan.core_split.block_num
    assert row_blocks == 1 or max(done) >= 2


@given(
    problems,
    plans,
    st.none() | st.tuples(st.integers(0, 3000), st.integers(0, 3000)),
    st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_the_small_problem_keeps_what_windows_do(
    problem: AttentionProblem,
    plan: TilingPlan,
    window: tuple[int, int] | None,
    block_window: tuple[int, int] | None,
) -> None:
    problem = replace(problem, window=window, block_window=block_window)
    small = reduced(problem, plan)
    assert small.Nq <= problem.Nq and small.N <= problem.N
    assert plan.tiling(small).last_Br == plan.tiling(problem).last_Br
    assert plan.tiling(small).last_Bc == plan.tiling(problem).last_Bc
    assert some_see_nothing(small) or not some_see_nothing(problem)
    sides = [(border.above, border.period) for border in borders(problem)]
    assert sides == [(border.above, border.period) for border in borders(small)]
    if window:
        assert {side % plan.Bc for side in small.window or ()} <= {side % plan.Bc for side in window}


@pytest.mark.parametrize("Bc", [32, 128])
def test_in_the_small_problem_some_rows_leave_out_the_first_key_block_and_some_the_last(Bc: int) -> None:
    shape = (1, 1, 8192, 8192, 64)
    for problem in (AttentionProblem.of(shape, window=(511, 300)), AttentionProblem.of(shape, block_window=(7, 3))):
        small = reduced(problem, TilingPlan(128, Bc))
        assert small.scores <= 1500**2
        seen = small.N - Bc
        assert all(border.tile(small.Nq // 16 - 8) * 16 >= Bc for border in borders(small) if not border.above)
        assert all(border.tile(8) * 16 < seen for border in borders(small) if border.above)


def test_an_example() -> None:
    assert reduced(PROBLEM, PLAN).shape == (2, 1, 2 * 128 + 104, 2 * 256 + 250, 64)
    assert reduced(PROBLEM, TilingPlan(512, 16)).shape == (2, 1, 1000, 2 * 16 + 10, 64)


@pytest.mark.parametrize("mask", ["none", "causal", "full", "shared"])
def test_a_right_kernel_passes_with_the_error_of_its_rounding(bench: Bench, mask: str) -> None:
    error = Verifier()(bench.target, AttentionProblem.of((2, 2, 100, 90, 32), attn_mask=mask), TilingPlan(16, 32))
    assert 1e-5 < error < 2**-11
    [(small, _, inputs)] = bench.target.ran
    assert {name: array.dtype for name, array in inputs.items()} == dict.fromkeys(inputs, np.dtype(np.float16))
    assert ("attn_mask" in inputs) == (mask in ("full", "shared"))
    assert small.attn_mask == mask


Spoil = Callable[[dict[str, np.ndarray]], None]


def one_row_wrong(outputs: dict[str, np.ndarray]) -> None:
    outputs["o"][1, 0, 33] *= 1.015


def one_row_not_a_number(outputs: dict[str, np.ndarray]) -> None:
    outputs["o"][1, 0, 33, 3] = np.nan


def full_rows_without_keys(outputs: dict[str, np.ndarray]) -> None:
    outputs["o"][..., -1, 0] = 1e-3


def finite_rows_without_keys(outputs: dict[str, np.ndarray]) -> None:
    outputs["lse"][..., -1] = -10000.0


def rows_without_keys_that_are_no_numbers(outputs: dict[str, np.ndarray]) -> None:
    outputs["lse"][..., -1] = np.nan


@pytest.mark.parametrize(
    "spoil", [full_rows_without_keys, finite_rows_without_keys, rows_without_keys_that_are_no_numbers]
)
def test_a_row_without_keys_has_to_be_zero(bench: Bench, spoil: Spoil) -> None:
    problem, plan = AttentionProblem.of((1, 2, 100, 60, 32), window=(7, 3)), TilingPlan(16, 32)
    assert Verifier()(bench.target, problem, plan) < 2**-11
    bench.target.spoil = lambda plan, outputs: spoil(outputs)
    with pytest.raises(WrongAnswer, match="a row without keys"):
        Verifier()(bench.target, problem, plan)


def infinite(outputs: dict[str, np.ndarray]) -> None:
    outputs["lse"][0, 0, 2] = np.inf


def heads_swapped(outputs: dict[str, np.ndarray]) -> None:
    outputs["o"][:] = outputs["o"][::-1]


def all_rows_slightly_wrong(outputs: dict[str, np.ndarray]) -> None:
    outputs["o"] *= np.float16(1.004)  # 1 + 4 / 1024 in fp16


def lse_without_the_maximum(outputs: dict[str, np.ndarray]) -> None:
    outputs["lse"] -= 0.05


def tail_not_written(outputs: dict[str, np.ndarray]) -> None:
    outputs["o"][:, :, -4:] = 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (one_row_wrong, "a row of the output .* batch 1, head 0, row 33"),
        (one_row_not_a_number, "output has 1 values that are no numbers"),
        (infinite, "log-sum-exp has 1 values that are no numbers"),
        (heads_swapped, "the output is"),
        (all_rows_slightly_wrong, "the output is 3.9e-03 from float64, at most 2e-03 is right"),
        (lse_without_the_maximum, "a log-sum-exp is 5.0e-02"),
        (tail_not_written, "the output is .* row 3[2-5]"),
    ],
)
def test_a_wrong_kernel_is_found(bench: Bench, spoil: Spoil, message: str) -> None:
    bench.target.spoil = lambda plan, outputs: spoil(outputs)
    with pytest.raises(WrongAnswer, match=message):
        Verifier()(bench.target, AttentionProblem.of((2, 2, 100, 90, 32)), TilingPlan(16, 32))


def test_one_missing_key_of_many_is_found(bench: Bench) -> None:
    """A kernel that never sees the last key: each row's sum lacks one term of hundreds."""
    problem, plan = AttentionProblem.of((1, 1, 128, 769, 64)), TilingPlan(128, 256)

    def without_last_key(plan: TilingPlan, outputs: dict[str, np.ndarray]) -> None:
        _, _, inputs = bench.target.ran[-1]
        q, k, v = (inputs[name].astype(np.float64)[0, 0] for name in ("q", "k", "v"))
        p = np.exp(q @ k[:-1].T / 8)
        outputs["o"][0, 0] = p @ v[:-1] / p.sum(axis=1, keepdims=True)

    bench.target.spoil = without_last_key
    with pytest.raises(WrongAnswer):
        Verifier()(bench.target, problem, plan)


def test_each_small_problem_is_computed_once(bench: Bench) -> None:
    verifier = Verifier()
    shapes = [(2, 16, 1024, 1024, 64), (2, 16, 2048, 2048, 64), (1, 16, 2048, 2048, 64), (2, 16, 2000, 2048, 64)]
    errors = [verifier(bench.target, AttentionProblem.of(shape), PLAN) for shape in shapes]
    assert [small.shape for small, _, _ in bench.target.ran] == [
        (2, 1, 384, 768, 64),
        (1, 2, 384, 768, 64),
        (2, 1, 336, 768, 64),
    ]
    assert errors[0] == errors[1]


def test_a_wrong_plan_stays_wrong(bench: Bench) -> None:
    verifier = Verifier()
    bench.target.spoil = lambda plan, outputs: heads_swapped(outputs)
    for _ in range(2):
        with pytest.raises(WrongAnswer):
            verifier(bench.target, PROBLEM, PLAN)
    assert len(bench.target.ran) == 1


@pytest.mark.parametrize("shape", [(2, 2, 100, 90, 32), (1, 1, 5, 1, 16)])
def test_our_backward_kernel_passes(shape: tuple[int, ...]) -> None:
    problem = AttentionProblem.of(shape, op="flash_attention_grad")
    assert Verifier()(EmulatedTarget("Ascend910A"), problem, TilingPlan(16, 16)) < 1e-3


@pytest.mark.parametrize("spoiled", ["dq", "dk", "dv"])
def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch, spoiled: str) -> None:
    run = EmulatedKernel.run

    def wrong(kernel: EmulatedKernel, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = dict(run(kernel, inputs))
        outputs[spoiled][0, 1, 7] *= 1.1
        return outputs

    monkeypatch.setattr(EmulatedKernel, "run", wrong)
    problem = AttentionProblem.of((1, 2, 40, 50, 32), op="flash_attention_grad")
    with pytest.raises(WrongAnswer, match=f"gradient {spoiled} .* head 1, row 7"):
        Verifier()(EmulatedTarget("Ascend910A"), problem, TilingPlan(16, 16))
