"""The API's documentation as one page of plain HTML, made from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from fastapi.responses import HTMLResponse

from autotune.service.pages.html import page, table


def docs_page(openapi: Mapping[str, Any]) -> HTMLResponse:
    """Every operation with its parameters, answers and an example; links to the machine-readable description."""
    title = f"{openapi['info']['title']} {openapi['info']['version']}"
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    )
    return page(title, '<p>For programs: <a href="openapi.json">openapi.json</a></p>' + operations)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = operation.get("parameters", [])
    answers = [(status, answer["description"]) for status, answer in operation["responses"].items()]
    return (
        f"<h2>{escape(method.upper())} {escape(path)}</h2><p>{escape(operation['summary'])}.</p>"
        + table(("parameter", "default", "values"), [_parameter(parameter) for parameter in parameters])
        + table(("answer", "meaning"), answers)
    )


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, str, str]:
    schema = parameter["schema"]
    default = "required" if parameter["required"] else str(schema.get("default", "")).lower()
    values = ", ".join(schema.get("enum", [])) or parameter.get("description") or schema.get("type", "")
    return parameter["name"], default, values
