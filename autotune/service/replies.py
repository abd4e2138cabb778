"""What every route answers with: JSON that can be cached, or RFC 9457 problem details."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, TypeAdapter
from starlette.exceptions import HTTPException

from autotune.errors import AutotuneError, InvalidInput
from autotune.service.bodies import ErrorBody
from autotune.service.refusals import STATUS, Unauthorized, status_of


class ProblemJSON(JSONResponse):
    """RFC 9457."""

    media_type = "application/problem+json"


def cacheable(request: Request, body: Mapping[str, Any]) -> Response:
    """200 with the body and its ETag, or 304 when the client has that body already (RFC 9110, 13.1.2)."""
    content = serialised(body)
    return sent(request.headers.get("if-none-match", ""), content, entity_tag(content))


def serialised(body: Mapping[str, Any]) -> bytes:
    """A body as compact JSON."""
    return _BODY.dump_json(body)


_BODY: TypeAdapter[Any] = TypeAdapter(Any)  # Pydantic's writer takes a third of the time of the standard library's


def sent(if_none_match: str, content: bytes, tag: str) -> Response:
    """The same for a body and its ETag that are there already."""
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if is_known(tag, if_none_match):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


def entity_tag(content: bytes) -> str:
    """The ETag of a body: a hash of it."""
    return f'"{sha256(content).hexdigest()[:32]}"'


def is_known(tag: str, if_none_match: str) -> bool:
    """Whether a client that sends this If-None-Match has the body of that ETag."""
    known = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return tag in known or known == ["*"]


def error_body(status: int, detail: str, field: str | None = None) -> ErrorBody:
    """Problem details. Half of a surrogate pair, which JSON can smuggle in, is no text that could be sent back."""
    sentence, name = (text.encode("utf-8", "replace").decode() for text in (detail, field or ""))
    return ErrorBody(title=HTTPStatus(status).phrase, status=status, detail=sentence, field=name or None)


def refuse(status: int, detail: str, field: str | None = None, headers: Mapping[str, str] | None = None) -> ProblemJSON:
    """Problem details as a reply."""
    return ProblemJSON(error_body(status, detail, field).model_dump(), status, headers)


def refuse_repeats(request: Request) -> None:
    """Raises InvalidInput for a parameter that is given twice: nobody could say which one counts."""
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"{name} is given {names.count(name)} times; give it once", field=name)


def declared(model: Any, description: str, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers of a cacheable route for its OpenAPI description: 200 with ``model``, 304, and these errors."""
    unchanged = {"description": "The answer is still the one that If-None-Match names"}
    return {200: {"model": model, "description": description}, 304: unchanged, **errors(*statuses)}


def parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    """The fields of a model as the parameters of a query, for an OpenAPI description."""
    schema = model.model_json_schema()
    return [
        {"name": name, "in": "query", "required": name in schema["required"], "schema": field}
        | ({"description": field["description"]} if "description" in field else {})
        for name, field in schema["properties"].items()
    ]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These errors for an OpenAPI description."""
    return {status: {"description": _MEANINGS[status], "content": _PROBLEM_CONTENT} for status in statuses}


_PROBLEM_CONTENT = {"application/problem+json": {"schema": ErrorBody.model_json_schema()}}
_MEANINGS = {
    401: "No key, or none that is good",
    403: "The key may not do this",
    404: "There is none: no allowed rung has a legal plan, or no such plan is stored",
    409: "A sweep runs on that target",
    412: "Something else stands by now than what If-Match, or the revision, names",
    413: "The body is too long",
    422: "A parameter is wrong; its name is in field",
    503: "The database cannot be read, or others have to end first",
}


def install_handlers(app: FastAPI) -> None:
    """Every error that a route may raise becomes problem details."""
    for kind in STATUS:
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(RequestValidationError, _refused_by_model)
    app.add_exception_handler(HTTPException, _refused_by_http)


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AutotuneError)
    status = status_of(error)
    field = getattr(error, "field", None) if status < 500 else None  # then it is no parameter of the request
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthorized) else None
    return refuse(status, str(error), field, headers)


def _refused_by_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.BAD_REQUEST:  # FastAPI's word for a body that is not even text
        return refuse(422, _SENTENCES["json_invalid"], "body")
    return refuse(error.status_code, error.detail, headers=error.headers)


def _refused_by_model(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refuse(422, *faults(error.errors(), _parameters(request)))


def faults(complaints: Any, known: list[str]) -> tuple[str, str]:
    """Pydantic's complaints as one sentence, and the name of the first field."""
    # A misspelt name first: it explains why another is missing.
    ordered = sorted(complaints, key=lambda fault: str(fault["type"]) != "extra_forbidden")
    fields = [_field(fault["loc"]) for fault in ordered]
    sentences = [
        _SENTENCES.get(fault["type"], "{field}: {message}").format(
            field=field, message=fault["msg"], known=", ".join(known) or "none"
        )
        for field, fault in zip(fields, ordered, strict=True)
    ]
    return "; ".join(sentences[:3]), fields[0]


def _field(loc: tuple[str | int, ...]) -> str:
    inside = loc[1:] if loc and loc[0] in ("query", "path", "body") else loc
    return str(inside[0])[:60] if inside and isinstance(inside[0], str) else "body"


_SENTENCES = {
    "extra_forbidden": "{field} is no parameter of this address; they are {known}",
    "missing": "{field} is missing",
    "bool_parsing": "{field} must be true or false",
    "json_invalid": "the body is no JSON",
}


def _parameters(request: Request) -> list[str]:
    described = request.app.openapi()["paths"].get(request.scope["route"].path, {})
    operation = described.get(request.method.lower(), {})  # a page is not described
    return [parameter["name"] for parameter in operation.get("parameters", [])]
