"""Where a program's time goes: each pipe's share on the slowest core, what it waited for and at which kernel line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.kernels.davinci import isa
from autotune.kernels.davinci.clocks import PIPES
from autotune.kernels.davinci.conditions import USUAL, Conditions
from autotune.kernels.davinci.costs import DEFAULT, Profile
from autotune.kernels.davinci.errors import Where
from autotune.kernels.davinci.flags import flags_in_flight
from autotune.kernels.davinci.memory import GM, L0A, L0B, L0C, L1, UB
from autotune.kernels.davinci.program import Program
from autotune.kernels.davinci.tally import (
    NAMES,
    FullRate,
    Moved,
    S,
    StallKey,
    Tally,
    TallyCore,
    TallyWalk,
    Times,
)
from autotune.kernels.davinci.timing import Estimate, summary

SHORT = {GM: "GM", L1: "L1", UB: "UB", L0A: "L0A", L0B: "L0B", L0C: "L0C"}


@dataclass(frozen=True)
class Stall:
    """Cycles that one pipe of the slowest core stood still at one kernel line for one cause, and how often."""

    pipe: str
    cause: str
    where: Where
    cycles: int
    times: int


@dataclass(frozen=True)
class Share:
    """Cycles of one pipe, from the start to the end of its core.

    busy: doing its own work; what S reads counts as stalled. stalled: work was there, and waited. idle: the rest,
    in which S had issued nothing more, or matmul kept MTE1.
    """

    busy: int
    stalled: int
    idle: int


@dataclass(frozen=True)
class Explanation:
    """Where the time of the slowest core goes.

    core: its index. shares: by pipe. stalls: longest first. moved: bytes by route, e.g. "GM->L1", on the slowest core;
    moved_by_all: on all cores. full_rate: cycles that each pipe's work would take at full rate (roofline). flags: the
    most in flight at once of each pair of queues, e.g. "MTE2->MTE1".
    """

    estimate: Estimate
    core: int
    shares: dict[str, Share]
    stalls: tuple[Stall, ...]
    moved: dict[str, int]
    moved_by_all: dict[str, int]
    full_rate: dict[str, int]
    flags: dict[str, int]

    @property
    def cycles(self) -> int:
        """Cycles of the slowest core."""
        return self.estimate.core_cycles[self.core]

    @property
    def bound(self) -> tuple[str, int]:
        """The pipe with the most work at full rate, and its cycles: no order of instructions is faster."""
        return max(self.full_rate.items(), key=lambda item: item[1])

    @property
    def balance(self) -> float:
        """Mean of the cores' cycles over the slowest core's: 1 where the work is spread evenly."""
        return sum(self.estimate.core_cycles) / len(self.estimate.core_cycles) / max(self.cycles, 1)


def explain(
    program: Program, remember: bool = True, profile: Profile = DEFAULT, conditions: Conditions = USUAL
) -> Explanation:
    """Times a program and tells where the time goes. remember: as in ``estimate``; the answer is the same."""
    walk = TallyWalk(program, remember, profile, conditions)
    cores = [core for core in walk.cores() if isinstance(core, TallyCore)]
    found = summary(program, cores, profile, conditions)
    index = found.core_cycles.index(max(found.core_cycles))
    slowest, everything = cores[index], Counter[Any]()
    for core in cores:
        everything.update(core.tally)
    there = [pipe for pipe in NAMES if pipe != isa.FIX or program.soc.split]
    full_rate = {pipe: slowest.tally[FullRate(PIPES.index(pipe))] for pipe in there if pipe != isa.S}
    return Explanation(
        found,
        index,
        _shares(slowest, there),
        _stalls(slowest.tally),
        _moved(slowest.tally),
        _moved(everything),
        full_rate,
        flags_in_flight(program, index, profile=profile),
    )


def _shares(core: TallyCore, pipes: Sequence[str]) -> dict[str, Share]:
    """By pipe. S is busy with what it does not wait for, until it has issued everything."""
    total, stalled = core.finish(), Counter[int]()
    for key, cycles in core.tally.items():
        if isinstance(key, StallKey):
            stalled[key.pipe] += cycles
    busy = [*core.busy[:S], core.now - stalled[S]]
    numbers = {pipe: NAMES.index(pipe) for pipe in pipes}
    return {pipe: Share(busy[n], stalled[n], total - busy[n] - stalled[n]) for pipe, n in numbers.items()}


def _stalls(tally: Tally) -> tuple[Stall, ...]:
    found = [
        Stall(NAMES[key.pipe], key.cause, key.where, cycles, tally[Times(key)])
        for key, cycles in tally.items()
        if isinstance(key, StallKey)
    ]
    return tuple(sorted(found, key=lambda stall: (-stall.cycles, stall.pipe, stall.cause, stall.where)))


def _moved(tally: Tally) -> dict[str, int]:
    found = {_named(key.route): count for key, count in tally.items() if isinstance(key, Moved)}
    return dict(sorted(found.items()))


def _named(route: tuple[str, str]) -> str:
    return "->".join(SHORT[scope] for scope in route)
