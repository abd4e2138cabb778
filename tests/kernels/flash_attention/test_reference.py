"""The float64 reference against scalar loops written here, and its gradients against finite differences."""

import math
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from autotune.errors import ProblemError
from autotune.kernels.flash_attention import reference
from autotune.problem import AttentionProblem

Array: TypeAlias = NDArray[Any]
Extra: TypeAlias = dict[str, Any]


def arrays(problem: AttentionProblem, seed: int = 0) -> tuple[Array, Array, Array, Extra]:
    """q, k, v and the optional arrays that the problem calls for."""
    rng = np.random.default_rng(seed)
    batch, heads, nq, n, d = problem.shape
    q, k, v = (rng.normal(size=(batch, heads, length, d)) for length in (nq, n, n))
    extra: Extra = {}
    if problem.attn_mask in ("full", "shared"):
        masks = batch if problem.attn_mask == "full" else 1
        extra["attn_mask"] = rng.integers(0, 2, (masks, nq, n)).astype(np.float16)
    if problem.dropout:
        extra["dropout_mask"] = rng.integers(0, 2, (batch, heads, nq, n)) / 0.5
    if problem.alibi:
        extra["alibi"] = rng.normal(size=(batch, heads, 1, n))
    return q, k, v, extra


def sees(problem: AttentionProblem, i: int, t: int) -> bool:
    """Whether query i has key t inside its windows, straight from the definition."""
    if problem.window is not None:
        before, after = problem.window
        if not i - before <= t <= i + after:
            return False
    if problem.block_window is not None:
        before, after = problem.block_window
        if not t // 128 - after <= i // 128 <= t // 128 + before:
            return False
    return True


def naive_row(
    problem: AttentionProblem, q: Array, k: Array, v: Array, extra: Extra, b: int, h: int, i: int
) -> tuple[list[float], float]:
    """Output and log-sum-exp of one query row, one scalar at a time."""
    scores: dict[int, float] = {}
    for t in range(problem.N):
        if not sees(problem, i, t):
            continue
        score = sum(q[b, h, i, c] * k[b, h, t, c] for c in range(problem.head_dim)) / math.sqrt(problem.head_dim)
        if "alibi" in extra:
            score += extra["alibi"][b, h, 0, t]
        if "attn_mask" in extra:
            mask = extra["attn_mask"]
            score -= 10000.0 * float(mask[b if len(mask) > 1 else 0, i, t])
        if problem.attn_mask == "causal" and t > i:
            score -= 10000.0
        scores[t] = score
    if not scores:
        return [0.0] * problem.head_dim, -math.inf
    peak = max(scores.values())
    weights = {t: math.exp(score - peak) for t, score in scores.items()}
    total = sum(weights.values())
    drop = extra.get("dropout_mask")
    o = [
        sum(w / total * (1.0 if drop is None else drop[b, h, i, t]) * v[b, h, t, c] for t, w in weights.items())
        for c in range(problem.head_dim)
    ]
    return o, peak + math.log(total)


PROBLEMS = [
    AttentionProblem.of((2, 2, 5, 7, 3)),
    AttentionProblem.of((2, 1, 6, 6, 4), attn_mask="causal"),
    AttentionProblem.of((1, 1, 7, 4, 2), attn_mask="causal"),
    AttentionProblem.of((2, 2, 4, 5, 3), attn_mask="full"),
    AttentionProblem.of((2, 2, 4, 5, 3), attn_mask="shared", dropout=True),
    AttentionProblem.of((2, 2, 4, 5, 3), alibi=True),
    AttentionProblem.of((1, 2, 9, 5, 3), window=(1, 0)),
    AttentionProblem.of((1, 1, 6, 6, 2), window=(2, 1), attn_mask="causal", dropout=True, alibi=True),
    AttentionProblem.of((1, 1, 390, 140, 1), block_window=(1, 0)),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.key)
def test_forward_is_the_definition(problem: AttentionProblem) -> None:
    q, k, v, extra = arrays(problem)
    o, lse = reference.forward(q, k, v, problem, **extra)
    assert o.shape == (*problem.shape[:3], problem.head_dim) and o.dtype == lse.dtype == np.float64
    rows = range(problem.Nq) if problem.Nq < 100 else (0, 127, 128, 255, 256, 389)
    for b, h, i in product(range(problem.batch), range(problem.heads), rows):
        expected_o, expected_lse = naive_row(problem, q, k, v, extra, b, h, i)
        np.testing.assert_allclose(o[b, h, i], expected_o, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(lse[b, h, i], expected_lse, rtol=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS[:8], ids=lambda p: p.key)
def test_gradients_are_finite_differences(problem: AttentionProblem) -> None:
    q, k, v, extra = arrays(problem)
    do = np.random.default_rng(1).normal(size=q.shape)
    found = reference.gradients(q, k, v, do, problem, **extra)
    step = 1e-4
    rng = np.random.default_rng(2)
    for array, gradient in zip((q, k, v), found, strict=True):
        assert gradient.shape == array.shape and gradient.dtype == np.float64
        for flat in rng.choice(array.size, size=min(array.size, 12), replace=False):
            at = np.unravel_index(flat, array.shape)
            there = array[at]
            losses = []
            for shift in (step, -step):
                array[at] = there + shift
                losses.append(np.sum(reference.forward(q, k, v, problem, **extra)[0] * do))
            array[at] = there
            assert gradient[at] == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-6, abs=1e-7)


