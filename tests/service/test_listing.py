"""The routes that list: pages, history, devices, strategies, what is wanted, and their refusals."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from autotune.db.store import Store
from autotune.outcome import BestPlan
from autotune.service.bodies import DevicesBody, ErrorBody, HistoryBody, PlansBody, StrategiesBody, WantedBody

Ask = Callable[..., Any]
SHAPES = [(1, 1, 64 * (k + 1), 64, 64) for k in range(5)]


@pytest.fixture
def filled(store: Store, best: BestPlan, at_shape: Callable[..., BestPlan]) -> Store:
    for shape in SHAPES:
        store.publish(at_shape(best, *shape))
    return store


class TestPlans:
    @pytest.mark.parametrize("limit", [1, 2, 5, 500])
    def test_pages_are_followed_by_their_cursor(self, ask: Ask, filled: Store, limit: int) -> None:
        found, query = [], f"limit={limit}"
        while True:
            reply = ask("/plans", query)
            page = PlansBody.model_validate_json(reply.body)
            found += [tuple(plan.problem.shape) for plan in page.plans]
            if page.next is None:
                break
            link, relation = reply.headers["link"].split(";")
            query = urlsplit(link.strip("<>")).query
            assert relation == ' rel="next"'
            assert f"cursor={page.next}" in query
        assert found == SHAPES
        assert "link" not in reply.headers

    def test_a_plan_says_everything_of_itself(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(replace(best, fingerprint="f0"))
        (plan,) = ask("/plans").json()["plans"]
        assert (plan["id"], plan["key"], plan["revision"]) == (1, "flash_attention;2,16,1024,1024,64", 1)
        assert (plan["time_us"], plan["default_time_us"], plan["speedup_over_default"]) == (200.0, 250.0, 1.25)
        assert (plan["stale"], plan["error"], plan["provenance"]["fingerprint"]) == (True, 1e-4, "f0")
        assert (plan["plan"]["Br"], plan["plan"]["Tr"]) == (128, 8)

    def test_a_device_narrows(self, ask: Ask, filled: Store, best: BestPlan) -> None:
        filled.publish(replace(best, device="Elsewhere", target="emulated:Elsewhere"))
        assert len(ask("/plans").json()["plans"]) == 6
        assert len(ask("/plans", "device=Ascend910A").json()["plans"]) == 5

    @pytest.mark.parametrize(
        ("query", "field"),
        [
            ("limit=0", "limit"),
            ("limit=501", "limit"),
            ("limit=x", "limit"),
            ("cursor=3", "cursor"),
            ("cursor=after-", "cursor"),
            ("cursor=after-1%27--", "cursor"),
            ("cursor=after-" + "9" * 30, "cursor"),
            ("cursor=after-%D9%A3", "cursor"),
            ("device=nowhere", "device"),
            ("limit=1&limit=2", "limit"),
            ("page=2", "page"),
        ],
    )
    def test_refusals_name_the_parameter(self, ask: Ask, query: str, field: str) -> None:
        reply = ask("/plans", query)
        assert reply.status == 422
        assert ErrorBody.model_validate_json(reply.body).field == field

    def test_the_etag_is_the_content(self, ask: Ask, filled: Store) -> None:
        tag = ask("/plans").headers["etag"]
        assert ask("/plans", if_none_match=tag).status == 304
        assert ask("/plans", "limit=1", if_none_match=tag).status == 200


class TestHistory:
    def test_by_id_and_by_key(self, ask: Ask, store: Store, best: BestPlan) -> None:
        for time_us in (200.0, 150.0, 170.0, 100.0):
            store.publish(replace(best, timing=replace(best.timing, time_us=time_us)))
        key = quote(best.problem.key, safe="")
        for plan in ("1", best.problem.key):
            found = HistoryBody.model_validate_json(ask(f"/plans/{plan}/history").body)
            assert [record.time_us for record in found.history] == [200.0, 150.0, 100.0]
        assert ask(f"/plans/{key}/history", "device=emulated:Ascend910A").status in (200, 404)

    @pytest.mark.parametrize("plan", ["2", "99999999999999999999", "flash_attention;1,1,1,1,1", "%00", "x' OR 1=1 --"])
    def test_what_is_not_there(self, ask: Ask, store: Store, best: BestPlan, plan: str) -> None:
        store.publish(best)
        reply = ask(f"/plans/{plan}/history")
        assert (reply.status, reply.json()["field"]) == (404, "plan")


def test_devices(ask: Ask) -> None:
    reply = ask("/devices")
    (device,) = DevicesBody.model_validate_json(reply.body).devices
    assert device.name == "Ascend910A"
    assert [(target.name, target.fingerprint) for target in device.targets] == [("emulated:Ascend910A", "f1")]
    assert device.hardware["cores"] == 32
    assert ask("/devices", "a=1").status == 422


def test_strategies(ask: Ask) -> None:
    found = StrategiesBody.model_validate_json(ask("/strategies").body).strategies
    assert {"sparse", "lattice"} <= {strategy.name for strategy in found}


def test_wanted(ask: Ask, filled: Store) -> None:
    for length in (1024, 2048, 2048):
        ask(query=f"shape=1,1,{length},64,64")
    found = WantedBody.model_validate_json(ask("/wanted").body).wanted
    assert [(each.problem.shape[2], each.device, each.count) for each in found] == [
        (2048, "Ascend910A", 2),
        (1024, "Ascend910A", 1),
    ]
    assert len(ask("/wanted", "limit=1").json()["wanted"]) == 1
    assert ask("/wanted", "limit=0").status == 422


class TestMetrics:
    def series(self, ask: Ask) -> dict[str, float]:
        reply = ask("/metrics")
        assert reply.headers["content-type"].startswith("text/plain; version=")
        lines = [line for line in reply.body.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def test_requests_are_counted_by_what_they_were(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(best)
        for query in ("shape=2,16,1024,1024,64", "shape=2,16,1024,1024,64", "shape=2,16,2048,1024,64", "shape=x"):
            ask(query=query)
        ask("/nothing/here", method="BREW")
        series = self.series(ask)
        name = 'autotune_requests_total{match="%s",method="%s",route="%s",status="%s"}'
        assert series[name % ("exact", "GET", "/best", 200)] == 2
        assert series[name % ("nearest", "GET", "/best", 200)] == 1
        assert series[name % ("", "GET", "/best", 422)] == 1
        assert series[name % ("", "other", "other", 404)] == 1
        assert series['autotune_request_seconds_count{route="/best"}'] == 4

    def test_labels_are_bounded(self, ask: Ask) -> None:
        ask("/metrics")
        ask("/plans/1/history")
        before = len(self.series(ask))
        for k in range(20):
            ask(f"/odd/{k}", method=f"M{k}")
            ask(f"/plans/{k}/history")
        assert len(self.series(ask)) <= before + 40  # one new route, with its buckets

    def test_damaged_rows_are_counted(self, ask: Ask, store: Store) -> None:
        assert self.series(ask)["autotune_unreadable_rows_total"] == 0
        store.unreadable += 1
        assert self.series(ask)["autotune_unreadable_rows_total"] == 1


def test_alive(ask: Ask) -> None:
    assert ask("/livez").json() == {"status": "ok"}


class TestBatch:
    def post(self, ask: Ask, value: Any, status: int = 200) -> Any:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        reply = ask("/best/batch", method="POST", body=body, content_type="application/json")
        assert reply.status == status, reply.body
        if status != 200:
            assert reply.headers["content-type"] == "application/problem+json"
        return reply.json()

    def test_each_question_has_its_own_status(self, ask: Ask, store: Store, best: BestPlan) -> None:
        store.publish(best)
        items = [
            {"shape": [2, 16, 1024, 1024, 64]},
            {"shape": [2, 16, 1024, 64], "device": "emulated:Ascend910A"},
            {"shape": [2, 16, 2048, 1024, 64]},
            {"shape": [2, 16, 2048, 1024, 64], "allow": "exact"},
            {"shape": "2,16"},
            {"shape": [2, 16]},
            {"shape": [1, 1, 64, 64, 64], "window": [5]},
            {"shape": [1, 1, 64, 64, 64], "attn_mask": "banded"},
            {"shape": [1, 1, 64, 64, 64], "drop\ud800": 1},
            {"shape": [1, 1, 64, 64, True]},
            7,
            {},
        ]
        replies = self.post(ask, {"items": items})["items"]
        got = [(r["status"], r["answer"] and r["answer"]["match"], r["error"] and r["error"]["field"]) for r in replies]
        assert got == [
            (200, "exact", None),
            (200, "exact", None),
            (200, "nearest", None),
            (404, None, "allow"),
            (422, None, "shape"),
            (422, None, "shape"),
            (422, None, "window"),
            (422, None, "attn_mask"),
            (422, None, "body"),
            (422, None, "shape"),
            (422, None, "body"),
            (422, None, "shape"),
        ]
        alone = ask(query="shape=2,16,1024,1024,64").json()
        assert replies[0]["answer"] == alone

    def test_misses_are_counted(self, ask: Ask, store: Store) -> None:
        self.post(ask, {"items": [{"shape": [1, 1, 64, 64, 64]}] * 3})
        assert [each["count"] for each in ask("/wanted").json()["wanted"]] == [3]

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"\xff\xfe",
            b'{"items": []}',
            b'{"items": 1}',
            b'{"items": [1], "more": 2}',
            b'{"items": NaN}',
            b'{"items": ' + b"[" * 60_000,
            b'{"items": [' + b",".join([b"1"] * 257) + b"]}",
            b'{"items": [' + b"9" * 5000 + b"]}",
        ],
    )
    def test_a_body_that_is_none(self, ask: Ask, body: bytes) -> None:
        reply = ask("/best/batch", method="POST", body=body, content_type="application/json")
        assert reply.status in (400, 422)
        ErrorBody.model_validate_json(reply.body)

    def test_the_largest_batch_fits_and_more_bytes_do_not(self, ask: Ask) -> None:
        item = {
            "shape": [2, 16, 1048576, 1024, 64], "op": "flash_attention_grad", "device": "emulated:Ascend910A",
            "dtype": "bfloat16", "attn_mask": "causal", "dropout": False, "alibi": False, "window": [1048576, 1048576],
            "block_window": [8192, 8192], "high_precision": False, "allow": "exact,nearest,default",
        }  # fmt: skip
        assert len(self.post(ask, {"items": [item] * 256})["items"]) == 256
        assert "131072 bytes" in self.post(ask, b" " * 131073, 413)["detail"]
