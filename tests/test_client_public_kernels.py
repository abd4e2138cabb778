"""``register``: the strategy ``tuned`` in the registry of the public kernels, and what it never hands to them.

Only the package's registry is used here; the kernels themselves are built in tests/test_tuned_end_to_end.py.
"""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.client import NoTunedPlan, TuningWarning, register

TilingStrategy: Any = import_module("flash_attention.ops.flash_attention.tiling_strategy.strategy").TilingStrategy


@pytest.fixture(autouse=True)
def a_registry_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TilingStrategy, "_strategies", dict(TilingStrategy._strategies))
    monkeypatch.delenv("AUTOTUNE_URL", raising=False)


def serve(folder: Path, shape: tuple[int, ...], Br: int, Bc: int, **problem: Any) -> str:
    """A file with one plan for one problem."""
    asked = {"op": "flash_attention", "shape": list(shape), **problem}
    path = folder / "plans.json"
    path.write_text(
        json.dumps({"problem": asked, "device": "Ascend910A", "plan": {"Br": Br, "Bc": Bc}, "match": "exact"})
    )
    return str(path)


def tiling(Nq: int, N: int, padded_head_dim: int, **registered: Any) -> tuple[tuple[int, ...], str]:
    """What a kernel gets that asks the registry for ``tuned``, and the warning it comes with."""
    register(TilingStrategy, **registered)
    strategy = TilingStrategy.from_strategy_name("tuned")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = strategy(Nq, N, padded_head_dim).tiling()
    assert found._fields == ("Br", "last_Br", "Bc", "last_Bc", "Tr", "Tc")
    assert all(warning.category is TuningWarning for warning in caught)
    return tuple(found), "; ".join(str(warning.message) for warning in caught)


def test_the_served_blocks_reach_the_kernel(tmp_path: Path) -> None:
    file = serve(tmp_path, (2, 16, 1024, 2048, 64), 64, 512)
    assert tiling(1024, 2048, 64, batch=2, heads=16, file=file) == ((64, 64, 512, 512, 16, 4), "")


def test_it_is_a_strategy_of_the_package() -> None:
    strategy = register(TilingStrategy, name="mine")
    assert issubclass(strategy, TilingStrategy) and TilingStrategy.from_strategy_name("mine") is strategy
    assert strategy(64, 64, 48).Nq == 64


def test_the_head_dimension_is_asked_for_before_padding(tmp_path: Path) -> None:
    file = serve(tmp_path, (1, 1, 1024, 1024, 40), 64, 512)
    assert tiling(1024, 1024, 48, head_dim=40, file=file) == ((64, 64, 512, 512, 16, 2), "")
    assert "1,1,1024,1024,128 on" in tiling(1024, 1024, 128, head_dim=40, file=file)[1], (
        "another kernel's head dimension"
    )


def test_without_an_answer_the_default() -> None:
    found, warning = tiling(1024, 4800, 64)
    assert found == (128, 128, 96, 96, 8, 50), "128 does not divide 4800"
    assert "set AUTOTUNE_URL" in warning and "cannot use 128 x 128 blocks" in warning
    found, warning = tiling(1024, 4096, 64)
    assert found == (128, 128, 128, 128, 8, 32) and "cannot use" not in warning


@pytest.mark.parametrize(
    ("shape", "blocks", "options", "expected", "reason"),
    [
        # a key tail: row sums of the last block are garbage (faults, row 1)
        ((1, 1, 1024, 1040, 64), (128, 256), {}, (128, 128, 80, 80, 8, 13), "shorter than Bc"),
        ((1, 1, 1024, 1024, 64), (128, 384), {}, (128, 128, 128, 128, 8, 8), "shorter than Bc"),
        # rows above 64 and no multiple of 64 (row 2): as Br, and as the tail
        ((1, 1, 960, 1024, 64), (96, 256), {}, (128, 64, 128, 128, 8, 8), "no multiple of 64"),
        ((1, 1, 976, 1024, 64), (128, 256), {}, (64, 16, 128, 128, 16, 8), "no multiple of 64"),
        ((1, 1, 80, 80, 64), (80, 80), {}, (64, 16, 80, 80, 2, 1), "no multiple of 64"),
        # more than UB: 6 bytes a score, or wide rows of O
        ((1, 1, 1024, 1024, 64), (256, 256), {}, (128, 128, 128, 128, 8, 8), "on-chip memory"),
        ((1, 1, 1024, 1024, 128), (256, 64), {}, (128, 128, 128, 128, 8, 8), "on-chip memory"),
        ((4, 128, 1024, 1024, 64), (128, 256), {}, (128, 128, 128, 128, 8, 8), "on-chip memory"),
        # what counts blocks of 128 tokens
        ((1, 1, 1024, 1024, 64), (128, 256), {"attn_mask": "causal"}, (128, 128, 128, 128, 8, 8), "128 x 128"),
        ((1, 1, 512, 512, 64), (64, 64), {"block_window": (7, 0)}, (128, 128, 128, 128, 4, 4), "128 x 128"),
    ],
)
def test_a_plan_the_public_forward_cannot_use(
    tmp_path: Path,
    shape: tuple[int, ...],
    blocks: tuple[int, int],
    options: dict[str, Any],
    expected: tuple[int, ...],
    reason: str,
) -> None:
    batch, heads, Nq, N, head_dim = shape
    file = serve(tmp_path, shape, *blocks, **options)
    found, warning = tiling(Nq, N, head_dim, batch=batch, heads=heads, file=file, **options)
    assert found == expected and reason in warning
    assert f"cannot use {blocks[0]} x {blocks[1]} blocks" in warning
    assert warning.endswith(f"using {found[0]} x {found[2]}")
    with pytest.raises(NoTunedPlan, match="cannot use"):
        tiling(Nq, N, head_dim, batch=batch, heads=heads, file=file, strict=True, **options)


