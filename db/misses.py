"""Questions that had no exact answer: counted, and listed while they still have none."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, RowMapping, exists, func, select

from autotune.db.publishing import problem_id
from autotune.db.queries import of_problem
from autotune.db.rows import Wanted, to_problem
from autotune.db.schema import best_plans, devices, history, problems, wanted
from autotune.db.upsert import insert

LIMIT = 10_000
"""Most problems that misses may add: anybody who can ask can miss, and the file must not grow without bound."""

_ANSWERED = exists().where(
    history.c.revision == best_plans.c.revision,
    history.c.finished,
    best_plans.c.problem_id == wanted.c.problem_id,
    best_plans.c.device_id == devices.c.id,
    devices.c.name == wanted.c.device,
)
UNANSWERED = (
    select(wanted, problems.c.key, problems.c.body)
    .join(problems, problems.c.id == wanted.c.problem_id)
    .where(~_ANSWERED)
    .order_by(wanted.c.count.desc(), wanted.c.id)
)
"""The most asked first."""


def count(connection: Connection, misses: Iterable[Wanted]) -> None:
    """Adds misses to those that are there; new problems are dropped at LIMIT."""
    room = LIMIT - connection.execute(select(func.count()).select_from(wanted)).scalar_one()
    for miss in misses:
        room -= _count(connection, miss, room)


def unanswered(row: RowMapping) -> Wanted:
    """A row of UNANSWERED."""
    return Wanted(to_problem(row["key"], row["body"]), row["device"], row["count"], row["last_at"])


def _count(connection: Connection, miss: Wanted, room: int) -> bool:
    """Counts a miss; True where that took one of the ``room`` rows that are left."""
    known = of_problem(select(wanted.c.id), wanted, miss.problem).where(wanted.c.device == miss.device)
    new = connection.scalar(known) is None
    if new and room <= 0:
        return False
    row = {"device": miss.device, "count": miss.count, "last_at": miss.last_at}
    row["problem_id"] = problem_id(connection, miss.problem)
    again = {"count": wanted.c.count + miss.count, "last_at": miss.last_at}
    columns = [wanted.c.problem_id, wanted.c.device]
    connection.execute(insert(connection, wanted).values(row).on_conflict_do_update(index_elements=columns, set_=again))
    return new
