"""The forward kernel on the emulated core against float64.

Local memory of the emulated core starts as noise, so every read of what nothing wrote shows in the result.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autotune.errors import PlanRejected
from autotune.kernels.davinci import strict, timing
from autotune.kernels.flash_attention import context, forward, plans, reference
from autotune.kernels.flash_attention.layout import from_nz, to_nz
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, CoreWork, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import RULES, complete

Array = NDArray[Any]

MASKS = ("none", "causal", "full", "shared")


def data(
    problem: AttentionProblem,
    seed: int = 0,
    peak: float | None = None,
    masked: float = 0.4,
    hidden_rows: Iterable[int] = (),
) -> dict[str, Array]:
    """Inputs with normal numbers; ``peak`` is what the largest score is scaled to. hidden_rows see no key at all."""
    rng = np.random.default_rng(seed)
    batch, heads, nq, n, d = problem.shape
    q, k, v = (rng.normal(size=(batch, heads, length, d)) for length in (nq, n, n))
    if peak is not None:
        q *= peak / np.abs(q @ k.swapaxes(-1, -2) / np.sqrt(d)).max()
    arrays = {name: array.astype(np.float16) for name, array in zip("qkv", (q, k, v))}
    if problem.attn_mask in ("full", "shared"):
        mask = rng.random((batch if problem.attn_mask == "full" else 1, nq, n)) < masked
        for row in hidden_rows:
            mask[:, row] = True
        arrays["attn_mask"] = mask.astype(np.float16)
    if problem.dropout:
        kept = rng.integers(0, 4, (batch, heads, nq, n)) > 0
        kept[..., 0] = True  # no row is left with an output of exact zeros
        arrays["dropout_mask"] = kept.astype(np.float16) / np.float16(0.75)
    if problem.alibi:
        arrays["alibi"] = rng.normal(scale=3.0, size=(batch, heads, 1, n)).astype(np.float16)
    return arrays


def errors(problem: AttentionProblem, arrays: dict[str, Array], o: Array, lse: Array) -> tuple[float, float, float]:
    """(relative L2 of O, worst row over the rows' mean length, largest absolute distance of lse).

    O counts as at least half as long as the mean of N unit normal vectors: the few numbers of a tiny one may cancel.
    Of a row without keys O has to be 0, and lse so low that its exponential is.
    """
    extras: dict[str, Any] = {name: array for name, array in arrays.items() if name not in ("q", "k", "v")}
    exact_o, exact_lse = reference.forward(arrays["q"], arrays["k"], arrays["v"], problem, **extras)
    distance, length = (np.linalg.norm(x, axis=-1) for x in (o.astype(np.float64) - exact_o, exact_o))
    mean = max(float(np.sqrt(np.mean(length**2))), 0.5 * (problem.head_dim / problem.N) ** 0.5)
    whole = float(np.sqrt(np.mean(distance**2))) / mean
    without_keys = np.isinf(exact_lse)
    assert not o[without_keys].any() and (lse[without_keys] < -1e30).all()
    lse_distance = np.abs(lse[~without_keys] - exact_lse[~without_keys])
    return whole, float(distance.max()) / mean, float(lse_distance.max(initial=0.0))


def solve(
    problem: AttentionProblem,
    plan: TilingPlan,
    arrays: dict[str, Array] | None = None,
    cores: int = 3,
    work: CoreWork | None = None,
) -> tuple[float, float, float]:
    """Compiles and runs a plan; its core split is worked out for so many cores unless ``work`` is given."""
    target = EmulatedTarget("Ascend910A", cores)
    if work is None:
        plan = complete(plan, problem, target.hardware)
    else:
        plan = replace(plan, core_split=CoreSplit("even", len(work), work))
    arrays = data(problem) if arrays is None else arrays
    result = target.compile(problem, plan).run(arrays)
    return errors(problem, arrays, result["o"], result["lse"])


def assert_right(
    found: tuple[float, float, float], whole: float = 0.001, row: float = 0.004, lse: float = 0.002
) -> None:
    assert found[0] < whole and found[1] < row and found[2] < lse, found


WINDOWS = st.none() | st.tuples(st.integers(0, 90), st.integers(0, 90))


@st.composite
def cases(draw: st.DrawFn) -> tuple[AttentionProblem, TilingPlan]:
    """A problem and a plan that fits it."""
    head_dim = draw(st.sampled_from([1, 3, 16, 24, 40, 64, 80]))
    lengths = draw(st.tuples(st.integers(1, 80), st.integers(1, 100)))
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *lengths, head_dim)
    mask, dropout, alibi = draw(st.sampled_from(MASKS)), draw(st.booleans()), draw(st.booleans())
    problem = AttentionProblem.of(shape, attn_mask=mask, dropout=dropout, alibi=alibi, window=draw(WINDOWS))
    Br, Bc = (16 * draw(st.integers(1, -(-length // 16))) for length in lengths)
    split = CoreSplit(draw(st.sampled_from(sorted(RULES))))
    slice_rows = 16 * draw(st.integers(0, Br // 16 - 1))
    single = problem.attn_mask in ("full", "shared") or problem.window
    exp = "float32" if single else draw(st.sampled_from(["float32", "float16"]))
    return problem, TilingPlan(Br, Bc, split, draw(st.booleans()), slice_rows=slice_rows, exp=exp)


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=cases(),
    cores=st.integers(1, 5),
    seed=st.integers(0, 99),
    peak=st.sampled_from([0.5, 5, 20, 60]),
    hidden=st.integers(0, 79),
)
def test_any_plan_computes_attention(
    case: tuple[AttentionProblem, TilingPlan], cores: int, seed: int, peak: float, hidden: int
) -> None:
    problem, plan = case
    arrays = data(problem, seed, peak, hidden_rows=[hidden % problem.Nq])
    masked = problem.attn_mask in ("full", "shared")
    found = solve(problem, plan, arrays, cores)
    if plan.exp == "float16":
        assert_right(found, whole=2e-3, row=0.01, lse=0.04)
    else:
        assert_right(found, whole=2e-3 if masked else 1e-3, lse=6e-3 if masked else 2e-3)


@settings(deadline=None, max_examples=25)
@given(case=cases(), seed=st.integers(0, 9))
def test_nothing_undefined_is_read_and_cores_do_not_collide(
    case: tuple[AttentionProblem, TilingPlan], seed: int
) -> None:
    problem, plan = case
    with strict():
        solve(problem, plan, data(problem, seed))


@pytest.mark.parametrize("head_dim", [40, 64, 80, 100, 128, 256])
@pytest.mark.parametrize("mask", ["none", "causal", "full"])
def test_head_dimensions_of_real_models(head_dim: int, mask: str) -> None:
    problem = AttentionProblem.of((1, 2, 200, 330, head_dim), attn_mask=mask)
    assert_right(solve(problem, TilingPlan(64, 96)))


@pytest.mark.parametrize("tail", range(1, 18))
def test_tails_of_both_axes(tail: int) -> None:
    for mask in ("none", "causal"):
        problem = AttentionProblem.of((1, 1, 32 + tail, 64 + tail, 24), attn_mask=mask)
        assert_right(solve(problem, TilingPlan(32, 32)))


@pytest.mark.parametrize("blocks", [(64, 16), (96, 32), (32, 96), (16, 128), (48, 80), (80, 48)])
@pytest.mark.parametrize("lengths", [(200, 200), (230, 100), (100, 230)])
def test_causal_masks_count_tokens_whatever_the_blocks(blocks: tuple[int, int], lengths: tuple[int, int]) -> None:
    """Fault 8 of the public kernels: right only for Br = Bc = 128."""
    problem = AttentionProblem.of((1, 1, *lengths, 32), attn_mask="causal")
    Br, Bc = (min(block, -(-length // 16) * 16) for block, length in zip(blocks, lengths))
    assert_right(solve(problem, TilingPlan(Br, Bc)))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.tuples(st.integers(1, 700), st.integers(1, 700)),
    blocks=st.tuples(st.integers(1, 10), st.integers(1, 12)),
    mask=st.sampled_from(MASKS),
    window=st.none() | st.tuples(st.integers(0, 400), st.integers(0, 400)),
    block_window=st.none() | st.tuples(st.integers(0, 4), st.integers(0, 4)),
    double_buffer=st.booleans(),
    slice_rows=st.sampled_from([0, 16, 48]),
)
def test_windows_count_tokens_whatever_the_blocks(
    lengths: tuple[int, int], blocks: tuple[int, int], mask: str, window: tuple[int, int] | None,
    block_window: tuple[int, int] | None, double_buffer: bool, slice_rows: int,
) -> None:  # fmt: skip
    """Faults 6, 7 and 9 of the public kernels: windows counted in blocks of the tiling, the first of them not begun."""
    problem = AttentionProblem.of((1, 1, *lengths, 16), attn_mask=mask, window=window, block_window=block_window)
    Br, Bc = (16 * min(block, -(-length // 16)) for block, length in zip(blocks, lengths))
    found = solve(problem, TilingPlan(Br, Bc, double_buffer=double_buffer, slice_rows=slice_rows))
    assert_right(found, whole=2e-3, row=6e-3, lse=6e-3)


@pytest.mark.parametrize("Bc", [16, 48, 96])
@pytest.mark.parametrize(
    ("window", "block_window", "nq"),
    [((0, 0), None, 300), ((33, 5), None, 400), (None, (0, 0), 500), (None, (1, 2), 640), ((7, 300), (1, 0), 333)],
)
def test_queries_after_every_key_of_their_window_get_zeros(
    window: tuple[int, int] | None, block_window: tuple[int, int] | None, nq: int, Bc: int
) -> None:
    problem = AttentionProblem.of((1, 2, nq, 90, 40), window=window, block_window=block_window)
    for slice_rows in (0, 16):
        with strict():
            assert_right(solve(problem, TilingPlan(64, Bc, slice_rows=slice_rows)))
    arrays = data(problem)
    _, lse = reference.forward(arrays["q"], arrays["k"], arrays["v"], problem)
    assert np.isinf(lse[..., -1]).all() and np.isfinite(lse[..., 0]).all()


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 1, 400, 128, 64), None),  # S3: more than 128 of 256 rows in the tail
        ((1, 1, 512, 128, 16), (0, 1)),  # S18: row blocks that see no key
        ((4, 20, 32, 48, 144), None),  # S13: deep heads, and many
    ],
)
def test_high_precision_in_the_forward(shape: tuple[int, ...], window: tuple[int, int] | None) -> None:
    """Faults S3, S12, S13 and S18: tails, heads that several cores share, rows without keys."""
    problem = AttentionProblem.of(shape, high_precision=True, block_window=window)
    Br, Bc = min(128, shape[2]), shape[3]
    assert_right(solve(problem, TilingPlan(Br, Bc), data(problem, 2, peak=60), cores=4), whole=5e-4)


@pytest.mark.parametrize("exp", ["float32", "float16"])
@pytest.mark.parametrize("length", [64, 100])
def test_dropout_and_biases(length: int, exp: str) -> None:
    """Faults 7, 10, S5 and S6: biases ignored or at other positions, dropout permuted."""
    problem = AttentionProblem.of((2, 2, length, length + 30, 64), dropout=True, alibi=True, attn_mask="causal")
    assert_right(solve(problem, TilingPlan(64, 48, exp=exp)), whole=2e-3, row=0.01, lse=0.04)


def test_key_blocks_outside_a_window_cost_no_time() -> None:
    """8192 keys of which each query sees 256: a few of 64 key blocks for each block of queries."""
    target = EmulatedTarget("Ascend910A", 2)
    cycles = {}
    for window in (None, (255, 0)):
        problem = AttentionProblem.of((1, 1, 1024, 8192, 64), window=window)
        kernel = target.compile(problem, complete(TilingPlan(128, 128), problem, target.hardware))
        cycles[window] = timing.estimate(kernel.program).cycles
    assert cycles[None] > 10 * cycles[255, 0]


@pytest.mark.parametrize("n", [300, 320, 496])
def test_keys_that_are_no_multiple_of_the_block(n: int) -> None:
    """Fault 1 of the public kernels: row sums of the last key block were garbage."""
    assert_right(solve(AttentionProblem.of((1, 1, 128, n, 64)), TilingPlan(128, 128)))


@pytest.mark.parametrize("rows", [80, 96, 112, 144])
def test_row_blocks_over_64_that_are_no_multiple_of_64(rows: int) -> None:
    """Fault 2 of the public kernels: rows from 64 on were normalised wrongly."""
    assert_right(solve(AttentionProblem.of((1, 1, rows, 128, 64)), TilingPlan(rows, 64)))
    assert_right(solve(AttentionProblem.of((1, 1, 128 + rows - 48, 128, 64)), TilingPlan(128, 64)))


def test_a_key_length_of_77() -> None:
    """Fault 5 of the public kernels: strides counted 77 rows where the layout has 80."""
    for Bc in (16, 64, 80):
        assert_right(solve(AttentionProblem.of((1, 2, 256, 77, 40)), TilingPlan(64, Bc)))


def test_all_of_256_keys_are_attended_in_blocks_of_64() -> None:
    """Fault 4 of the public kernels' wukong strategy: only the first 64 were."""
    assert_right(solve(AttentionProblem.of((1, 2, 128, 256, 40)), TilingPlan(64, 64)))


@pytest.mark.parametrize("head_dim", [64, 80])
def test_rows_whose_every_key_is_masked_are_the_softmax_of_unmasked_scores(head_dim: int) -> None:
    problem = AttentionProblem.of((2, 2, 50, 90, head_dim), attn_mask="full")
    arrays = data(problem, peak=20, hidden_rows=range(3, 40))
    assert_right(solve(problem, TilingPlan(32, 48), arrays), whole=2e-3, row=6e-3, lse=6e-3)
    o, _ = reference.forward(arrays["q"], arrays["k"], arrays["v"], replace(problem, attn_mask="none"))
    masked, _ = reference.forward(arrays["q"], arrays["k"], arrays["v"], problem, arrays["attn_mask"])
    np.testing.assert_allclose(masked[:, :, 3:40], o[:, :, 3:40], atol=1e-6)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("head_dim", [60, 64])
def test_large_scores(mask: str, head_dim: int) -> None:
    problem = AttentionProblem.of((1, 2, 100, 200, head_dim), attn_mask=mask)
    for peak in (30, 60):
        assert_right(solve(problem, TilingPlan(64, 64), data(problem, 1, peak)))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), cores=st.integers(1, 12))
