"""Hostile input: requests made from the API's own description, and a corpus of what clients have sent to others.

None gives a 500, and no answer is one that the description does not have. ``pytest --hypothesis-profile=explore`` makes
a thousand requests of each operation instead of twenty.
"""

import gzip
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from autotune.db.store import Store
from autotune.outcome import BestPlan
from autotune.service import bundle
from autotune.service.app import create_app
from autotune.service.bodies import ErrorBody
from autotune.service.device import Device

Ask = Callable[..., Any]
NOW = "2026-12-01T00:00:00Z"
SCOPES = ("pins:write", "plans:write", "sweeps:write")
CASES = 20 if settings.get_current_profile_name() == "repeatable" else 1000
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def test_requests_made_from_the_description(store: Store, best: BestPlan, device: Device) -> None:
    """Of every operation, right ones and wrong ones, with a key that may do everything."""
    store.publish(best)
    app = create_app(store, {"Ascend910A": device})
    headers = {"Authorization": "Bearer " + store.add_key("hostile", SCOPES, NOW)}
    described = schemathesis.openapi.from_asgi("/openapi.json", app)
    made = 0

    def ask(case: Any) -> None:
        nonlocal made
        made += 1
        case.call_and_validate(checks=CHECKS, headers=headers)

    for found in described.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        cases = [operation.as_strategy(mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
        run = given(case=st.one_of(*cases))(ask)
        settings(max_examples=CASES, suppress_health_check=list(HealthCheck), database=None)(run)()
    assert made >= 300


TEXTS = [
    "", " ", "\0", "'", "' OR 1=1 --", "1; DROP TABLE history", "%", "_", "../../etc/passwd", "..%2f..%2fetc%2fpasswd",
    "\\\\host\\share", "/etc/passwd", "\ufeff1,1,64,64", "\ud800", "\u202e", "\u0661\u0662", "1_0", "1e9", "0x10", "-0",
    "+1", "NaN", "Infinity", "null", "true", "[]", "{}", "9" * 400, "a" * 5000, "\r\nSet-Cookie: a=b", "${jndi:ldap://x}",
    "{{7*7}}", "<script>alert(1)</script>", "__class__", "flash_attention;1,1,1,1,1",
]  # fmt: skip
"""Texts that have been somebody's bug."""

BODIES = [
    b"", b" ", b"null", b"[]", b"{}", b"1", b'"x"', b"NaN", b"Infinity", b"-Infinity", b"1e999", b"{", b"[" * 50_000,
    b'{"a":' * 20_000, b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"\x00", b"\x80", b"\xed\xa0\x80",
    gzip.compress(b"0" * 10_000_000), b'{"items": [], "items": [1]}', b'{"items": [{"shape": [1e400]}]}',
    b'{"revision": 1, "revision": 2, "reason": "x"}', b'{"revision": 1e3, "reason": "x"}',
    b'{"revision": true, "reason": "x"}', b'{"revision": 1, "reason": "\\ud800"}',
    b'{"revision": 1, "reason": "\\u0000"}',
    b'{"items": [{"shape": [' + b"9" * 5000 + b"]}]}", b'{"answers": [], "format": 1, "revision": "x"}',
    b'{"answers": [{}], "format": 1}', b'{"answers": {}, "format": 1}', b'{"shapes": [[1, 1, 1e400, 64]]}',
    b'{"items": [' + b"{}," * 300 + b"{}]}", b"shape=1,1,64,64",
]  # fmt: skip
"""Bodies likewise: wrong encodings, bombs, names that are there twice, numbers that are none, deep nesting."""


@pytest.fixture
def store(any_url: str) -> Iterator[Store]:
    store = Store.open(any_url)
    yield store
    store.close()


@pytest.fixture
def refused(ask: Ask, store: Store, best: BestPlan) -> Iterator[Callable[..., None]]:
    """Sends a request with a key that may do everything; it has to be refused like any other, and to change nothing."""
    store.publish(best)
    before = bundle.dump(store)
    headers = {"authorization": "Bearer " + store.add_key("hostile", SCOPES, NOW)}

    def send(path: str, query: str = "", method: str = "GET", body: bytes = b"", **more: str) -> None:
        reply = ask(path, query, method, body, **{**headers, **more})
        if path == "/best/batch" and reply.status == 200:  # each question of a batch is refused by itself
            assert all(400 <= item["status"] < 500 for item in reply.json()["items"])
            return
        assert 400 <= reply.status < 500 or reply.status == 503, (path, query, body[:80], reply.status)
        if reply.headers["content-type"] == "application/problem+json":
            assert ErrorBody.model_validate_json(reply.body).status == reply.status
        else:
            assert b"<script>" not in reply.body

    yield send
    assert bundle.dump(store) == before
    assert store.plans().listed[0].pinned is None


def test_odd_text_in_every_parameter(refused: Callable[..., None]) -> None:
    names = ("shape", "op", "device", "dtype", "attn_mask", "dropout", "window", "block_window", "allow")
    elsewhere = (
        ("/plans", "cursor"), ("/plans", "limit"), ("/plans", "device"), ("/wanted", "limit"), ("/export", "device"),
        ("/plans/1/history", "device"), ("/plans/1/trials", "cursor"), ("/sweeps", "limit"), ("/compare", "left"),
        ("/", "before"),
    )  # fmt: skip
    for text in filter(None, TEXTS):  # a form sends empty fields, which say nothing
        value = quote(text, safe="", errors="surrogatepass")
        for number, name in enumerate((*names, value)):
            refused(("/best", "/problem", "/explain")[number % 3], f"shape=1,2,64,64,16&device=nowhere&{name}={value}")
        for path, name in elsewhere:
            if not (name in ("limit", "left", "before") and text in ("+1", "1_0")):  # Pydantic reads 1 and 10
                refused(path, f"{name}={value}")
        refused("/pins/1", f"revision=1&reason={value}&by={value}", "DELETE")


def test_odd_text_in_every_path(refused: Callable[..., None]) -> None:
    body, kind = b'{"revision": 1, "reason": "x"}', "application/json"
    for text in (text.encode("utf-8", "replace").decode() for text in TEXTS if text.strip("./%")):
        for path in ("/plans/{}", "/plans/{}/history", "/plans/{}/trials", "/sweeps/{}", "/sweeps/{}/events", "/{}"):
            refused(path.format(text + "?"))
        for method, path in (
            ("PUT", "/pins/{}"), ("DELETE", "/pins/{}"), ("POST", "/plans/{}/rollback"), ("DELETE", "/sweeps/{}"),
        ):  # fmt: skip
            refused(path.format(text + "?"), "", method, body, content_type=kind)


def test_odd_bodies(refused: Callable[..., None]) -> None:
    kinds = ("application/json", "text/plain", "application/json; charset=utf-16", "")
    for number, body in enumerate(BODIES):
        for k, (method, path) in enumerate((
            ("POST", "/best/batch"), ("POST", "/import"), ("PUT", "/pins/7"), ("POST", "/plans/7/rollback"),
            ("POST", "/sweeps"),
        )):  # fmt: skip
            query = "dry_run=false" if path == "/import" else ""
            refused(path, query, method, body, content_type=kinds[0], content_encoding="gzip")
            refused(path, query, method, body, content_type=kinds[(number + k) % len(kinds)])


def test_odd_text_in_every_header(ask: Ask, refused: Callable[..., None]) -> None:
    body, kind = b'{"revision": 1, "reason": "x"}', "application/json"
    for value in (text.encode("latin-1", "replace").decode("latin-1") for text in TEXTS):
        for name in ("authorization", "if_match"):
            refused("/pins/1", "", "PUT", body, **{"content_type": kind, name: value})
        refused("/sweeps/none/events", last_event_id=value)
        assert ask(query="shape=1,2,64,64,16", if_none_match=value, host=value).status == 200
