"""The SELECTs that several methods of the store begin with, how they are narrowed, and what their rows become."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping, Select, Table, and_, select

from autotune.db.rows import Listed, target_kind, to_best, to_problem
from autotune.db.schema import best_plans, devices, history, pins, problems
from autotune.outcome import BestPlan
from autotune.problem import AttentionProblem

PINNED = select(history).join(pins, pins.c.revision == history.c.revision)
BESTS = select(history).join(best_plans, best_plans.c.revision == history.c.revision)
PUBLISHED = (
    select(history, problems.c.key, problems.c.body, devices.c.name)
    .join(problems, problems.c.id == history.c.problem_id)
    .join(devices, devices.c.id == history.c.device_id)
)
LISTED = (
    BESTS.add_columns(best_plans.c.id, problems.c.key, problems.c.body, devices.c.name, pins.c.revision.label("pinned"))
    .join(problems, problems.c.id == best_plans.c.problem_id)
    .join(devices, devices.c.id == best_plans.c.device_id)
    .outerjoin(pins, and_(pins.c.problem_id == problems.c.id, pins.c.device_id == devices.c.id))
)


def published(row: RowMapping) -> BestPlan:
    """A row of PUBLISHED, or of LISTED."""
    return to_best(row, to_problem(row["key"], row["body"]), row["name"])


def listed(row: RowMapping) -> Listed:
    """A row of LISTED."""
    return Listed(row["id"], published(row), row["pinned"])


def of(query: Select[Any], table: Table, problem: AttentionProblem, device: str, target: str | None) -> Select[Any]:
    """Those rows of a table that are of one problem on one device, and of the target's kind where there is one."""
    return on(of_problem(query, table, problem), table, device, target)


def of_problem(query: Select[Any], table: Table, problem: AttentionProblem) -> Select[Any]:
    """Those rows of a table that are of one problem."""
    return query.join(problems, problems.c.id == table.c.problem_id).where(problems.c.key == problem.key)


def on(query: Select[Any], table: Table, device: str, target: str | None) -> Select[Any]:
    """Those rows of a table that are of one device, and of the target's kind where there is one."""
    return narrowed(query.join(devices, devices.c.id == table.c.device_id), device, target)


def narrowed(query: Select[Any], device: str | None, target: str | None) -> Select[Any]:
    """The same for a query that has the devices already."""
    query = query if device is None else query.where(devices.c.name == device)
    return query if target is None else query.where(devices.c.target_kind == target_kind(target))
