"""Answers GET /best without the framework, whose way to a route and back costs more than an answer."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from autotune.db.changes import Version
from autotune.db.rows import family
from autotune.errors import InvalidInput, StoreError
from autotune.service.device import Devices
from autotune.service.ladder import OWN
from autotune.service.memory import Memory, Remembered
from autotune.service.questions import Misses, Question
from autotune.service.replies import entity_tag, sent, serialised
from autotune.service.schema import BestQuery


class Answers:
    """ASGI middleware: GET /best where there is an answer; what has none goes on to the route, which says why.

    In the event loop: a read of one row, or of memory, costs less than the way to another thread and back.
    """

    def __init__(self, app: ASGIApp, memory: Memory, misses: Misses, devices: Devices) -> None:
        self._app, self._memory, self._misses, self._devices = app, memory, misses, devices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        asked = scope["type"] == "http" and scope["path"] == _BEST.path and scope["method"] == "GET"
        found = self._answer(scope["query_string"]) if asked else None
        if found is None:
            await self._app(scope, receive, send)
            return
        if found.missed is not None:
            self._misses.add(found.missed)
        scope["route"], scope["state"] = _BEST, {"match": found.match}
        if_none_match = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
        await sent(if_none_match.decode("latin-1"), found.content, found.tag)(scope, receive, send)

    def _answer(self, query: bytes) -> Remembered | None:
        try:
            version = self._memory.refresh()
            known = self._memory.answer(query)
            return known if known is not None else self._found(version, query)
        except (InvalidInput, StoreError, ValidationError):
            return None

    def _found(self, version: Version, query: bytes) -> Remembered | None:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        values = dict(pairs)
        if len(values) < len(pairs):
            return None
        question = Question.of(BestQuery.model_validate(values), self._devices)
        answer = question.answer(self._memory)
        if answer is None:
            return None
        content = serialised(answer.to_json())
        missed = None if answer.match in OWN else question
        place = (family(question.problem), question.device.hardware.name)
        found = Remembered(content, entity_tag(content), answer.match, missed, place)
        self._memory.keep(version, query, found)
        return found


class _Route(NamedTuple):
    path: str


_BEST = _Route("/best")
"""What the metrics call such a request: the route that it would have come to."""
