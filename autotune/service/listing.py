"""The routes that list: devices, strategies, plans with their history and trials, and what is wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from autotune.db.store import Store
from autotune.errors import InvalidInput
from autotune.problem import AttentionProblem
from autotune.service.bodies import (
    DevicesBody,
    HistoryBody,
    ListedBody,
    PlansBody,
    StrategiesBody,
    TrialsBody,
    WantedBody,
)
from autotune.service.device import Device, Devices, find_device
from autotune.service.questions import Misses
from autotune.service.records import find_plan, of_plan, record, tried
from autotune.service.refusals import NotFound
from autotune.service.replies import cacheable, declared, refuse_repeats
from autotune.service.schema import HistoryQuery, NoQuery, PlansQuery, TrialsQuery, WantedQuery
from autotune.strategies import registry

CURSOR = re.compile(r"after-(\d{1,18})", re.ASCII)
PLAN_ID = re.compile(r"\d{1,18}", re.ASCII)

_Plan = Annotated[str, Path(max_length=400, description="the id of a plan, or the key of a problem")]


def listing(store: Store, devices: Devices, misses: Misses) -> APIRouter:
    """The routes over one store."""
    router = APIRouter(dependencies=[Depends(refuse_repeats)])

    @router.get(
        "/devices", summary="The chips that plans are served for", responses=declared(DevicesBody, "Chips", 422)
    )
    def list_devices(request: Request, _query: Annotated[NoQuery, Query()]) -> Response:
        return cacheable(request, {"devices": [_device(name, device) for name, device in devices.items()]})

    @router.get("/strategies", summary="Who proposes plans", responses=declared(StrategiesBody, "Strategies", 422))
    def list_strategies(request: Request, _query: Annotated[NoQuery, Query()]) -> Response:
        return cacheable(request, {"strategies": [info._asdict() for info in registry.listing()]})

    @router.get(
        "/plans", summary="All plans that are served, by the page", responses=declared(PlansBody, "A page", 422, 503)
    )
    def list_plans(request: Request, query: Annotated[PlansQuery, Query()]) -> Response:
        page = store.plans(_after(query.cursor), query.limit, *_narrowed(devices, query.device))
        following = None if page.next is None else f"after-{page.next}"
        plans = [of_plan(each, devices) for each in page.listed]
        return _page(request, {"plans": plans, "next": following})

    @router.get(
        "/plans/{plan}",
        summary="One plan that is served; its ETag is what If-Match of a decision names",
        responses=declared(ListedBody, "The plan", 404, 422, 503),
    )
    def show_plan(
        request: Request,
        plan: Annotated[int, Path(ge=1, le=10**18, description="the id of a plan, as GET /plans lists it")],
        _query: Annotated[NoQuery, Query()],
    ) -> Response:
        return cacheable(request, of_plan(find_plan(store, plan), devices))

    @router.get(
        "/plans/{plan}/history",
        summary="Every plan that a problem was ever served, oldest first",
        responses=declared(HistoryBody, "The history", 404, 422, 503),
    )
    def list_history(request: Request, plan: _Plan, query: Annotated[HistoryQuery, Query()]) -> Response:
        places = _places(store, plan, devices, query.device)
        found = [best for place in places for best in store.history(*place)]
        decided = [decision for place in places for decision in store.decisions(*place)]
        body = {
            "history": [record(best, devices) for best in sorted(found, key=lambda best: best.revision)],
            "decisions": [asdict(decision) for decision in sorted(decided, key=lambda decision: decision.at)],
        }
        return cacheable(request, body)

    @router.get(
        "/plans/{plan}/trials",
        summary="Everything that was tried for a problem, in order, by the page",
        responses=declared(TrialsBody, "A page", 404, 422, 503),
    )
    def list_trials(request: Request, plan: _Plan, query: Annotated[TrialsQuery, Query()]) -> Response:
        skip = _after(query.cursor)
        last = skip + query.limit
        found = [
            trial
            for place in _places(store, plan, devices, query.device)
            for trial in store.trials(*place, limit=last + 1)
        ]
        following = f"after-{last}" if len(found) > last else None
        return _page(request, {"trials": [tried(trial) for trial in found[skip:last]], "next": following})

    @router.get(
        "/wanted",
        summary="Problems that were asked for and have no plan of their own, the most asked first",
        responses=declared(WantedBody, "The problems", 422, 503),
    )
    def list_wanted(request: Request, query: Annotated[WantedQuery, Query()]) -> Response:
        misses.flush()
        found = [
            {"problem": each.problem.to_json(), "device": each.device, "count": each.count, "last_at": each.last_at}
            for each in store.wanted(query.limit)
        ]
        return cacheable(request, {"wanted": found})

    return router


def _page(request: Request, body: Mapping[str, Any]) -> Response:
    """A page of a list, with the address of the one after it (RFC 8288)."""
    response = cacheable(request, body)
    if body["next"] is not None:
        rest = request.url.include_query_params(cursor=body["next"])
        response.headers["Link"] = f'<?{rest.query}>; rel="next"'
    return response


_Place = tuple[AttentionProblem, str, str | None]
"""A problem, a chip, and a target where only its kind counts."""


def _places(store: Store, plan: str, devices: Devices, device: str | None) -> list[_Place]:
    chip, target = _narrowed(devices, device)
    if PLAN_ID.fullmatch(plan):
        listed = find_plan(store, int(plan))
        return [(listed.best.problem, listed.best.device, listed.best.target)]
    problem = store.problem(plan)
    if problem is None:
        raise NotFound(f"no problem with the key {plan[:100]!r} was swept; GET /plans lists the keys", "plan")
    return [(problem, name, target) for name in devices if chip in (None, name)]


def _narrowed(devices: Devices, name: str | None) -> tuple[str | None, str | None]:
    if name is None:
        return None, None
    device, target = find_device(devices, name)
    return device.hardware.name, target


def _after(cursor: str | None) -> int:
    form = CURSOR.fullmatch(cursor) if cursor is not None else None
    if cursor is not None and form is None:
        raise InvalidInput(f"cursor {cursor!r} is none; take it from next of the page before", "cursor")
    return int(form[1]) if form else 0


def _device(name: str, device: Device) -> dict[str, Any]:
    targets = [{"name": target, "fingerprint": found} for target, found in device.fingerprints.items()]
    return {"name": name, "targets": targets, "hardware": device.hardware.to_json()}
