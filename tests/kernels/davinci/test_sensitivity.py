"""Whether the fastest program stays the fastest: programs that trade one number of the model for another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autotune.kernels.davinci import soc
from autotune.kernels.davinci.language import Tik
from autotune.kernels.davinci.program import Program
from autotune.kernels.davinci.sensitivity import BANK_CONFLICT, ranges, sensitivity, stays_best
from autotune.kernels.davinci.timing import estimate
from tests.kernels.davinci.random_programs import built, vector


@pytest.fixture(autouse=True)
def _chip() -> Iterator[None]:
    before = soc.Current.soc
    soc.use("Ascend910A")
    yield
    soc.Current.soc = before


def reading(times: int) -> Program:
    """So many scalar reads of UB: 20 to 60 cycles each, and one for the turn of the loop."""
    tik = Tik()
    a = vector(tik)
    with tik.for_range(0, times):
        tik.Scalar("float16").set_as(a[0])
    return built(tik)


def filling(repeats: int, name: str = "vec_dup") -> Program:
    """One vector instruction: 20 to 40 cycles of start, then one a repeat, or more where banks conflict."""
    tik = Tik()
    a, b = (tik.Tensor("float16", (32768,), "local.UB", name) for name in "ab")
    if name == "vec_dup":
        tik.vec_dup(128, a, 1.0, repeats, 8)
    else:
        tik.vec_add(128, a, a, b, repeats, 8, 8, 8)
    return built(tik)


def test_a_program_that_is_faster_whatever_the_numbers_stays_the_best() -> None:
    found = sensitivity([reading(100), reading(101)], draws=10)
    assert (found.share, found.worst_loss, found.deciding) == (1.0, 0.0, ())


def test_one_number_decides_between_two_programs() -> None:
    # 4 reads take 4 * 31 = 124 cycles, against 2 + 25 + 120 of the fill; from 36 cycles a read on, the fill is faster.
    programs = [reading(4), filling(120)]
    assert estimate(programs[0]).cycles < estimate(programs[1]).cycles
    found = sensitivity(programs, draws=40)
    assert ("scalar_read", 60) in found.deciding
    assert ("scalar_read", 20) not in found.deciding
    assert 0.2 < found.share < 0.8
    assert found.worst_loss <= 4 * 61 / (2 + 20 + 120) - 1
    assert found.share == stays_best(programs, draws=40)


def test_bank_conflicts_are_one_of_the_numbers() -> None:
    programs = [filling(200, "vec_add"), filling(220)]
    assert sensitivity(programs, draws=5).deciding == ((BANK_CONFLICT, 200),)


def test_the_same_seed_draws_the_same_numbers() -> None:
    programs = [reading(4), filling(120)]
    assert sensitivity(programs, draws=12, seed=3) == sensitivity(programs, draws=12, seed=3)


@pytest.mark.parametrize("name", ["Ascend910A", "Ascend310P3", "Ascend910B1"])
def test_ranges_hold_what_changes_cycles(name: str) -> None:
    found = ranges(soc.get(name))
    assert {"vector_start", "scalar_read", "sync_latency"} <= set(found)
    assert not {"kernel_floor", "launch", "queue_depth"} & set(found)
    assert all(low < high for low, high in found.values())
