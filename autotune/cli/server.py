"""Runs the service: one process, one socket that is bound before anything is promised."""

from __future__ import annotations

import signal
import socket
import sys
from ipaddress import ip_address
from typing import Any

import uvicorn

from autotune.errors import InvalidInput
from autotune.service.runs import Runs
from autotune.settings import DB

GRACE_S = 5
"""Seconds that requests get to end when the service stops; whoever watches a sweep would never leave."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
"""What a service that only this machine can reach may be called."""


def names(host: str) -> tuple[str, ...] | None:
    """What a service on an address may be called; None where other machines can reach it, by names nobody knows."""
    try:
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        local = False
    return (*LOOPBACK_NAMES, host) if local else None


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises InvalidInput: the port is in use or forbidden, the address is not of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {reason}; choose another with --port", "port"
        ) from error


def runs(url: str) -> Runs:
    """What begins sweeps on a database. Its URL, which may hold a password, is not among the words of the process."""
    program = "import sys; from autotune.cli import main; sys.exit(main())"
    return Runs([sys.executable, "-c", program, "sweep"], DB.exported(url))


def serve(app: Any, listener: socket.socket) -> None:
    """Answers with an ASGI application until Ctrl-C or SIGTERM."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_S)
    # uvicorn raises the signal that ended it once more when it is done: so that nothing is cut short, as an interrupt.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        return
