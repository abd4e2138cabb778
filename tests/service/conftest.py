"""A device with Ascend 910A's sizes, a store, stored results, and a way to ask the service without a socket."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from autotune.db.store import Store
from autotune.errors import PlanRejected
from autotune.hardware import Hardware
from autotune.outcome import EMULATED, BestPlan, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.service.app import create_app
from autotune.service.device import Device

CORES = 32
UB_BYTES = 256 * 1024


def check(problem: AttentionProblem, plan: TilingPlan) -> None:
    """Stands for a kernel's own check: two fp16 score blocks have to fit into UB."""
    plan.check_lengths(problem)
    if 4 * plan.Br * plan.Bc > UB_BYTES:
        raise PlanRejected(f"UB needs {4 * plan.Br * plan.Bc} bytes, has {UB_BYTES}")


@pytest.fixture
def device() -> Device:
    hardware = Hardware("Ascend910A", CORES, 1000, UB_BYTES, 1 << 20, 65536, 65536, 262144)
    return Device(hardware, {"emulated:Ascend910A": "f1"}, check)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path}/plans.db")
    yield store
    store.close()


@pytest.fixture
def best() -> BestPlan:
    return BestPlan(
        AttentionProblem.of((2, 16, 1024, 1024, 64)),
        "Ascend910A",
        "emulated:Ascend910A",
        "f1",
        TilingPlan(128, 256, CoreSplit("balanced", CORES), strategy="lattice"),
        Timing(200.0, EMULATED, "model-1", cycles=200000),
        error=1e-4,
        default_time_us=250.0,
        trials=60,
        sweep="sweep-1",
        measured_at="2026-12-01T02:13:44Z",
    )


@pytest.fixture
def at_shape() -> Callable[..., BestPlan]:
    """A result like the given one, at another shape."""

    def change(best: BestPlan, *shape: int, **changes: Any) -> BestPlan:
        return replace(best, problem=AttentionProblem.of(shape), **changes)

    return change


@pytest.fixture
def app(store: Store, device: Device) -> FastAPI:
    return create_app(store=store, devices={"Ascend910A": device})


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def asker(app: FastAPI) -> Callable[..., Reply]:
    def send(path: str = "/best", query: str = "", method: str = "GET", body: bytes = b"", **headers: Any) -> Reply:
        sent = []
        parts = [body[:70_000], body[70_000:]]

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.Event().wait()  # the client stays until it is answered
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def reply(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query if isinstance(query, bytes) else query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()],
            "server": ("testserver", 80),
            "client": ("testclient", 1),
        }
        asyncio.run(app(scope, receive, reply))
        start, *rest = sent
        fields = {name.decode(): value.decode() for name, value in start["headers"]}
        return Reply(start["status"], fields, b"".join(part.get("body", b"") for part in rest))

    return send


@pytest.fixture
def ask_app() -> Callable[[FastAPI], Callable[..., Reply]]:
    """From an application to a function that sends it one request, no socket between; what it raises, flies.

    The query may be raw bytes; headers are keywords. The body comes in two parts.
    """
    return asker


@pytest.fixture
def ask(app: FastAPI) -> Callable[..., Reply]:
    """``ask_app`` of the application with one device."""
    return asker(app)
