"""From a page's parameters to the page, or to the same page with a sentence that says why there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ValidationError

from autotune.errors import AutotuneError, CandidateError, InvalidInput, StoreError
from autotune.service.pages.forms import typed
from autotune.service.replies import NotFound, faults, refuse_repeats

Query = TypeVar("Query", bound=BaseModel)


class Busy(AutotuneError):
    """Somebody else's page is being made and takes long: HTTP 503."""


_STATUS: tuple[tuple[type[AutotuneError], int], ...] = (
    (NotFound, 404),
    (StoreError, 503),
    (Busy, 503),
    (InvalidInput, 422),
    (CandidateError, 422),
)
"""What may be the matter, the narrower before the wider: a StoreError is an InvalidInput."""


def shown(
    request: Request, query: type[Query], frame: Callable[..., HTMLResponse], find: Callable[[Query], Mapping[str, Any]]
) -> HTMLResponse:
    """``frame`` with what was found for the parameters, or with a ``fault`` and its ``status``."""
    try:
        refuse_repeats(request)
        return frame(**find(query.model_validate(typed(request.query_params))))
    except ValidationError as error:
        return frame(fault=faults(error.errors(), list(query.model_fields))[0], status=422)
    except tuple(error for error, _ in _STATUS) as error:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        return frame(fault=str(error), status=status)
