"""The discipline of measuring on clocks whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import count
from random import Random

import pytest

from autotune.errors import ImplausibleTime
from autotune.measure import Rules, Sentinel, affordable, check_plausible, race, spread, undisturbed, warm_up


def noisy(true_us: float, random: Random, sigma: float = 0.05) -> Callable[[], float]:
    return lambda: true_us * random.lognormvariate(0.0, sigma)


def test_warming_up_ends_when_windows_agree() -> None:
    """Halves its time until the 7th run: the third window is the first like the one before, give or take 3 %."""
    times = (100.0 + 800.0 / 2**run if run < 6 else 100.0 for run in count())
    assert warm_up(lambda: next(times)) == 12


def test_warming_up_is_given_up_in_the_end() -> None:
    times = (1.2**run for run in count())
    assert warm_up(lambda: next(times), most=20) == 18


@pytest.mark.parametrize(("one_us", "expected"), [(1.0, 9), (1e6, 5), (1e9, 3)])
def test_runs_that_can_be_afforded(one_us: float, expected: int) -> None:
    assert affordable(9, one_us, 5.0) == expected


def sentinel(readings: Iterable[float]) -> Sentinel:
    """Of one run a reading."""
    left = iter(readings)
    return Sentinel(lambda: next(left), pulse=1)


def test_a_block_that_drifted_is_measured_again() -> None:
    """The machine slows by a tenth during the first block, and stays so."""
    blocks = count(1)
    found, drift = sentinel([100.0, 110.0, 111.0]).watch(lambda: next(blocks))
    assert found == 2 and drift == pytest.approx(111 / 110 - 1)


def test_noise_of_the_sentinel_is_no_drift() -> None:
    blocks = count(1)
    found, drift = sentinel([100.0, 93.0]).watch(lambda: next(blocks))
    assert found == 1 and drift == pytest.approx(-0.07)


def test_a_machine_that_never_settles_says_so() -> None:
    blocks = count(1)
    found, drift = sentinel(100.0 * 1.2**step for step in count()).watch(lambda: next(blocks))
    assert found == 3 and drift == pytest.approx(0.2)


def test_one_slow_run_is_no_drift() -> None:
    readings = iter([1.0, 1.0, 9.0, 1.0, 1.0] * 2)
    assert Sentinel(lambda: next(readings)).watch(lambda: "found") == ("found", 0.0)


def test_slow_samples_say_least() -> None:
    assert undisturbed([10.0, 11.0, 900.0]) == 10.5
    assert undisturbed([7.0]) == 7.0


def test_the_spread_is_between_the_quartiles() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0, 500.0]) == 2.0
    assert spread([3.0]) == 0.0


@pytest.mark.parametrize("sample", [0.0, -1.0, math.nan, math.inf, 1e17, 4.9])
def test_absurd_times_are_refused(sample: float) -> None:
    check_plausible([5.0, 3.5e9], 5.0)
    with pytest.raises(ImplausibleTime, match="a run took"):
        check_plausible([10.0, sample], 5.0)


def test_the_fastest_wins_within_its_budget() -> None:
    random = Random(1)
    runs = {number: noisy(100.0 + 10 * number, random) for number in range(12)}
    ended = race(runs, 7, random)
    assert ended.winner == 0
    assert ended.runs <= 5 * len(runs)
    assert len(ended.times_us[11]) < len(ended.times_us[0])


def test_the_slow_are_dropped_at_once() -> None:
    random = Random(2)
    ended = race({"quick": noisy(1.0, random), "slow": noisy(9.0, random), "like": noisy(1.0, random)}, "quick", random)
    assert len(ended.times_us["slow"]) == 1


def test_the_incumbent_keeps_its_place_against_an_equal() -> None:
    exactly = {"new": lambda: 5.0, "incumbent": lambda: 5.0}
    assert race(exactly, "incumbent", Random(0)).winner == "incumbent"


def test_stricter_proof_keeps_the_incumbent() -> None:
    """1 % faster under 5 % noise: too little to tell in 5 runs each."""
    kept = []
    for crown in (0.0, 3.0):
        won = 0
        for seed in range(40):
            random = Random(seed)
            runs = {"new": noisy(99.0, random), "incumbent": noisy(100.0, random)}
            won += race(runs, "incumbent", random, Rules(crown=crown)).winner == "incumbent"
        kept.append(won)
    assert kept[0] < 30 and kept[1] >= 38


def test_drift_does_not_choose() -> None:
    """The machine slows by a tenth of a percent with every run: whoever runs later looks slower, but all do in turn."""
    random, steps = Random(3), count()
    runs = {n: (lambda t=100.0 + 4 * n: t * 1.001 ** next(steps)) for n in range(8)}
    assert [race(runs, 5, random).winner for _ in range(20)].count(0) >= 19


def test_one_starter_runs_not_at_all() -> None:
    ended = race({"only": lambda: 1.0}, "only", Random(0))
    assert (ended.winner, ended.runs) == ("only", 0)