@pytest.mark.parametrize(("length", "blocks"), [(1040, (128, 256)), (976, (128, 256)), (960, (96, 256))])
def test_the_public_backward_has_no_trouble_with_tails(tmp_path: Path, length: int, blocks: tuple[int, int]) -> None:
    file = serve(tmp_path, (1, 1, length, length, 64), *blocks, op="flash_attention_grad")
    found, warning = tiling(length, length, 64, file=file, op="flash_attention_grad")
    assert (found[0], found[2]) == blocks and warning == ""


@pytest.mark.parametrize(
    ("blocks", "dropout", "fits"),
    [((128, 256), False, True), ((256, 128), False, True), ((128, 384), False, False), ((256, 160), False, False),
     ((160, 256), False, False), ((128, 256), True, False), ((128, 192), True, True)],
)  # fmt: skip
def test_room_for_the_public_backward(tmp_path: Path, blocks: tuple[int, int], dropout: bool, fits: bool) -> None:
    op: dict[str, Any] = {"op": "flash_attention_grad", "dropout": dropout}
    length = blocks[0] * blocks[1]
    file = serve(tmp_path, (1, 1, length, length, 64), *blocks, **op)
    found, warning = tiling(length, length, 64, file=file, **op)
    assert ((found[0], found[2]) == blocks, warning == "") == (fits, fits)


@pytest.mark.parametrize(
    ("head_dim", "blocks", "fits"),
    [(64, (128, 256), True), (64, (256, 128), True), (64, (256, 160), True), (64, (128, 384), False),
     (64, (192, 256), False), (64, (256, 192), False), (64, (256, 256), False), (64, (384, 64), False),
     (128, (128, 256), True), (128, (192, 96), True), (128, (192, 128), False), (128, (160, 256), False),
     (128, (256, 64), False)],
)  # fmt: skip
def test_room_for_the_public_forward_as_it_was_measured(
    tmp_path: Path, head_dim: int, blocks: tuple[int, int], fits: bool
) -> None:
    """The list of public_kernel_faults.md."""
    Nq, N = 4 * blocks[0], 4 * blocks[1]
    file = serve(tmp_path, (1, 1, Nq, N, head_dim), *blocks)
    found, warning = tiling(Nq, N, head_dim, file=file)
    if blocks == (160, 256):
        assert "no multiple of 64" in warning
    else:
        assert ((found[0], found[2]) == blocks, "on-chip memory" not in warning) == (fits, fits)


@pytest.mark.parametrize(
    ("Nq", "N", "options", "reason"),
    [
        (1024, 77, {}, "no multiple of 16"),
        (100, 1024, {}, "no multiple of 16"),
        (1024, 512, {"op": "flash_attention_grad"}, "dK and dV to wrong rows"),
        (1024, 1024, {"alibi": True}, "ignore ALiBi"),
        (1024, 1024, {"window": (511, 0)}, "ignore ALiBi and windows in tokens"),
        (1024, 1024, {"block_window": (2, 0)}, "skips key block 0"),
        (1024, 1040, {"attn_mask": "causal"}, "whole blocks of 128 x 128"),
    ],
)
def test_where_no_tiling_is_right_the_default_and_a_warning(
    Nq: int, N: int, options: dict[str, Any], reason: str
) -> None:
    found, warning = tiling(Nq, N, 64, **options)
    blocks = (min(128, Nq), min(128, N))
    assert (found[0], found[2]) == blocks
    assert reason in warning and warning.endswith(f"no tiling is better, {blocks[0]} x {blocks[1]}")


aligned = st.integers(1, 300).map(lambda tiles: 16 * tiles)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(aligned, aligned, st.integers(1, 20), st.integers(1, 80), st.sampled_from((48, 64, 80, 128)))
def test_nothing_that_is_handed_over_has_a_known_fault(
    tmp_path: Path, Nq: int, N: int, Br_tiles: int, Bc_tiles: int, head_dim: int
) -> None:
    Br, Bc = min(16 * Br_tiles, Nq), min(16 * Bc_tiles, N)
    found, _ = tiling(Nq, N, head_dim, file=serve(tmp_path, (1, 1, Nq, N, head_dim), Br, Bc))
    Br, last_Br, Bc, last_Bc, Tr, Tc = found
    assert N % Bc == 0 and last_Bc == Bc and Bc * Tc == N
    assert all(rows <= 64 or rows % 64 == 0 for rows in (Br, last_Br))
    assert (Tr - 1) * Br + last_Br == Nq and 6 * Br * Bc < 262144
