"""Keys: kept as a hash, good until they end."""

import sqlite3
from pathlib import Path

import pytest

from autotune.db.store import Store
from autotune.errors import InvalidInput

MADE, LATER, END = "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z", "2026-12-03T00:00:00Z"


@pytest.fixture
def store(any_url: str) -> Store:
    return Store.open(any_url)


def test_a_key_is_good_until_it_expires(store: Store) -> None:
    text = store.add_key("night", ("pins:write",), MADE, END)
    found = store.key(text, LATER)
    assert found is not None
    assert (found.name, found.scopes, found.expires_at) == ("night", ("pins:write",), END)
    assert store.key(text, END) is None
    assert store.list_keys() == [found]


def test_a_key_is_good_until_it_is_revoked(store: Store) -> None:
    text, other = (store.add_key(name, ("plans:write",), MADE) for name in ("a", "b"))
    prefix = text.split("_")[1]
    assert store.revoke_key(prefix, LATER)
    assert not store.revoke_key(prefix, LATER)
    assert store.key(text, LATER) is None
    assert store.key(other, LATER) is not None
    assert [key.revoked_at for key in store.list_keys()] == [LATER, None]


def test_no_secret_is_in_the_file(url: str, tmp_path: Path) -> None:
    store = Store.open(url)
    text = store.add_key("night", ("pins:write",), MADE)
    store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert text.split("_", 2)[1].encode() in content
    assert text.split("_", 2)[2].encode() not in content


def test_what_is_no_key(store: Store) -> None:
    text = store.add_key("night", ("pins:write",), MADE)
    last = "B" if text.endswith("A") else "A"
    for wrong in ("", "att_", text[:-1], text + "A", text[:-1] + last, text.upper(), "' OR 1=1 --", text + "\n", "é"):
        assert store.key(wrong, LATER) is None


@pytest.mark.parametrize(
    ("name", "scopes"), [("", ("pins:write",)), ("a\nb", ("pins:write",)), ("a", ()), ("a", ("admin",))]
)
def test_what_cannot_be_made(store: Store, name: str, scopes: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        store.add_key(name, scopes, MADE)
    assert store.list_keys() == []


def test_a_changed_digest_opens_nothing(url: str, tmp_path: Path) -> None:
    store = Store.open(url)
    text = store.add_key("night", ("pins:write",), MADE)
    with sqlite3.connect(tmp_path / "plans.db") as connection:
        connection.execute("UPDATE keys SET digest = x'00'")
    connection.close()
    assert store.key(text, LATER) is None
