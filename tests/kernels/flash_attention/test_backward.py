"""The backward kernel on the emulated core against float64.

Local memory of the emulated core starts as noise, so every read of what nothing wrote shows in the result.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autotune.errors import PlanRejected
from autotune.kernels.davinci import strict
from autotune.kernels.flash_attention import context, reference
from autotune.kernels.flash_attention.layout import from_nz, to_nz
from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import CoreSplit, CoreWork, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

Arrays = dict[str, NDArray[np.floating]]

MASKS = ("none", "causal", "full", "shared")
NAMES = ("dq", "dk", "dv")


def grad(shape: Sequence[int], **options: object) -> AttentionProblem:
    return AttentionProblem.of(tuple(shape), op="flash_attention_grad", **options)


def data(
    problem: AttentionProblem,
    seed: int = 0,
    peak: float | None = None,
    masked: float = 0.4,
    hidden_rows: Sequence[int] = (),
    keep: float = 0.5,
) -> Arrays:
    """Normal numbers, and the forward's exact results; ``peak`` is what the largest score is scaled to.

    keep: share that dropout keeps; with 0.5 its factor is a power of two, and a row with one key cancels exactly.
    """
    rng = np.random.default_rng(seed)
    batch, heads, nq, n, d = problem.shape
    q, k, v, do = (rng.normal(size=(batch, heads, length, d)) for length in (nq, n, n, nq))
    if peak is not None:
        q *= peak / np.abs(q @ k.swapaxes(-1, -2) / np.sqrt(d)).max()
    arrays: Arrays = {name: array.astype(np.float16) for name, array in zip(("q", "k", "v", "do"), (q, k, v, do))}
    if problem.attn_mask in ("full", "shared"):
        mask = rng.random((batch if problem.attn_mask == "full" else 1, nq, n)) < masked
        mask[:, list(hidden_rows)] = True
        arrays["attn_mask"] = mask.astype(np.float16)
    if problem.dropout:
        arrays["dropout_mask"] = (rng.random((batch, heads, nq, n)) < keep) / np.float16(keep)
    if problem.alibi:
        arrays["alibi"] = rng.normal(size=(batch, heads, 1, n)).astype(np.float16)
    o, lse = reference.forward(arrays["q"], arrays["k"], arrays["v"], problem, **extras(arrays))
    return {**arrays, "o": o.astype(np.float16), "lse": lse.astype(np.float32)}


def extras(arrays: Arrays) -> dict[str, Any]:
    """Masks and biases."""
    return {name: arrays[name] for name in ("attn_mask", "dropout_mask", "alibi") if name in arrays}


def errors(problem: AttentionProblem, arrays: Arrays, found: Mapping[str, NDArray[np.floating]]) -> list[float]:
    """Relative L2 of dQ, dK and dV. A gradient that cancels is held against what cancels.

    That is a share of dO, for dK times what Q is scaled by (one key: dQ = dK = 0), and 1000 times what the rounding of
    O and dS to fp16 does to it.
    """
    q, k, v, do = (arrays[name] for name in ("q", "k", "v", "do"))
    exact = reference.gradients(q, k, v, do, problem, **extras(arrays))
    least = 0.05 * problem.head_dim**-0.5 * np.linalg.norm(do.astype(np.float64))
    size_of_q = max(1.0, float(np.sqrt(np.mean(q.astype(np.float64) ** 2))))
    unavoidable = np.add(rounding_of_o(problem, arrays), rounding_of_ds(problem, arrays))
    return [
        float(np.linalg.norm(found[name] - right) / max(np.linalg.norm(right), least * size, 1000 * error))
        for name, right, error, size in zip(NAMES, exact, unavoidable, (1.0, size_of_q, 1.0))
    ]


def rounding_of_o(problem: AttentionProblem, arrays: Arrays) -> tuple[float, float, float]:
    """Length of what the error of O puts into dQ, dK and dV, through D = rowsum(dO O): P dD takes the place of dS."""
    q, k, v, do = (arrays[name].astype(np.float64) for name in ("q", "k", "v", "do"))
    given, scale = extras(arrays), problem.head_dim**-0.5
    o, _ = reference.forward(q, k, v, problem, **given)
    error_of_d = np.sum(do * (arrays["o"].astype(np.float64) - o), axis=-1, keepdims=True)
    given.pop("dropout_mask", None)
    problem = replace(problem, dropout=False)  # P, not what dropout leaves of it
    dq = scale * error_of_d * reference.forward(q, k, k, problem, **given)[0]
    _, _, dk = reference.gradients(q, k, v, scale * error_of_d * q, problem, **given)
    return float(np.linalg.norm(dq)), float(np.linalg.norm(dk)), 0.0


def rounding_of_ds(problem: AttentionProblem, arrays: Arrays) -> tuple[float, float, float]:
    """Length of what independent errors of 2**-12 in each dS = P (M dP - D) put into dQ and dK."""
    q, k, v, do = (arrays[name].astype(np.float64) for name in ("q", "k", "v", "do"))
    given, kept = extras(arrays), arrays.get("dropout_mask", np.ones(()))
    without_dropout = {name: array for name, array in given.items() if name != "dropout_mask"}
    p = probabilities(q, k, replace(problem, dropout=False), without_dropout)
    dp = (do @ v.swapaxes(-1, -2)) * kept
    ds = p * (dp - np.sum(p * dp, axis=-1, keepdims=True))
    share = 2.0**-12 * problem.head_dim**-0.5
    squares = ds**2 @ k**2, ds.swapaxes(-1, -2) ** 2 @ q**2
    dq, dk = (share * float(np.sqrt(square.sum())) for square in squares)
    return dq, dk, 0.0


def probabilities(q: Any, k: Any, problem: AttentionProblem, given: dict[str, Any]) -> Any:
    """(B, H, Nq, N): the outputs for values that pick one key a column."""
    step, unit = problem.head_dim, np.eye(problem.N)
    columns = []
    for first in range(0, problem.N, step):
        v = np.zeros(k.shape)
        v[..., : unit[first : first + step].shape[0]] = unit[:, first : first + step]
        columns.append(reference.forward(q, k, v, problem, **given)[0])
    return np.concatenate(columns, axis=-1)[..., : problem.N]


def solve(
    problem: AttentionProblem, plan: TilingPlan, arrays: Arrays | None = None, cores: int = 3, work: CoreWork = ()
) -> list[float]:
    """Compiles and runs a plan; its core split is worked out for so many cores unless ``work`` is given."""
    target = EmulatedTarget("Ascend910A", cores)
    if work:
        plan = replace(plan, core_split=CoreSplit("even", len(work), work))
    else:
        plan = complete(plan, problem, target.hardware)
    arrays = data(problem) if arrays is None else arrays
    return errors(problem, arrays, target.compile(problem, plan).run(arrays))


def assert_right(found: list[float], most: float = 2e-3) -> None:
    assert max(found) < most, found


@st.composite
def cases(draw: st.DrawFn) -> tuple[AttentionProblem, TilingPlan]:
    """A problem and a plan that fits it."""
    head_dim = draw(st.sampled_from([1, 3, 16, 24, 40, 64, 80]))
    lengths = draw(st.tuples(st.integers(1, 80), st.integers(1, 100)))
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *lengths, head_dim)
    window = draw(st.none() | st.tuples(st.integers(0, 90), st.integers(0, 90)))
    mask, dropout, alibi = draw(st.sampled_from(MASKS)), draw(st.booleans()), draw(st.booleans())
    exact = draw(st.booleans())
    problem = grad(shape, attn_mask=mask, dropout=dropout, alibi=alibi, window=window, high_precision=exact)
    Br, Bc = (16 * draw(st.integers(1, -(-length // 16))) for length in lengths)
    split = CoreSplit(draw(st.sampled_from(["even", "balanced"])))
    exp = "float32" if exact else draw(st.sampled_from(["float32", "float16"]))
    return problem, TilingPlan(Br, Bc, split, double_buffer=draw(st.booleans()), exp=exp)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=cases(),
    cores=st.integers(1, 5),
    seed=st.integers(0, 99),
    peak=st.sampled_from([0.5, 5, 20]),
    hidden=st.integers(0, 79),
)
def test_any_plan_computes_gradients(
    case: tuple[AttentionProblem, TilingPlan], cores: int, seed: int, peak: float, hidden: int
) -> None:
    problem, plan = case
    arrays = data(problem, seed, peak, hidden_rows=[hidden % problem.Nq])
    assert_right(solve(problem, plan, arrays, cores), 4e-3)


@settings(deadline=None, max_examples=20)
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
    assert_right(solve(grad((1, 2, 150, 170, head_dim), attn_mask=mask), TilingPlan(96, 48)))


def test_shallow_heads_in_tall_units() -> None:
    """Statistics of a whole unit's queries would not fit where a gradient of 16 columns does."""
    assert_right(solve(grad((1, 1, 320, 250, 16)), TilingPlan(320, 128)))


