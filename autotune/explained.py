"""An explanation as sentences and tables of text: the same on the terminal and on the service's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune import text
from autotune.explain import Explained, line, source
from autotune.kernels.davinci.explain import Stall
from autotune.kernels.davinci.flags import EVENTS

LONGEST = 8
"""Stalls that are listed of the busiest pipe, and of all others together."""
STALL_HEADINGS = ("pipe", "share", "cycles", "times", "cause", "line", "source")


@dataclass(frozen=True)
class TextTable:
    """A title, column headings and rows of as many texts."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def sentences(explained: Explained, chosen: str) -> Iterator[str]:
    """Problem, plan, time, slowest core, bound and flags; ``chosen`` says where the plan comes from."""
    found, (pipe, bound) = explained.found, explained.found.bound
    yield f"{text.of_problem(explained.problem)} on {explained.target}"
    yield f"plan: {text.of_plan(explained.plan)} ({chosen})"
    yield f"time: {text.of_time(found.estimate.time_us)}, emulated by {found.estimate.model}"
    yield f"core {found.core} is the slowest with {found.cycles} cycles; the mean is {found.balance:.0%} of that"
    yield (
        f"bound: the work of {pipe} takes {bound} cycles at full rate; "
        f"this plan reaches {bound / max(found.cycles, 1):.0%} of it"
    )
    short = [f"{pair}: {most}" for pair, most in found.flags.items() if most > EVENTS]
    if short:
        yield (
            f"more flags are in flight than the {EVENTS} events that a pair of queues has ({', '.join(short)}): "
            "where TIK waits before it uses an event again, this time is too short"
        )


def pipes(explained: Explained) -> TextTable:
    """The share of the slowest core's cycles that each pipe is busy, stalled and idle, and its work at full rate."""
    found = explained.found

    def share(cycles: int | None) -> str:
        return "" if cycles is None else f"{cycles / max(found.cycles, 1):.1%}"

    rows = [
        (pipe, share(s.busy), share(s.stalled), share(s.idle), share(found.full_rate.get(pipe)))
        for pipe, s in found.shares.items()
    ]
    headings = ("pipe", "busy", "stalled", "nothing issued", "work at full rate")
    return TextTable("Where the cycles go", headings, rows)


def stalls(explained: Explained) -> tuple[TextTable, TextTable]:
    """The longest stalls of the busiest pipe, and those of the others."""
    found = explained.found
    busiest = max(found.shares, key=lambda pipe: found.shares[pipe].busy)
    own = [stall for stall in found.stalls if stall.pipe == busiest]
    others = [stall for stall in found.stalls if stall.pipe != busiest]
    return (
        _stalls(f"Longest stalls of {busiest}, the busiest pipe", own, found.cycles),
        _stalls("Longest stalls of the other pipes", others, found.cycles),
    )


def moved(explained: Explained) -> TextTable:
    """Bytes on every route, of the slowest core and of all."""
    found = explained.found
    rows = [(route, str(count), str(found.moved_by_all[route])) for route, count in found.moved.items()]
    return TextTable("Bytes moved", ("route", f"core {found.core}", "all cores"), rows)


def _stalls(title: str, found: Sequence[Stall], total: int) -> TextTable:
    rows = [
        (stall.pipe, f"{stall.cycles / total:.1%}", str(stall.cycles), str(stall.times), stall.cause,
         line(stall.where), source(stall.where))
        for stall in found[:LONGEST]
    ]  # fmt: skip
    return TextTable(title, STALL_HEADINGS, rows)
