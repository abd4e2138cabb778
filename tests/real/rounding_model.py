"""The public forward kernel as arithmetic: the same blocks and the same rounding points, and nothing of its code.

What is rounded where (flash-attention 1.0.0, forward): scores, their maxima, score minus maximum and probabilities are
fp16; exponentials are taken in fp32; row sums are fp32 sums of the fp16 probabilities before dropout; the output is
accumulated and rescaled in fp32 and rounded to fp16 once, after a multiplication by the fp32 reciprocal of the row sum.
"""

from __future__ import annotations

import numpy as np

from tests.real.public_cases import Case, Inputs, as_the_kernel_drops

half, single = np.float16, np.float32


def forward(case: Case, given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """O (B, H, Nq, D) fp16 and log-sum-exp (B, H, Nq) fp32 of a case whose key blocks are whole."""
    batch, heads, nq, n, d = case.shape
    Br, Bc = case.Br_Bc
    addend = _addend(case, given)
    keep = (
        np.ones((1, 1, nq, n), half)
        if given.dropout_mask is None
        else as_the_kernel_drops(given.dropout_mask, (Br, Bc))
    )
    o, lse = np.empty((batch, heads, nq, d), half), np.empty((batch, heads, nq), single)
    for b in range(batch):
        for h in range(heads):
            for top in range(0, nq, Br):
                rows = slice(top, min(top + Br, nq))
                columns = [slice(left, left + Bc) for left in range(0, n, Bc)]
                if case.mask == "tile":
                    columns = [c for c in columns if c.start < rows.stop]
                o[b, h, rows], lse[b, h, rows] = _row_block(
                    given.q[b, h, rows],
                    [given.k[b, h, c] for c in columns],
                    [given.v[b, h, c] for c in columns],
                    [addend[b % len(addend), rows, c] for c in columns],
                    [keep[b % len(keep), h % keep.shape[1], rows, c] for c in columns],
                )
    return o, lse


def _row_block(
    q: np.ndarray, ks: list[np.ndarray], vs: list[np.ndarray], addends: list[np.ndarray], keeps: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """One block of query rows over its key blocks."""
    rows = len(q)
    peak, total, o = np.full(rows, -np.inf, half), np.zeros(rows, single), np.zeros((rows, vs[0].shape[1]), single)
    for k, v, addend, keep in zip(ks, vs, addends, keeps, strict=True):
        scores = _product(q, k.T).astype(half) + addend
        old, peak = peak, np.maximum(peak, scores.max(axis=1))
        p = np.exp((scores - peak[:, None]).astype(single)).astype(half)
        rescale = np.exp(old.astype(single) - peak.astype(single))
        total = total * rescale + p.sum(axis=1, dtype=np.float64).astype(single)
        o = o * rescale[:, None] + _product(p * keep, v)
    return (o * (single(1) / total)[:, None]).astype(half), np.log(total) + peak.astype(single)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product of fp16 matrices, accumulated in fp32 as the cube does; the order of the sum is the host's."""
    product: np.ndarray = a.astype(single) @ b.astype(single)
    return product


def _addend(case: Case, given: Inputs) -> np.ndarray:
    """What is added to the scores: -10000 where masked. A causal tile on each diagonal block is the triangle."""
    _, _, nq, n, _ = case.shape
    mask = given.attn_mask
    if mask is None:
        mask = np.zeros((1, nq, n), half)
    elif case.mask == "tile":
        mask = np.triu(np.ones((1, nq, n), half), 1)
    return mask * half(-10000.0)


def ulp_distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many fp16 numbers apart two finite fp16 arrays are, element by element."""
    return np.asarray(np.abs(_ordinal(a) - _ordinal(b)))


def _ordinal(values: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(values, half).view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)
