"""Whether the fastest of some programs stays the fastest when the uncertain numbers of the timing model are others.

Every number that its sources leave open is drawn from its range (``constants.py``), all at once and at random; the
same seed draws the same numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autotune.kernels.davinci.constants import Constant, constants
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.program import Program
from autotune.kernels.davinci.rows_vector import VECTOR_ROWS, WHOLE_ROWS
from autotune.kernels.davinci.soc import SoC
from autotune.kernels.davinci.timing import estimate

DRAWS = 20
"""Draws of all numbers: the share is then known to about a tenth."""

CONFLICTING = ("add", "sub", "mul", "max", "min")
"""Vector instructions with two sources: up to twice as slow where both lie in one bank group of UB (2.1)."""
BANK_CONFLICT = "bank_conflict"
"""Name of that range among those of the constants: percent of the published cycles per repeat."""
BANK_CONFLICTS = Constant(100, "2.1, conflict-free to both sources in one bank group", "assumed", "percent", 100, 200)


@dataclass(frozen=True)
class Sensitivity:
    """What becomes of the fastest program.

    draws: how often all numbers were drawn; kept: how often it stayed the fastest. worst_loss: how much longer than the
    fastest of a draw it took at most, e.g. 0.02. deciding: numbers that make another program the fastest when they
    alone go to an end of their range, with that end.
    """

    draws: int
    kept: int
    worst_loss: float
    deciding: tuple[tuple[str, int], ...]

    @property
    def share(self) -> float:
        """How often the fastest stays the fastest, from 0 to 1."""
        return self.kept / self.draws


def sensitivity(programs: Sequence[Program], draws: int = DRAWS, seed: int = 0) -> Sensitivity:
    """Varies the numbers under programs of one chip, of which the first is the fastest with the usual ones."""
    soc, generator = programs[0].soc, random.Random(seed)
    losses = [_loss(programs, drawn) for drawn in _drawn(soc, draws, generator)]
    deciding = [name_and_end for name_and_end, profile in _ends(soc) if _loss(programs, profile) > 0]
    return Sensitivity(draws, losses.count(0), max(losses), tuple(deciding))


def stays_best(programs: Sequence[Program], draws: int = DRAWS, seed: int = 0) -> float:
    """The share of draws in which the first program is the fastest: what a best plan carries."""
    profiles = _drawn(programs[0].soc, draws, random.Random(seed))
    return sum(_loss(programs, profile) == 0 for profile in profiles) / draws


def ranges(soc: SoC) -> dict[str, tuple[int, int]]:
    """Lowest and highest value of every number that changes cycles and is not certain, by name."""
    numbers = {**constants(soc.arch), BANK_CONFLICT: BANK_CONFLICTS}
    return {
        name: (number.low, number.high)
        for name, number in numbers.items()
        if number.low is not None and number.high is not None and number.unit != "nanoseconds"
    }


def _drawn(soc: SoC, draws: int, generator: random.Random) -> Iterator[Profile]:
    for _ in range(draws):
        yield _profile({name: generator.randint(low, high) for name, (low, high) in ranges(soc).items()})


def _ends(soc: SoC) -> Iterator[tuple[tuple[str, int], Profile]]:
    for name, ends in ranges(soc).items():
        for end in ends:
            yield (name, end), _profile({name: end})


def _profile(values: dict[str, int]) -> Profile:
    numbers = dict(values)
    factor = numbers.pop(BANK_CONFLICT, 100) / 100
    rows = [VECTOR_ROWS[f"v{name}"] for name in CONFLICTING] + [WHOLE_ROWS[f"h_{name}"] for name in CONFLICTING]
    slopes = {row.name: (row.half * factor, row.single * factor) for row in rows}
    return replace(DEFAULT, name="varied", constants=numbers, slopes=slopes if factor != 1 else {})


def _loss(programs: Sequence[Program], profile: Profile) -> float:
    """How much longer than the fastest the first program takes."""
    cycles = [estimate(program, profile=profile).cycles for program in programs]
    return cycles[0] / max(min(cycles), 1) - 1
