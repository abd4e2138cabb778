"""Sweeps over HTTP: begun and stopped with a key, watched while they go on, whoever began them."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from autotune.db.store import Store
from autotune.outcome import BestPlan, Failed, Outcome, Timed, Trial
from autotune.plan import TilingPlan
from autotune.service import sweeping
from autotune.service.app import create_app
from autotune.service.bodies import ErrorBody, SweepBody, SweepsBody
from autotune.service.device import Device
from autotune.service.runs import Runs

Ask = Callable[..., Any]
ROOT = Path(__file__).parents[2]
NOW = "2026-12-01T00:00:00Z"
BODY = {"shapes": [[1, 2, 64, 64, 16]], "trials": 3}

# Stands for `autotune sweep`: says what it was told, records as many trials as it may, and waits when these are 99.
PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
from autotune.db.store import Store
from autotune.outcome import Timed, Timing, Trial
from autotune.plan import TilingPlan
from autotune.problem import AttentionProblem
words = sys.argv[1:]
print("told", *words, flush=True)
of = dict(zip(words, words[1:]))
store = Store.open(os.environ["AUTOTUNE_DB"])
problem = AttentionProblem.of(tuple(map(int, of["--shape"].split(","))))
for k in range(1, min(4, int(of["--trials"])) + 1):
    outcome = Timed(Timing(100.0 / k, "emulated", "model-1"), 1e-4)
    store.record(Trial(problem, "Ascend910A", of["--device"], "f1", TilingPlan(16, 16 * k), outcome, of["--name"],
                       "2026-12-01T00:00:00Z"))
try:
    while of["--trials"] == "99":
        time.sleep(0.02)
except KeyboardInterrupt:
    print("stopped politely")
    sys.exit(130)
sys.exit({"7": 1, "8": 3}.get(of["--trials"], 0))
"""


@pytest.fixture
def runs(tmp_path: Path, store: Store) -> Iterator[Runs]:
    environment = {"AUTOTUNE_DB": f"sqlite:///{tmp_path}/plans.db", "PYTHONPATH": str(ROOT)}
    runs = Runs([sys.executable, "-c", PROGRAM], environment)
    yield runs
    runs.close()


@pytest.fixture
def app(store: Store, device: Device, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setattr(sweeping, "POLL_S", 0.02)
    return create_app(store, {"Ascend910A": device}, runs=runs)


def key(store: Store, *scopes: str) -> dict[str, str]:
    return {"authorization": "Bearer " + store.add_key("night", scopes or ("sweeps:write",), NOW)}


def begin(ask: Ask, headers: dict[str, str], **changes: Any) -> Any:
    body = json.dumps({**BODY, **changes}).encode()
    return ask("/sweeps", "", "POST", body, content_type="application/json", **headers)


def until(ask: Ask, name: str, state: str) -> SweepBody:
    """The sweep as soon as it is in a state."""
    for _ in range(500):
        found = SweepBody.model_validate_json(ask(f"/sweeps/{name}").body)
        if found.state == state:
            return found
        time.sleep(0.02)
    raise AssertionError(f"still {found}")


def test_a_sweep_is_begun_and_ends(ask: Ask, store: Store) -> None:
    reply = begin(ask, key(store), attn_mask="causal", window=[511, 0], seconds=60)
    body = SweepBody.model_validate_json(reply.body)
    assert (reply.status, body.target, body.state) == (201, "emulated:Ascend910A", "running")
    assert reply.headers["location"] == f"/sweeps/{body.name}"
    found = until(ask, body.name, "done")
    assert (found.problems, found.trials) == (1, {"timed": 3})
    assert found.log == [
        f"told --name {body.name} --device emulated:Ascend910A --shape 1,2,64,64,16 --attn-mask causal --window 511,0 "
        "--trials 3 --budget 60s"
    ]
    (listed,) = SweepsBody.model_validate_json(ask("/sweeps").body).sweeps
    assert listed == found


def test_its_end_is_told_apart(ask: Ask, store: Store) -> None:
    good = key(store)
    for trials, state in ((7, "failed"), (8, "nothing found")):
        until(ask, begin(ask, good, trials=trials).json()["name"], state)


def test_one_sweep_a_target_and_a_polite_stop(ask: Ask, store: Store) -> None:
    good = key(store)
    name = begin(ask, good, trials=99).json()["name"]
    refused = ErrorBody.model_validate_json(begin(ask, good).body)
    assert (refused.status, name in refused.detail) == (409, True)
    while not ask(f"/sweeps/{name}").json()["trials"]:
        time.sleep(0.02)
    assert ask(f"/sweeps/{name}", "", "DELETE").status == 401
    assert ask(f"/sweeps/{name}", "", "DELETE", **good).status == 202
    assert until(ask, name, "stopped").log[-1] == "stopped politely"
    assert begin(ask, good).status == 201


def test_the_service_stops_its_sweeps_with_itself(store: Store, runs: Runs) -> None:
    run = runs.start(
        "emulated:Ascend910A", ["--device", "emulated:Ascend910A", "--shape", "1,1,64,64", "--trials", "99"]
    )
    while not run.log:
        time.sleep(0.02)
    runs.close()
    assert run.state == "stopped"


def watched(ask: Ask, name: str, **headers: str) -> list[tuple[str, Any]]:
    """Kind and value of every event until the end."""
    text = ask(f"/sweeps/{name}/events", **headers).body.decode()
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if "data" in block
    ]
    return [(block["event"], json.loads(block["data"])) for block in blocks]


