"""Core splits: every row block once, fast, and as level as each rule promises."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from time import process_time
from timeit import Timer
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UnknownName
from autotune.hardware import Hardware
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.core_split import PIECES, RULES, WORTHWHILE, complete, distinct_rules, public_rule
from autotune.strategies.row_blocks import row_blocks

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


def dealt(split: CoreSplit) -> list[tuple[int, int]]:
    """(head, row block) in the order of the cores."""
    return [(head, block) for work in split.work for head, first, end in work for block in range(first, end)]


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
    split = split_of("even", backward, Br, Bc, 5)
    assert dealt(split) == [(head, block) for head in range(problem.heads_total) for block in range(len(loads))]


@settings(deadline=None)
@given(problems(), blocks, blocks, cores, st.sampled_from(sorted(RULES)))
def test_every_row_block_once_and_no_core_idle(
    problem: AttentionProblem, Br: int, Bc: int, core_count: int, rule: str
) -> None:
    split = split_of(rule, problem, Br, Bc, core_count)
    row_count = -(-problem.Nq // Br)
    due = [(head, block) for head in range(problem.heads_total) for block in range(row_count)]
    assert (sorted(dealt(split)) if rule in ("causal", "longest_first") else dealt(split)) == due
    assert split.block_num == len(split.work) == min(core_count, len(due))
    assert all(first < end for work in split.work for _, first, end in work) and all(split.work)
    assert all(list(work) == sorted(work) for work in split.work), "a core goes through its row blocks in rising order"
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


@settings(deadline=None)
@given(problems(), blocks, blocks, cores)
def test_rules_worth_a_trial_are_even_and_one_that_is_about_the_best(
    problem: AttentionProblem, Br: int, Bc: int, core_count: int
) -> None:
    loads = counted_loads(problem, Br, Bc)
    busiest = {rule: max(core_loads(split_of(rule, problem, Br, Bc, core_count), loads)) for rule in RULES}
    found = distinct_rules(problem, Br, Bc, chip(core_count))
    assert found[0] == "even" and len(found) <= 2
    assert busiest[found[-1]] < busiest["even"] or found == ("even",)
    assert busiest[found[-1]] * (1 - WORTHWHILE) ** 3 <= max(min(busiest.values()), 1) * (1 + WORTHWHILE)
    if len(set(loads)) == 1:
        assert found == ("even",)


@settings(deadline=None)
@given(problems(), blocks, blocks, cores)
def test_the_public_rule_is_balanced_by_the_name_that_tells_it_from_even(
    problem: AttentionProblem, Br: int, Bc: int, core_count: int
) -> None:
    rule = public_rule(problem, Br, Bc, chip(core_count))
    work = {name: split_of(name, problem, Br, Bc, core_count).work for name in ("even", "balanced")}
    assert work[rule] == work["balanced"] and rule == ("even" if work["even"] == work["balanced"] else "balanced")


@settings(deadline=None)
@given(problems(), blocks, blocks, cores)
def test_head_major_never_leaves_a_head_half_done(problem: AttentionProblem, Br: int, Bc: int, core_count: int) -> None:
    split = split_of("head_major", problem, Br, Bc, core_count)
    row_count = -(-problem.Nq // Br)
    for work in split.work:
        assert len(work) == 1 or all((first, end) == (0, row_count) for _, first, end in work)
    if problem.heads_total >= core_count:
        heads = [len(work) for work in split.work]
        assert max(heads) - min(heads) <= 1


@settings(deadline=None)
@given(problems(), blocks, blocks, cores)
def test_longest_first_is_a_list_schedule(problem: AttentionProblem, Br: int, Bc: int, core_count: int) -> None:
    """Graham's bound for any list: what is left over, spread evenly, and at most one more of the largest piece."""
    loads = counted_loads(problem, Br, Bc)
    split = split_of("longest_first", problem, Br, Bc, core_count)
    cores_used, row_count = split.block_num, len(loads)
    size = -(-(problem.heads_total % cores_used) * row_count // (PIECES * cores_used)) or 1
    largest = max(sum(loads[first : first + size]) for first in range(0, row_count, size))
    assert max(core_loads(split, loads)) <= problem.heads_total * sum(loads) / cores_used + largest
    assert sum(map(len, split.work)) <= problem.heads_total + PIECES * cores_used + problem.heads_total % cores_used


@pytest.mark.parametrize("heads", [1, 3, 8, 12])
@pytest.mark.parametrize("row_count", [64, 96])
def test_causal_gives_every_core_the_same_triangle(heads: int, row_count: int) -> None:
    """Pairs are equal, so that no two cores differ by more than one pair."""
    problem = AttentionProblem.of((1, heads, 16 * row_count, 16 * row_count, 64), attn_mask="causal")
    split = split_of("causal", problem, 16, 16, 8)
    loads = core_loads(split, list(range(1, row_count + 1)))
    assert max(loads) - min(loads) <= row_count + 1
    assert sum(loads) == heads * row_count * (row_count + 1) // 2
    if heads * row_count % 16 == 0:
        assert len(set(loads)) == 1
    assert max(map(len, split.work)) <= 4 + heads // 8


def test_causal_pairs_the_first_with_the_last() -> None:
    problem = AttentionProblem.of((1, 1, 112, 112, 64), attn_mask="causal")
    assert split_of("causal", problem, 16, 16, 2).work == (((0, 0, 2), (0, 5, 7)), ((0, 2, 5),))
    assert split_of("causal", problem, 16, 16, 7).work == split_of("balanced", problem, 16, 16, 7).work


def test_longest_first_by_hand() -> None:
    """Loads 1 to 5 on two cores: 5, then 4 and 3 to the other, then 2 to the first, then 1 to either."""
    problem = AttentionProblem.of((1, 1, 80, 80, 64), attn_mask="causal")
    assert split_of("longest_first", problem, 16, 16, 2).work == (((0, 0, 2), (0, 4, 5)), ((0, 2, 4),))


def test_a_masked_problem_whose_cores_have_whole_heads_needs_one_rule() -> None:
    problem = AttentionProblem.of((1, 32, 4096, 4096, 64), attn_mask="causal")
    assert distinct_rules(problem, 128, 128, chip(32)) == ("even",)
    assert distinct_rules(problem, 128, 128, chip(30)) == ("even", "balanced")


def test_eight_heads_under_a_causal_mask_need_pairs() -> None:
    """132 key blocks for the busiest core, 140 with contiguous runs, 228 with ``even``."""
    problem = AttentionProblem.of((1, 8, 4096, 4096, 64), attn_mask="causal")
    assert distinct_rules(problem, 128, 128, chip(32)) == ("even", "causal")
    loads = list(range(1, 33))
    busiest = [max(core_loads(split_of(rule, problem, 128, 128, 32), loads)) for rule in ("even", "balanced", "causal")]
    assert busiest == [228, 140, 132]


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
    with pytest.raises(
        UnknownName, match="'striped'; known: balanced, causal, even, head_major, longest_first"
    ) as raised:
        split_of("striped", AttentionProblem.of((1, 1, 64, 64, 64)), 16, 16, 2)
    assert raised.value.field == "core_split"


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize(
    ("shape", "Br", "limit_ms"),
    [
        ((1, 32, 4096, 4096, 64), 128, 1.0),
        ((1, 31, 4096, 4096, 64), 16, 5.0),
        ((128, 128, 16384, 16384, 64), 16, 300.0),
    ],
)
def test_a_split_costs_little(shape: tuple[int, ...], Br: int, limit_ms: float, rule: str) -> None:
    problem = AttentionProblem.of(shape, attn_mask="causal")
    plan = TilingPlan(Br, 128, CoreSplit(rule))
    timer = Timer(lambda: complete(plan, problem, chip(32)), timer=process_time)
    assert min(timer.repeat(number=1, repeat=5)) * 1e3 < limit_ms
