"""sparse, xunfei and wukong: the public tuples, faults included, and plans without those faults."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.hardware import Hardware
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
from autotune.strategies.registry import TilingStrategy

CHIP = Hardware("Ascend910A", 32, 1000)
lengths = st.sampled_from((1, 16, 64, 77, 80, 127, 128, 129, 200, 256, 1000, 1024, 4096)) | st.integers(1, 5000)
head_dims = st.integers(1, 256)


def public(name: str) -> Any:
    package = "flash_attention.ops.flash_attention.tiling_strategy"
    module = importlib.import_module(f"{package}.{name}_tiling")
    return getattr(module, f"{name.capitalize()}Tiling")


def plan(name: str, shape: tuple[int, ...], **options: Any) -> TilingPlan:
    (found,) = TilingStrategy.from_strategy_name(name).plans(AttentionProblem.of(shape, **options), CHIP)
    return found


@pytest.mark.parametrize(("ours", "theirs"), [("sparse", "sparse"), ("xunfei", "sparse"), ("wukong", "wukong")])
@given(lengths, lengths, head_dims)
def test_tiling_is_the_public_tuple(ours: str, theirs: str, Nq: int, N: int, head_dim: int) -> None:
    found = TilingStrategy.from_strategy_name(ours)(Nq, N, head_dim).tiling()
    expected = public(theirs)(Nq, N, head_dim).tiling()
    assert tuple(found) == tuple(expected) and found._fields == expected._fields


@pytest.mark.parametrize(
    ("name", "Nq", "N", "expected"),
    [
        ("sparse", 1000, 300, (128, 104, 128, 44, 8, 3)),
        ("sparse", 80, 77, (80, 80, 77, 77, 1, 1)),
        ("xunfei", 4096, 4096, (128, 128, 128, 128, 32, 32)),
        ("wukong", 4096, 77, (64, 64, 77, 77, 64, 1)),
        ("wukong", 4096, 256, (64, 64, 64, 64, 64, 1)),  # one key block of four: public_kernel_faults.md, row 4
        ("wukong", 100, 1000, (64, 64, 64, 64, 1, 15)),  # tails dropped: S8
    ],
)
def test_tiling_in_numbers(name: str, Nq: int, N: int, expected: tuple[int, ...]) -> None:
    assert tuple(TilingStrategy.from_strategy_name(name)(Nq, N, 64).tiling()) == expected


@pytest.mark.parametrize(
    ("name", "shape", "blocks", "tiling"),
    [
        ("sparse", (1, 1, 1000, 300, 64), (128, 128), (128, 104, 128, 44, 8, 3)),
        ("sparse", (1, 1, 100, 77, 40), (112, 80), (112, 100, 80, 77, 1, 1)),
        ("wukong", (1, 1, 4096, 77, 40), (64, 80), (64, 64, 80, 77, 64, 1)),
        ("wukong", (1, 1, 256, 256, 160), (64, 64), (64, 64, 64, 64, 4, 4)),
        ("wukong", (1, 1, 100, 1000, 64), (64, 64), (64, 36, 64, 40, 2, 16)),
        ("wukong", (1, 1, 20, 1000, 64), (32, 64), (32, 20, 64, 40, 1, 16)),
    ],
)
def test_plans_correct_the_faults(
    name: str, shape: tuple[int, ...], blocks: tuple[int, int], tiling: tuple[int, ...]
) -> None:
    found = plan(name, shape)
    assert (found.Br, found.Bc) == blocks and found.strategy == name
    assert tuple(found.tiling(AttentionProblem.of(shape))) == tiling


@given(st.sampled_from(("sparse", "xunfei", "wukong")), lengths, lengths, st.sampled_from(("none", "causal")))
def test_plans_are_legal_and_pure(name: str, Nq: int, N: int, attn_mask: str) -> None:
    problem = AttentionProblem.of((2, 3, Nq, N, 64), attn_mask=attn_mask)
    found = plan(name, problem.shape, attn_mask=attn_mask)
    found.check_lengths(problem)
    assert found == plan(name, problem.shape, attn_mask=attn_mask)
    assert found.core_split.block_num == min(32, 6 * -(-Nq // found.Br))


def test_they_split_by_key_blocks_as_the_public_kernels_do() -> None:
    assert plan("sparse", (1, 4, 1024, 1024, 64)).core_split.rule == "even"
    assert plan("sparse", (1, 4, 4096, 4096, 64), attn_mask="causal").core_split.rule == "balanced"
