"""What ``autotune explain`` and ``autotune calibrate`` print for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autotune import text
from autotune.explain import Explained, Stability, line, source
from autotune.kernels.davinci.calibration import Calibration
from autotune.kernels.davinci.constants import constants
from autotune.kernels.davinci.explain import Stall
from autotune.kernels.davinci.flags import EVENTS
from autotune.kernels.davinci.soc import SoC
from autotune.kernels.davinci.table import ROWS

LONGEST = 8
"""Stalls that are listed of the busiest pipe, and of all others together."""
STALL_HEADINGS = ("pipe", "share", "cycles", "times", "cause", "line", "source")
SOURCE_WIDTH = 36
"""Characters of a kernel's line that are shown."""
NO_TERMINAL_COLUMNS = 140
"""Width of tables in a file or a pipe."""


def show(explained: Explained, chosen: str, stable: Stability | None) -> None:
    """Times, pipes, stalls and bytes; ``chosen`` says where the plan comes from."""
    found, console = explained.found, _console()
    busiest = max(found.shares, key=lambda pipe: found.shares[pipe].busy)
    for sentence in (*_sentences(explained, chosen), *(_stability(stable) if stable else ())):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    console.print(_pipes(explained), markup=False)
    own = [stall for stall in found.stalls if stall.pipe == busiest]
    others = [stall for stall in found.stalls if stall.pipe != busiest]
    console.print(_stalls(f"Longest stalls of {busiest}, the busiest pipe", own, found.cycles), markup=False)
    console.print(_stalls("Longest stalls of the other pipes", others, found.cycles), markup=False)
    console.print(_bytes(explained), markup=False)


def show_calibration(found: Calibration, chip: SoC, output: Path) -> None:
    """Every number that was measured beside the one that the model has without a profile."""
    rates = found.profile.rates or chip.rates
    usual = constants(chip.arch)
    rows = [
        (name, constant.unit, str(constant.value), str(found.profile[name]))
        for name, constant in usual.items()
        if name in found.measured
    ]
    numbers = [field.name for field in fields(rates) if isinstance(getattr(rates, field.name), int)]
    numbers.remove("l0c_to_gm")  # of chips with a fixpipe, whose cores are not measured
    rows += [(name, "bytes/cycle", str(getattr(chip.rates, name)), str(getattr(rates, name))) for name in numbers]
    rows += [
        (name, "cycles/repeat, 16 and 32 bits", f"{row.half:g}, {row.single:g}", f"{half:g}, {single:g}")
        for name, (half, single) in found.profile.slopes.items()
        for row in ROWS
        if row.name == name and row.name.startswith("v")
    ]
    console = _console()
    console.print(_table(f"{chip.name}: the timing model's numbers", ("number", "unit", "usual", "measured"), rows))
    console.print(f"written to {output}", markup=False, highlight=False, soft_wrap=True)


def _sentences(explained: Explained, chosen: str) -> Iterable[str]:
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


def _stability(stable: Stability) -> Iterable[str]:
    found = stable.found
    yield (
        f"sensitivity: of {len(stable.plans)} plans, {text.of_plan(stable.plans[0])} is the fastest, and stays it in "
        f"{found.kept} of {found.draws} draws of the uncertain numbers ({found.worst_loss:.1%} slower at worst)"
    )
    if found.deciding:
        ends = ", ".join(f"{name} = {value}" for name, value in found.deciding)
        yield f"on its own decides: {ends}"


def _pipes(explained: Explained) -> Table:
    found = explained.found

    def share(cycles: int | None) -> str:
        return "" if cycles is None else f"{cycles / max(found.cycles, 1):.1%}"

    rows = [
        (pipe, share(s.busy), share(s.stalled), share(s.idle), share(found.full_rate.get(pipe)))
        for pipe, s in found.shares.items()
    ]
    return _table("Where the cycles go", ("pipe", "busy", "stalled", "nothing issued", "work at full rate"), rows)


def _stalls(title: str, stalls: Sequence[Stall], total: int) -> Table:
    rows = [
        (stall.pipe, f"{stall.cycles / total:.1%}", str(stall.cycles), str(stall.times), stall.cause,
         line(stall.where), source(stall.where))
        for stall in stalls[:LONGEST]
    ]  # fmt: skip
    table = _table(title, STALL_HEADINGS, rows)
    for column, cells in zip(table.columns, zip(STALL_HEADINGS, *rows)):
        column.no_wrap, column.min_width = True, max(map(len, cells))
    table.columns[-1].min_width, table.columns[-1].max_width = 0, SOURCE_WIDTH
    return table


def _bytes(explained: Explained) -> Table:
    found = explained.found
    rows = [(route, str(moved), str(found.moved_by_all[route])) for route, moved in found.moved.items()]
    return _table("Bytes moved", ("route", f"core {found.core}", "all cores"), rows)


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(*headings, title=title, title_justify="left", highlight=False)
    for row in rows:
        table.add_row(*row)
    return table


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=NO_TERMINAL_COLUMNS)