def test_any_division_of_row_blocks_among_cores(seed: int, cores: int) -> None:
    """Runs in any order, split anywhere, some cores idle; 2 heads of 4 row blocks."""
    problem = AttentionProblem.of((1, 2, 56, 40, 16), attn_mask="causal")
    blocks = [(head, row, row + 1) for head in range(2) for row in range(4)]
    choose = random.Random(seed)
    choose.shuffle(blocks)
    work: list[list[tuple[int, int, int]]] = [[] for _ in range(cores)]
    for block in blocks:
        choose.choice(work).append(block)
    assert_right(solve(problem, TilingPlan(16, 32), work=tuple(map(tuple, work))))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("junk", [np.nan, np.inf, 6e4])
def test_padding_never_contributes(mask: str, junk: float) -> None:
    """Garbage in the padding of every input, where the host would have put zeros, changes no bit of the result."""
    problem = AttentionProblem.of((1, 2, 37, 77, 21), attn_mask=mask)
    target = EmulatedTarget("Ascend910A", 2)
    kernel = target.compile(problem, complete(TilingPlan(32, 48), problem, target.hardware))
    arrays = data(problem)
    results = []
    for filler in (0, junk):
        feed = {name: to_nz(_padded(array, filler)) for name, array in arrays.items()}
        o, lse = kernel.tik.tikdb.start_debug(feed_dict=feed, interactive=False)
        results.append((from_nz(o, 37, 21), lse[:, :37].copy()))
    for clean, dirty in zip(*results):
        np.testing.assert_array_equal(clean, dirty)


