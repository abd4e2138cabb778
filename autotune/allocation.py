"""Which problem a sweep with a time limit goes on with: the one that is expected to gain most in the next second.

What a problem's last half of trials brought is what as many trials more are expected to bring, and at least a little:
so a problem that nothing gets better of is looked at ever more rarely, and none is given up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

FLOOR = 0.01
"""Gain (in the logarithm of the time) that the next doubling of trials is expected to bring at least."""
LEAST_SECONDS = 1e-3
"""That trials count as, where nobody measured them."""


@dataclass
class Track:
    """A problem's trials. best_us: the fastest so far after each, None while there is none. seconds: of each."""

    best_us: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, time_us: float | None, seconds: float) -> None:
        """A trial is done; time_us is None where it failed."""
        before = self.best_us[-1] if self.best_us else None
        times = [time for time in (before, time_us) if time is not None]
        self.best_us.append(min(times, default=None))
        self.seconds.append(seconds)

    def gain_per_second(self) -> float:
        """Expected of the next trials; infinite where there was none yet."""
        if not self.best_us:
            return math.inf
        half = len(self.best_us) // 2
        before, now = self.best_us[max(half - 1, 0)], self.best_us[-1]
        gain = math.log(before / now) if before and now else 0.0
        return (gain + FLOOR) / max(sum(self.seconds[half:]), LEAST_SECONDS)
