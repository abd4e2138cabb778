"""The application: /best by itself and in batches, whether the service is well, and every other route put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from pydantic import ValidationError

from autotune import __version__
from autotune.db.store import Store
from autotune.errors import InvalidInput, StoreError
from autotune.service.bodies import AnswerBody, BatchBody, LiveBody, ReadyBody
from autotune.service.dashboard import dashboard
from autotune.service.device import Devices
from autotune.service.explaining import explaining
from autotune.service.ladder import OWN, Answer
from autotune.service.limits import BodyLimit, HostCheck
from autotune.service.listing import listing
from autotune.service.memory import Memory
from autotune.service.metrics import Metrics, MetricsMiddleware
from autotune.service.pages.docs import docs_page
from autotune.service.questions import Misses, Question
from autotune.service.replies import (
    cacheable,
    declared,
    error_body,
    errors,
    faults,
    install_handlers,
    parameters,
    refuse,
    refuse_repeats,
)
from autotune.service.runs import Runs
from autotune.service.schema import Batch, BatchItem, BestQuery
from autotune.service.shortcut import Answers
from autotune.service.sweeping import sweeping
from autotune.service.writing import LIMITS, writing


def create_app(
    store: Store, devices: Devices, hosts: Collection[str] | None = None, runs: Runs | None = None
) -> FastAPI:
    """The service over one store; ``devices`` are those it answers for, the first when a question names none.

    hosts: the names that a request may call the service by; any where None. runs: begins sweeps; nobody where None.
    """
    misses, metrics, memory = Misses(store), Metrics(store), Memory(store)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        if runs is not None:
            runs.close()
        misses.flush()

    app = FastAPI(title="tiling-autotune", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    install_handlers(app)
    app.add_middleware(Answers, memory=memory, misses=misses, devices=devices)  # the innermost: no check is passed over
    app.add_middleware(BodyLimit, limits=LIMITS)
    if hosts is not None:
        app.add_middleware(HostCheck, hosts=tuple(hosts))
    app.add_middleware(MetricsMiddleware, metrics=metrics)  # the last one added is the outermost
    app.include_router(_answers(memory, devices, misses))
    app.include_router(listing(store, devices, misses))
    app.include_router(writing(store, devices))
    app.include_router(sweeping(store, devices, runs))
    app.include_router(_health(store, metrics))
    app.include_router(dashboard(store, memory, devices, misses, runs))
    app.include_router(explaining(memory, devices))

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return docs_page(app.openapi())

    return app


def _answers(memory: Memory, devices: Devices, misses: Misses) -> APIRouter:
    router = APIRouter()

    def ask(question: Question) -> Answer | None:
        found = question.answer(memory)
        if found is None or found.match not in OWN:
            misses.add(question)
        return found

    @router.get(
        "/best",
        summary="The fastest legal plan known for a problem",
        responses=declared(AnswerBody, "A plan, and the rung of the ladder it comes from", 404, 422, 503),
        openapi_extra={"parameters": parameters(BestQuery)},
    )
    async def best(request: Request) -> Response:
        # What has an answer was answered by ``Answers``: here is said why the rest has none.
        refuse_repeats(request)
        memory.refresh()
        question = Question.of(_query(request), devices)
        found = ask(question)
        request.state.match = found.match if found else "none"
        return cacheable(request, found.to_json()) if found else refuse(404, question.unanswered, "allow")

    @router.post(
        "/best/batch",
        summary="The same for up to 256 problems, each with a status of its own",
        responses=errors(413, 422, 503),
    )
    def batch(batch: Batch) -> BatchBody:
        memory.refresh()
        return BatchBody.model_validate({"items": [reply(item) for item in batch.items]})

    def reply(item: Any) -> dict[str, Any]:
        try:
            question = Question.of(BatchItem.model_validate(item), devices)
        except ValidationError as error:
            return _failed(422, *faults(error.errors(), list(BatchItem.model_fields)))
        except StoreError:
            raise
        except InvalidInput as error:
            return _failed(422, str(error), error.field)
        found = ask(question)
        if found is None:
            return _failed(404, question.unanswered, "allow")
        return {"status": 200, "answer": found.to_json(), "error": None}

    return router


def _query(request: Request) -> BestQuery:
    """What FastAPI would do too, at ten times the cost. Raises RequestValidationError."""
    try:
        return BestQuery.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from error


def _failed(status: int, detail: str, field: str) -> dict[str, Any]:
    return {"status": status, "answer": None, "error": error_body(status, detail, field).model_dump()}


def _health(store: Store, metrics: Metrics) -> APIRouter:
    router = APIRouter(dependencies=[Depends(refuse_repeats)])

    @router.get("/livez", summary="Whether the process answers")
    async def livez() -> LiveBody:
        return LiveBody(status="ok")

    @router.get("/healthz", summary="The same as /readyz", responses=errors(503))
    @router.get(
        "/readyz", summary="Whether the database can be read and is at this version's schema", responses=errors(503)
    )
    def readyz() -> ReadyBody:
        return ReadyBody(status="ok", schema_revision=store.schema())

    @router.get(
        "/metrics",
        summary="Counts and times of requests, in Prometheus' text form",
        responses={200: {"content": {"text/plain": {}}, "description": "Series"}},
        response_class=Response,
    )
    def series() -> Response:
        return Response(metrics.text(), media_type=metrics.content_type)

    return router
