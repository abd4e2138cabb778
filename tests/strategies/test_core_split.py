"""Core splits: every row block once, in order, fast, and the balanced one as level as any contiguous split can be."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from timeit import repeat
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UnknownName
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import RULES, complete, distinct_rules, row_blocks

sizes = st.integers(1, 200)
blocks = st.integers(1, 6).map(lambda tiles: 16 * tiles)
windows = st.none() | st.tuples(st.integers(0, 80), st.integers(0, 80))
block_windows = st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2))
cores = st.integers(1, 9)


@st.composite
def problems(draw: Any) -> AttentionProblem:
    """Small problems with every mask and window that a split can depend on."""
    return AttentionProblem.of(
        (draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(sizes), draw(st.integers(1, 400)), 32),
        attn_mask=draw(st.sampled_from(("none", "full", "causal"))),
        window=draw(windows),
        block_window=draw(block_windows),
    )


def chip(core_count: int) -> Hardware:
    return Hardware("chip", core_count, 1000)


def seen(problem: AttentionProblem) -> np.ndarray[Any, Any]:
    """Nq x N: whether a query row sees a key, straight from the definitions."""
    i, t = np.arange(problem.Nq)[:, None], np.arange(problem.N)[None, :]
    mask = np.ones((problem.Nq, problem.N), bool)
    if problem.attn_mask == "causal":
        mask &= t <= i
    if problem.window:
        mask &= (i - problem.window[0] <= t) & (t <= i + problem.window[1])
    if problem.block_window:
        before, after = problem.block_window
        mask &= (t // 128 - after <= i // 128) & (i // 128 <= t // 128 + before)
    return mask


def counted_loads(problem: AttentionProblem, Br: int, Bc: int) -> list[int]:
    """Key blocks that each row block of one head touches, counted key by key."""
    mask = seen(problem)
    return [
        sum(bool(mask[row : row + Br, key : key + Bc].any()) for key in range(0, problem.N, Bc))
        for row in range(0, problem.Nq, Br)
    ]


def core_loads(split: CoreSplit, loads: list[int]) -> list[int]:
    return [sum(sum(loads[first:end]) for _, first, end in work) for work in split.work]


def split_of(rule: str, problem: AttentionProblem, Br: int, Bc: int, core_count: int) -> CoreSplit:
    return complete(TilingPlan(Br, Bc, CoreSplit(rule)), problem, chip(core_count)).core_split


@given(problems(), blocks, blocks)
def test_loads_are_counted_exactly_in_tokens(problem: AttentionProblem, Br: int, Bc: int) -> None:
    assert list(row_blocks(problem, Br, Bc).loads) == counted_loads(problem, Br, Bc)


@given(problems(), blocks, blocks)
def test_backward_key_blocks_are_dealt_by_the_query_blocks_that_see_them(
    problem: AttentionProblem, Br: int, Bc: int
) -> None:
    backward, mask = replace(problem, op="flash_attention_grad"), seen(problem)
    loads = [
        sum(bool(mask[row : row + Br, key : key + Bc].any()) for row in range(0, problem.Nq, Br))
        for key in range(0, problem.N, Bc)
    ]
    assert list(row_blocks(backward, Br, Bc).loads) == loads
    assert distinct_rules(backward, Br, Bc) == (("even",) if len(set(loads)) == 1 else ("even", "balanced"))
    split = split_of("even", backward, Br, Bc, 5)
    dealt = [(head, block) for work in split.work for head, first, end in work for block in range(first, end)]
    assert dealt == [(head, block) for head in range(problem.heads_total) for block in range(len(loads))]


@given(problems(), blocks, blocks, cores, st.sampled_from(sorted(RULES)))
def test_every_row_block_once_in_order_and_no_core_idle(
    problem: AttentionProblem, Br: int, Bc: int, core_count: int, rule: str
) -> None:
    split = split_of(rule, problem, Br, Bc, core_count)
    dealt = [(head, block) for work in split.work for head, first, end in work for block in range(first, end)]
    row_count = -(-problem.Nq // Br)
    assert dealt == [(head, block) for head in range(problem.heads_total) for block in range(row_count)]
    assert split.block_num == len(split.work) == min(core_count, problem.heads_total * row_count)
    assert all(first < end for work in split.work for _, first, end in work) and all(split.work)
    assert split == split_of(rule, problem, Br, Bc, core_count) and split.rule == rule


@settings(deadline=None)
@given(problems(), blocks, blocks, st.integers(1, 4))
def test_balanced_is_the_best_contiguous_split(problem: AttentionProblem, Br: int, Bc: int, core_count: int) -> None:
    loads = counted_loads(problem, Br, Bc)
    everything = loads * problem.heads_total
    split = split_of("balanced", problem, Br, Bc, core_count)
    busiest = max(core_loads(split, loads))
    assert busiest <= max(core_loads(split_of("even", problem, Br, Bc, core_count), loads))
    if len(everything) <= 12:
        cuts = combinations(range(1, len(everything)), split.block_num - 1)
        assert busiest == min(
            max(sum(everything[a:b]) for a, b in pairwise((0, *cut, len(everything)))) for cut in cuts
        )


@given(problems(), blocks, blocks)
def test_only_even_where_all_row_blocks_load_the_same(problem: AttentionProblem, Br: int, Bc: int) -> None:
    same = len(set(counted_loads(problem, Br, Bc))) == 1
    assert distinct_rules(problem, Br, Bc) == (("even",) if same else ("even", "balanced"))


@given(problems(), blocks, blocks, cores)
def test_the_rules_that_are_left_out_would_split_the_same(
    problem: AttentionProblem, Br: int, Bc: int, core_count: int
) -> None:
    if distinct_rules(problem, Br, Bc) == ("even",):
        assert (
            split_of("balanced", problem, Br, Bc, core_count).work == split_of("even", problem, Br, Bc, core_count).work
        )


def test_even_deals_row_blocks_give_or_take_one() -> None:
    split = split_of("even", AttentionProblem.of((1, 2, 80, 64, 64)), 16, 16, 4)
    assert split.work == (((0, 0, 2),), ((0, 2, 5),), ((1, 0, 2),), ((1, 2, 5),))


def test_balanced_evens_out_a_causal_triangle() -> None:
    problem = AttentionProblem.of((1, 1, 128, 128, 64), attn_mask="causal")
    loads = [1, 2, 3, 4, 5, 6, 7, 8]
    assert core_loads(split_of("even", problem, 16, 16, 2), loads) == [10, 26]
    assert core_loads(split_of("balanced", problem, 16, 16, 2), loads) == [21, 15]


def test_completing_keeps_the_rest_of_the_plan_and_takes_the_cores_of_the_chip() -> None:
    problem = AttentionProblem.of((1, 8, 256, 256, 64))
    plan = complete(TilingPlan(64, 128, CoreSplit("even", 32), True, "lattice"), problem, chip(30))
    assert (plan.Br, plan.Bc, plan.double_buffer, plan.strategy) == (64, 128, True, "lattice")
    assert plan.core_split.block_num == 30


def test_an_unknown_rule_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="'striped'; known: balanced, even") as raised:
        split_of("striped", AttentionProblem.of((1, 1, 64, 64, 64)), 16, 16, 2)
    assert raised.value.field == "core_split"


@pytest.mark.parametrize(
    ("shape", "Br", "limit_ms"),
    [
        ((1, 32, 4096, 4096, 64), 128, 1.0),
        ((1, 32, 4096, 4096, 64), 16, 2.0),
        ((128, 128, 16384, 16384, 64), 16, 300.0),
    ],
)
def test_a_split_costs_little(shape: tuple[int, ...], Br: int, limit_ms: float) -> None:
    problem = AttentionProblem.of(shape, attn_mask="causal")
    plan = TilingPlan(Br, 128, CoreSplit("balanced"))
    seconds = min(repeat(lambda: complete(plan, problem, chip(32)), number=1, repeat=5))
    assert seconds * 1e3 < limit_ms
