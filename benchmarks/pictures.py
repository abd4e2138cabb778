"""A core's timeline as SVG: a row for each pipe, darker where it is busier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from autotune.kernels.davinci.timeline import Timeline

PIPES = ("MTE2", "MTE1", "M", "V", "MTE3")
"""From top to bottom, the way that data flows: GM to L1, L1 to L0, cube, vector unit, UB to L1 and GM."""
BUCKETS, SHADES = 400, 5
"""Steps of time that a row has, and shades of a step."""
LEFT, WIDTH, ROW, GAP, TITLE = 56, 800, 14, 4, 22
"""Pixels."""


def svg(timelines: Sequence[tuple[str, Timeline]], begin: int, cycles: int) -> str:
    """The cycles from ``begin`` on of some timelines, one below the other, each under its title."""
    height = TITLE + len(PIPES) * (ROW + GAP)
    size = (LEFT + WIDTH + 10, height * len(timelines) + TITLE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{size[0]}" height="{size[1]}" fill="#ffffff"/>',
    ]
    for number, (title, timeline) in enumerate(timelines):
        parts += _panel(title, timeline, begin, cycles, number * height)
    end = f"{begin} to {begin + cycles} cycles, emulated"
    parts += [f'<text x="{LEFT}" y="{size[1] - 7}" fill="#444444">{end}</text>', "</svg>\n"]
    return "\n".join(parts)


def _panel(title: str, timeline: Timeline, begin: int, cycles: int, top: int) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="{top + 15}" font-weight="bold" fill="#111111">{escape(title)}</text>'
    for row, pipe in enumerate(PIPES):
        y = top + TITLE + row * (ROW + GAP)
        yield f'<text x="8" y="{y + 11}" fill="#444444">{pipe}</text>'
        yield f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW}" fill="#eeeeee"/>'
        shades = [round(share * SHADES) for share in busy(timeline, pipe, begin, cycles)]
        at = 0
        for shade, run in groupby(shades):
            steps = len(list(run))
            if shade:
                x, width = LEFT + at * WIDTH / BUCKETS, steps * WIDTH / BUCKETS
                yield (
                    f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{ROW}" fill="#1f5fa8" '
                    f'fill-opacity="{shade / SHADES:g}"/>'
                )
            at += steps


def busy(timeline: Timeline, pipe: str, begin: int, cycles: int) -> list[float]:
    """The share of each of BUCKETS steps of time in which a pipe works."""
    step = cycles / BUCKETS
    shares = [0.0] * BUCKETS
    for event in timeline.events:
        if event.pipe != pipe:
            continue
        start, end = event.start - begin, event.start + event.cycles - begin
        for bucket in range(max(0, int(start / step)), min(BUCKETS, int(end / step) + 1)):
            shares[bucket] += max(0.0, min(end, (bucket + 1) * step) - max(start, bucket * step)) / step
    return [min(share, 1.0) for share in shares]