def _padded(array: Array, filler: float) -> Array:
    padding = [(0, 0)] * (array.ndim - 2) + [(0, -size % 16) for size in array.shape[-2:]]
    return np.pad(array, padding, constant_values=filler)


@pytest.mark.parametrize(("mask", "exp"), [("shared", "float32"), ("causal", "float16")])
def test_buffers_and_slices_change_no_bit(mask: str, exp: str) -> None:
    problem = AttentionProblem.of((1, 2, 64, 160, 40), attn_mask=mask)
    target = EmulatedTarget("Ascend910A")
    arrays = data(problem)
    plans = [
        TilingPlan(64, 48, double_buffer=double_buffer, slice_rows=slice_rows, exp=exp)
        for double_buffer, slice_rows in ((False, 0), (True, 0), (True, 16), (False, 48))
    ]
    first, *others = (target.compile(problem, complete(plan, problem, target.hardware)).run(arrays) for plan in plans)
    for other in others:
        np.testing.assert_array_equal(first["o"], other["o"])
        np.testing.assert_array_equal(first["lse"], other["lse"])


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("head_dim", [64, 80, 128])
@pytest.mark.parametrize("peak", [None, 20, 60])
def test_an_fp16_exponential_keeps_the_tolerance_of_verification(mask: str, head_dim: int, peak: float | None) -> None:
    problem = AttentionProblem.of((1, 2, 150, 500, head_dim), attn_mask=mask)
    found = solve(problem, TilingPlan(96, 128, slice_rows=32, exp="float16"), data(problem, 3, peak))
    assert_right(found, whole=1.5e-3, row=0.01, lse=0.04)


