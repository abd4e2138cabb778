"""The lattice: exactly the blocks that keep the limits, largest first, each knob once."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.hardware import Hardware
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.lattice import LatticeTiling
from autotune.strategies.limits import broken

KIB = 1024
CHIP = Hardware("Ascend910A", 32, 1000, 256 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB)


def plans(problem: AttentionProblem, chip: Hardware = CHIP) -> list[TilingPlan]:
    return list(LatticeTiling.plans(problem, chip))


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 700),
    st.integers(1, 700),
    st.integers(1, 256),
    st.integers(2 * KIB, 64 * KIB),
    st.integers(8 * KIB, 256 * KIB),
)
def test_all_blocks_that_fit_and_no_others(Nq: int, N: int, head_dim: int, ub: int, l1: int) -> None:
    problem = AttentionProblem.of((1, 2, Nq, N, head_dim))
    chip = Hardware("small", 4, 1000, ub, l1, 8 * KIB, 8 * KIB, 16 * KIB)
    steps = [16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 704]
    grids = [{side for side in steps if side <= length + 15} | {-(-length // 16) * 16} for length in (Nq, N)]
    expected = {
        (Br, Bc, slice_rows, exp, double_buffer)
        for Br, Bc in product(*grids)
        for slice_rows, exp, double_buffer in product((0, 64, 128), ("float32", "float16"), (False, True))
        if (not slice_rows or (Br > slice_rows and Br % slice_rows == 0))
        and not broken(problem, Br, Bc, chip, double_buffer, slice_rows)
    }
    found = [(plan.Br, plan.Bc, plan.slice_rows, plan.exp, plan.double_buffer) for plan in plans(problem, chip)]
    assert len(found) == len(set(found)) and set(found) == expected


def test_largest_first_then_the_knobs() -> None:
    found = plans(AttentionProblem.of((1, 1, 32, 40, 64), attn_mask="causal"))
    order = [(p.Br, p.Bc, p.core_split.rule, p.exp, p.double_buffer) for p in found]
    assert order[:5] == [
        (32, 48, "even", "float32", False),
        (32, 48, "even", "float32", True),
        (32, 48, "even", "float16", False),
        (32, 48, "even", "float16", True),
        (32, 32, "even", "float32", False),
    ]
    assert [order[i][:2] for i in range(0, len(order), 4)][:3] == [(32, 48), (32, 32), (16, 48)]
    areas = [Br * Bc for Br, Bc, *_ in order]
    assert areas == sorted(areas, reverse=True)


@pytest.mark.parametrize("options", [{"attn_mask": "full"}, {"high_precision": True}, {"window": (99, 0)}])
def test_an_fp16_exponential_is_not_tried_where_it_is_not_right(options: dict[str, Any]) -> None:
    assert {plan.exp for plan in plans(AttentionProblem.of((1, 2, 256, 256, 64), **options))} == {"float32"}


def test_the_space_is_small_enough_to_go_through() -> None:
    for head_dim in (40, 64, 128):
        assert 500 < len(plans(AttentionProblem.of((1, 32, 16384, 16384, head_dim), attn_mask="causal"))) < 4000


def test_splits_are_crossed_only_where_they_differ() -> None:
    shape = (1, 12, 256, 256, 64)
    unmasked = {(p.Br, p.core_split.rule) for p in plans(AttentionProblem.of(shape))}
    causal = {(p.Br, p.core_split.rule) for p in plans(AttentionProblem.of(shape, attn_mask="causal")) if p.Bc == 64}
    assert {rule for _, rule in unmasked} == {"even"}
    assert {rule for Br, rule in causal if Br == 16} == {"even", "causal"}
    assert {rule for Br, rule in causal if Br == 256} == {"even"}, "one row block for a head"


def test_every_plan_is_legal_pure_and_names_its_cores() -> None:
    problem = AttentionProblem.of((1, 2, 1000, 333, 80), window=(511, 0))
    found = plans(problem)
    assert found == plans(problem)
    for plan in found:
        plan.check_lengths(problem)
        assert plan.core_split.block_num == min(32, 2 * -(-1000 // plan.Br)) and plan.strategy == "lattice"
    assert len({plan.key for plan in found}) == len(found)


@pytest.mark.parametrize("head_dim", [40, 64, 128])
def test_no_plan_known_to_run_is_filtered_away(head_dim: int) -> None:
    found = {(plan.Br, plan.Bc) for plan in plans(AttentionProblem.of((1, 32, 4096, 4096, head_dim)))}
    assert {(128, 128), (128, 256), (64, 512)} <= found
    assert (64, 1024) in found, "the tile of the feasibility study"


def test_the_public_interface_gives_its_first_plan() -> None:
    tiling = LatticeTiling(40, 40, 64).tiling()
    assert tuple(tiling) == (48, 40, 48, 40, 1, 1)


def test_a_chip_without_on_chip_memories_gets_512_each_way_and_no_knob_of_theirs() -> None:
    found = plans(AttentionProblem.of((1, 2, 4096, 600, 64)), Hardware("cpu-any", 2, 3000))
    sides = [16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512]
    assert {(p.Br, p.Bc) for p in found} == set(product(sides, sides))
    assert {(p.double_buffer, p.slice_rows, p.exp) for p in found} == {(False, 0, "float32")}
