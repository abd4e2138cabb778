"""The picture of ``autotune explain --plot``: time over (Br, Bc). Needs the extra ``tiling-autotune[plot]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotune.errors import InvalidInput
from autotune.explain import Cell

FORMATS = (".png", ".svg")
NO_TIME = float("nan")


def check(path: Path) -> None:
    """Raises InvalidInput where the picture could not be drawn: another ending, or matplotlib is not installed."""
    if path.suffix not in FORMATS:
        raise InvalidInput(f"--plot is {str(path)!r}; its name must end in {' or '.join(FORMATS)}", "plot")
    try:
        import matplotlib
    except ImportError as error:
        raise InvalidInput("--plot needs matplotlib: pip install 'tiling-autotune[plot]'", "plot") from error
    matplotlib.use("agg")


def draw(path: Path, title: str, cells: Sequence[Cell], chosen: tuple[int, int]) -> None:
    """Writes the picture: a colour for each time, hatched where there is none, the chosen (Br, Bc) framed.

    Raises OSError.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    rows, columns = sorted({cell.Br for cell in cells}), sorted({cell.Bc for cell in cells})
    times = {(cell.Br, cell.Bc): cell.time_us for cell in cells}
    figure = Figure(figsize=(2.5 + 0.55 * len(columns), 2 + 0.45 * len(rows)), layout="constrained")
    axes = figure.subplots()
    grid = [[times[Br, Bc] or NO_TIME for Bc in columns] for Br in rows]
    image = axes.pcolormesh(grid, cmap="viridis_r")
    for y, Br in enumerate(rows):
        for x, Bc in enumerate(columns):
            if times[Br, Bc] is None:
                axes.add_patch(Rectangle((x, y), 1, 1, fill=False, hatch="///", edgecolor="0.7", linewidth=0))
            if (Br, Bc) == chosen:
                axes.add_patch(Rectangle((x, y), 1, 1, fill=False, edgecolor="red", linewidth=2))
    axes.set_xticks([x + 0.5 for x in range(len(columns))], [str(Bc) for Bc in columns], rotation=90)
    axes.set_yticks([y + 0.5 for y in range(len(rows))], [str(Br) for Br in rows])
    axes.set(xlabel="Bc (keys)", ylabel="Br (queries)", title=f"{title}\nhatched: does not fit; framed: this plan")
    if any(cell.time_us for cell in cells):
        figure.colorbar(image, label="emulated time, us")
    figure.savefig(path)
