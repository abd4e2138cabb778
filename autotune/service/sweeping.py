"""The routes of sweeps: begun and stopped with a key, watched by everybody, whoever began them.

Without postponed annotations: FastAPI has to see the dependencies that are made within a function.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from autotune.db.keys import SWEEPS_WRITE, Key
from autotune.db.store import Store
from autotune.db.sweeps import SweepSummary
from autotune.service.authority import key_with
from autotune.service.bodies import SweepBody, SweepsBody
from autotune.service.device import Devices, find_device
from autotune.service.pages import links
from autotune.service.records import tried
from autotune.service.refusals import Busy, NotFound
from autotune.service.replies import cacheable, declared, errors, refuse_repeats
from autotune.service.runs import RUNNING, Run, Runs
from autotune.service.schema import NoQuery, StartBody, WantedQuery

POLL_S = 1.0
HEARTBEAT = 15
"""Polls without news after which a comment keeps a proxy from closing the connection."""
MOST_WATCHERS = 32
AT_ONCE = 200

ELSEWHERE = "elsewhere"
"""The state of a sweep that this service did not start: nobody knows."""

_Name = Annotated[str, Path(min_length=1, max_length=100, description="of a sweep, as GET /sweeps lists it")]


def sweeping(store: Store, devices: Devices, runs: Runs | None) -> APIRouter:
    """The routes over one store. runs: None where this service starts no sweeps."""
    router = APIRouter(dependencies=[Depends(refuse_repeats)])
    may_sweep = key_with(store, SWEEPS_WRITE)
    watchers = asyncio.Semaphore(MOST_WATCHERS)

    @router.get(
        "/sweeps",
        summary="The sweeps of late, the latest first",
        responses=declared(SweepsBody, "Sweeps", 422, 503),
    )
    def list_sweeps(request: Request, query: Annotated[WantedQuery, Query()]) -> Response:
        return cacheable(request, {"sweeps": lately(store, runs, query.limit)})

    @router.post(
        "/sweeps",
        status_code=201,
        summary="Begins a sweep on one of this machine's targets",
        responses=errors(401, 403, 409, 413, 422, 503),
    )
    def start(body: StartBody, _key: Annotated[Key, Depends(may_sweep)], response: Response) -> SweepBody:
        problems = body.problems()
        device, target = find_device(devices, body.device if body.device is not None else next(iter(devices)))
        if runs is None:
            raise Busy("this service starts no sweeps; `autotune sweep` does")
        words = [*links.words(problems, target or device.targets[0]), "--trials", str(body.trials)]
        limit = [] if body.seconds is None else ["--budget", f"{body.seconds}s"]
        run = runs.start(target or device.targets[0], words + limit)
        response.headers["Location"] = f"/sweeps/{run.name}"
        return SweepBody(**summary(run.name, None, run))

    @router.get(
        "/sweeps/{name}", summary="One sweep in numbers", responses=declared(SweepBody, "The sweep", 404, 422, 503)
    )
    def show(request: Request, name: _Name, _query: Annotated[NoQuery, Query()]) -> Response:
        return cacheable(request, find_sweep(store, runs, name))

    @router.delete(
        "/sweeps/{name}",
        status_code=202,
        summary="Asks a sweep that this service started to end: it publishes what it found first",
        responses=errors(401, 403, 404, 422, 503),
    )
    def stop(name: _Name, _key: Annotated[Key, Depends(may_sweep)]) -> SweepBody:
        run = runs.get(name) if runs else None
        if run is None:
            raise NotFound(f"this service started no sweep {name!r}", "name")
        run.stop()
        return SweepBody(**find_sweep(store, runs, name))

    @router.get(
        "/sweeps/{name}/events",
        summary="The trials of a sweep as server-sent events, those that were made and those to come",
        responses={
            200: {"description": "trial events, and end when the sweep has ended", "content": {EVENTS: {}}},
            **errors(404, 422, 503),
        },
        response_class=StreamingResponse,
    )
    async def watch(
        name: _Name,
        _query: Annotated[NoQuery, Query()],
        last_event_id: Annotated[int, Header(ge=0, le=10**18, description="of the last event that was seen")] = 0,
    ) -> StreamingResponse:
        await run_in_threadpool(find_sweep, store, runs, name)
        if watchers.locked():
            raise Busy(f"{MOST_WATCHERS} sweeps are being watched; try again in a moment")
        return StreamingResponse(events(name, last_event_id), media_type=EVENTS, headers={"Cache-Control": "no-store"})

    async def events(name: str, after: int) -> AsyncIterator[str]:
        async with watchers:
            silent = 0
            while True:
                run = runs.get(name) if runs else None
                state = run.state if run else ELSEWHERE  # before reading: what it made until then is there
                found = await run_in_threadpool(store.sweep_trials, name, after, AT_ONCE)
                for each in found:
                    after, silent = each.id, 0
                    value = {"problem": each.trial.problem.to_json(), **tried(each.trial)}
                    yield f"id: {each.id}\nevent: trial\ndata: {json.dumps(value)}\n\n"
                if not found and state not in (RUNNING, ELSEWHERE):
                    yield f"event: end\ndata: {json.dumps({'state': state})}\n\n"
                    return
                if not found:
                    silent += 1
                    if silent % HEARTBEAT == 1:
                        yield ": nothing new\n\n"
                    await asyncio.sleep(POLL_S)

    return router


EVENTS = "text/event-stream"


def lately(store: Store, runs: Runs | None, limit: int) -> list[dict[str, Any]]:
    """The sweeps of late: those that were begun and have tried nothing yet, and those with trials."""
    begun = {run.name: run for run in runs.all()} if runs else {}
    known = store.sweeps(limit)
    silent = [run for run in begun.values() if run.name not in {each.name for each in known}]
    found = [summary(run.name, None, run) for run in silent if run.state == RUNNING]
    return (found + [summary(each.name, each, begun.get(each.name)) for each in known])[:limit]


def find_sweep(store: Store, runs: Runs | None, name: str) -> dict[str, Any]:
    """One sweep in numbers. Raises NotFound."""
    run, known = runs.get(name) if runs else None, store.sweep(name)
    if run is None and known is None:
        raise NotFound(f"there is no sweep {name[:100]!r}; GET /sweeps lists the latest", "name")
    return summary(name, known, run)


def summary(name: str, known: SweepSummary | None, run: Run | None) -> dict[str, Any]:
    """A sweep as lists show it. known: its trials in numbers. run: its process, where this service started it."""
    return {
        "name": name,
        "target": known.target if known else run and run.target,
        "state": run.state if run else ELSEWHERE,
        "problems": known.problems if known else 0,
        "trials": known.statuses if known else {},
        "first_at": known and known.first_at,
        "last_at": known and known.last_at,
        "log": list(run.log) if run else [],
    }