@pytest.mark.parametrize("tail", range(1, 18, 2))
def test_tails_of_both_axes(tail: int) -> None:
    for mask in ("none", "causal"):
        assert_right(solve(grad((1, 1, 32 + tail, 64 + tail, 24), attn_mask=mask), TilingPlan(32, 32)))


@pytest.mark.parametrize("lengths", [(128, 256), (256, 128), (96, 200), (200, 96)])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_as_many_keys_as_queries_are_not_needed(lengths: tuple[int, int], mask: str) -> None:
    """Faults 3 and S1 of the public kernels: dK and dV landed at the query's strides."""
    assert_right(solve(grad((1, 2, *lengths, 64), attn_mask=mask), TilingPlan(64, 64)))


@pytest.mark.parametrize("blocks", [(64, 16), (96, 32), (32, 96), (16, 128), (48, 80), (80, 48)])
@pytest.mark.parametrize("lengths", [(160, 160), (200, 100), (100, 200)])
def test_causal_masks_count_tokens_whatever_the_blocks(blocks: tuple[int, int], lengths: tuple[int, int]) -> None:
    """Fault 8 of the public kernels: right only for Br = Bc = 128."""
    Br, Bc = (min(block, -(-length // 16) * 16) for block, length in zip(blocks, lengths))
    plan = TilingPlan(Br, Bc)
    assert_right(solve(grad((1, 1, *lengths, 32), attn_mask="causal"), plan))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.tuples(st.integers(1, 500), st.integers(1, 500)),
    blocks=st.tuples(st.integers(1, 10), st.integers(1, 8)),
    mask=st.sampled_from(MASKS),
    window=st.none() | st.tuples(st.integers(0, 300), st.integers(0, 300)),
    block_window=st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
    exp=st.sampled_from(["float32", "float16"]),
    double_buffer=st.booleans(),
)
def test_windows_count_tokens_whatever_the_blocks(
    lengths: tuple[int, int], blocks: tuple[int, int], mask: str, window: tuple[int, int] | None,
    block_window: tuple[int, int] | None, exp: str, double_buffer: bool,
) -> None:  # fmt: skip
    """Faults 9, S11 and S15 of the public kernels."""
    problem = grad((1, 1, *lengths, 16), attn_mask=mask, window=window, block_window=block_window)
    Br, Bc = (16 * min(block, -(-length // 16)) for block, length in zip(blocks, lengths))
    assert_right(solve(problem, TilingPlan(Br, Bc, exp=exp, double_buffer=double_buffer)), 4e-3)


@pytest.mark.parametrize("Bc", [16, 48, 80])
@pytest.mark.parametrize(
    ("window", "block_window", "nq"),
    [((0, 0), None, 300), ((33, 5), None, 400), (None, (0, 0), 500), (None, (1, 2), 640), ((7, 300), (1, 0), 333)],
)
def test_queries_after_every_key_of_their_window_change_no_gradient(
    window: tuple[int, int] | None, block_window: tuple[int, int] | None, nq: int, Bc: int
) -> None:
    problem = grad((1, 2, nq, 90, 40), window=window, block_window=block_window)
    target, arrays = EmulatedTarget("Ascend910A", 3), data(problem)
    assert np.isinf(arrays["lse"][..., -1]).all() and not arrays["o"][..., -1, :].any()
    for Br in (64, 160):
        with strict():
            found = target.compile(problem, complete(TilingPlan(Br, Bc), problem, target.hardware)).run(arrays)
        assert_right(errors(problem, arrays, found))
        assert not found["dq"][np.isinf(arrays["lse"])].any()


@pytest.mark.parametrize("exp", ["float32", "float16"])
@pytest.mark.parametrize("length", [64, 100])
def test_dropout_and_biases(length: int, exp: str) -> None:
    """Faults 7, 10, 11, S5 and S6: biases ignored, dropout permuted, tails refused."""
    problem = grad((2, 2, length, length + 30, 64), dropout=True, alibi=True, attn_mask="causal")
    assert_right(solve(problem, TilingPlan(64, 48, exp=exp), data(problem, keep=0.75)), 1.5e-3)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("size_of_do", [1e-4, 1.0, 2000.0])
def test_high_precision_loses_nothing_whatever_the_size_of_gradients_and_scores(
    mask: str, dropout: bool, size_of_do: float
) -> None:
    """Faults S16 and S17 of the public kernels: dP, D and dS overflow or sink in fp16, scores are rounded to it.

    What is left is what the rounding of the forward's O to fp16 does.
    """
    problem = grad((1, 2, 190, 333, 64), attn_mask=mask, dropout=dropout, high_precision=True)
    for peak, size_of_v in ((5, 1.0), (60, 8.0)):
        arrays = data(problem, 3, peak, keep=0.75)
        arrays["do"] = (arrays["do"].astype(np.float64) * size_of_do).astype(np.float16)
        arrays["v"] = arrays["v"] * np.float16(size_of_v)
        o, _ = reference.forward(arrays["q"], arrays["k"], arrays["v"], problem, **extras(arrays))
        arrays["o"] = o.astype(np.float16)
        q, k, v, do = (arrays[name] for name in ("q", "k", "v", "do"))
        exact = reference.gradients(q, k, v, do, problem, **extras(arrays))
        target, plan = EmulatedTarget("Ascend910A", 3), TilingPlan(96, 64, double_buffer=True)
        found = target.compile(problem, complete(plan, problem, target.hardware)).run(arrays)
        for name, right, unavoidable in zip(NAMES, exact, rounding_of_o(problem, arrays)):
            distance = np.linalg.norm(found[name] - right) - unavoidable
            assert distance < 5e-4 * np.linalg.norm(right), (name, peak)


@pytest.mark.parametrize("rows", [80, 112, 144])
def test_row_blocks_over_64_that_are_no_multiple_of_64(rows: int) -> None:
    """Fault S4 of the public kernels."""
    assert_right(solve(grad((1, 1, rows, 96, 64)), TilingPlan(rows, 48)))
    assert_right(solve(grad((1, 1, 128 + rows - 48, 96, 64)), TilingPlan(128, 96)))


@pytest.mark.parametrize("n", [77, 256])
def test_key_lengths_of_the_public_strategy_wukong(n: int) -> None:
    """Faults 4, 5, S7 and S9: keys left out, or strides that count 77 rows where the layout has 80."""
    for Bc in (16, 64, 80):
        assert_right(solve(grad((1, 2, 128, n, 40)), TilingPlan(64, Bc)))


@pytest.mark.parametrize("length", [100, 333])
def test_lengths_that_are_no_multiple_of_16(length: int) -> None:
    """Fault 11: the public backward's reshape of unaligned sizes."""
    assert_right(solve(grad((2, 1, length, length, 48), attn_mask="shared"), TilingPlan(96, 64)))


@pytest.mark.parametrize("head_dim", [64, 80])
def test_rows_whose_every_key_is_masked_have_the_gradients_of_unmasked_scores(head_dim: int) -> None:
    """Fault S10: the scores of such a row were lost. 10000 in fp32 leaves them 10 bits of fraction."""
    problem = grad((2, 2, 50, 90, head_dim), attn_mask="full")
    arrays = data(problem, peak=20, hidden_rows=range(3, 40))
    assert_right(solve(problem, TilingPlan(32, 48), arrays), 2e-3)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("head_dim", [60, 64])
def test_large_scores(mask: str, head_dim: int) -> None:
    problem = grad((1, 2, 100, 120, head_dim), attn_mask=mask)
    for peak in (30, 60):
        assert_right(solve(problem, TilingPlan(64, 64), data(problem, 1, peak)), 4e-3)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), cores=st.integers(1, 12))
def test_any_division_of_key_blocks_among_cores(seed: int, cores: int) -> None:
    """Runs in any order, split anywhere, some cores idle; 2 heads of 4 key blocks."""
    blocks = [(head, key, key + 1) for head in range(2) for key in range(4)]
    choose = random.Random(seed)
    choose.shuffle(blocks)
    work: list[list[tuple[int, int, int]]] = [[] for _ in range(cores)]
    for block in blocks:
        choose.choice(work).append(block)
    problem = grad((1, 2, 40, 56, 16), attn_mask="causal")
    assert_right(solve(problem, TilingPlan(32, 16), work=tuple(map(tuple, work))))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("junk", [np.nan, np.inf, 6e4])
def test_padding_never_contributes(mask: str, junk: float) -> None:
    """Garbage in the padding of every input, where the host would have put zeros, changes no bit of the result."""
    problem = grad((1, 2, 37, 77, 21), attn_mask=mask)
    target = EmulatedTarget("Ascend910A", 2)
    kernel = target.compile(problem, complete(TilingPlan(32, 48), problem, target.hardware))
    arrays = data(problem)
    lse = arrays.pop("lse").reshape(2, 37)
    results = []
    for filler in (0.0, junk):
        feed = {name: to_nz(_padded(array, filler)) for name, array in arrays.items()}
        feed["lse"] = np.pad(lse, [(0, 0), (0, 11)], constant_values=filler)
        found = kernel.tik.tikdb.start_debug(feed_dict=feed, interactive=False)
        results.append([from_nz(array, length, 21) for array, length in zip(found, (37, 77, 77))])
    for clean, dirty in zip(*results):
        np.testing.assert_array_equal(clean, dirty)


def _padded(array: NDArray[np.floating], filler: float) -> NDArray[np.floating]:
    padding = [(0, 0)] * (array.ndim - 2) + [(0, -size % 16) for size in array.shape[-2:]]
    return np.pad(array, padding, constant_values=filler)


@pytest.mark.parametrize("head_dim", [64, 96])
def test_an_exponential_in_fp32_is_more_exact(head_dim: int) -> None:
    problem = grad((1, 2, 128, 200, head_dim))
    single, half = (solve(problem, TilingPlan(64, 96, exp=exp)) for exp in ("float32", "float16"))
    assert max(single) < max(half) < 1e-3
    assert max(single) < 5e-4


def test_double_buffering_changes_no_bit() -> None:
    problem = grad((1, 2, 160, 64, 40), attn_mask="shared")
    target = EmulatedTarget("Ascend910A")
    arrays = data(problem)
    once, twice = (
        target.compile(problem, complete(TilingPlan(32, 48, double_buffer=on), problem, target.hardware)).run(arrays)
        for on in (False, True)
    )
    for name in NAMES:
        np.testing.assert_array_equal(once[name], twice[name])


@pytest.mark.parametrize("mask", ["none", "full"])
def test_sequences_too_long_for_one_strided_move_are_moved_strip_by_strip(
    monkeypatch: pytest.MonkeyPatch, mask: str
) -> None:
    """Fault S14: a gap of more than 65535 blocks needs many tokens; the limit is lowered instead."""
    problem = grad((2, 1, 70, 200, 40), attn_mask=mask)
    found = []
    for most in (context.MOST_GAP, 3):
        monkeypatch.setattr(context, "MOST_GAP", most)
        found.append(solve(problem, TilingPlan(32, 96)))
    assert_right(found[0])
    assert found[0] == found[1]


def test_the_forward_kernel_s_own_results_will_do() -> None:
    problem = grad((1, 2, 100, 120, 64), attn_mask="causal")
    forward, target, arrays = replace(problem, op="flash_attention"), EmulatedTarget("Ascend910A", 2), data(problem)
    plan = TilingPlan(64, 64)
    result = target.compile(forward, complete(plan, forward, target.hardware)).run(arrays)
    assert_right(solve(problem, plan, {**arrays, **result}))


def test_a_plan_that_does_not_fit_is_rejected_before_recording() -> None:
    problem = grad((1, 1, 4096, 4096, 128))
    target = EmulatedTarget("Ascend910A")
    with pytest.raises(PlanRejected, match="L0C needs"):
        target.compile(problem, complete(TilingPlan(256, 256), problem, target.hardware))
