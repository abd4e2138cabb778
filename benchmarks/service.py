"""What an answer of /best costs, as ratios to a bare FastAPI endpoint that returns the same dict.

python benchmarks/service.py [--quick] [--json]      exit code 1 where a bar is missed

Applications are called in process, without a socket, all middleware on; a case's figure is its best batch of 20
requests, the cases in turn, so that a ratio is of one run. exact warm: asked before. exact cold: every problem for the
first time, its family not in memory. nearest and default: every question for the first time, the family in memory.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from fastapi import FastAPI

from autotune.cli import composition
from autotune.db.store import Store
from autotune.outcome import EMULATED, BestPlan, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from autotune.service.app import create_app
from benchmarks import bars

BARS = {"exact_warm": 0.75, "exact_cold": 2.0, "nearest": 2.0, "default": 1.5}
"""Case to the most that it may cost, as a multiple of the bare endpoint."""
BATCH = 20
FAMILY = 50
"""Problems that differ in their shape alone, which ``nearest`` chooses from."""
TARGET = "emulated:Ascend910A"
PLAN = TilingPlan(128, 128, CoreSplit("even", 32), strategy="lattice")


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "15 batches of each case instead of 150").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(f"sqlite:///{folder}/plans.db", batches=15 if options.quick else 150)
    return bars.finish(report, options.json, text)


def measure(url: str, batches: int) -> dict[str, Any]:
    """The best batch of each case, and its ratio to that of the bare endpoint."""
    store = Store.open(url)
    devices = composition.devices(TARGET)
    fingerprint = devices["Ascend910A"].fingerprints[TARGET]
    cold = [(1, 8, 16 * (k + 1), 512, 64) for k in range(batches * BATCH)]
    near = [(2, 16, 64 * (k + 1), 1024, 64) for k in range(FAMILY)]
    bests = [best(shape, fingerprint, attn_mask="shared") for shape in cold] + [
        best(shape, fingerprint) for shape in near
    ]
    store.publish_all(bests)
    app = create_app(store, devices)
    reference = FastAPI()
    answer = json.loads(asyncio.run(ask(app, query(near[0])))[1])

    @reference.get("/best")
    async def bare() -> dict[str, Any]:
        return dict(answer)

    questions: dict[str, tuple[FastAPI, Iterator[bytes]]] = {
        "bare": (reference, iter(lambda: b"", None)),
        "exact_warm": (app, iter(lambda: query(near[0]), None)),
        "exact_cold": (app, (query(shape, "attn_mask=shared&allow=pinned,exact") for shape in cold)),
        "nearest": (app, (query((2, 16, 1000 + k, 1023, 64)) for k in range(batches * BATCH))),
        "default": (app, (query((2, 16, 1000 + k, 1023, 128), "attn_mask=causal") for k in range(batches * BATCH))),
    }
    asyncio.run(ask(app, query((2, 16, 999, 1023, 64))))
    expected = {"exact_warm": "exact", "exact_cold": "exact", "nearest": "nearest", "default": "default"}
    fastest = dict.fromkeys(questions, float("inf"))
    for _ in range(batches):
        for name, (application, asked) in questions.items():
            queries = [next(asked) for _ in range(BATCH)]
            seconds, status, body = asyncio.run(batch(application, queries))
            assert status == 200, body
            assert json.loads(body)["match"] == expected.get(name, "exact"), (name, body)
            fastest[name] = min(fastest[name], seconds)
    store.close()
    held = {name: bars.at_most(fastest[name] / fastest["bare"], bar) for name, bar in BARS.items()}
    return {"bars": held, "microseconds": {name: seconds * 1e6 for name, seconds in fastest.items()}}


def best(shape: tuple[int, ...], fingerprint: str, **options: Any) -> BestPlan:
    """A stored result at a shape."""
    problem, timing = AttentionProblem.of(shape, **options), Timing(200.0, EMULATED, "model")
    plan = TilingPlan(min(128, -(-shape[2] // 16) * 16), 128, PLAN.core_split, strategy=PLAN.strategy)
    return BestPlan(
        problem, "Ascend910A", TARGET, fingerprint, plan, timing, 1e-4, 250.0, 60, "sweep", "2026-12-01T02:13:44Z"
    )


def query(shape: tuple[int, ...], more: str = "attn_mask=none") -> bytes:
    """The query of GET /best for a shape."""
    return f"shape={','.join(map(str, shape))}&{more}".encode()


async def batch(app: FastAPI, queries: list[bytes]) -> tuple[float, int, bytes]:
    """Seconds of one request among these, and what the last one answered."""
    start = time.perf_counter()
    for one in queries:
        status, body = await ask(app, one)
    return (time.perf_counter() - start) / len(queries), status, body


async def ask(app: FastAPI, query: bytes) -> tuple[int, bytes]:
    """Status and body of GET /best."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/best", "raw_path": b"/best", "root_path": "", "query_string": query,
        "headers": [(b"host", b"127.0.0.1:8321")], "server": ("127.0.0.1", 8321), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def text(report: dict[str, Any]) -> str:
    """The report for people."""
    took = [f"{name}: {microseconds:.1f} us" for name, microseconds in report["microseconds"].items()]
    return "\n".join([*took, *bars.lines(report)])


if __name__ == "__main__":
    sys.exit(main())
