"""Which families of problems a version of the store has changed for, so that nobody has to forget the others."""

from __future__ import annotations

from sqlalchemy import Connection, select, union

from autotune.db.schema import decisions, devices, history, problems

Place = tuple[str, str]
"""A family (problems that differ in nothing but their shape) and a hardware name."""
Version = tuple[int | None, int | None]
"""The highest revision of the history and the last decision; None of a database that has none."""

MOST = 200
"""Places that are told one by one."""


def since(connection: Connection, version: Version) -> frozenset[Place] | None:
    """The places with a new plan, or a decision about one, since a version; None where there are more than MOST."""
    last_revision, last_decision = (number or 0 for number in version)
    new = ((history, history.c.revision > last_revision), (decisions, decisions.c.id > last_decision))
    queries = (
        select(problems.c.family, devices.c.name)
        .join(table, table.c.problem_id == problems.c.id)
        .join(devices, devices.c.id == table.c.device_id)
        .where(later)
        for table, later in new
    )
    rows = connection.execute(union(*queries).limit(MOST + 1)).all()
    return None if len(rows) > MOST else frozenset((family, name) for family, name in rows)