def test_events_are_the_trials_and_the_end(ask: Ask, store: Store) -> None:
    name = begin(ask, key(store)).json()["name"]
    *trials, (kind, end) = watched(ask, name)
    assert [(what, value["time_us"], value["plan"]["Bc"]) for what, value in trials] == [
        ("trial", 100.0, 16), ("trial", 50.0, 32), ("trial", 100.0 / 3, 48),
    ]  # fmt: skip
    assert (kind, end) == ("end", {"state": "done"})
    assert [value["plan"]["Bc"] for _, value in watched(ask, name, last_event_id="2")[:-1]] == [48]
    assert ask(f"/sweeps/{name}/events", last_event_id="x").status == 422


def test_a_watcher_who_leaves_is_let_go(app: FastAPI, store: Store, best: BestPlan) -> None:
    """Of a sweep that another process began, nobody knows the end: the stream goes on until the watcher leaves."""
    store.record(Trial(best.problem, best.device, best.target, "f1", best.plan, Failed("run", "no"), "mine", NOW))
    sent: list[Any] = []

    async def watch() -> None:
        async def receive() -> dict[str, Any]:
            while len(sent) < 3:
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": "/sweeps/mine/events", "raw_path": b"", "root_path": "", "query_string": b"",
            "headers": [], "server": ("testserver", 80), "client": ("testclient", 1),
        }  # fmt: skip
        await asyncio.wait_for(app(scope, receive, send), 20)

    asyncio.run(watch())
    assert b'"reason": "no"' in sent[1]["body"]


def test_nothing_runs_without_a_good_key(ask: Ask, store: Store, runs: Runs) -> None:
    assert begin(ask, {}).status == 401
    assert begin(ask, key(store, "plans:write", "pins:write")).status == 403
    assert runs.all() == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"shapes": []}, "shapes"),
        ({"shapes": [[1, 2, 3]]}, "shape"),
        ({"shapes": [[1, 2, 64, 64, -1]]}, "shape"),
        ({"shapes": ["1,2,64,64"]}, "shapes"),
        ({"shapes": [[1, 1, 64, 64]] * 33}, "shapes"),
        ({"device": "nowhere"}, "device"),
        ({"device": "--help"}, "device"),
        ({"attn_mask": "round"}, "attn_mask"),
        ({"trials": 0}, "trials"),
        ({"trials": "3"}, "trials"),
        ({"seconds": 0}, "seconds"),
        ({"allow": "exact"}, "allow"),
        ({"db": "sqlite:////etc/passwd"}, "db"),
    ],
)
def test_refusals_name_the_parameter(ask: Ask, store: Store, runs: Runs, changes: Any, field: str) -> None:
    reply = begin(ask, key(store), **changes)
    assert (reply.status, ErrorBody.model_validate_json(reply.body).field) == (422, field)
    assert runs.all() == []


def test_what_is_not_there(ask: Ask, ask_app: Any, store: Store, device: Device) -> None:
    for path in ("/sweeps/none", "/sweeps/none/events"):
        assert ErrorBody.model_validate_json(ask(path).body).field == "name"
    assert ask("/sweeps/none", "", "DELETE", **key(store)).status == 404
    alone = ask_app(create_app(store, {"Ascend910A": device}))
    assert begin(alone, key(store)).status == 503


class TestPages:
    def test_sweeps_and_one_of_them(self, ask: Ask, store: Store, best: BestPlan) -> None:
        assert "There was none yet" in ask("/progress").body.decode()
        outcomes: list[Outcome | float] = [200.0, 220.0, Failed("verify", "error 0.5"), 150.0]
        for k, outcome in enumerate(outcomes, 1):
            timed = Timed(replace(best.timing, time_us=outcome), 1e-4) if isinstance(outcome, float) else outcome
            plan = TilingPlan(16, 16 * k)
            store.record(Trial(best.problem, best.device, best.target, "f1", plan, timed, "<night>", NOW))
        listed = ask("/progress").body.decode()
        assert "progress?sweep=%3Cnight%3E" in listed
        page = unescape(ask("/progress", "sweep=%3Cnight%3E").body.decode())
        for words in ("elsewhere", "150 us", "failed to verify: error", "problem?shape=2,16,1024,1024,64"):
            assert words in page
        assert 'points="0.0,0.0 300.0,0.0 300.0,90.0 300.0,90.0"' in page
        assert "refresh" not in page
        missing = ask("/progress", "sweep=other")
        assert (missing.status, "no sweep" in missing.body.decode()) == (404, True)

    def test_a_running_one_is_read_again(self, ask: Ask, store: Store) -> None:
        name = begin(ask, key(store), trials=99).json()["name"]
        assert 'http-equiv="refresh"' in ask("/progress", f"sweep={name}").body.decode()
        assert name in ask("/progress").body.decode()
