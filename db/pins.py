"""Pins: a person's decision that a revision of the history is served whatever wins later; each leaves a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from autotune.db.schema import decisions, history, pins
from autotune.errors import InvalidInput

PIN, UNPIN = "pin", "unpin"
MAX_TEXT = 500
"""Most characters of a reason or a name."""


@dataclass(frozen=True)
class Decision:
    """Who decided and why. actor: a user or the name of a key. at: UTC, ISO 8601. Raises InvalidInput."""

    actor: str
    reason: str
    at: str

    def __post_init__(self) -> None:
        for name in ("actor", "reason"):
            text = getattr(self, name)
            if not text.strip() or len(text) > MAX_TEXT or not text.isprintable():
                raise InvalidInput(f"{name} must be a line of 1 to {MAX_TEXT} characters", name)


@dataclass(frozen=True)
class Decided(Decision):
    """A decision as it is kept. action: PIN or UNPIN. revision: of the history."""

    action: str
    revision: int


def pin(connection: Connection, revision: int, decision: Decision) -> None:
    """Serves a revision for its problem, device and target kind from now on. Raises InvalidInput for an unknown one."""
    place = _place(connection, revision)
    statement = insert(pins).values(place | {"revision": revision})
    columns = [pins.c.problem_id, pins.c.device_id]
    connection.execute(statement.on_conflict_do_update(index_elements=columns, set_={"revision": revision}))
    _keep(connection, PIN, revision, place, decision)


def unpin(connection: Connection, revision: int, decision: Decision) -> bool:
    """Takes the pin off a revision; False where it has none. Raises InvalidInput for an unknown one."""
    place = _place(connection, revision)
    gone = connection.execute(delete(pins).where(pins.c.revision == revision).returning(pins.c.id)).first()
    if gone is not None:
        _keep(connection, UNPIN, revision, place, decision)
    return gone is not None


def _place(connection: Connection, revision: int) -> dict[str, Any]:
    query = select(history.c.problem_id, history.c.device_id).where(history.c.revision == revision)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise InvalidInput(
            f"there is no revision {revision}; the history of a problem lists those there are", "revision"
        )
    return dict(row)


def _keep(connection: Connection, action: str, revision: int, place: dict[str, Any], decision: Decision) -> None:
    row = {"action": action, "revision": revision, "actor": decision.actor, "reason": decision.reason}
    connection.execute(insert(decisions).values(row | place | {"at": decision.at}))
