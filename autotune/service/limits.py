"""What is refused before a route sees it: a body that is too long or too slow, a name that is not the service's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotune.service.replies import refuse

MAX_BODY_BYTES = 128 * 1024
"""A batch of 256 questions, each with every parameter, is 90 KB."""
BODY_S = 10.0
"""How long the whole of a body may take to come: who sends a byte now and then would stay for ever."""


class BodyLimit:
    """ASGI middleware: 413 above the limit, whether the length is announced or not; 408 after BODY_S."""

    def __init__(self, app: ASGIApp, limits: dict[str, int] | None = None) -> None:
        self._app, self._limits = app, limits or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], MAX_BODY_BYTES)
        try:
            body = await asyncio.wait_for(_read(receive, limit), BODY_S)
        except TimeoutError:
            await refuse(408, f"the body did not come within {BODY_S:g} s")(scope, receive, send)
            return
        if body is None:
            await refuse(413, f"the body is longer than {limit} bytes")(scope, receive, send)
        else:
            await self._app(scope, _again(body, receive), send)


class HostCheck:
    """ASGI middleware: 421 for a Host header that names something else.

    A page on another site can have its own name resolve to 127.0.0.1 and then read what a browser's user may read; its
    requests still carry that name (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and _name(Headers(scope=scope).get("host", "")) not in self._hosts:
            await refuse(421, f"this service is known as {', '.join(self._hosts)}")(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _name(host: str) -> str:
    """A Host header without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).strip("[]").lower()


async def _read(receive: Receive, limit: int) -> bytes | None:
    body = bytearray()
    while len(body) <= limit:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            break
    return bytes(body) if len(body) <= limit else None


def _again(body: bytes, receive: Receive) -> Receive:
    unread = [body]

    async def replay() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replay