def test_a_row_whose_every_key_is_masked_is_the_softmax_of_its_unmasked_scores() -> None:
    problem = AttentionProblem.of((1, 1, 3, 6, 4), attn_mask="shared")
    q, k, v, _ = arrays(problem)
    mask = np.zeros((1, 3, 6))
    mask[0, 1] = 1.0
    o, lse = reference.forward(q, k, v, problem, mask)
    plain_o, plain_lse = reference.forward(q, k, v, AttentionProblem.of((1, 1, 3, 6, 4)))
    np.testing.assert_allclose(o, plain_o, rtol=1e-9)
    np.testing.assert_allclose(lse[0, 0], plain_lse[0, 0] - [0, 10000, 0], rtol=1e-12)


def test_rows_without_keys_give_zeros_and_no_gradient() -> None:
    problem = AttentionProblem.of((1, 1, 10, 4, 2), window=(2, 0))
    q, k, v, _ = arrays(problem)
    o, lse = reference.forward(q, k, v, problem)
    assert np.all(o[0, 0, 6:] == 0) and np.all(np.isneginf(lse[0, 0, 6:])) and np.all(np.isfinite(lse[0, 0, :6]))
    dq, dk, dv = reference.gradients(q, k, v, np.ones_like(q), problem)
    assert np.all(dq[0, 0, 6:] == 0)
    assert all(np.all(np.isfinite(gradient)) for gradient in (dq, dk, dv))


@settings(max_examples=25, deadline=None)
@given(chunk=st.integers(1, 200), seed=st.integers(0, 99))
def test_chunking_does_not_change_the_result(chunk: int, seed: int) -> None:
    problem = AttentionProblem.of((1, 2, 11, 9, 3), attn_mask="causal", window=(4, 2), dropout=True)
    q, k, v, extra = arrays(problem, seed)
    whole = (*reference.forward(q, k, v, problem, **extra), *reference.gradients(q, k, v, q, problem, **extra))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "CHUNK_SCORES", chunk)
        parts = (*reference.forward(q, k, v, problem, **extra), *reference.gradients(q, k, v, q, problem, **extra))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_large_scores_do_not_overflow_and_half_precision_is_widened() -> None:
    problem = AttentionProblem.of((1, 1, 4, 4, 8))
    q = np.full((1, 1, 4, 8), 250.0, np.float16)
    o, lse = reference.forward(q, q, q, problem)
    np.testing.assert_allclose(o, 250.0)
    np.testing.assert_allclose(lse, 250.0**2 * math.sqrt(8) + math.log(4), rtol=1e-14)


def test_scale_replaces_one_over_the_root_of_head_dim() -> None:
    problem = AttentionProblem.of((1, 1, 5, 5, 4))
    q, k, v, _ = arrays(problem)
    np.testing.assert_allclose(
        reference.forward(q, k, v, problem)[0], reference.forward(q * 0.5, k, v, problem, scale=1.0)[0], rtol=1e-12
    )
    for one, other, factor in zip(
        reference.gradients(q, k, v, q, problem),
        reference.gradients(q * 0.5, k, v, q, problem, scale=1.0),
        (2, 1, 1),
        strict=True,
    ):
        np.testing.assert_allclose(one * factor, other, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "given", "name"),
    [
        ({"attn_mask": "full"}, {}, "attn_mask"),
        ({"attn_mask": "full"}, {"attn_mask": np.zeros((1, 3, 4))}, "attn_mask"),
        ({}, {"attn_mask": np.zeros((2, 3, 4))}, "attn_mask"),
        ({"dropout": True}, {}, "dropout_mask"),
        ({"alibi": True}, {"alibi": np.zeros((2, 1, 3, 4))}, "alibi"),
    ],
)
def test_arrays_that_do_not_fit_the_problem_are_refused(options: dict[str, Any], given: Extra, name: str) -> None:
    problem = AttentionProblem.of((2, 1, 3, 4, 2), **options)
    q, k, v, _ = arrays(AttentionProblem.of((2, 1, 3, 4, 2)))
    with pytest.raises(ProblemError, match=name):
        reference.forward(q, k, v, problem, **given)
