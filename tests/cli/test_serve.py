"""The service as a process, and ``best --url`` that asks it."""

import json
import signal
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

Run = Callable[..., Any]
QUESTION = ("--shape", "1,2,64,64,16", "--attn-mask", "causal")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_served_and_stored_answers_are_the_same(run: Run, start: Callable[..., Any], folder: Path) -> None:
    run("sweep", *QUESTION, "--trials", "2", "--db", "sqlite:///plans.db")
    port = free_port()
    service = start("serve", "--port", str(port), "--db", "sqlite:///plans.db")
    assert service.stderr.readline().startswith(f"Serving plans on http://127.0.0.1:{port}/best")
    url = ("--url", f"http://127.0.0.1:{port}")

    served = run("best", *QUESTION, *url, "--json")
    assert served.code == 0
    assert json.loads(served.out)["match"] == "exact"
    assert served.out == run("best", *QUESTION, "--db", "sqlite:///plans.db", "--json").out

    missing = run("best", "--shape", "1,2,4096,4096,64", "--allow", "exact", *url)
    assert (missing.code, missing.out) == (3, "")

    unknown = run("best", *QUESTION, "--device", "Ascend999", *url)
    assert unknown.code == 2
    assert "Ascend999" in unknown.err

    wrong_path = run("best", *QUESTION, "--url", f"http://127.0.0.1:{port}/elsewhere")
    assert wrong_path.code == 1
    assert "the service answers 404" in wrong_path.err

    service.send_signal(signal.SIGINT)
    assert service.wait(timeout=30) == 0
    assert service.stderr.read() == ""


def test_a_sweep_over_http(run: Run, start: Callable[..., Any], folder: Path) -> None:
    port = free_port()
    key = run("keys", "add", "night", "--scope", "sweeps:write", "--db", "sqlite:///plans.db").out.strip()
    service = start("serve", "--port", str(port), "--db", "sqlite:///plans.db")
    service.stderr.readline()

    def ask(path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with build_opener(ProxyHandler({})).open(
            Request(f"http://127.0.0.1:{port}{path}", data, headers), timeout=60
        ) as reply:
            return reply.read().decode()

    begun = json.loads(ask("/sweeps", {"shapes": [[1, 2, 64, 64, 16]], "attn_mask": "causal", "trials": 2}))
    *_, end = ask(f"/sweeps/{begun['name']}/events").strip().split("\n\n")
    assert end == 'event: end\ndata: {"state": "done"}'
    answer = json.loads(run("best", *QUESTION, "--url", f"http://127.0.0.1:{port}", "--json").out)
    assert (answer["match"], answer["provenance"]["sweep"]) == ("exact", begun["name"])
    service.send_signal(signal.SIGTERM)
    assert service.wait(timeout=30) == 0


def test_slow_clients_keep_nobody_waiting_and_do_not_hold_up_its_end(run: Run, start: Callable[..., Any]) -> None:
    port = free_port()
    service = start("serve", "--port", str(port), "--db", "sqlite:///plans.db")
    service.stderr.readline()
    beginnings = (
        b"",
        b"GET /best HTTP/1.1\r\nHost: loc",
        b"POST /best/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{",
    )
    slow = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(60)]
    for number, connection in enumerate(slow):
        connection.sendall(beginnings[min(number, 2)] if number < 10 else beginnings[number % 2])
    assert run("best", *QUESTION, "--url", f"http://127.0.0.1:{port}").code == 0
    service.send_signal(signal.SIGTERM)
    assert service.wait(timeout=30) == 0
    for connection in slow:
        connection.close()


def test_a_service_that_is_not_there(run: Run) -> None:
    ran = run("best", *QUESTION, "--url", f"http://127.0.0.1:{free_port()}")
    assert ran.code == 1
    assert ran.err.endswith("does not answer: Connection refused\n")


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"", b"[" * 100_000])
def test_something_else_at_that_address(run: Run, body: bytes) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        Thread(target=server.handle_request, daemon=True).start()
        ran = run("best", *QUESTION, "--url", f"http://127.0.0.1:{server.server_port}")
    assert ran.code == 1
    assert "is no plan service" in ran.err
