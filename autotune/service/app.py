"""The HTTP routes: parse, call, answer."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from autotune import __version__
from autotune.errors import InvalidInput, StoreError
from autotune.problem import AttentionProblem
from autotune.service.device import Devices, find_device
from autotune.service.ladder import EXACT, Bests, answer
from autotune.service.pages.docs import docs_page
from autotune.service.schema import AnswerBody, BestQuery, ErrorBody, HealthBody, parse_allow

log = logging.getLogger(__name__)


class ServedStore(Bests, Protocol):
    """The part of the store that the service uses; ``autotune.db.store.Store`` has it."""

    def want(self, problem: AttentionProblem, device: str, at: str) -> None:
        """Counts a question that had no exact answer."""
        ...

    def schema(self) -> str:
        """The schema revision; raises StoreError when the database cannot be read."""
        ...


def create_app(store: ServedStore, devices: Devices) -> FastAPI:
    """The service over one store; ``devices`` are those it answers for, the first when a question names none."""
    app = FastAPI(title="tiling-autotune", version=__version__, docs_url=None, redoc_url=None)
    for error, handler in _ERROR_HANDLERS.items():
        app.add_exception_handler(error, handler)

    @app.get("/best", summary="The fastest legal plan known for a problem", responses=_BEST_RESPONSES)
    def best(request: Request, query: Annotated[BestQuery, Query()]) -> Response:
        _refuse_repeats(request)
        problem, allow = query.problem(), parse_allow(query.allow)
        device, target = find_device(devices, query.device if query.device is not None else next(iter(devices)))
        found = answer(problem, device, store, allow, target)
        if found is None:
            detail = f"none of the rungs {query.allow} has a legal plan for this problem on {device.hardware.name}"
            response: Response = _error(404, f"{detail}; allow more rungs, or sweep the problem", "allow")
        else:
            response = _cacheable(request, found.to_json())
        if found is None or found.match != EXACT:
            response.background = BackgroundTask(_record_miss, store, problem, device.hardware.name)
        return response

    @app.get("/healthz", summary="Whether the database can be read", responses={503: _PROBLEM})
    def healthz() -> HealthBody:
        return HealthBody(status="ok", schema_revision=store.schema())

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return docs_page(app.openapi())

    return app


def _cacheable(request: Request, body: Mapping[str, Any]) -> Response:
    """200 with the body and its ETag, or 304 when the client has that body already (RFC 9110, 13.1.2)."""
    content = json.dumps(body, separators=(",", ":")).encode()
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    if tag in known or known == ["*"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


def _record_miss(store: ServedStore, problem: AttentionProblem, device: str) -> None:
    """After the answer is sent: a busy database must not make anybody wait for a plan."""
    try:
        store.want(problem, device, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    except StoreError as error:
        log.warning("a miss was not recorded: %s", error)


def _refuse_repeats(request: Request) -> None:
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{name} is given {names.count(name)} times; give it once", field=name)


class ProblemJSON(JSONResponse):
    """RFC 9457."""

    media_type = "application/problem+json"


def _error(status: int, detail: str, field: str | None = None, headers: Mapping[str, str] | None = None) -> ProblemJSON:
    body = ErrorBody(title=HTTPStatus(status).phrase, status=status, detail=detail, field=field or None)
    return ProblemJSON(body.model_dump(), status, headers)


def _unprocessable(_request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidInput)
    return _error(422, str(error), error.field)


def _unavailable(_request: Request, error: Exception) -> Response:
    return _error(503, str(error))


def _refused_by_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, headers=error.headers)


_SENTENCES = {
    "extra_forbidden": "{field} is no parameter of this address; they are " + ", ".join(BestQuery.model_fields),
    "missing": "{field} is missing",
    "bool_parsing": "{field} must be true or false",
}


def _refused_by_model(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # A misspelt name first: it explains why another is missing.
    faults = sorted(error.errors(), key=lambda fault: str(fault["type"]) != "extra_forbidden")
    fields = [str(fault["loc"][-1])[:60] for fault in faults]
    sentences = [
        _SENTENCES.get(fault["type"], "{field}: {message}").format(field=field, message=fault["msg"])
        for field, fault in zip(fields, faults, strict=True)
    ]
    return _error(422, "; ".join(sentences[:3]), fields[0])


_ERROR_HANDLERS = {
    InvalidInput: _unprocessable,
    StoreError: _unavailable,
    RequestValidationError: _refused_by_model,
    HTTPException: _refused_by_http,
}

_PROBLEM: dict[str, Any] = {
    "description": "RFC 9457 problem details",
    "content": {"application/problem+json": {"schema": ErrorBody.model_json_schema()}},
}
_BEST_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"model": AnswerBody, "description": "A plan, and the rung of the ladder it comes from"},
    304: {"description": "The answer is still the one that If-None-Match names"},
    404: _PROBLEM | {"description": "No allowed rung has a legal plan"},
    422: _PROBLEM | {"description": "A parameter is wrong; its name is in field"},
    503: _PROBLEM | {"description": "The database cannot be read"},
}
