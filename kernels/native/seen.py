"""Which keys a query sees: causal masks and windows as an interval for every row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autotune.problem import AttentionProblem

WINDOW_BLOCK = 128
"""Tokens in one block of ``block_window``, whatever the tiling (docs/vocabulary.md)."""

Rows = NDArray[np.int64]


def seen(problem: AttentionProblem) -> tuple[Rows, Rows]:
    """(first, end) of each query row, both (Nq,) and never falling: it sees the keys first <= t < end.

    Row i sees itself wherever there is a key i, so a causal mask never hides all that a window leaves; to hide a key is
    then the same as to add -10000 to its score. first = end for a row without keys.
    """
    row = np.arange(problem.Nq)
    first, end = np.zeros_like(row), np.full_like(row, problem.N)
    if problem.attn_mask == "causal":
        end = np.minimum(end, row + 1)
    for size, window in ((1, problem.window), (WINDOW_BLOCK, problem.block_window)):
        if window is not None:
            before, after = (min(count, problem.Nq + problem.N) for count in window)
            first = np.maximum(first, (row // size - before) * size)
            end = np.minimum(end, (row // size + after + 1) * size)
    first = np.minimum(first, problem.N)
    return first, np.maximum(end, first)