def test_fp16_scores_far_from_those_of_the_first_tile_of_keys_are_right() -> None:
    """Maxima that grow by 50 over the key blocks, and scores that fall by as much: fp16 of S would be 1e-2 off."""
    problem = AttentionProblem.of((1, 1, 64, 320, 64))
    for direction in (1.0, -1.0):
        arrays = data(problem, 5)
        rise = np.linspace(0, 50 * direction, 320) / np.sqrt(64)
        arrays["q"][..., 0] = 8.0
        arrays["k"][..., 0] = rise.astype(np.float16) * np.float16(np.sqrt(64))
        assert_right(solve(problem, TilingPlan(64, 64, exp="float16"), arrays), whole=2e-3, row=0.01, lse=0.03)


@pytest.mark.parametrize("mask", ["none", "full"])
def test_sequences_too_long_for_one_strided_move_are_moved_strip_by_strip(
    monkeypatch: pytest.MonkeyPatch, mask: str
) -> None:
    """A gap of more than 65535 blocks needs a million tokens; the limit is lowered instead."""
    problem = AttentionProblem.of((2, 1, 70, 200, 40), attn_mask=mask)
    found = []
    for most in (context.MOST_GAP, 3):
        monkeypatch.setattr(context, "MOST_GAP", most)
        found.append(solve(problem, TilingPlan(32, 96)))
    assert_right(found[0])
    assert found[0] == found[1]


