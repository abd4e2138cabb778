"""GET /explain: the served plan of a problem, or one with other blocks, explained as a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import Field, ValidationError

from autotune.errors import AutotuneError, CandidateError, InvalidInput, StoreError
from autotune.explain import Explained
from autotune.plan import TilingPlan, ceil_div
from autotune.problem import AttentionProblem
from autotune.service.device import Devices
from autotune.service.memory import Memory
from autotune.service.pages.explain import explain_page
from autotune.service.pages.html import STYLE, STYLE_PATH
from autotune.service.questions import Question
from autotune.service.replies import faults, refuse_repeats
from autotune.service.schema import BestQuery

MOST_BLOCKS = 512
"""Blocks of queries, or of keys, in one head: under a causal mask each is walked, 512 in about a second."""
KEPT = 64
"""Explanations that are remembered."""
WAIT_S = 5.0
"""How long a request waits for the one before it: they are made one at a time."""


class Busy(AutotuneError):
    """Another explanation is being made: HTTP 503."""


class ExplainQuery(BestQuery):
    """The parameters of GET /explain."""

    Br: int | None = Field(None, ge=1, le=1 << 20)
    Bc: int | None = Field(None, ge=1, le=1 << 20)


def explaining(memory: Memory, devices: Devices) -> APIRouter:
    """The page and the style sheet of all pages."""
    router = APIRouter(include_in_schema=False)
    turn = Lock()
    names = [name for name, device in devices.items() if device.explain is not None]

    @lru_cache(KEPT)
    def explained(device: str, problem: AttentionProblem, plan: TilingPlan) -> Explained:
        explain = devices[device].explain
        if explain is None:
            raise InvalidInput(f"{device} measures; only an emulated device can say where the time goes", "device")
        if max(ceil_div(problem.Nq, plan.Br), ceil_div(problem.N, plan.Bc)) > MOST_BLOCKS:
            raise InvalidInput(
                f"blocks of {plan.Br} x {plan.Bc} cut this problem into more than {MOST_BLOCKS} blocks a head, too "
                "many for a page; take larger ones, or `autotune explain`",
                "Br",
            )
        if not turn.acquire(timeout=WAIT_S):
            raise Busy("another plan is being explained; try again in a moment")
        try:
            return explain(problem, plan)
        finally:
            turn.release()

    def found(given: Mapping[str, str]) -> tuple[Explained, str]:
        query = ExplainQuery.model_validate(given)
        memory.refresh()
        question = Question.of(query, devices)
        answer = question.answer(memory)
        if answer is None:
            raise InvalidInput(question.unanswered, "allow")
        blocks = {name: size for name in ("Br", "Bc") if (size := getattr(query, name)) is not None}
        chosen = "blocks as given" if blocks else f"what /best answers, match {answer.match}"
        plan = replace(answer.plan, **blocks) if blocks else answer.plan
        return explained(question.device.hardware.name, question.problem, plan), chosen

    @router.get("/explain")
    def page(request: Request) -> HTMLResponse:
        # A form sends what was left empty too.
        given = {name: value for name, value in request.query_params.items() if value}

        def fault(status: int, sentence: str) -> HTMLResponse:
            return explain_page(given, names, fault=sentence, status=status)

        if not given:
            return explain_page(given, names)
        try:
            refuse_repeats(request)
            return explain_page(given, names, *found(given))
        except ValidationError as error:
            return fault(422, faults(error.errors(), list(ExplainQuery.model_fields))[0])
        except (StoreError, Busy) as error:
            return fault(503, str(error))
        except (InvalidInput, CandidateError) as error:
            return fault(422, str(error))

    @router.get(STYLE_PATH)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css", headers=_AN_HOUR)

    return router


_AN_HOUR: dict[str, Any] = {"Cache-Control": "max-age=3600"}
