"""The routes: every kind of answer, every kind of refusal, and never a 500."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.db.store import Store
from autotune.errors import PlanRejected, StoreError
from autotune.hardware import Hardware
from autotune.outcome import BestPlan
from autotune.plan import TilingPlan
from autotune.problem import ATTN_MASKS, DTYPES, OPS, AttentionProblem
from autotune.service import limits
from autotune.service.app import create_app
from autotune.service.bodies import AnswerBody, ErrorBody, ReadyBody
from autotune.service.device import Device

SHAPE = "shape=2,16,1024,1024,64"


def refusal(reply: Any, status: int, field: str | None, *parts: str) -> None:
    """A problem+json of that status which names the field, in one sentence with every part."""
    body = ErrorBody.model_validate_json(reply.body)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json")
    assert (body.status, body.field) == (status, field)
    assert all(part in body.detail for part in parts), body.detail
    assert "\n" not in body.detail


@pytest.mark.parametrize(
    ("query", "match"),
    [
        (SHAPE, "exact"),
        ("shape=2,16,1024,64", "exact"),
        (SHAPE + "&device=Ascend910A&op=flash_attention&attn_mask=none&dtype=float16", "exact"),
        (SHAPE + "&device=emulated:Ascend910A&dropout=false&alibi=0&high_precision=false", "exact"),
        ("shape=2%2C16%2C1024%2C1024%2C64", "exact"),
        ("shape=2,16,2048,1024,64", "nearest"),
        ("shape=2,16,2048,1024,64&allow=default", "default"),
        (SHAPE + "&attn_mask=causal", "default"),
        (SHAPE + "&window=511,0&block_window=7,0", "default"),
        (SHAPE + "&high_precision=true", "default"),
    ],
)
def test_each_rung_answers_in_the_wire_format(
    ask: Callable[..., Any], store: Store, best: BestPlan, query: str, match: str
) -> None:
    store.publish(best)
    reply = ask(query=query)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json()["match"] == match
    AnswerBody.model_validate_json(reply.body)  # no name too many, none too few


def test_the_question_comes_back_as_it_was_understood(ask: Callable[..., Any]) -> None:
    query = (
        "shape=1,2,300,200,40&op=flash_attention_grad&dtype=bfloat16&attn_mask=shared&dropout=true&alibi=true"
        "&window=511,0&block_window=7,1&high_precision=true"
    )
    assert ask(query=query).json()["problem"] == {
        "op": "flash_attention_grad",
        "shape": [1, 2, 300, 200, 40],
        "dtype": "bfloat16",
        "attn_mask": "shared",
        "dropout": True,
        "alibi": True,
        "window": [511, 0],
        "block_window": [7, 1],
        "high_precision": True,
    }


@pytest.mark.parametrize(
    ("query", "field", "part"),
    [
        ("", "shape", "shape is missing"),
        ("shape=", "shape", "B,H,Nq,N,D"),
        ("shape=2,16", "shape", "2 number(s)"),
        ("shape=0,1,64,64,64", "shape", "B is 0"),
        ("shape=1,1,64,64,300", "shape", "D is 300"),
        ("shape=1,1,64,64,-1", "shape", "'-1' is no whole number"),
        ("shape=1,1,6_4,64,64", "shape", "no whole number"),
        ("shape=1,1,%D9%A3,64,64", "shape", "no whole number"),
        ("shape=1,1,64,64," + "9" * 5000, "shape", "no whole number"),
        ("shape=16384,2,64,64,64", "shape", "B*H"),
        ("shape=16384,1,1048576,1048576,64", "shape", "B*H*Nq*N"),
        (SHAPE + "&op=softmax", "op", "flash_attention_grad"),
        (SHAPE + "&device=Ascend999", "device", "emulated:Ascend910A"),
        (SHAPE + "&device=", "device", "known ones are"),
        (SHAPE + "&attn_mask=banded", "attn_mask", "causal"),
        (SHAPE + "&dtype=float64", "dtype", "bfloat16"),
        (SHAPE + "&dropout=maybe", "dropout", "true or false"),
        (SHAPE + "&window=5", "window", "prev,next"),
        (SHAPE + "&window=a,b", "window", "prev,next"),
        (SHAPE + "&block_window=1,-1", "block_window", "prev,next"),
        (SHAPE + "&allow=", "allow", "pinned, exact, nearest, default"),
        (SHAPE + "&allow=exact,neerest", "allow", "'neerest' is no rung"),
        (SHAPE + "&atn_mask=causal", "atn_mask", "atn_mask is no parameter"),
        ("shap=1,1,64,64,64", "shap", "shap is no parameter"),
        (SHAPE + "&{braces}=1", "{braces}", "is no parameter"),
        (SHAPE + "&" + SHAPE, "shape", "2 times"),
    ],
)
def test_a_bad_question_is_422_and_names_the_field(ask: Callable[..., Any], query: str, field: str, part: str) -> None:
    refusal(ask(query=query), 422, field, part)


def test_404_when_no_allowed_rung_has_a_plan(ask: Callable[..., Any]) -> None:
    refusal(ask(query=SHAPE + "&allow=exact,nearest"), 404, "allow", "exact,nearest", "Ascend910A", "allow more rungs")


def test_404_when_no_plan_is_legal(store: Store, device: Device, ask_app: Callable[..., Any]) -> None:
    def nothing(problem: AttentionProblem, plan: TilingPlan) -> None:
        raise PlanRejected("nothing fits")

    app = create_app(store, {"Ascend910A": replace(device, check=nothing)})
    refusal(ask_app(app)(query=SHAPE), 404, "allow", "pinned,exact,nearest,default")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/bestt", "GET", 404), ("/best", "POST", 405), ("/best", "PUT", 405)],
)
def test_other_addresses_and_methods(ask: Callable[..., Any], path: str, method: str, status: int) -> None:
    refusal(ask(path, SHAPE, method), status, None)


def test_the_first_device_answers_a_question_without_one(
    store: Store, device: Device, ask_app: Callable[..., Any]
) -> None:
    other = Device(Hardware("Ascend310P", 8, 1000), {"emulated:Ascend310P": "f1"}, lambda problem, plan: None)
    app = create_app(store, {"Ascend310P": other, "Ascend910A": device})
    reply = ask_app(app)(query=SHAPE)
    assert reply.json()["device"] == "Ascend310P"


class TestETag:
    def test_the_same_answer_is_304_without_a_body(self, ask: Callable[..., Any], store: Store, best: BestPlan) -> None:
        store.publish(best)
        first = ask(query=SHAPE)
        tag = first.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = ask(query=SHAPE, if_none_match=known)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)

    def test_another_tag_gets_the_body(self, ask: Callable[..., Any]) -> None:
        for known in ('"other"', "", "garbage", '"', "**"):
            assert ask(query=SHAPE, if_none_match=known).status == 200

    def test_a_publication_changes_it(self, ask: Callable[..., Any], store: Store, best: BestPlan) -> None:
        store.publish(best)
        tag = ask(query=SHAPE).headers["etag"]
        store.publish(replace(best, timing=replace(best.timing, time_us=100.0)))
        reply = ask(query=SHAPE, if_none_match=tag)
        assert (reply.status, reply.json()["time_us"]) == (200, 100.0)
        assert reply.headers["etag"] != tag


class TestMisses:
    def test_what_was_not_answered_exactly_is_wanted(
        self, ask: Callable[..., Any], store: Store, best: BestPlan
    ) -> None:
        store.publish(best)
        ask(query=SHAPE)
        assert ask("/wanted").json() == {"wanted": []}
        for query in ("shape=2,16,2048,1024,64", "shape=1,1,16,16,16", "shape=1,1,16,16,16&allow=exact"):
            ask(query=query)
        assert [each["count"] for each in ask("/wanted").json()["wanted"]] == [2, 1]
        assert [(each.problem.shape, each.device, each.count) for each in store.wanted()] == [
            ((1, 1, 16, 16, 16), "Ascend910A", 2),
            ((2, 16, 2048, 1024, 64), "Ascend910A", 1),
        ]
        assert store.wanted()[0].last_at.endswith("Z")

    def test_a_refused_question_is_not(self, ask: Callable[..., Any], store: Store) -> None:
        ask(query="shape=2,16")
        ask(query=SHAPE + "&device=x")
        assert ask("/wanted").json() == {"wanted": []}

    def test_a_database_that_cannot_be_written_still_answers(
        self, ask: Callable[..., Any], store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def locked(*_: Any) -> None:
            raise StoreError("the database stayed locked")

        monkeypatch.setattr(store, "want_all", locked)
        with caplog.at_level(logging.WARNING):
            assert ask(query=SHAPE).status == 200
            assert ask("/wanted").json() == {"wanted": []}
        assert "stayed locked" in caplog.text


class TestHealth:
    def test_a_readable_database(self, ask: Callable[..., Any]) -> None:
        reply = ask("/readyz")
        assert ask("/healthz").body == reply.body
        assert reply.status == 200
        assert ReadyBody.model_validate_json(reply.body).status == "ok"

    def test_a_database_that_is_gone(self, ask: Callable[..., Any], store: Store, tmp_path: Path) -> None:
        store.close()
        (tmp_path / "plans.db").write_text("something else " * 500)
        refusal(ask("/readyz"), 503, None, "not a database")
        refusal(ask(query=SHAPE), 503, None, "not a database")


class TestDescription:
    def test_every_answer_is_declared(self, ask: Callable[..., Any]) -> None:
        paths = ask("/openapi.json").json()["paths"]
        assert set(paths["/best"]["get"]["responses"]) == {"200", "304", "404", "422", "503"}
        assert set(paths["/readyz"]["get"]["responses"]) == {"200", "503"}
        assert set(paths) == {
            "/best", "/best/batch", "/devices", "/strategies", "/plans", "/plans/{plan}", "/plans/{plan}/history",
            "/plans/{plan}/trials", "/plans/{plan}/rollback", "/wanted", "/export", "/import", "/pins/{plan}",
            "/livez", "/readyz", "/healthz", "/metrics", "/sweeps", "/sweeps/{name}", "/sweeps/{name}/events",
        }  # fmt: skip
        for path, operation in ((path, found) for path, methods in paths.items() for found in methods.values()):
            for status, response in operation["responses"].items():
                answer = [{"/metrics": "text/plain", "/sweeps/{name}/events": "text/event-stream"}.get(path, JSON)]
                expected = {"2": answer, "3": [], "4": PROBLEM, "5": PROBLEM}[status[0]]
                assert list(response.get("content", {})) == expected

    def test_every_parameter_is_described(self, ask: Callable[..., Any]) -> None:
        parameters = ask("/openapi.json").json()["paths"]["/best"]["get"]["parameters"]
        assert {parameter["name"] for parameter in parameters} == {
            "shape", "op", "device", "dtype", "attn_mask", "dropout", "alibi", "window", "block_window",
            "high_precision", "allow",
        }  # fmt: skip
        assert [parameter["name"] for parameter in parameters if parameter["required"]] == ["shape"]

    def test_the_page_loads_nothing_from_elsewhere(self, ask: Callable[..., Any]) -> None:
        reply = ask("/docs")
        page = reply.body.decode()
        assert reply.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "://" not in page
        assert "<script" not in page
        for text in ("GET /best", "GET /readyz", "attn_mask", "high_precision", "openapi.json", "422"):
            assert text in page


def test_a_body_that_does_not_come_is_408(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.05)
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/best/batch", "raw_path": b"", "root_path": "", "query_string": b"",
        "headers": [], "scheme": "http", "http_version": "1.1", "asgi": {"version": "3.0"},
        "server": ("testserver", 80), "client": ("testclient", 1),
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert (sent[0]["status"], ErrorBody.model_validate_json(sent[1]["body"]).status) == (408, 408)


JSON, PROBLEM = "application/json", ["application/problem+json"]

numbers = st.one_of(st.integers(-2, 5000), st.integers(), st.sampled_from(["", " 1", "1e3", "٣", "0x10", "NaN"]))
shapes = st.lists(numbers.map(str), max_size=7).map(",".join)
likely = {
    "shape": st.one_of(st.just("2,16,1024,1024,64"), shapes),
    "op": st.sampled_from(OPS),
    "device": st.sampled_from(["Ascend910A", "emulated:Ascend910A", "cann:0"]),
    "dtype": st.sampled_from(DTYPES),
    "attn_mask": st.sampled_from(ATTN_MASKS),
    "dropout": st.sampled_from(["true", "false", "1"]),
    "alibi": st.sampled_from(["true", "false"]),
    "window": shapes,
    "block_window": st.sampled_from(["7,0", "0,0", "1000000,1000000", "7"]),
    "high_precision": st.sampled_from(["true", "no"]),
    "allow": st.lists(st.sampled_from(["exact", "nearest", "default", "best"]), max_size=4).map(",".join),
}
pairs = st.sampled_from(sorted(likely)).flatmap(
    lambda name: st.tuples(st.just(name), st.one_of(likely[name], likely[name], st.text(max_size=20)))
)
queries = st.lists(pairs, max_size=8).map(
    lambda found: "&".join(f"{name}={quote(value, errors='replace')}" for name, value in found).encode()
)


class TestFuzz:
    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        query=st.one_of(queries, queries.map(lambda query: b"shape=1,2,300,200,64&" + query), st.binary(max_size=60))
    )
    def test_no_query_gives_a_500(self, ask: Callable[..., Any], query: str) -> None:
        reply = ask(query=query)  # an exception would fly through here
        assert reply.status in (200, 404, 422)
        (AnswerBody if reply.status == 200 else ErrorBody).model_validate_json(reply.body)

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(tag=st.text(st.characters(max_codepoint=255), max_size=40))
    def test_no_header_gives_a_500(self, ask: Callable[..., Any], tag: str) -> None:
        assert ask(query=SHAPE, if_none_match=tag).status in (200, 304)
