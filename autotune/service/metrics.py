"""Counts and times of requests in Prometheus' text form. Labels are bounded: no shape and no address as it was sent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotune.db.store import Store

METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE"))
BUCKETS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
OTHER = "other"


class Metrics:
    """One application's series."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, store: Store) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "autotune_requests", "Requests answered", ("route", "method", "status", "match"), registry=self._registry
        )
        self._seconds = Histogram(
            "autotune_request_seconds",
            "Time from a request to the end of its answer",
            ("route",),
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._registry.register(_StoreMetrics(store))

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Counts one request. ``scope`` is the request's, after it was answered."""
        route = getattr(scope.get("route"), "path", OTHER)
        method = scope["method"] if scope["method"] in METHODS else OTHER
        match = scope.get("state", {}).get("match", "")
        requests, times = self._children(route, method, status, match)
        requests.inc()
        times.observe(seconds)

    @cache  # noqa: B019 -- as many as there are series, which are bounded
    def _children(self, route: str, method: str, status: int, match: str) -> tuple[Counter, Histogram]:
        return self._requests.labels(route, method, status, match), self._seconds.labels(route)

    def text(self) -> bytes:
        """All series as they stand."""
        return generate_latest(self._registry)


class _StoreMetrics:
    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """What the store counted by itself."""
        yield CounterMetricFamily(
            "autotune_unreadable_rows", "Rows passed over because they are damaged", value=self._store.unreadable
        )


class MetricsMiddleware:
    """Counts every HTTP request; pure ASGI, because Starlette's own base class costs more than an answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: list[int] = []

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        start = time.perf_counter()
        try:
            await self._app(scope, receive, watched)
        finally:
            self._metrics.count(scope, status[0] if status else 500, time.perf_counter() - start)
