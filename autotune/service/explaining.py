"""GET /explain: the served plan of a problem, or one with other blocks, explained as a page."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from threading import Lock
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from autotune.errors import InvalidInput
from autotune.explain import Explained
from autotune.plan import TilingPlan, ceil_div
from autotune.problem import AttentionProblem
from autotune.service.device import Devices
from autotune.service.memory import Memory
from autotune.service.pages.explain import explain_page
from autotune.service.pages.forms import typed
from autotune.service.questions import Question
from autotune.service.refusals import Busy
from autotune.service.schema import BestQuery
from autotune.service.showing import shown

MOST_BLOCKS = 512
"""Blocks of queries, or of keys, in one head: under a causal mask each is walked, 512 in about a second."""
KEPT = 64
"""Explanations that are remembered."""
WAIT_S = 5.0
"""How long a request waits for the one before it: they are made one at a time."""


class ExplainQuery(BestQuery):
    """The parameters of GET /explain."""

    Br: int | None = Field(None, ge=1, le=1 << 20)
    Bc: int | None = Field(None, ge=1, le=1 << 20)


def explaining(memory: Memory, devices: Devices) -> APIRouter:
    """The page over one store."""
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

    def found(query: ExplainQuery) -> dict[str, Any]:
        memory.refresh()
        question = Question.of(query, devices)
        answer = question.answer(memory)
        if answer is None:
            raise InvalidInput(question.unanswered, "allow")
        blocks = {name: size for name in ("Br", "Bc") if (size := getattr(query, name)) is not None}
        chosen = "blocks as given" if blocks else f"what /best answers, match {answer.match}"
        plan = replace(answer.plan, **blocks) if blocks else answer.plan
        return {"found": explained(question.device.hardware.name, question.problem, plan), "chosen": chosen}

    @router.get("/explain")
    def page(request: Request) -> HTMLResponse:
        given = typed(request.query_params)
        frame = partial(explain_page, given, names)
        return shown(request, ExplainQuery, frame, found) if given else frame()

    return router