def test_q_too_deep_for_l0b_is_multiplied_in_parts() -> None:
    """Br 128 with 256 dimensions of the head: the whole of L0B would hold Q alone."""
    problem = AttentionProblem.of((1, 1, 128, 192, 256))
    assert_right(solve(problem, TilingPlan(128, 128)))


@pytest.mark.parametrize("exp", ["float32", "float16"])
def test_scores_of_which_l0c_holds_only_a_part_are_multiplied_in_turns(
    exp: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = AttentionProblem.of((1, 1, 128, 1000, 64), attn_mask="causal")
    plan = TilingPlan(128, 960 if exp == "float16" else 720, slice_rows=64 if exp == "float16" else 48, exp=exp)
    hardware = replace(EmulatedTarget("Ascend910A").hardware, l0c_bytes=128 << 10)
    geometry = plans.check(problem, plan, hardware)
    assert geometry.ring < len(geometry.chunks(plan.Bc))
    monkeypatch.setattr(forward, "current_hardware", lambda: hardware)
    assert_right(solve(problem, plan))


def test_a_plan_that_does_not_fit_is_rejected_before_recording() -> None:
    problem = AttentionProblem.of((1, 1, 4096, 4096, 128))
    target = EmulatedTarget("Ascend910A")
    with pytest.raises(PlanRejected, match="UB needs"):
        target.compile(problem, complete(TilingPlan(256, 256), problem, target.hardware))
