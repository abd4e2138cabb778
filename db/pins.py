"""Pins: a person's decision that a revision of the history is served whatever wins later; each leaves a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, delete, func, select

from autotune.db.schema import best_plans, decisions, history, pins
from autotune.db.upsert import insert
from autotune.errors import InvalidInput, Overtaken

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


class Standing(NamedTuple):
    """What stands for a problem on a device and kind of target: the best plan's revision, and the pinned one."""

    best: int | None
    pinned: int | None

    @property
    def served(self) -> int | None:
        """The revision that is answered with."""
        return self.pinned if self.pinned is not None else self.best


def pin(connection: Connection, revision: int, decision: Decision, standing: Standing | None = None) -> None:
    """Serves a revision for its problem, device and target kind from now on.

    standing: what the decision rests on. Raises InvalidInput for an unknown revision, Overtaken where something else
    stands by now.
    """
    place = _place(connection, revision, standing)
    _serve(connection, revision, place, decision)


def unpin(connection: Connection, revision: int, decision: Decision, standing: Standing | None = None) -> bool:
    """Takes the pin off a revision; False where it has none. Raises as ``pin``."""
    place = _place(connection, revision, standing)
    gone = connection.execute(delete(pins).where(pins.c.revision == revision).returning(pins.c.id)).first()
    if gone is not None:
        _keep(connection, UNPIN, revision, place, decision)
    return gone is not None


def roll_back(connection: Connection, revision: int, decision: Decision) -> int:
    """Pins what was published before a revision that is served now, and returns it. Raises InvalidInput, Overtaken."""
    place = _place(connection, revision)
    served = _standing(connection, place).served
    if served != revision:
        raise Overtaken(f"revision {revision} is not what is served by now: that is revision {served}")
    query = select(func.max(history.c.revision)).where(*_at(history, place), history.c.revision < revision)
    earlier: int | None = connection.scalar(query)
    if earlier is None:
        raise InvalidInput(f"nothing was published before revision {revision}", "revision")
    _serve(connection, earlier, place, decision)
    return earlier


def _serve(connection: Connection, revision: int, place: dict[str, Any], decision: Decision) -> None:
    statement = insert(connection, pins).values(place | {"revision": revision})
    columns = [pins.c.problem_id, pins.c.device_id]
    connection.execute(statement.on_conflict_do_update(index_elements=columns, set_={"revision": revision}))
    _keep(connection, PIN, revision, place, decision)


def _place(connection: Connection, revision: int, standing: Standing | None = None) -> dict[str, Any]:
    query = select(history.c.problem_id, history.c.device_id).where(history.c.revision == revision)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise InvalidInput(
            f"there is no revision {revision}; the history of a problem lists those there are", "revision"
        )
    place = dict(row)
    if standing is not None and (now := _standing(connection, place)) != standing:
        raise Overtaken(f"something else stands by now: best {now.best}, pinned {now.pinned or 'none'}")
    return place


def _standing(connection: Connection, place: dict[str, Any]) -> Standing:
    best, pinned = (
        connection.scalar(select(table.c.revision).where(*_at(table, place))) for table in (best_plans, pins)
    )
    return Standing(best, pinned)


def _at(table: Table, place: dict[str, Any]) -> list[ColumnElement[bool]]:
    return [table.c[name] == place[name] for name in ("problem_id", "device_id")]


def _keep(connection: Connection, action: str, revision: int, place: dict[str, Any], decision: Decision) -> None:
    row = {"action": action, "revision": revision, "actor": decision.actor, "reason": decision.reason}
    connection.execute(insert(connection, decisions).values(row | place | {"at": decision.at}))
