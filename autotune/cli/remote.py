"""Asks a running service, as ``autotune best --url`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from autotune.errors import InvalidInput, ServiceUnavailable
from autotune.problem import AttentionProblem

TIMEOUT_S = 10.0
MAX_BYTES = 1 << 20


def query(problem: AttentionProblem, device: str, rungs: Sequence[str]) -> dict[str, str]:
    """The parameters of ``GET /best``."""
    given = {name: value for name, value in problem.to_json().items() if value is not None}
    return {name: _text(value) for name, value in given.items()} | {"device": device, "allow": ",".join(rungs)}


def ask(url: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    """The body of ``GET /best``; None where no allowed rung has a plan. Raises InvalidInput, ServiceUnavailable."""
    # Without proxies: the service is near, or it is not there.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(f"{url}/best?{urlencode(query)}", timeout=TIMEOUT_S) as response:
            return _object(response.read(MAX_BYTES), url)
    except HTTPError as error:
        with error:
            _raise_unless_nothing_found(error.code, _object(error.read(MAX_BYTES), url))
        return None
    except (OSError, HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        reason = getattr(cause, "strerror", None) or cause
        raise ServiceUnavailable(f"the service at {url} does not answer: {reason}") from error


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(number) for number in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _object(body: bytes, url: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ServiceUnavailable(f"what listens at {url} is no plan service: its answer is no JSON object")
    return value


def _raise_unless_nothing_found(status: int, body: Mapping[str, Any]) -> None:
    detail = str(body.get("detail", "no reason given"))
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        raise InvalidInput(detail)
    if status != HTTPStatus.NOT_FOUND or body.get("field") != "allow":
        raise ServiceUnavailable(f"the service answers {status}: {detail}")
