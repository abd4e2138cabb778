"""What attention is: its forward and gradients in numpy float64, as exact as the host can be.

All arrays are row-major. The rules of masks and windows are the product's own: windows are counted in tokens (or in
fixed blocks of 128 tokens), ``attn_mask`` adds -10000 where it is 1, dropout multiplies probabilities by 0 or 1/keep.
Work is done for a few query rows at a time, so that memory grows with N and not with Nq * N.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.errors import ProblemError
from autotune.problem import AttentionProblem

Array = NDArray[Any]
Float64 = NDArray[np.float64]

MASK_VALUE = -10000.0
"""Added to a masked score."""
WINDOW_BLOCK = 128
"""Tokens in one block of ``block_window``, whatever the tiling."""
CHUNK_SCORES = 1 << 20
"""Scores held at once: 8 MiB in float64."""


def forward(
    q: Array,
    k: Array,
    v: Array,
    problem: AttentionProblem,
    attn_mask: Array | None = None,
    scale: float | None = None,
    dropout_mask: Array | None = None,
    alibi: Array | None = None,
) -> tuple[Float64, Float64]:
    """Output o (B, H, Nq, D) and log-sum-exp lse (B, H, Nq), both float64.

    ``q`` is (B, H, Nq, D), ``k`` and ``v`` are (B, H, N, D), of any float type. ``attn_mask`` is (B, Nq, N) where the
    problem's mask is full and (1, Nq, N) where it is shared, 1 = masked; ``dropout_mask`` (B, H, Nq, N) is 0 or 1/keep;
    ``alibi`` (B, H, 1, N) is added to the scores. Each is given exactly when the problem has it. ``scale`` multiplies
    q k^T and is 1/sqrt(D) by default. A row with no key inside its window has o = 0 and lse = -inf.
    Raises ProblemError when an array is missing, unexpected or of another shape.
    """
    rows = _Rows(problem, q, k, v, attn_mask, dropout_mask, alibi, scale)
    o = np.zeros((problem.batch, problem.heads, problem.Nq, problem.head_dim))
    lse = np.zeros(o.shape[:3])
    for at in rows.chunks():
        p, lse[at] = rows.probabilities(at)
        o[at] = (p * rows.kept(at)) @ rows.v[at[:2]]
    return o, lse


def gradients(
    q: Array,
    k: Array,
    v: Array,
    do: Array,
    problem: AttentionProblem,
    attn_mask: Array | None = None,
    scale: float | None = None,
    dropout_mask: Array | None = None,
    alibi: Array | None = None,
) -> tuple[Float64, Float64, Float64]:
    """Gradients (dq, dk, dv) of sum(o * do) in float64; ``do`` is (B, H, Nq, D), all else as in ``forward``.

    With P the probabilities and M the dropout mask: dV = (P M)^T dO, dP = (dO V^T) M, dS = P (dP - rowsum(P dP)),
    dQ = scale dS K, dK = scale dS^T Q. Raises ProblemError as ``forward`` does.
    """
    rows = _Rows(problem, q, k, v, attn_mask, dropout_mask, alibi, scale)
    _check("do", do, (problem.batch, problem.heads, problem.Nq, problem.head_dim))
    dq, dk, dv = np.zeros(rows.q.shape), np.zeros(rows.k.shape), np.zeros(rows.v.shape)
    for at in rows.chunks():
        head = at[:2]
        do_rows = do[at].astype(np.float64)
        p, _ = rows.probabilities(at)
        kept = rows.kept(at)
        dp = (do_rows @ rows.v[head].T) * kept
        ds = p * (dp - np.sum(p * dp, axis=1, keepdims=True)) * rows.scale
        dq[at] = ds @ rows.k[head]
        dk[head] += ds.T @ rows.q[at]
        dv[head] += (p * kept).T @ do_rows
    return dq, dk, dv


_At = tuple[int, int, slice]
"""Batch, head, query rows."""


class _Rows:
    """The probabilities of any few query rows of one problem."""

    def __init__(
        self,
        problem: AttentionProblem,
        q: Array,
        k: Array,
        v: Array,
        attn_mask: Array | None,
        dropout_mask: Array | None,
        alibi: Array | None,
        scale: float | None,
    ) -> None:
        batch, heads, nq, n, head_dim = problem.shape
        for name, given, shape in (
            ("q", q, (batch, heads, nq, head_dim)),
            ("k", k, (batch, heads, n, head_dim)),
            ("v", v, (batch, heads, n, head_dim)),
            ("attn_mask", attn_mask, {"full": (batch, nq, n), "shared": (1, nq, n)}.get(problem.attn_mask)),
            ("dropout_mask", dropout_mask, (batch, heads, nq, n) if problem.dropout else None),
            ("alibi", alibi, (batch, heads, 1, n) if problem.alibi else None),
        ):
            _check(name, given, shape)
        self.problem = problem
        self.q, self.k, self.v = (np.asarray(array, np.float64) for array in (q, k, v))
        self.attn_mask, self.dropout_mask, self.alibi = attn_mask, dropout_mask, alibi
        self.scale = head_dim**-0.5 if scale is None else scale

    def chunks(self) -> Iterator[_At]:
        """Every query row of every head once, a few at a time."""
        step = max(1, CHUNK_SCORES // self.problem.N)
        for batch in range(self.problem.batch):
            for head in range(self.problem.heads):
                for start in range(0, self.problem.Nq, step):
                    yield batch, head, slice(start, min(start + step, self.problem.Nq))

    def probabilities(self, at: _At) -> tuple[Float64, Float64]:
        """Softmax (rows, N), before dropout, and log-sum-exp (rows,); zeros and -inf for a row without keys."""
        scores = self._scores(at)
        seen = scores > -np.inf
        peak = np.where(seen.any(axis=1), scores.max(axis=1), 0.0)
        p = np.exp(scores - peak[:, None])
        total = p.sum(axis=1)
        with np.errstate(divide="ignore"):
            lse = peak + np.log(total)
        return p / np.where(total > 0.0, total, 1.0)[:, None], lse

    def kept(self, at: _At) -> Float64:
        """What dropout multiplies each probability by: (rows, N), or one 1 for all."""
        return np.ones((1, 1)) if self.dropout_mask is None else self.dropout_mask[at].astype(np.float64)

    def _scores(self, at: _At) -> Float64:
        batch, head, rows = at
        scores: Float64 = (self.q[at] @ self.k[batch, head].T) * self.scale
        if self.alibi is not None:
            scores += self.alibi[batch, head]
        if self.attn_mask is not None:
            scores += MASK_VALUE * self.attn_mask[batch % len(self.attn_mask), rows].astype(np.float64)
        query, key = np.arange(rows.start, rows.stop)[:, None], np.arange(self.problem.N)[None, :]
        if self.problem.attn_mask == "causal":
            scores += MASK_VALUE * (key > query)
        if self.problem.window is not None:
            _hide_outside(scores, query, key, self.problem.window)
        if self.problem.block_window is not None:
            _hide_outside(scores, query // WINDOW_BLOCK, key // WINDOW_BLOCK, self.problem.block_window)
        return scores


def _hide_outside(scores: Float64, query: Array, key: Array, window: tuple[int, int]) -> None:
    """Leaves the scores where query - prev <= key <= query + next, and puts -inf elsewhere."""
    before, after = window
    scores[(key < query - before) | (key > query + after)] = -np.inf


def _check(name: str, given: Array | None, shape: tuple[int, ...] | None) -> None:
    actual = None if given is None else given.shape
    if actual != shape:
        raise ProblemError(f"{name} has shape {actual}; this problem needs {shape}", field=name)
