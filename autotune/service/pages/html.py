"""What every page is made of: a frame, tables, one style sheet, and a policy that lets nothing else in.

A text becomes HTML in ``escape`` alone; no page has a script, and none loads anything from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fastapi.responses import HTMLResponse

POLICY = (
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "img-src data:"  # a browser asks for an icon otherwise
)
STYLE_PATH = "/style.css"
STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 sans-serif; max-width: 76em; margin: 1em auto; padding: 0 1em; }
nav a { margin-right: 1em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1em 0; }
caption { text-align: left; font-weight: bold; }
td, th { text-align: left; padding: .2em 1em .2em 0; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
label { display: inline-block; margin: 0 1em .5em 0; }
input, select, button { font: inherit; }
.fault { border-left: .3em solid; padding-left: .7em; font-weight: bold; }
"""


def page(title: str, body: str, status: int = 200) -> HTMLResponse:
    """A page around ``body``, which is HTML already."""
    name = escape(title)
    frame = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{STYLE_PATH[1:]}"></head><body>'
        f'<nav><a href="explain">Explain a plan</a><a href="docs">For programs</a></nav><main><h1>{name}</h1>'
        f"{body}</main></body></html>"
    )
    return HTMLResponse(frame, status, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table, or nothing where there are no rows; a column of numbers alone is set to the right."""
    if not rows:
        return ""
    numeric = [all(_is_number(row[column]) for row in rows) for column in range(len(head))]
    lines = [_row("th", head, numeric), *(_row("td", row, numeric) for row in rows)]
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    # what scrolls has to be reached by keyboard too
    return f'<div class="wide" tabindex="0"><table>{title}{"".join(lines)}</table></div>'


def _is_number(text: str) -> bool:
    return text.strip("%").replace(".", "", 1).isdigit() or not text


def _row(cell: str, texts: Sequence[str], numeric: Sequence[bool]) -> str:
    cells = (
        f"<{cell}{' class=number' if number else ''}>{escape(text)}</{cell}>"
        for text, number in zip(texts, numeric, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"
