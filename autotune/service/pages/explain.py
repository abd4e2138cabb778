"""The page that says where the time of a plan goes: a form, and what ``autotune explain`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from fastapi.responses import HTMLResponse

from autotune import explained
from autotune.explain import Explained
from autotune.explained import TextTable
from autotune.problem import ATTN_MASKS, OPS, SHAPE_FORM
from autotune.service.pages.html import page, table

TITLE = "Where the time of a plan goes"


def explain_page(
    given: Mapping[str, str],
    devices: Sequence[str],
    found: Explained | None = None,
    chosen: str = "",
    fault: str = "",
    status: int = 200,
) -> HTMLResponse:
    """given: what was typed, shown again. chosen: where the plan comes from. fault: why there is nothing to show."""
    parts = [_form(given, devices)]
    if fault:
        parts.append(f'<p class="fault" role="alert">{escape(fault)}</p>')
    if found is not None:
        parts.append("".join(f"<p>{escape(sentence)}</p>" for sentence in explained.sentences(found, chosen)))
        tables = (explained.pipes(found), *explained.stalls(found), explained.moved(found))
        parts.extend(_table(each) for each in tables)
    return page(TITLE, "".join(parts), status)


def _table(given: TextTable) -> str:
    return table(given.headings, given.rows, given.title)


def _form(given: Mapping[str, str], devices: Sequence[str]) -> str:
    fields = [
        _text("shape", given, f"shape: {SHAPE_FORM}", "2,16,1024,1024,64", "required"),
        _choice("device", given, devices),
        _choice("op", given, OPS),
        _choice("attn_mask", given, ATTN_MASKS),
        _text("Br", given, "Br, if not the served plan's", "128"),
        _text("Bc", given, "Bc, if not the served plan's", "256"),
    ]
    shown = {"shape", "device", "op", "attn_mask", "Br", "Bc"}
    hidden = (
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in given.items()
        if name not in shown
    )
    return f'<form action="explain" method="get">{"".join(fields)}{"".join(hidden)}<button>Explain</button></form>'


def _text(name: str, given: Mapping[str, str], label: str, example: str, more: str = "") -> str:
    value = escape(given.get(name, ""))
    return f'<label>{escape(label)}<br><input name="{name}" value="{value}" placeholder="{example}" {more}></label>'


def _choice(name: str, given: Mapping[str, str], values: Iterable[str]) -> str:
    options = "".join(
        f"<option{' selected' if given.get(name) == value else ''}>{escape(value)}</option>" for value in values
    )
    return f'<label>{name}<br><select name="{name}">{options}</select></label>'
