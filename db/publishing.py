"""Publishing a plan: one statement decides whether it wins, and a winner goes into the history."""

from __future__ import annotations

import logging
from math import inf
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, or_, select, update

from autotune.db.queries import BESTS
from autotune.db.rows import Row, history_row, problem_row, target_kind, to_best
from autotune.db.schema import best_plans, devices, history, problems
from autotune.db.upsert import insert
from autotune.errors import StoreError
from autotune.outcome import BestPlan
from autotune.problem import AttentionProblem

log = logging.getLogger(__name__)


def publish(connection: Connection, best: BestPlan, over: int | None = None) -> bool:
    """Whether the plan won; then it is in the history too, under a new revision.

    over: a revision that loses to it whatever its time.
    """
    row = history_row(best) | place(connection, best.problem, best.device, best.target)
    _give_up_unreadable(connection, row, best)
    winner = connection.scalar(_challenge(connection, row, over))
    if winner is None:
        return False
    number = connection.scalar(insert(connection, history).values(row).returning(history.c.revision))
    connection.execute(update(best_plans).where(best_plans.c.id == winner).values(revision=number))
    return True


def place(connection: Connection, problem: AttentionProblem, device: str, target: str) -> Row:
    """The two foreign keys of whatever is of a problem on a device and kind of target; both are made where needed."""
    row = {"name": device, "target_kind": target_kind(target)}
    query = select(devices.c.id).where(devices.c.name == device, devices.c.target_kind == row["target_kind"])
    return {"problem_id": problem_id(connection, problem), "device_id": _made(connection, devices, query, row)}


def problem_id(connection: Connection, problem: AttentionProblem) -> int:
    """The problem's row, which is made where there is none."""
    query = select(problems.c.id).where(problems.c.key == problem.key)
    return _made(connection, problems, query, problem_row(problem))


def _made(connection: Connection, table: Table, query: Select[Any], row: Row) -> int:
    """The id of what a query finds, made where there is nothing: writers take turns, nobody comes between."""
    found: int | None = connection.scalar(query)
    if found is None:
        found = connection.scalars(insert(connection, table).values(row).returning(table.c.id)).one()
    return found


def _give_up_unreadable(connection: Connection, row: Row, best: BestPlan) -> None:
    """A winner that nobody can read loses to whatever comes: its time would else defend its place for ever."""
    place = (best_plans.c.problem_id == row["problem_id"], best_plans.c.device_id == row["device_id"])
    for served in connection.execute(BESTS.where(*place)).mappings().all():
        try:
            to_best(served, best.problem, best.device)
        except StoreError as error:
            log.warning("a winner was given up: %s", error)
            connection.execute(update(best_plans).where(*place).values(time_us=inf, measured_at=""))


def _challenge(connection: Connection, row: Row, over: int | None) -> Any:
    """The one statement that decides a publication: returns the row's id when ``row`` won, nothing when it lost."""
    columns = ("problem_id", "device_id", "fingerprint", "time_us", "measured_at")
    statement = insert(connection, best_plans).values({name: row[name] for name in columns})
    new, old = statement.excluded, best_plans.c
    same = new.fingerprint == old.fingerprint
    wins = or_(and_(same, new.time_us < old.time_us), and_(~same, new.measured_at >= old.measured_at))
    if over is not None:
        wins = or_(wins, old.revision == over)
    return statement.on_conflict_do_update(
        index_elements=[old.problem_id, old.device_id],
        set_={name: new[name] for name in ("fingerprint", "time_us", "measured_at")},
        where=wins,
    ).returning(old.id)
