"""The interval of keys that a row sees, against the definition key by key."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autotune.kernels.native.seen import seen
from autotune.problem import AttentionProblem

SIDES = st.integers(0, 5) | st.integers(100, 400) | st.just(10**11)
WINDOWS = st.none() | st.tuples(SIDES, SIDES)


@given(
    lengths=st.tuples(st.integers(1, 400), st.integers(1, 400)),
    causal=st.booleans(),
    window=WINDOWS,
    blocks=st.none() | st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
def test_exactly_the_keys_of_the_definition(
    lengths: tuple[int, int],
    causal: bool,
    window: tuple[int, int] | None,
    blocks: tuple[int, int] | None,
) -> None:
    nq, n = lengths
    mask = "causal" if causal else "none"
    problem = AttentionProblem.of((1, 1, nq, n, 8), attn_mask=mask, window=window, block_window=blocks)
    i, t = np.arange(nq)[:, None], np.arange(n)
    sees = np.ones((nq, n), bool)
    if causal:
        sees &= t <= i
    if window:
        sees &= (i - window[0] <= t) & (t <= i + window[1])
    if blocks:
        a, b = i // 128, t // 128
        sees &= (b - blocks[1] <= a) & (a <= b + blocks[0])
    first, end = seen(problem)
    assert (((first[:, None] <= t) & (t < end[:, None])) == sees).all()
    assert (np.diff(first) >= 0).all() and (np.diff(end) >= 0).all() and (first <= end).all() and end.max() <= n
