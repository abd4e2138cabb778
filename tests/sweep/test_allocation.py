"""Which problem gets the next trials of a limited time."""

import math
from itertools import pairwise

from autotune.allocation import FLOOR, Track


def track(*trials: tuple[float | None, float]) -> Track:
    found = Track()
    for time_us, seconds in trials:
        found.add(time_us, seconds)
    return found


def test_a_problem_without_trials_comes_before_all() -> None:
    assert track().gain_per_second() == math.inf


def test_the_gain_is_that_of_the_last_half_over_its_seconds() -> None:
    """Best after two of four trials 200 us, at the end 100 us; 3 s for the last two."""
    found = track((300.0, 1.0), (200.0, 1.0), (100.0, 2.0), (150.0, 1.0))
    assert math.isclose(found.gain_per_second(), (math.log(2) + FLOOR) / 3.0)


def test_a_failed_trial_costs_time_and_gains_nothing() -> None:
    assert math.isclose(track((100.0, 1.0), (None, 2.0)).gain_per_second(), FLOOR / 2.0)
    assert math.isclose(track((None, 1.0), (None, 2.0)).gain_per_second(), FLOOR / 2.0)


def test_what_gets_no_better_is_looked_at_ever_more_rarely_and_never_given_up() -> None:
    gains = [track(*[(100.0, 1.0)] * trials).gain_per_second() for trials in (2, 4, 8, 16, 1000)]
    assert all(later < earlier for earlier, later in pairwise(gains))
    assert gains[-1] > 0


def test_of_two_problems_that_gain_alike_the_quicker_one_goes_first() -> None:
    quick, slow = track((200.0, 1.0), (100.0, 1.0)), track((200.0, 1.0), (100.0, 10.0))
    assert quick.gain_per_second() > slow.gain_per_second()


def test_time_by_gain_beats_even_shares() -> None:
    """Half of 8 problems are at their best at once, the others gain 1/trials of their time with each: 20 s a trial."""

    def best_us(improves: bool, trials: int) -> float:
        return 100.0 * (1.0 + 2.0 / trials if improves else 1.0)

    tracks = {(number, number % 2 == 0): track((best_us(number % 2 == 0, 1), 20.0)) for number in range(8)}
    for _ in range(8 * 20):
        problem = max(tracks, key=lambda each: tracks[each].gain_per_second())
        tracks[problem].add(best_us(problem[1], len(tracks[problem].seconds) + 1), 20.0)
    mean = sum(math.log(found.best_us[-1] or 0) for found in tracks.values()) / 8
    even = sum(math.log(best_us(improves, 21)) for _, improves in tracks) / 8
    assert mean < even - 0.01
    assert min(len(found.seconds) for found in tracks.values()) >= 5
