"""A running service under load: many clients ask /best over loopback while better plans are published.

python benchmarks/load.py [--quick] [--json]      exit code 1 where a bar is missed

100,000 requests (2,000 with --quick) over 64 connections that stay open, each asking for the next of 200 problems as
soon as it has its answer; 5 plans a second are published meanwhile, each faster than the one before. Service and client
are two processes; the ratio of the slowest one in a hundred to the median is of one run. An answer is stale where it
holds a plan that was replaced more than a second before it was asked for.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from statistics import quantiles
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from autotune.cli import server
from autotune.db.store import Store
from autotune.outcome import EMULATED, BestPlan, Timing
from autotune.plan import CoreSplit, TilingPlan
from autotune.problem import AttentionProblem
from benchmarks import bars

CONNECTIONS, PROBLEMS, PUBLISHED_A_SECOND = 64, 200, 5
STALE_AFTER_S = 1.0
SLOWEST_OVER_MEDIAN = 5.0
PROGRAM = "import sys; from autotune.cli import main; sys.exit(main())"
TARGET = "emulated:Ascend910A"


@dataclass
class Seen:
    """What the clients saw. seconds: of each request. stale: answers that were."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    stale: int = 0


class Publisher:
    """Publishes ever faster plans. ``promised`` says what an answer must not be slower than."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bests = [best(k) for k in range(PROBLEMS)]
        store.publish_all(self._bests)
        self._log = [[(0.0, each.timing.time_us)] for each in self._bests]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.published = 0

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def promised(self, problem: int, asked_at: float) -> float:
        """The time of the last plan that was published more than STALE_AFTER_S before an instant."""
        return min(time_us for at, time_us in self._log[problem] if at <= asked_at - STALE_AFTER_S)

    def _run(self) -> None:
        problems = cycle(range(PROBLEMS))
        while not self._over.wait(1 / PUBLISHED_A_SECOND):
            k = next(problems)
            old = self._bests[k]
            self._bests[k] = replace(old, timing=replace(old.timing, time_us=old.timing.time_us * 0.99))
            assert self._store.publish(self._bests[k])
            self._log[k].append((time.monotonic(), self._bests[k].timing.time_us))
            self.published += 1


def main() -> int:
    """The script."""
    options = bars.parser(__doc__, "2,000 requests instead of 100,000").parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = measure(f"sqlite:///{folder}/plans.db", 2_000 if options.quick else 100_000)
    return bars.finish(report, options.json, text)


def measure(url: str, requests: int) -> dict[str, Any]:
    """Asks that many questions of a service on a database."""
    store, seen = Store.open(url), Seen()
    with Publisher(store) as publisher, service(url) as port:
        start = time.monotonic()
        asyncio.run(ask_all(port, requests, publisher, seen))
        seconds = time.monotonic() - start
    store.close()
    points = quantiles(seen.seconds, n=1000)
    median, slowest = points[499], points[989]
    return {
        "bars": {
            "not_200": bars.at_most(sum(count for status, count in seen.statuses.items() if status != 200), 0),
            "stale": bars.at_most(seen.stale, 0),
            "p99_over_p50": bars.at_most(slowest / median, SLOWEST_OVER_MEDIAN),
        },
        "requests": len(seen.seconds),
        "requests_a_second": len(seen.seconds) / seconds,
        "published": publisher.published,
        "p50_ms": median * 1e3,
        "p99_ms": slowest * 1e3,
        "p999_ms": points[998] * 1e3,
    }


@contextmanager
def service(url: str) -> Iterator[int]:
    """``autotune serve`` on a free port of this machine."""
    with server.listen("127.0.0.1", 0) as probe:
        port: int = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve", "--port", str(port), "--db", url],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("Serving plans"), line
        yield port
    finally:
        process.terminate()
        process.wait(30)


async def ask_all(port: int, requests: int, publisher: Publisher, seen: Seen) -> None:
    """Deals the requests to the connections."""
    left = iter(range(requests))
    await asyncio.gather(*(ask_on_one(port, left, publisher, seen) for _ in range(CONNECTIONS)))


async def ask_on_one(port: int, left: Iterator[int], publisher: Publisher, seen: Seen) -> None:
    """Asks one question after the other on one connection."""
    for attempt in range(50):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0.1 * (attempt < 49))
    for number in left:
        problem = number % PROBLEMS
        asked_at = time.monotonic()
        writer.write(QUESTIONS[problem])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        seen.seconds.append(time.monotonic() - asked_at)
        status = int(head[9:12])
        seen.statuses[status] += 1
        seen.stale += status == 200 and json.loads(body)["time_us"] > publisher.promised(problem, asked_at)
    writer.close()
    await writer.wait_closed()


def question(problem: int) -> bytes:
    """A request for the plan of a problem."""
    shape = ",".join(map(str, best(problem).problem.shape))
    return f"GET /best?shape={shape} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def best(number: int) -> BestPlan:
    """A stored result of the problem of that number."""
    problem, timing = AttentionProblem.of((1, 8, 16 * (number + 8), 512, 64)), Timing(200.0, EMULATED, "model")
    plan = TilingPlan(128, 128, CoreSplit("even", 8), strategy="lattice")
    return BestPlan(
        problem, "Ascend910A", TARGET, "fingerprint", plan, timing, 1e-4, 250.0, 60, "sweep", "2026-12-01T02:13:44Z"
    )


QUESTIONS = [question(number) for number in range(PROBLEMS)]


def text(report: dict[str, Any]) -> str:
    """The report for people."""
    return "\n".join(
        [
            f"{report['requests']} requests, {report['requests_a_second']:.0f} a second; "
            f"{report['published']} plans published meanwhile",
            f"p50 {report['p50_ms']:.2f} ms, p99 {report['p99_ms']:.2f} ms, p99.9 {report['p999_ms']:.2f} ms",
            *bars.lines(report),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
