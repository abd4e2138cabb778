"""The forward kernel against a numpy model that rounds where the kernel rounds: a second oracle, much sharper.

What remains are the orders of fp32 sums, which may move a result across a rounding boundary of fp16.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autotune.kernels.targets.emulated import EmulatedTarget
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import complete

Array = NDArray[Any]
F16, F32 = np.float16, np.float32


def model(problem: AttentionProblem, Bc: int, q: Array, k: Array, v: Array, mask: Array | None) -> tuple[Array, Array]:
    """O in fp16 and log-sum-exp in fp32 of one head; mask is (Nq, N) with 1 = masked, or None."""
    mantissa, exponent = math.frexp(problem.head_dim**-0.5)
    power = 2.0 ** (exponent if mantissa > 0.5 else exponent - 1)
    rest = F32(problem.head_dim**-0.5 / power)
    high = F16(-10000 / (problem.head_dim**-0.5 / power))
    low = F16(-10000 / (problem.head_dim**-0.5 / power) - float(high))
    q = (q.astype(F32) * F32(power)).astype(F16).astype(F32)
    k, v = k.astype(F32), v.astype(F32)
    peak = np.full((len(q), 1), -1e30, F32)
    total, o = np.zeros_like(peak), np.zeros_like(q)
    for start in range(0, problem.N, Bc):
        s = q @ k[start : start + Bc].T
        if mask is not None:
            for term in (high, low):
                s = s + F32(term) * mask[:, start : start + Bc].astype(F32)
        new_peak = np.maximum(peak, s.max(axis=1, keepdims=True))
        decay, peak = np.exp((peak - new_peak) * rest), new_peak
        p = np.exp((s - peak) * rest).astype(F16).astype(F32)
        o = o * decay + p @ v[start : start + Bc]
        total = total * decay + p.sum(axis=1, keepdims=True)
    return (o * (F32(1) / total)).astype(F16), (peak * rest + np.log(total))[:, 0]


def ulps(a: Array, b: Array) -> Array:
    """Distance of two fp16 arrays in steps of the format."""

    def order(x: Array) -> Array:
        bits = x.view(np.int16).astype(np.int32)
        return np.where(bits < 0, -(bits & 0x7FFF), bits)

    distance: Array = np.abs(order(a) - order(b))
    return distance


@pytest.mark.parametrize("head_dim", [40, 64, 80, 128])
@pytest.mark.parametrize("mask", ["none", "causal", "shared"])
def test_results_are_the_model_s_but_for_one_step_of_fp16(head_dim: int, mask: str) -> None:
    problem = AttentionProblem.of((1, 1, 256, 300, head_dim), attn_mask=mask)
    rng = np.random.default_rng(head_dim)
    q, k, v = (rng.normal(size=(1, 1, n, head_dim)).astype(F16) for n in (256, 300, 300))
    causal, chosen = np.arange(300)[None] > np.arange(256)[:, None], rng.random((256, 300)) < 0.4
    chosen[7] = True
    hidden = {"none": None, "causal": causal, "shared": chosen}[mask]
    inputs = {"q": q, "k": k, "v": v}
    if mask == "shared":
        inputs["attn_mask"] = chosen[None].astype(F16)
    target = EmulatedTarget("Ascend910A")
    plan = complete(TilingPlan(64, 96), problem, target.hardware)
    found = target.compile(problem, plan).run(inputs)
    o, lse = model(problem, 96, q[0, 0], k[0, 0], v[0, 0], hidden)
    assert np.mean(ulps(found["o"][0, 0], o) > 1) < 1e-3
    np.testing.assert_allclose(found["lse"][0, 0], lse, rtol=1e-6, atol=2e-6)
