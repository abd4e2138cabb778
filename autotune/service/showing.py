"""From a page's parameters to the page, or to the same page with a sentence that says why there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ValidationError

from autotune.service.pages.forms import typed
from autotune.service.refusals import STATUS, status_of
from autotune.service.replies import faults, refuse_repeats

Query = TypeVar("Query", bound=BaseModel)


def shown(
    request: Request, query: type[Query], frame: Callable[..., HTMLResponse], find: Callable[[Query], Mapping[str, Any]]
) -> HTMLResponse:
    """``frame`` with what was found for the parameters, or with a ``fault`` and its ``status``."""
    try:
        refuse_repeats(request)
        return frame(**find(query.model_validate(typed(request.query_params))))
    except ValidationError as error:
        return frame(fault=faults(error.errors(), list(query.model_fields))[0], status=422)
    except tuple(STATUS) as error:
        return frame(fault=str(error), status=status_of(error))
