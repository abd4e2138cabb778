"""What ``autotune explain`` and ``autotune calibrate`` print for people to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autotune import explained, text
from autotune.explain import Explained, Stability
from autotune.explained import TextTable
from autotune.kernels.davinci.calibration import Calibration
from autotune.kernels.davinci.constants import constants
from autotune.kernels.davinci.soc import SoC
from autotune.kernels.davinci.table import ROWS

SOURCE_WIDTH = 36
"""Characters of a kernel's line that are shown."""
NO_TERMINAL_COLUMNS = 140
"""Width of tables in a file or a pipe."""


def show(found: Explained, chosen: str, stable: Stability | None) -> None:
    """Times, pipes, stalls and bytes; ``chosen`` says where the plan comes from."""
    console = _console()
    for sentence in (*explained.sentences(found, chosen), *(_stability(stable) if stable else ())):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    console.print(_table(explained.pipes(found)), markup=False)
    for stalls in explained.stalls(found):
        console.print(_stalls(stalls), markup=False)
    console.print(_table(explained.moved(found)), markup=False)


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
    console.print(
        _table(TextTable(f"{chip.name}: the timing model's numbers", ("number", "unit", "usual", "measured"), rows))
    )
    console.print(f"written to {output}", markup=False, highlight=False, soft_wrap=True)


def _stability(stable: Stability) -> Iterable[str]:
    found = stable.found
    yield (
        f"sensitivity: of {len(stable.plans)} plans, {text.of_plan(stable.plans[0])} is the fastest, and stays it in "
        f"{found.kept} of {found.draws} draws of the uncertain numbers ({found.worst_loss:.1%} slower at worst)"
    )
    if found.deciding:
        ends = ", ".join(f"{name} = {value}" for name, value in found.deciding)
        yield f"on its own decides: {ends}"


def _stalls(stalls: TextTable) -> Table:
    table = _table(stalls)
    for column, cells in zip(table.columns, zip(stalls.headings, *stalls.rows)):
        column.no_wrap, column.min_width = True, max(map(len, cells))
    table.columns[-1].min_width, table.columns[-1].max_width = 0, SOURCE_WIDTH
    return table


def _table(given: TextTable) -> Table:
    table = Table(*given.headings, title=given.title, title_justify="left", highlight=False)
    for row in given.rows:
        table.add_row(*row)
    return table


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=NO_TERMINAL_COLUMNS)
