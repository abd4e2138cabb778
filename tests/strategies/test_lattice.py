"""The lattice: exactly the blocks that keep the limits, largest first, each knob once."""

from __future__ import annotations

from itertools import product

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
    expected = {
        (Br, Bc, double_buffer)
        for Br, Bc, double_buffer in product(range(16, Nq + 16, 16), range(16, N + 16, 16), (False, True))
        if not broken(problem, Br, Bc, chip, double_buffer)
    }
    found = [(plan.Br, plan.Bc, plan.double_buffer) for plan in plans(problem, chip)]
    assert len(found) == len(set(found)) and set(found) == expected


def test_largest_first_then_the_knobs() -> None:
    found = plans(AttentionProblem.of((1, 1, 32, 40, 64), attn_mask="causal"))
    order = [(p.Br, p.Bc, p.core_split.rule, p.double_buffer) for p in found]
    assert order[:4] == [
        (32, 48, "even", False),
        (32, 48, "even", True),
        (32, 32, "even", False),
        (32, 32, "even", True),
    ]
    assert [order[i][:2] for i in range(0, len(order), 2)][:3] == [(32, 48), (32, 32), (16, 48)]
    areas = [Br * Bc for Br, Bc, _, _ in order]
    assert areas == sorted(areas, reverse=True)


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
