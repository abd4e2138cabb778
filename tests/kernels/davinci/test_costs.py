"""Costs against the published figures they were taken from (davinci_timing.md 2.2 to 2.5)."""

from dataclasses import replace

import pytest

from autotune.kernels.davinci import costs, soc

MATMUL_CYCLES = {
    (128, 64, 128): 350,
    (128, 80, 128): 429,
    (128, 128, 128): 666,
    (128, 160, 128): 824,
    (128, 128, 64): 402,
    (128, 128, 80): 468,
    (128, 128, 160): 798,
    (128, 128, 16): 204,
    (128, 128, 256): 1194,
    (128, 256, 128): 1260,
    (64, 64, 512): 650,
    (64, 512, 64): 708,
    (64, 80, 64): 177,
    (64, 64, 80): 164,
    (64, 160, 64): 295,
    (256, 64, 256): 1142,
    (256, 256, 64): 1298,
    (16, 64, 128): 119,
}
"""m, k, n to the cycles that TIK's own search predicts (section 2.4)."""


@pytest.mark.parametrize("shape", MATMUL_CYCLES)
def test_matmul_matches_the_published_table_within_five_percent(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    assert costs.matmul(m // 16, k // 16, n // 16) == pytest.approx(MATMUL_CYCLES[shape], rel=0.05)


def test_most_of_the_published_table_is_met_to_the_cycle() -> None:
    exact = [costs.matmul(m // 16, k // 16, n // 16) == cycles for (m, k, n), cycles in MATMUL_CYCLES.items()]
    assert sum(exact) >= len(exact) - 3


@pytest.mark.parametrize(
    ("burst_bytes", "packets"), [(32, 1), (64, 1), (96, 1), (128, 1), (160, 2), (192, 2), (224, 2), (256, 1), (512, 2)]
)
def test_bursts_are_cut_into_packets_of_8_4_3_2_1_blocks(burst_bytes: int, packets: int) -> None:
    assert costs.packets(burst_bytes) == packets


def test_long_bursts_move_32_bytes_a_cycle() -> None:
    assert costs.global_move(1, 1 << 20) == (1 << 20) // 32


def test_a_move_under_16_kib_pays_100_cycles_more() -> None:
    assert costs.global_move(1, 16384 - 256) == (16384 - 256) // 32 + 100


def test_mmad_is_one_cycle_a_tile_and_its_head() -> None:
    assert costs.mmad(8, 1, 8) == 64 + 15
    assert costs.mmad(8, 4, 8) == 256 + 15
    assert costs.mmad(7, 4, 8) == 7 * 4 * 8 + 15 + 2  # an odd number of row tiles costs k - 2 more


@pytest.mark.parametrize("name", costs.CONSTANTS)
def test_the_version_changes_with_a_constant(name: str) -> None:
    changed = costs.Profile("changed", {**costs.DEFAULT.constants, name: costs.DEFAULT[name] + 1})
    assert costs.version(changed) != costs.version()


def test_the_version_changes_with_a_slope_and_with_a_rate() -> None:
    constants, rates = costs.DEFAULT.constants, soc.get("Ascend910A").rates
    versions = [
        costs.version(),
        costs.version(costs.Profile("slope", constants, {"vexp": (5, 2)})),
        costs.version(costs.Profile("rates", constants, rates=rates)),
        costs.version(costs.Profile("faster", constants, rates=replace(rates, l1_to_ub=256))),
    ]
    assert len(set(versions)) == 4


def test_every_constant_says_where_it_comes_from() -> None:
    for name, constant in costs.CONSTANTS.items():
        assert constant.source, name
        assert constant.confidence in ("published", "measured", "derived", "assumed"), name
