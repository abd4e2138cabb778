"""Sweeps as their trials show them: which there were of late, and what each has tried."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, RowMapping, func, select

from autotune.db.rows import to_problem, to_trial
from autotune.db.schema import devices, problems, trials
from autotune.outcome import Trial

LATELY = 20_000
"""Trials back to which sweeps are looked for: the list of them must not cost more as the database grows."""

TRIED = (
    select(trials, problems.c.key, problems.c.body, devices.c.name)
    .join(problems, problems.c.id == trials.c.problem_id)
    .join(devices, devices.c.id == trials.c.device_id)
    .order_by(trials.c.id)
)


@dataclass(frozen=True)
class SweepSummary:
    """A sweep in numbers. statuses: trials that were timed, rejected and failed. first_at, last_at: UTC."""

    name: str
    target: str
    problems: int
    statuses: dict[str, int]
    first_at: str
    last_at: str


@dataclass(frozen=True)
class Numbered:
    """A trial with its place in the record, which only grows."""

    id: int
    trial: Trial


def recent(connection: Connection, limit: int) -> list[SweepSummary]:
    """The sweeps of the last LATELY trials, the latest first."""
    newest = connection.scalar(select(func.max(trials.c.id))) or 0
    names = select(trials.c.sweep).where(trials.c.id > newest - LATELY).group_by(trials.c.sweep)
    found = connection.scalars(names.order_by(func.max(trials.c.id).desc()).limit(limit)).all()
    return [summary for name in found if (summary := summed_up(connection, name)) is not None]


def summed_up(connection: Connection, name: str) -> SweepSummary | None:
    """One sweep in numbers, None where it has no trial."""
    of_it = trials.c.sweep == name
    counts = select(trials.c.status, func.count().label("trials")).where(of_it).group_by(trials.c.status)
    whole = select(
        func.max(trials.c.target),
        func.count(trials.c.problem_id.distinct()),
        func.min(trials.c.at),
        func.max(trials.c.at),
    ).where(of_it)
    target, number, first_at, last_at = connection.execute(whole).one()
    if target is None:
        return None
    statuses = {row.status: row.trials for row in connection.execute(counts)}
    return SweepSummary(name, target, number, statuses, first_at, last_at)


def numbered(row: RowMapping) -> Numbered:
    """A row of TRIED. Raises StoreError when it is damaged, or of a later version."""
    return Numbered(row["id"], to_trial(row, to_problem(row["key"], row["body"]), row["name"]))
