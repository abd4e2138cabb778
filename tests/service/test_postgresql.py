"""The service on PostgreSQL: the same answers, and a publication is seen at once."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from autotune.db.store import Store
from autotune.outcome import BestPlan
from autotune.service import bundle
from autotune.service.app import create_app
from autotune.service.device import Device

QUERY = "shape=2,16,1024,1024,64"
NOW = "2026-12-01T00:00:00Z"


@pytest.fixture
def url(postgresql: Any) -> Iterator[str]:
    with postgresql.database(postgresql.TEMPLATE) as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store.open(url)
    yield store
    store.close()


def test_every_rung_and_what_another_process_publishes(
    ask: Callable[..., Any], url: str, store: Store, best: BestPlan
) -> None:
    assert ask(query=QUERY).json()["match"] == "default"
    elsewhere = Store.open(url)
    elsewhere.publish(best)
    assert ask(query=QUERY).json()["time_us"] == 200.0
    assert ask(query="shape=1,16,1024,1024,64").json()["match"] == "nearest"
    elsewhere.publish(replace(best, timing=replace(best.timing, time_us=100.0)))
    assert ask(query=QUERY).json()["time_us"] == 100.0
    elsewhere.close()
    headers = {
        "authorization": "Bearer " + store.add_key("me", ("pins:write",), NOW),
        "content_type": "application/json",
    }
    body = json.dumps({"revision": 1, "reason": "because"}).encode()
    assert ask("/pins/1", "", "PUT", body, **headers).status == 200
    assert ask(query=QUERY).json()["match"] == "pinned"
    assert [each["count"] for each in ask("/wanted").json()["wanted"]] == [1]


def test_pages_and_lists(ask: Callable[..., Any], store: Store, best: BestPlan) -> None:
    store.publish(best)
    for path, query in (
        ("/", ""), ("/problem", QUERY), ("/compare", "left=1&right=1"), ("/missing", ""), ("/progress", ""),
        ("/plans", ""), ("/plans/1", ""), ("/plans/1/history", ""), ("/plans/1/trials", ""), ("/readyz", ""),
        ("/sweeps", ""), ("/export", ""),
    ):  # fmt: skip
        assert ask(path, query).status == 200, path


def test_an_export_goes_from_one_database_to_the_other(
    store: Store, best: BestPlan, device: Device, tmp_path: Any
) -> None:
    store.publish(best)
    other = Store.open(f"sqlite:///{tmp_path}/plans.db")
    content = bundle.dump(store)
    assert bundle.load(other, content, {"Ascend910A": device}, dry_run=False).accepted == 1
    assert bundle.dump(other) == content


def test_a_server_that_is_gone_is_503(ask_app: Any, postgresql: Any, device: Device) -> None:
    with postgresql.database(postgresql.TEMPLATE) as url:
        store = Store.open(url)
    ask = ask_app(create_app(store, {"Ascend910A": device}))
    for path in ("/best", "/readyz", "/plans"):
        reply = ask(path, QUERY if path == "/best" else "")
        assert (reply.status, reply.headers["content-type"]) == (503, "application/problem+json")
    store.close()
