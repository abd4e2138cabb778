"""Keys for writing over HTTP: ``att_<prefix>_<secret>``, of which only the prefix and a hash are kept.

The secret has 256 random bits, so that a slow hash would add nothing. Instants are UTC as ISO 8601 text, which sorts.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection, RowMapping, insert, select, update

from autotune.db.pins import MAX_TEXT
from autotune.db.schema import keys
from autotune.errors import InvalidInput

SCOPES = PINS_WRITE, PLANS_WRITE, SWEEPS_WRITE = ("pins:write", "plans:write", "sweeps:write")
"""What a key may do: set and take off pins; import plans; begin and stop sweeps."""

FORM = re.compile(r"att_([0-9a-f]{8})_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True)
class Key:
    """A key without its secret."""

    prefix: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None
    revoked_at: str | None

    def is_good(self, now: str) -> bool:
        """Whether it may be used at an instant."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def add(connection: Connection, name: str, scopes: tuple[str, ...], now: str, expires_at: str | None) -> str:
    """Makes a key and returns its text, which nobody can find again. Raises InvalidInput."""
    if not name.strip() or len(name) > MAX_TEXT or not name.isprintable():
        raise InvalidInput(f"a key's name must be a line of 1 to {MAX_TEXT} characters", "name")
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise InvalidInput(f"scope {''.join(unknown[:1])[:40]!r} is none; the scopes are {', '.join(SCOPES)}", "scope")
    prefix, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    text = f"att_{prefix}_{secret}"
    row = {"prefix": prefix, "digest": _digest(text), "name": name, "scopes": ",".join(sorted(set(scopes)))}
    connection.execute(insert(keys).values(row | {"created_at": now, "expires_at": expires_at}))
    return text


def every(connection: Connection) -> list[Key]:
    """All keys, the oldest first."""
    return [_key(row) for row in connection.execute(select(keys).order_by(keys.c.id)).mappings()]


def revoke(connection: Connection, prefix: str, now: str) -> bool:
    """Ends a key; False where there is none of that prefix that was not ended before."""
    statement = update(keys).where(keys.c.prefix == prefix, keys.c.revoked_at.is_(None)).values(revoked_at=now)
    return connection.execute(statement.returning(keys.c.id)).first() is not None


def find(connection: Connection, text: str, now: str) -> Key | None:
    """The key with that text, where it may be used at an instant."""
    form = FORM.fullmatch(text)
    if form is None:
        return None
    row = connection.execute(select(keys).where(keys.c.prefix == form[1])).mappings().one_or_none()
    if row is None or not hmac.compare_digest(str(row["digest"]), _digest(text)):
        return None
    key = _key(row)
    return key if key.is_good(now) else None


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _key(row: RowMapping) -> Key:
    scopes = tuple(row["scopes"].split(","))
    return Key(row["prefix"], row["name"], scopes, row["created_at"], row["expires_at"], row["revoked_at"])
