"""The API's documentation as one page of plain HTML, made from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fastapi.responses import HTMLResponse

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "td,th{text-align:left;padding:.2em 1em .2em 0}"
)


def docs_page(openapi: Mapping[str, Any]) -> HTMLResponse:
    """Every operation with its parameters, answers and an example; links to the machine-readable description."""
    title = escape(f"{openapi['info']['title']} {openapi['info']['version']}")
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    )
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f'<p>For programs: <a href="openapi.json">openapi.json</a></p>{operations}</body></html>'
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = operation.get("parameters", [])
    answers = [(status, answer["description"]) for status, answer in operation["responses"].items()]
    return (
        f"<h2>{escape(method.upper())} {escape(path)}</h2><p>{escape(operation['summary'])}.</p>"
        + _table(("parameter", "default", "values"), [_parameter(parameter) for parameter in parameters])
        + _table(("answer", "meaning"), answers)
    )


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, str, str]:
    schema = parameter["schema"]
    default = "required" if parameter["required"] else str(schema.get("default", "")).lower()
    values = ", ".join(schema.get("enum", [])) or parameter.get("description") or schema.get("type", "")
    return parameter["name"], default, values


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(cell: str, texts: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(text)}</{cell}>" for text in texts) + "</tr>"
