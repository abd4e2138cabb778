"""Costs against the published figures they were taken from (davinci_timing.md 2.2 to 2.5)."""

from dataclasses import replace

import pytest

from autotune.kernels.davinci import costs, soc
from autotune.kernels.davinci.constants import CONSTANTS, DIFFERENCES
from autotune.kernels.davinci.supply import Supply

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
    (128, 256, 16): 350,
    (64, 64, 512): 650,
    (64, 512, 64): 708,
    (64, 512, 16): 332,
    (64, 80, 64): 177,
    (64, 64, 80): 164,
    (64, 160, 64): 295,
    (256, 64, 256): 1142,
    (256, 256, 64): 1298,
    (16, 64, 128): 119,
}
"""m, k, n to the cycles that TIK's own search predicts (section 2.4)."""


@pytest.mark.parametrize("shape", MATMUL_CYCLES)
def test_matmul_matches_the_published_table_within_two_percent(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    assert costs.matmul(m // 16, k // 16, n // 16) == pytest.approx(MATMUL_CYCLES[shape], rel=0.02)


def test_most_of_the_published_table_is_met_to_the_cycle() -> None:
    exact = [costs.matmul(m // 16, k // 16, n // 16) == cycles for (m, k, n), cycles in MATMUL_CYCLES.items()]
    assert sum(exact) >= len(exact) - 3


@pytest.mark.parametrize(
    ("burst_bytes", "packets"), [(32, 1), (64, 1), (96, 1), (128, 1), (160, 2), (192, 2), (224, 2), (256, 1), (512, 2)]
)
def test_bursts_are_cut_into_packets_of_8_4_3_2_1_blocks(burst_bytes: int, packets: int) -> None:
    assert costs.packets(burst_bytes) == packets


def test_a_910b_cuts_larger_packets() -> None:
    sizes = (512, 1024, 256, 128, 96, 384, 416, 544)
    assert [costs.packets(size, 512) for size in sizes] == [1, 2, 1, 1, 1, 2, 3, 2]


def _chip(name: str = "Ascend910A", cores: int = 1, held: int = 0) -> costs.Chip:
    chip = soc.get(name)
    numbers = costs.on(chip)
    shares = [(cores * chip.clock_mhz, 1000 * numbers[key]) for key in ("ddr_bandwidth", "l2_bandwidth")]
    supply = Supply(shares[0], shares[1] if shares[1][1] else (0, 1), held, {})
    return costs.Chip(numbers, chip.rates, supply, chip.l0c_bytes)


def test_what_is_in_l2_is_read_at_its_rate() -> None:
    assert costs.global_read(1, 1 << 20, _chip(), first=0) == pytest.approx((1 << 20) / 110, abs=1)


def test_reads_that_come_from_ddr_in_part_take_both_rates_in_part() -> None:
    mixed = costs.global_read(1, 1 << 20, _chip(), first=250)
    assert mixed == pytest.approx((1 << 20) * (0.25 / 32 + 0.75 / 110), rel=1e-3)


def test_32_cores_of_a_910a_do_not_share_reads_but_share_what_they_write_to_ddr() -> None:
    alone, crowd = _chip(cores=1), _chip(cores=32)
    assert costs.global_read(1, 1 << 20, crowd) == costs.global_read(1, 1 << 20, alone)
    assert costs.global_write(1, 1 << 20, alone) == (1 << 20) // 64
    assert costs.global_write(1, 1 << 20, crowd) == pytest.approx((1 << 20) * 32 / 1200, abs=1)


def test_24_cores_of_a_910b_share_hbm_and_l2() -> None:
    crowd = _chip("Ascend910B2", 24)
    assert costs.global_read(1, 1 << 20, crowd) == pytest.approx((1 << 20) * 24 * 1.8 / 1550, abs=1)
    assert costs.global_read(1, 1 << 20, crowd, first=0) == pytest.approx((1 << 20) / 119, abs=1)
    shared = replace(crowd, rates=replace(crowd.rates, l2_read=152))
    assert costs.global_read(1, 1 << 20, shared, first=0) == pytest.approx((1 << 20) * 24 * 1.8 / 5200, abs=1)


def test_short_bursts_are_hidden_where_the_shared_memory_is_slower_anyway() -> None:
    crowd, alone = _chip("Ascend910B2", 24), _chip("Ascend910B2", 1)
    assert costs.global_read(4096, 256, crowd) == costs.global_read(1, 1 << 20, crowd)
    assert costs.global_read(4096, 256, alone) == pytest.approx(2 * costs.global_read(1, 1 << 20, alone), rel=1e-3)


def test_long_bursts_move_32_bytes_a_cycle() -> None:
    assert costs.global_read(1, 1 << 20, _chip()) == (1 << 20) // 32


def test_a_move_under_16_kib_pays_100_cycles_more() -> None:
    assert costs.global_read(1, 16384 - 256, _chip()) == (16384 - 256) // 32 + 100


def test_mmad_is_one_cycle_a_tile_and_its_head() -> None:
    assert costs.mmad(8, 1, 8) == 64 + 15
    assert costs.mmad(8, 4, 8) == 256 + 15
    assert costs.mmad(7, 4, 8) == 7 * 4 * 8 + 15 + 2  # an odd number of row tiles costs k - 2 more


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_version_changes_with_a_constant(name: str) -> None:
    changed = costs.Profile("changed", {name: costs.DEFAULT[name] + 1})
    assert costs.version(changed) != costs.version()


@pytest.mark.parametrize(("arch", "name"), [(arch, name) for arch in DIFFERENCES for name in DIFFERENCES[arch]])
def test_the_version_changes_with_a_constant_of_one_chip(arch: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, known = costs.version(), DIFFERENCES[arch][name]
    monkeypatch.setitem(DIFFERENCES[arch], name, replace(known, value=known.value + 1))
    costs.version.cache_clear()
    assert costs.version() != before
    costs.version.cache_clear()


def test_a_chip_has_its_own_numbers_and_a_profile_replaces_them() -> None:
    chip = soc.get("Ascend910B1")
    assert (costs.on(soc.get("Ascend910A"))["mmad_head"], costs.on(chip)["mmad_head"]) == (15, 15)
    assert (costs.on(soc.get("Ascend910A"))["load_head"], costs.on(chip)["load_head"]) == (10, 26)
    changed = costs.on(chip, costs.Profile("changed", {"mmad_head": 7}))
    assert (changed["mmad_head"], changed["read_latency"]) == (7, 241)


def test_the_version_changes_with_a_slope_and_with_a_rate() -> None:
    rates = soc.get("Ascend910A").rates
    versions = [
        costs.version(),
        costs.version(costs.Profile("slope", slopes={"vexp": (5, 2)})),
        costs.version(costs.Profile("rates", rates=rates)),
        costs.version(costs.Profile("faster", rates=replace(rates, l1_to_ub=256))),
    ]
    assert len(set(versions)) == 4


def test_every_constant_says_where_it_comes_from() -> None:
    everything = [*CONSTANTS.items(), *(item for own in DIFFERENCES.values() for item in own.items())]
    for name, constant in everything:
        assert constant.source, name
        assert constant.confidence in ("published", "measured", "derived", "assumed"), name
        assert (constant.low is None) == (constant.high is None), name
        if constant.low is not None and constant.high is not None:
            assert constant.low <= constant.value <= constant.high, name


def test_chips_differ_only_in_known_constants() -> None:
    assert all(set(own) <= set(CONSTANTS) for own in DIFFERENCES.values())
    assert set(DIFFERENCES) <= {chip.arch for chip in soc.SOCS.values()}


def test_every_rate_says_where_it_comes_from() -> None:
    for chip in soc.SOCS.values():
        assert chip.rates.source and chip.rates.confidence in ("published", "measured", "derived", "assumed")
