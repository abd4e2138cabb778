"""Calibration: hidden numbers are found again from the times of micro-kernels alone."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.calibration import calibrate, emulated
from autotune.kernels.davinci.constants import constants
from autotune.kernels.davinci.costs import Profile
from autotune.kernels.davinci.microkernels import MicroKernel
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS
from autotune.kernels.davinci.soc import Rates
from autotune.kernels.davinci.timing import estimate
from tests.kernels.davinci.random_programs import random_program

CHIP = soc.get("Ascend910A")
NOT_ON_THIS_CHIP = {"mmad_latency", "load_latency", "read_latency", "write_latency", "l2_bandwidth", "fixpipe_head"}
OTHERWISE_KNOWN = {
    "scalar_read_global",
    "mmad_odd",
    "image_load_head",
    "image_load_least",
    "launch",
    "launch_per_block",
}
"""Without a micro-kernel: what this chip cannot do, three-dimensional loads, and what only a host sees."""
SLOPES = (
    "vadd",
    "vsub",
    "vmul",
    "vmax",
    "vmin",
    "vdiv",
    "vexp",
    "vln",
    "vsqrt",
    "vrec",
    "vrsqrt",
    "vabs",
    "vadds",
    "vmuls",
)


def hidden(seed: int) -> Profile:
    """Every number 30 % off, up or down, and at least by one; what cannot be told apart on any chip is kept apart."""
    draw = random.Random(seed)

    def other(value: int) -> int:
        changed = round(value * draw.choice((0.7, 1.3)))
        return changed if changed != value else value + 1

    numbers = {name: constant.value for name, constant in constants(CHIP.arch).items()}
    numbers.update({name: other(numbers[name]) for name in numbers.keys() - NOT_ON_THIS_CHIP - OTHERWISE_KNOWN})
    numbers["packet_bytes"] = draw.choice((192, 320))
    numbers["vector_least"] = max(numbers["vector_least"], numbers["issue"])  # nothing is faster than its issue
    rates: dict[str, Any] = {name: other(getattr(CHIP.rates, name)) for name in _rates()}
    rates["gm_to_ub"] = min(rates["gm_to_ub"], rates["l2_read"])  # it is what is read from L2
    slopes = {name: (_off(draw, VECTOR_ROWS[name].half), _off(draw, VECTOR_ROWS[name].single)) for name in SLOPES}
    return Profile("hidden", numbers, slopes, replace(CHIP.rates, **rates))


def _off(draw: random.Random, slope: float) -> float:
    return round(slope * draw.choice((0.7, 1.3)), 2)


def _rates() -> list[str]:
    """Those of this chip, which has no fixpipe."""
    numbers = [field.name for field in fields(Rates) if isinstance(getattr(CHIP.rates, field.name), int)]
    return [name for name in numbers if name != "l0c_to_gm"]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_are_30_percent_off_are_found_within_5_percent(seed: int) -> None:
    truth = hidden(seed)
    found = calibrate(emulated(CHIP, truth), CHIP, "lab")
    numbers, rates = found.profile.constants, found.profile.rates
    assert rates is not None
    assert truth.rates is not None
    unlimited = truth["ddr_bandwidth"] * 1000 > truth.rates.ddr_read * CHIP.cores * CHIP.clock_mhz
    known = numbers.keys() - NOT_ON_THIS_CHIP - OTHERWISE_KNOWN - ({"ddr_bandwidth"} if unlimited else set())
    assert known <= found.measured
    assert {name: numbers[name] for name in known} == pytest.approx({name: truth[name] for name in known}, rel=0.05)
    assert {name: getattr(rates, name) for name in _rates()} == pytest.approx(
        {name: getattr(truth.rates, name) for name in _rates()}, rel=0.05
    )
    for name, slopes in truth.slopes.items():
        assert found.profile.slopes[name] == pytest.approx(slopes, rel=0.05)
    assert found.profile.slopes["h_exp"] == found.profile.slopes["vexp"]


def test_a_chip_as_it_stands_is_found_as_it_stands() -> None:
    found = calibrate(emulated(CHIP), CHIP, "lab")
    usual = {name: constant.value for name, constant in constants(CHIP.arch).items()}
    assert {name: value for name, value in found.profile.constants.items() if abs(value - usual[name]) > 1} == {}
    assert replace(CHIP.rates, source="", confidence="") == replace(
        found.profile.rates or CHIP.rates, source="", confidence=""
    )


def test_a_calibrated_profile_times_other_programs_as_the_chip_does() -> None:
    truth = hidden(7)
    profile = calibrate(emulated(CHIP, truth), CHIP, "lab").profile
    for seed in range(10):
        before, soc.Current.soc = soc.Current.soc, CHIP
        program = random_program(seed)
        soc.Current.soc = before
        assert estimate(program, profile=profile).cycles == pytest.approx(
            estimate(program, profile=truth).cycles, rel=0.02
        )


def test_noise_of_a_real_clock_does_not_matter_much() -> None:
    draw, exact = random.Random(1), emulated(CHIP)

    def noisy(kernel: MicroKernel) -> float:
        return exact(kernel) * draw.uniform(1, 1.0005)

    found = calibrate(noisy, CHIP, "lab").profile
    for name in ("vector_start", "scalar_read", "mmad_head", "short_move_head", "packet_bytes"):
        assert found[name] == pytest.approx(constants(CHIP.arch)[name].value, rel=0.1)
    assert found.slopes["vexp"] == pytest.approx((4, 2), rel=0.05)


def test_the_current_chip_is_left_alone() -> None:
    before = soc.Current.soc
    calibrate(emulated(CHIP), CHIP, "lab")
    assert soc.Current.soc is before
