"""The routes that change something; each asks for a key. And the export, which anybody may read.

Without postponed annotations: FastAPI has to see the dependencies that are made within a function.
"""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from autotune.db.keys import PINS_WRITE, PLANS_WRITE, Key
from autotune.db.pins import PIN, UNPIN, Decided, Decision, Standing
from autotune.db.store import Store
from autotune.errors import InvalidInput, Overtaken
from autotune.service import bundle
from autotune.service.authority import key_with
from autotune.service.bodies import DecisionBody, ImportBody
from autotune.service.clock import now
from autotune.service.device import Devices, find_device
from autotune.service.records import find_plan, of_plan
from autotune.service.refusals import NotFound
from autotune.service.replies import (
    entity_tag,
    errors,
    is_known,
    refuse_repeats,
    sent,
    serialised,
)
from autotune.service.schema import ExportQuery, ImportQuery, PinBody, UnpinQuery

MAX_IMPORT_BYTES = 8 << 20
LIMITS = {"/import": MAX_IMPORT_BYTES}
"""Bytes of a body by address, where they are not the usual ones."""

_OBJECT = {"type": "object"}
_PlanId = Annotated[int, Path(ge=1, le=10**18, description="the id of a plan, as GET /plans lists it")]
_IfMatch = Annotated[str | None, Header(description="the ETag of GET /plans/{plan} that the decision rests on")]


def writing(store: Store, devices: Devices) -> APIRouter:
    """The routes over one store."""
    router = APIRouter(dependencies=[Depends(refuse_repeats)])
    may_pin, may_import = (key_with(store, scope) for scope in (PINS_WRITE, PLANS_WRITE))

    @router.get("/export", summary="The plans that are served, as a file", responses=_EXPORT)
    def export(request: Request, query: Annotated[ExportQuery, Query()]) -> Response:
        chip, target = None, None
        if query.device is not None:
            device, target = find_device(devices, query.device)
            chip = device.hardware.name
        content = bundle.dump(store, chip, target)
        return sent(request.headers.get("if-none-match", ""), content, entity_tag(content))

    @router.post(
        "/import",
        summary="Takes in the plans of an export, by the rule of every publication; a dry run unless dry_run=false",
        responses=errors(401, 403, 413, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _OBJECT}}}},
    )
    async def import_(
        request: Request, query: Annotated[ImportQuery, Query()], _key: Annotated[Key, Depends(may_import)]
    ) -> ImportBody:
        content = await request.body()
        loaded = await run_in_threadpool(bundle.load, store, content, devices, query.dry_run)
        return ImportBody(**loaded.to_json())

    @router.put(
        "/pins/{plan}",
        summary="Serves a revision of a plan's history whatever wins later",
        responses=errors(401, 403, 404, 412, 413, 422, 503),
    )
    def pin(
        plan: _PlanId, body: PinBody, key: Annotated[Key, Depends(may_pin)], if_match: _IfMatch = None
    ) -> DecisionBody:
        standing = _standing(store, devices, plan, body.revision, if_match)
        decision = Decision(key.name, body.reason, now())
        store.pin(body.revision, decision, standing)
        return _decided(decision, PIN, body.revision)

    @router.delete(
        "/pins/{plan}",
        summary="Takes the pin off a revision, so that the best plan is served again",
        responses=errors(401, 403, 404, 412, 422, 503),
    )
    def unpin(
        plan: _PlanId,
        query: Annotated[UnpinQuery, Query()],
        key: Annotated[Key, Depends(may_pin)],
        if_match: _IfMatch = None,
    ) -> DecisionBody:
        standing = _standing(store, devices, plan, query.revision, if_match)
        decision = Decision(key.name, query.reason, now())
        if not store.unpin(query.revision, decision, standing):
            raise NotFound(f"revision {query.revision} is not pinned", "revision")
        return _decided(decision, UNPIN, query.revision)

    @router.post(
        "/plans/{plan}/rollback",
        summary="Takes back the revision that is served: pins the one that was published before it",
        responses=errors(401, 403, 404, 412, 413, 422, 503),
    )
    def roll_back(plan: _PlanId, body: PinBody, key: Annotated[Key, Depends(may_pin)]) -> DecisionBody:
        _standing(store, devices, plan, body.revision, None)
        decision = Decision(key.name, body.reason, now())
        return _decided(decision, PIN, store.roll_back(body.revision, decision))

    return router


def _standing(store: Store, devices: Devices, plan: int, revision: int, if_match: str | None) -> Standing | None:
    """What the caller's decision rests on, None where it said nothing of that.

    Raises NotFound, InvalidInput for a revision of another plan, Overtaken where If-Match names another state.
    """
    listed = find_plan(store, plan)
    best = listed.best
    if revision not in {each.revision for each in store.history(best.problem, best.device, best.target)}:
        raise InvalidInput(f"revision {revision} is none of plan {plan}; its history lists them", "revision")
    if if_match is None:
        return None
    tag = entity_tag(serialised(of_plan(listed, devices)))
    if not is_known(tag, if_match):
        raise Overtaken(f"plan {plan} is no more as If-Match has it; GET /plans/{plan} says how it stands")
    return Standing(best.revision, listed.pinned)


def _decided(decision: Decision, action: str, revision: int) -> DecisionBody:
    return DecisionBody(**asdict(Decided(**asdict(decision), action=action, revision=revision)))


_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"description": "What autotune import and a kernel build read", "content": {"application/json": {}}},
    304: {"description": "The plans are still those that If-None-Match names"},
    **errors(422, 503),
}
