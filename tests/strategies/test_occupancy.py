"""Occupancy: heights that fill the cores, counted by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.hardware import Hardware
from autotune.problem import AttentionProblem
from autotune.strategies.occupancy import ENOUGH, MOST_BLOCKS, OccupancyTiling

CHIP = Hardware("Ascend910A", 32, 1000, 262144, 1048576, 65536, 65536, 262144)


def blocks(*shape: int, chip: Hardware = CHIP) -> list[tuple[int, int]]:
    return [(plan.Br, plan.Bc) for plan in OccupancyTiling.plans(AttentionProblem.of(shape), chip)]


def filling(Br: int, heads: int, Nq: int, cores: int) -> float:
    """Query rows there are, for each that the cores have time for."""
    waves = -(-heads * -(-Nq // Br) // cores)
    return heads * Nq / (cores * waves * Br)


def test_3_heads_of_4096_rows_on_32_cores() -> None:
    # 96 row blocks of 128 are 3 full waves; 256, as large a block, leaves 16 of 32 cores idle in the second wave.
    assert blocks(1, 3, 4096, 4096, 64)[0] == (128, 256)
    assert filling(128, 3, 4096, 32) == 1 and filling(256, 3, 4096, 32) == 0.75


def test_a_short_problem_is_cut_until_every_core_has_a_block() -> None:
    assert blocks(1, 1, 512, 512, 64) == [(16, 512)]


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 40))
def test_all_fill_the_cores_about_as_well_as_any_height(heads: int, Nq: int, N: int, cores: int) -> None:
    chip = Hardware("spacious", cores, 1000, ub_bytes=1 << 40)
    found = blocks(1, heads, Nq, N, 64, chip=chip)
    best = max(filling(Br, heads, Nq, cores) for Br in range(16, Nq + 16, 16))
    assert 1 <= len(found) <= MOST_BLOCKS and found == sorted(found, key=lambda block: -block[0] * block[1])
    for Br, Bc in found:
        assert filling(Br, heads, Nq, cores) >= ENOUGH * best
        assert Bc == -(-N // 16) * 16


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 256))
def test_blocks_have_room_and_leave_no_tail_of_keys(Nq: int, N: int, head_dim: int) -> None:
    padded_n, depth = -(-N // 16) * 16, -(-head_dim // 16) * 16
    found = blocks(1, 2, Nq, N, head_dim)
    assert found
    assert all(padded_n % Bc == 0 and 4 * Br * (Bc + depth + 16) <= 262144 for Br, Bc in found)


def test_nothing_fits_nothing_is_proposed() -> None:
    assert blocks(1, 1, 64, 64, 64, chip=Hardware("tiny", 2, 1000, 1024)) == []


def test_the_public_interface_gives_the_first_plan() -> None:
    assert tuple(OccupancyTiling(1024, 1024, 64).tiling()) == (32, 32, 1024, 1024, 32, 1)
