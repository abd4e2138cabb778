"""The API's documentation as one page of plain HTML, made from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import HTMLResponse

from autotune.service.pages.render import page


def docs_page(openapi: Mapping[str, Any]) -> HTMLResponse:
    """Every operation with its parameters and answers; links to the machine-readable description."""
    title = f"{openapi['info']['title']} {openapi['info']['version']}"
    operations = [
        _operation(method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    return page("docs.html", title=title, operations=operations)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": f"{method.upper()} {path}",
        "summary": operation["summary"],
        "parameters": [_parameter(parameter) for parameter in operation.get("parameters", [])],
        "answers": [(status, answer["description"]) for status, answer in operation["responses"].items()],
    }


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, str, str]:
    schema = parameter["schema"]
    default = "required" if parameter["required"] else str(schema.get("default", "")).lower()
    values = ", ".join(schema.get("enum", [])) or parameter.get("description") or schema.get("type", "")
    return parameter["name"], default, values
