"""A night's report as one HTML file that needs nothing else: tables, and plots in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from autotune import text
from autotune.cli.report_text import headline, sections, title
from autotune.night import Night, Tuned

WIDTH, HEIGHT = 220.0, 80.0
"""Of the plot of one problem, in SVG's units."""
MOST_PLOTS = 48


@dataclass(frozen=True)
class Bar:
    """The gain of a problem: its length in percent of the longest."""

    name: str
    words: str
    percent: float


@dataclass(frozen=True)
class Curve:
    """The best time of a problem over its trials. points: x,y pairs of a polyline. default_y: height of the default."""

    name: str
    points: str
    default_y: float | None
    first: str
    last: str
    trials: int


def page(night: Night) -> str:
    """The file's text."""
    order = sorted(night.tuned, key=lambda each: -(each.gain or 0.0))
    longest = max((each.gain for each in order if each.gain), default=1.0)
    bars = [
        Bar(text.of_problem(each.problem), text.of_speedup(each.gain), 100 * each.gain / longest)
        for each in order
        if each.gain
    ]
    curves = [curve for each in order[:MOST_PLOTS] if (curve := _curve(each))]
    return _TEMPLATES.get_template("report.html").render(
        title=title(night),
        headline=headline(night),
        sections=sections(night, curves=False),
        bars=bars,
        one=100 / longest,
        curves=curves,
        size=(WIDTH, HEIGHT),
    )


def _curve(tuned: Tuned) -> Curve | None:
    """A step for each better plan; the scale is from the fastest to the slower of the first time and the default's."""
    known = [(number, time) for number, time in enumerate(tuned.best_us) if time is not None]
    if len(tuned.best_us) < 2 or not known:
        return None
    default_us = tuned.best.default_time_us if tuned.best else None
    low, high = known[-1][1], max(known[0][1], default_us or 0.0)
    span = (high - low) or 1.0

    def y(time_us: float) -> float:
        return round(HEIGHT - 4 - (HEIGHT - 8) * (time_us - low) / span, 1)

    return Curve(
        text.of_problem(tuned.problem),
        _steps([(round(WIDTH * number / (len(tuned.best_us) - 1), 1), y(time)) for number, time in known]),
        None if default_us is None else y(default_us),
        text.of_time(known[0][1]),
        text.of_time(low),
        len(tuned.best_us),
    )


def _steps(points: Sequence[tuple[float, float]]) -> str:
    found = [points[0]]
    for (_, before), (x, y) in pairwise(points):
        if y != before:
            found += [(x, before), (x, y)]
    found.append((points[-1][0], points[-1][1]))
    return " ".join(f"{x:g},{y:g}" for x, y in found)


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
