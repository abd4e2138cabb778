"""Capacity: whole blocks, the largest that fit, counted by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.hardware import Hardware
from autotune.problem import AttentionProblem
from autotune.strategies.capacity import MOST_BLOCKS, CapacityTiling

UB_BYTES = 262144
CHIP = Hardware("Ascend910A", 32, 1000, UB_BYTES, 1048576, 65536, 65536, 262144)


def blocks(*shape: int) -> list[tuple[int, int]]:
    return [(plan.Br, plan.Bc) for plan in CapacityTiling.plans(AttentionProblem.of(shape), CHIP)]


def test_1024_tokens_of_head_dim_64() -> None:
    # UB holds 65536 fp32 numbers: Br * (Bc + 80) of them; 64 x 1024 would be 70656, 128 x 512 is 75776.
    assert blocks(2, 16, 1024, 1024, 64) == [(256, 128), (128, 256), (64, 512), (32, 1024), (512, 32), (16, 1024)]


def test_a_short_key_sequence_is_one_block() -> None:
    assert blocks(1, 1, 64, 77, 40)[0] == (64, 80)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 256))
def test_whole_blocks_that_fit_and_no_larger_key_block_would(nq: int, n: int, head_dim: int) -> None:
    padded_q, padded_n, depth = (-(-length // 16) * 16 for length in (nq, n, head_dim))
    found = blocks(1, 1, nq, n, head_dim)
    assert 1 <= len(found) <= MOST_BLOCKS
    assert found == sorted(found, key=lambda block: -block[0] * block[1])
    for Br, Bc in found:
        assert padded_q % Br == padded_n % Bc == 0
        assert 4 * Br * (Bc + depth + 16) <= UB_BYTES


def test_a_memory_of_size_0_sets_no_limit() -> None:
    problem = AttentionProblem.of((1, 1, 512, 512, 64))
    first = next(iter(CapacityTiling.plans(problem, Hardware("cpu", 2, 3000))))
    assert (first.Br, first.Bc) == (512, 512)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_splits_that_differ_are_proposed_apart(mask: str) -> None:
    problem = AttentionProblem.of((1, 20, 1024, 1024, 64), attn_mask=mask)
    rules = {plan.core_split.rule for plan in CapacityTiling.plans(problem, CHIP)}
    assert "even" in rules and (mask == "causal") == bool(rules - {"even"})


def test_the_public_interface_gives_the_first_plan() -> None:
    assert tuple(CapacityTiling(1024, 1024, 64).tiling()) == (256, 256, 128, 128, 4, 8)


def test_a_chip_without_on_chip_memories_gets_512_each_way() -> None:
    problem = AttentionProblem.of((1, 2, 4096, 2048, 64))
    found = list(CapacityTiling.plans(problem, Hardware("cpu-any", 2, 3000)))
    assert (found[0].Br, found[0].Bc) == (512, 512)
