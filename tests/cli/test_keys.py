"""``autotune keys``, and what ``serve`` refuses without one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.server import names
from autotune.db.store import Store

Run = Callable[..., Any]


def test_a_key_from_making_to_its_end(run: Run, folder: Path) -> None:
    text = run("keys", "add", "night", "--scope", "pins:write", "--days", "90").out.strip()
    store = Store.open("sqlite:///autotune.db")
    found = store.key(text, "2026-12-01T00:00:00Z")
    assert found is not None
    assert found.scopes == ("pins:write",)
    listed = run("keys", "list").out
    assert text not in listed
    assert found.prefix in listed
    assert json.loads(run("keys", "list", "--json").out)["keys"][0]["name"] == "night"
    assert run("keys", "revoke", found.prefix).code == 0
    assert run("keys", "revoke", found.prefix).code == 3
    assert "revoked" in run("keys", "list").out
    assert store.key(text, "2026-12-01T00:00:00Z") is None
    store.close()


@pytest.mark.parametrize("arguments", [("add", ""), ("add", "a", "--scope", "all"), ("add", "a", "--days", "0"), ()])
def test_refusals(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("keys", *arguments).code == 2


def test_an_open_address_needs_a_key(run: Run) -> None:
    ran = run("serve", "--host", "0.0.0.0", "--port", "0")
    assert ran.code == 2
    ran = run("serve", "--host", "0.0.0.0", "--port", "18329")
    assert ran.code == 2
    assert "autotune keys add NAME" in ran.err
    assert ran.err.count("\n") == 1


def test_which_addresses_are_this_machine_alone() -> None:
    assert names("127.0.0.1") is not None
    assert "127.0.0.9" in (names("127.0.0.9") or ())
    assert names("::1") is not None
    assert names("localhost") is not None
    for host in ("0.0.0.0", "::", "192.168.0.1", "tuner", ""):
        assert names(host) is None
