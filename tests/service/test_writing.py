"""Writing over HTTP: what a key may do, and that nothing is written without one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.db.store import Store
from autotune.outcome import BestPlan
from autotune.service import bundle
from autotune.service.app import create_app
from autotune.service.bodies import DecisionBody, ErrorBody, ImportBody, ListedBody
from autotune.service.device import Device

Ask = Callable[..., Any]
NOW = "2026-12-01T00:00:00Z"
QUESTION = "shape=2,16,1024,1024,64"


@pytest.fixture
def filled(store: Store, best: BestPlan) -> Store:
    """Two publications of one problem."""
    store.publish(best)
    store.publish(replace(best, timing=replace(best.timing, time_us=100.0)))
    return store


def key(store: Store, *scopes: str, **options: Any) -> dict[str, Any]:
    """The header of a new key."""
    return {"authorization": "Bearer " + store.add_key("night", scopes, NOW, **options)}


def put(ask: Ask, body: Any = None, plan: int = 1, **headers: Any) -> Any:
    content = json.dumps(body if body is not None else {"revision": 1, "reason": "because"}).encode()
    return ask(f"/pins/{plan}", "", "PUT", content, content_type="application/json", **headers)


def test_pin_and_unpin(ask: Ask, filled: Store) -> None:
    good = key(filled, "pins:write")
    set_ = DecisionBody.model_validate_json(put(ask, **good).body)
    assert (set_.action, set_.revision, set_.actor, set_.reason) == ("pin", 1, "night", "because")
    assert ask(query=QUESTION).json()["match"] == "pinned"
    gone = ask("/pins/1", "revision=1&reason=fixed", "DELETE", **good)
    assert DecisionBody.model_validate_json(gone.body).action == "unpin"
    assert ask("/pins/1", "revision=1&reason=fixed", "DELETE", **good).status == 404
    assert ask(query=QUESTION).json()["match"] == "exact"
    history = ask("/plans/1/history").json()
    assert [each["action"] for each in history["decisions"]] == ["pin", "unpin"]
    assert [each["time_us"] for each in history["history"]] == [200.0, 100.0]


def test_nothing_is_written_without_a_good_key(ask: Ask, filled: Store) -> None:
    expired = key(filled, "pins:write", "plans:write", expires_at=NOW)
    wrong: list[tuple[dict[str, Any], int]] = [
        ({}, 401),
        ({"authorization": "Bearer att_00000000_" + "A" * 43}, 401),
        ({"authorization": "Basic bWU6bWU="}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Bearer \xff"}, 401),
        (expired, 401),
        (key(filled, "pins:write"), 403),
    ]
    for headers, status in wrong:
        reply = ask("/import", "dry_run=false", "POST", bundle.dump(filled), **headers)
        assert (reply.status, ErrorBody.model_validate_json(reply.body).status) == (status, status)
        assert ("www-authenticate" in reply.headers) == (status == 401)
    assert put(ask, **key(filled, "plans:write")).status == 403
    for headers, _ in wrong[:-1]:
        assert put(ask, **headers).status == 401
        assert ask("/pins/1", "revision=1&reason=x", "DELETE", **headers).status == 401
    assert filled.plans().listed[0].pinned is None


def test_rollback(ask: Ask, filled: Store) -> None:
    good = key(filled, "pins:write")

    def back(revision: int, **headers: Any) -> Any:
        body = json.dumps({"revision": revision, "reason": "because"}).encode()
        return ask("/plans/1/rollback", "", "POST", body, content_type="application/json", **headers)

    assert back(2).status == 401
    assert back(2, **key(filled, "plans:write")).status == 403
    assert ErrorBody.model_validate_json(back(1, **good).body).status == 412
    done = DecisionBody.model_validate_json(back(2, **good).body)
    assert (done.action, done.revision, done.reason) == ("pin", 1, "because")
    assert ask(query=QUESTION).json()["time_us"] == 200.0
    assert ErrorBody.model_validate_json(back(1, **good).body).field == "revision"
    assert ErrorBody.model_validate_json(back(9, **good).body).field == "revision"


def test_if_match_guards_a_decision(ask: Ask, filled: Store, best: BestPlan) -> None:
    good = key(filled, "pins:write")
    seen = ask("/plans/1")
    plan = ListedBody.model_validate_json(seen.body)
    assert (plan.id, plan.revision, plan.pinned) == (1, 2, None)
    assert ask("/plans/1", if_none_match=seen.headers["etag"]).status == 304
    filled.publish(replace(best, timing=replace(best.timing, time_us=50.0)))
    refused = put(ask, if_match=seen.headers["etag"], **good)
    assert ErrorBody.model_validate_json(refused.body).status == 412
    assert ask("/plans/1").json()["pinned"] is None
    now = ask("/plans/1").headers["etag"]
    assert put(ask, if_match=now, **good).status == 200
    assert ask("/pins/1", "revision=1&reason=x", "DELETE", if_match=now, **good).status == 412
    assert ask("/pins/1", "revision=1&reason=x", "DELETE", if_match="*", **good).status == 200


@pytest.mark.parametrize("path", ["/plans/2", "/plans/0", "/plans/x", "/plans/99999999999999999999"])
def test_a_plan_that_is_not_there(ask: Ask, filled: Store, path: str) -> None:
    reply = ask(path)
    assert reply.status == (404 if path == "/plans/2" else 422)
    assert ErrorBody.model_validate_json(reply.body).field == "plan"


@pytest.mark.parametrize(
    ("plan", "body", "status", "field"),
    [
        (2, None, 404, "plan"),
        (0, None, 422, "plan"),
        (1, {"revision": 3, "reason": "x"}, 422, "revision"),
        (1, {"revision": "one", "reason": "x"}, 422, "revision"),
        (1, {"revision": 1, "reason": ""}, 422, "reason"),
        (1, {"revision": 1, "reason": "a\nb"}, 422, "reason"),
        (1, {"revision": 1, "reason": "\ud800"}, 422, "reason"),
        (1, {"revision": 1}, 422, "reason"),
        (1, {"revision": 1, "reason": "x", "by": "me"}, 422, "by"),
        (1, [], 422, "body"),
    ],
)
def test_pins_that_make_no_sense(ask: Ask, filled: Store, plan: int, body: Any, status: int, field: str) -> None:
    reply = put(ask, body, plan, **key(filled, "pins:write"))
    assert (reply.status, ErrorBody.model_validate_json(reply.body).field) == (status, field)
    assert filled.plans().listed[0].pinned is None


def test_export_and_import(ask: Ask, ask_app: Any, filled: Store, device: Device, tmp_path: Path) -> None:
    exported = ask("/export")
    assert exported.body == bundle.dump(filled)
    assert ask("/export", if_none_match=exported.headers["etag"]).status == 304
    assert ask("/export", "device=nothing").status == 422

    other = Store.open(f"sqlite:///{tmp_path}/other.db")
    there, good = ask_app(create_app(other, {"Ascend910A": device})), key(other, "plans:write")
    tried = ImportBody.model_validate_json(there("/import", "", "POST", exported.body, **good).body)
    assert (tried.accepted, tried.dry_run) == (1, True)
    assert other.plans().listed == []
    done = ImportBody.model_validate_json(there("/import", "dry_run=false", "POST", exported.body, **good).body)
    assert (done.accepted, done.dry_run) == (1, False)
    assert there("/export").body == exported.body
    for content in (b"", b"{", b"\xff", b'{"answers": ' + b"[" * 90_000):
        assert there("/import", "dry_run=false", "POST", content, **good).json()["field"] == "file"
    assert there("/import", "", "POST", b" " * (8 << 20) + b"  ", **good).status == 413


def test_another_name_is_refused_where_names_are_known(store: Store, device: Device, ask_app: Any) -> None:
    ask = ask_app(create_app(store, {"Ascend910A": device}, hosts=("127.0.0.1", "localhost", "::1")))
    for host in ("127.0.0.1:8321", "localhost", "LOCALHOST:80", "[::1]:8321", "[::1]"):
        assert ask(query=QUESTION, host=host).status == 200
    for host in ("evil.example", "evil.example:8321", "127.0.0.1.evil.example", "", "localhost:80:80", "[::2]:80"):
        reply = ask(query=QUESTION, host=host)
        assert (reply.status, reply.headers["content-type"]) == (421, "application/problem+json")
    assert ask(query=QUESTION).status == 421
