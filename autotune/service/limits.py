"""Refuses a request body that is too long before anybody reads it as JSON."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotune.service.replies import refuse

MAX_BODY_BYTES = 128 * 1024
"""A batch of 256 questions, each with every parameter, is 90 KB."""


class BodyLimit:
    """ASGI middleware: 413 above the limit, whether the length is announced or not."""

    def __init__(self, app: ASGIApp, limits: dict[str, int] | None = None) -> None:
        self._app, self._limits = app, limits or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        limit = self._limits.get(scope["path"], MAX_BODY_BYTES)
        body = await _read(receive, limit)
        if body is None:
            await refuse(413, f"the body is longer than {limit} bytes")(scope, receive, send)
        else:
            await self._app(scope, _again(body, receive), send)


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
