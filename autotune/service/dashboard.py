"""The pages for people: what was swept, one problem, two plans side by side, sweeps, what is wanted."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field

from autotune.db.store import Store
from autotune.outcome import BestPlan
from autotune.service.device import Devices
from autotune.service.ladder import OWN
from autotune.service.memory import Memory
from autotune.service.pages.compare import compare_page
from autotune.service.pages.coverage import coverage_page
from autotune.service.pages.forms import typed
from autotune.service.pages.missing import missing_page
from autotune.service.pages.problem import MOST_TRIALS, about, problem_page
from autotune.service.pages.progress import progress_page, sweep_page
from autotune.service.pages.render import style
from autotune.service.questions import Misses, Question
from autotune.service.refusals import NotFound
from autotune.service.runs import Runs
from autotune.service.schema import BestQuery, NoQuery
from autotune.service.showing import shown
from autotune.service.sweeping import find_sweep, lately

PER_PAGE = 100
"""Problems on a page."""


class CoverageQuery(BaseModel):
    """The parameters of GET /. before: the oldest problem of the page before."""

    model_config = ConfigDict(extra="forbid")

    before: int | None = Field(None, ge=1, le=10**18)


class CompareQuery(BaseModel):
    """The parameters of GET /compare: revisions."""

    model_config = ConfigDict(extra="forbid")

    left: int = Field(ge=1, le=10**18)
    right: int = Field(ge=1, le=10**18)


class ProgressQuery(BaseModel):
    """The parameters of GET /progress. sweep: the name of one; all of late without it."""

    model_config = ConfigDict(extra="forbid")

    sweep: str | None = Field(None, max_length=100)


def dashboard(store: Store, memory: Memory, devices: Devices, misses: Misses, runs: Runs | None) -> APIRouter:
    """The pages over one store, and the style sheet of all pages."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    def coverage(request: Request) -> HTMLResponse:
        def find(query: CoverageQuery) -> dict[str, Any]:
            return {"found": store.covered(query.before, PER_PAGE), "paged": query.before is not None}

        return shown(request, CoverageQuery, partial(coverage_page, devices), find)

    @router.get("/problem")
    def problem(request: Request) -> HTMLResponse:
        def find(query: BestQuery) -> dict[str, Any]:
            memory.refresh()
            question = Question.of(query, devices)
            found = question.answer(memory)
            if found is None or found.match not in OWN:
                misses.add(question)
            if found is None:
                raise NotFound(question.unanswered, "allow")
            return {"found": about(question, found, store, memory, str(request.base_url).rstrip("/"))}

        given = typed(request.query_params)
        frame = partial(problem_page, given, list(devices))
        return shown(request, BestQuery, frame, find) if given else frame()

    @router.get("/compare")
    def compare(request: Request) -> HTMLResponse:
        def find(query: CompareQuery) -> dict[str, Any]:
            return {"pair": [_published(store, number) for number in (query.left, query.right)]}

        given = typed(request.query_params)
        frame = partial(compare_page, given)
        return shown(request, CompareQuery, frame, find) if given else frame()

    @router.get("/missing")
    def missing(request: Request) -> HTMLResponse:
        def find(_query: NoQuery) -> dict[str, Any]:
            misses.flush()
            return {"wanted": store.wanted(PER_PAGE)}

        return shown(request, NoQuery, partial(missing_page, devices), find)

    @router.get("/progress")
    def progress(request: Request) -> HTMLResponse:
        def frame(name: str | None = None, **found: Any) -> HTMLResponse:
            if name is None:
                return progress_page(str(request.base_url).rstrip("/"), **found)
            return sweep_page(find_sweep(store, runs, name), store.sweep_trials(name, limit=MOST_TRIALS), devices)

        def find(query: ProgressQuery) -> dict[str, Any]:
            if query.sweep is not None:
                return {"name": query.sweep}
            return {"sweeps": lately(store, runs, PER_PAGE)}

        return shown(request, ProgressQuery, frame, find)

    router.add_api_route("/style.css", style)
    return router


def _published(store: Store, number: int) -> BestPlan:
    found = store.revision(number)
    if found is None:
        raise NotFound(f"there is no revision {number}; the history of a problem lists those there are", "revision")
    return found
