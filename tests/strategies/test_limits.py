"""Limits: the arithmetic by hand, and every memory's name and numbers in the complaint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.hardware import Hardware
from autotune.problem import AttentionProblem
from autotune.strategies.limits import BrokenLimit, broken

KIB = 1024
CHIP = Hardware("Ascend910A", 32, 1000, 256 * KIB, 1024 * KIB, 64 * KIB, 64 * KIB, 256 * KIB)
PROBLEM = AttentionProblem.of((1, 1, 4096, 4096, 64))


@pytest.mark.parametrize(
    ("memory", "size", "needed"),
    [
        ("UB", "ub_bytes", 128 * 256 * 2 + 128 * (64 + 16 + 1) * 4),
        ("L1", "l1_bytes", 128 * 64 * 2 + 128 * 256 * 2 + 2 * 256 * 64 * 2),
        ("L0A", "l0a_bytes", 16 * 64 * 2),
        ("L0B", "l0b_bytes", 16 * 64 * 2),
        ("L0C", "l0c_bytes", 128 * (16 + 64 + 16) * 4),
    ],
)
def test_each_memory_is_broken_one_byte_below_its_need(memory: str, size: str, needed: int) -> None:
    enough = Hardware.from_json({**CHIP.to_json(), size: needed})
    short = Hardware.from_json({**CHIP.to_json(), size: needed - 1})
    assert broken(PROBLEM, 128, 256, enough) == ()
    assert broken(PROBLEM, 128, 256, short) == (BrokenLimit(memory, needed, needed - 1),)
    assert str(broken(PROBLEM, 128, 256, short)[0]) == f"{memory} needs at least {needed} bytes, has {needed - 1}"


def test_a_second_buffer_holds_k_and_v_again() -> None:
    one = 128 * 64 * 2 + 128 * 256 * 2 + 2 * 256 * 64 * 2
    chip = replace(CHIP, l1_bytes=one)
    assert broken(PROBLEM, 128, 256, chip, double_buffer=True) == (BrokenLimit("L1", one + 2 * 256 * 64 * 2, one),)


def test_a_slice_takes_the_room_of_its_rows() -> None:
    needs = {"ub_bytes": 64 * 1024 * 2 + 256 * 81 * 4, "l1_bytes": 256 * 64 * 2 + 64 * 1024 * 2 + 2 * 1024 * 64 * 2}
    for size, needed in needs.items():
        enough, short = (Hardware.from_json({**CHIP.to_json(), size: room}) for room in (needed, needed - 1))
        assert broken(PROBLEM, 256, 1024, enough, slice_rows=64) == ()
        assert broken(PROBLEM, 256, 1024, short, slice_rows=64) != ()
        assert broken(PROBLEM, 256, 1024, enough) != ()


def test_head_dim_counts_padded_to_16() -> None:
    narrow, wide = AttentionProblem.of((1, 1, 64, 64, 33)), AttentionProblem.of((1, 1, 64, 64, 48))
    chip = replace(CHIP, l1_bytes=1)
    assert broken(narrow, 64, 64, chip) == broken(wide, 64, 64, chip) != ()


def test_a_memory_of_size_0_sets_no_limit() -> None:
    assert broken(PROBLEM, 4096, 4096, Hardware("cpu", 2, 3000)) == ()


def test_what_the_public_kernels_are_known_to_fit_is_kept() -> None:
    fits = [(128, 128, 64), (128, 256, 64), (256, 128, 64), (256, 160, 64), (128, 256, 128), (192, 96, 128)]
    for Br, Bc, head_dim in fits:
        assert broken(AttentionProblem.of((1, 1, 4096, 4096, head_dim)), Br, Bc, CHIP) == ()


@pytest.mark.parametrize(
    ("memory", "size", "needed"),
    [
        ("L1", "l1_bytes", 2 * 1024 * (2 * 64 + 16) + 2 * 2 * 128 * 64),
        ("L0A", "l0a_bytes", 16 * 64 * 2),
        ("L0B", "l0b_bytes", 16 * 64 * 2),
        ("L0C", "l0c_bytes", 2 * 128 * 64 * 4),
    ],
)
def test_backward_tall_query_blocks_need_room_in_l1_only(memory: str, size: str, needed: int) -> None:
    problem = replace(PROBLEM, op="flash_attention_grad")
    enough = Hardware.from_json({**CHIP.to_json(), size: needed})
    short = Hardware.from_json({**CHIP.to_json(), size: needed - 1})
    assert broken(problem, 1024, 128, enough) == ()
    assert broken(problem, 1024, 128, short) == (BrokenLimit(memory, needed, needed - 1),)
