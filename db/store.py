"""The record of everything tried, and the best plan of every problem."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Engine, RowMapping, Select, select

from autotune.db import changes, keys, misses, pins, queries, sweeps
from autotune.db.changes import Place, Version
from autotune.db.engine import open_engine, reading, writing
from autotune.db.keys import Key
from autotune.db.location import database_path, parse_url
from autotune.db.lookup import Lookup
from autotune.db.pins import Decided, Decision, Standing
from autotune.db.postgresql import PostgresLookup, open_postgresql
from autotune.db.publishing import place, publish
from autotune.db.rows import (
    Listed,
    Page,
    Row,
    Wanted,
    family,
    target_kind,
    to_best,
    to_problem,
    to_trial,
    trial_row,
)
from autotune.db.schema import SCHEMA_REVISION, best_plans, decisions, devices, history, problems, trials
from autotune.db.schema import pins as pinned
from autotune.db.sweeps import Numbered, SweepSummary
from autotune.db.upgrade import revision, upgrade
from autotune.db.upsert import insert
from autotune.errors import StoreError
from autotune.outcome import MEASURED, BestPlan, Trial
from autotune.problem import AttentionProblem

log = logging.getLogger(__name__)

Value = TypeVar("Value")
RowLike = TypeVar("RowLike", RowMapping, Row)

WANTED_AT_ONCE = 50
"""Misses that are written in one transaction, so that no publisher waits for long."""


class Store:
    """Vocabulary values in, vocabulary values out; each call is one short transaction, seen at once by every process.

    ``device`` is a hardware name. ``target``, where given, narrows to results of its kind (``emulated:Ascend910A``,
    ``cann:0``: the part before the colon). May be shared by threads, not carried across a fork.
    Every method raises StoreError when the file cannot be read or written. A row that is damaged, or of a later
    version, is passed over as if it were not there; ``unreadable`` counts how often that was.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.unreadable = 0
        self._lookup = Lookup(engine) if engine.dialect.name == "sqlite" else PostgresLookup(engine)

    @classmethod
    def open(cls, url: str, create: bool = True) -> Store:
        """Opens ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME`` at the present schema, upgrading an older one.

        Makes the file, or the tables, only if ``create``.
        Raises StoreError: no such file or folder, no permission, not a database, damaged, a later schema, no server.
        """
        place = parse_url(url)
        sqlite = place.drivername.startswith("sqlite")
        engine = open_engine(database_path(place, create)) if sqlite else open_postgresql(place)
        try:
            upgrade(engine, create)
        except StoreError:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Lets go of the file; the last process to do so empties its write-ahead log."""
        self._lookup.close()
        self._engine.dispose()

    def record(self, trial: Trial) -> bool:
        """Keeps a trial; False when this plan already has one for the problem, device, target kind and fingerprint."""
        with writing(self._engine) as connection:
            row = trial_row(trial) | place(connection, trial.problem, trial.device, trial.target)
            statement = insert(connection, trials).values(row).on_conflict_do_nothing().returning(trials.c.id)
            return connection.execute(statement).first() is not None

    def trials(
        self,
        problem: AttentionProblem,
        device: str,
        target: str | None = None,
        fingerprint: str | None = None,
        skip: int = 0,
        limit: int | None = None,
    ) -> list[Trial]:
        """Trials in the order they were recorded, at most ``limit`` after the first ``skip``."""
        query = queries.of(select(trials), trials, problem, device, target).order_by(trials.c.id).offset(skip)
        if fingerprint is not None:
            query = query.where(trials.c.fingerprint == fingerprint)
        return self._read(query.limit(limit), lambda row: to_trial(row, problem, device))

    def trials_since(self, at: str) -> Iterator[Trial]:
        """Trials of every problem from a UTC instant on, in the order they were recorded; damaged ones left out."""
        return (each.trial for each in self._read(sweeps.TRIED.where(trials.c.at >= at), sweeps.numbered))

    def publish(self, best: BestPlan, over: int | None = None) -> bool:
        """Makes ``best`` the plan that is served, if it wins; then it is in the history too, under a new revision.

        It wins where there is none, over a slower one of its own fingerprint, over one of another fingerprint that was
        not measured later, and over the revision ``over``, which its publisher knows to be no better: that has lost a
        race to it, or is the same plan. The database alone decides, in one statement: no publisher undoes another's.
        """
        with writing(self._engine) as connection:
            return publish(connection, best, over)

    def publish_all(self, bests: Iterable[BestPlan], dry_run: bool = False) -> list[bool]:
        """Publishes several in one transaction, in this order; a dry run says what would win and changes nothing."""
        with writing(self._engine) as connection:
            won = [publish(connection, best) for best in bests]
            if dry_run:
                connection.rollback()
            return won

    def pin(self, revision: int, decision: Decision, standing: Standing | None = None) -> None:
        """Serves this revision for its problem, device and target kind, whatever wins.

        standing: what the decision rests on. Raises InvalidInput; Overtaken where something else stands by now.
        """
        with writing(self._engine) as connection:
            pins.pin(connection, revision, decision, standing)

    def unpin(self, revision: int, decision: Decision, standing: Standing | None = None) -> bool:
        """Takes the pin off this revision; False where it has none. Raises as ``pin``."""
        with writing(self._engine) as connection:
            return pins.unpin(connection, revision, decision, standing)

    def roll_back(self, revision: int, decision: Decision) -> int:
        """Takes back a revision that is served now: pins the one published before it, and returns that one.

        Raises InvalidInput where there is no such revision or none before it, Overtaken where another is served now.
        """
        with writing(self._engine) as connection:
            return pins.roll_back(connection, revision, decision)

    def pinned(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """The plan that is pinned for exactly this problem; a measured one outranks an emulated one."""
        query = queries.of(queries.PINNED, pinned, problem, device, target)
        return max(self._read(query, lambda row: to_best(row, problem, device)), key=rank, default=None)

    def decisions(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[Decided]:
        """Every pin that was set or taken off for this problem, oldest first."""
        query = queries.of(select(decisions), decisions, problem, device, target).order_by(decisions.c.id)
        return self._read(query, lambda row: Decided(**{name: row[name] for name in _DECIDED}))

    def best(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """The best plan of exactly this problem; a measured one outranks an emulated one."""
        found = self._readable(self._lookup.best(problem.key, device), lambda row: to_best(row, problem, device))
        return max((best for best in found if _same_kind(best.target, target)), key=rank, default=None)

    def similar(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[BestPlan]:
        """The best plans of every problem that differs from this one in nothing but its shape, in no given order."""
        others = [best for best in self.family(problem, device) if best.problem.key != problem.key]
        return [best for best in others if _same_kind(best.target, target)]

    def family(self, problem: AttentionProblem, device: str) -> list[BestPlan]:
        """The best plans of every problem that is the same but for its shape, this one included."""
        query = queries.BESTS.add_columns(problems.c.key, problems.c.body)
        query = queries.on(query.join(problems, problems.c.id == best_plans.c.problem_id), best_plans, device, None)
        query = query.where(problems.c.family == family(problem))
        return self._read(query, lambda row: to_best(row, to_problem(row["key"], row["body"]), device))

    def version(self) -> Version:
        """Equal as long as no plan and no pin changes, whoever would change it. Costs microseconds."""
        return self._lookup.version()

    def changes(self, since: Version) -> frozenset[Place] | None:
        """For which families and hardware names plans or pins changed since a version; None where for very many."""
        with reading(self._engine) as connection:
            return changes.since(connection, since)

    def pinned_places(self) -> frozenset[tuple[str, str]]:
        """The problem's key and the hardware's name of every pin."""
        query = select(problems.c.key, devices.c.name).join(pinned, pinned.c.problem_id == problems.c.id)
        query = query.join(devices, devices.c.id == pinned.c.device_id)
        with reading(self._engine) as connection:
            return frozenset((key, name) for key, name in connection.execute(query))

    def plans(self, after: int = 0, limit: int = 100, device: str | None = None, target: str | None = None) -> Page:
        """At most ``limit`` best plans in the order of their ids, from the first id above ``after``."""
        query = queries.LISTED.where(best_plans.c.id > after).order_by(best_plans.c.id).limit(limit + 1)
        with reading(self._engine) as connection:
            rows = connection.execute(queries.narrowed(query, device, target)).mappings().all()
        more = len(rows) > limit
        return Page(list(self._readable(rows[:limit], queries.listed)), rows[limit - 1]["id"] if more else None)

    def covered(self, before: int | None = None, limit: int = 100) -> Page:
        """The best plans of ``limit`` problems, the latest first; ``next`` is the ``before`` of the next page."""
        number = best_plans.c.problem_id
        query = select(number).distinct().order_by(number.desc()).limit(limit + 1)
        with reading(self._engine) as connection:
            found = connection.scalars(query if before is None else query.where(number < before)).all()
        rows = self._read(
            queries.LISTED.where(number.in_(found[:limit])).order_by(number.desc(), best_plans.c.id), queries.listed
        )
        return Page(rows, found[limit - 1] if len(found) > limit else None)

    def revision(self, number: int) -> BestPlan | None:
        """The plan that was published under that revision."""
        return next(iter(self._read(queries.PUBLISHED.where(history.c.revision == number), queries.published)), None)

    def plan(self, id: int) -> Listed | None:
        """The best plan with that id."""
        return next(iter(self._read(queries.LISTED.where(best_plans.c.id == id), queries.listed)), None)

    def problem(self, key: str) -> AttentionProblem | None:
        """The problem of that key, where anybody has swept it or asked for it."""
        query = select(problems).where(problems.c.key == key)
        return next(iter(self._read(query, lambda row: to_problem(row["key"], row["body"]))), None)

    def history(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[BestPlan]:
        """Every plan that was published for this problem and won, oldest first."""
        query = queries.of(select(history), history, problem, device, target).order_by(history.c.revision)
        return self._read(query, lambda row: to_best(row, problem, device))

    def add_key(self, name: str, scopes: tuple[str, ...], now: str, expires_at: str | None = None) -> str:
        """Makes a key for writing over HTTP and returns its text; only a hash is kept. Raises InvalidInput."""
        with writing(self._engine) as connection:
            return keys.add(connection, name, scopes, now, expires_at)

    def list_keys(self) -> list[Key]:
        """All keys, the oldest first."""
        with reading(self._engine) as connection:
            return keys.every(connection)

    def revoke_key(self, prefix: str, now: str) -> bool:
        """Ends a key; False where none of that prefix is left to end."""
        with writing(self._engine) as connection:
            return keys.revoke(connection, prefix, now)

    def key(self, text: str, now: str) -> Key | None:
        """The key with that text, where it may be used now."""
        with reading(self._engine) as connection:
            return keys.find(connection, text, now)

    def want(self, problem: AttentionProblem, device: str, at: str) -> None:
        """Counts a question that had no exact answer. at: UTC, ISO 8601. New ones are dropped at ``misses.LIMIT``."""
        self.want_all([Wanted(problem, device, 1, at)])

    def want_all(self, missed: Iterable[Wanted]) -> None:
        """The same for several."""
        waiting = list(missed)
        for start in range(0, len(waiting), WANTED_AT_ONCE):
            with writing(self._engine) as connection:
                misses.count(connection, waiting[start : start + WANTED_AT_ONCE])

    def wanted(self, limit: int = 100) -> list[Wanted]:
        """What was asked for and no sweep has found and finished a best plan of its own for, the most asked first."""
        return self._read(misses.UNANSWERED.limit(limit), misses.unanswered)

    def sweeps(self, limit: int = 100) -> list[SweepSummary]:
        """The sweeps of late in numbers, the latest first."""
        with reading(self._engine) as connection:
            return sweeps.recent(connection, limit)

    def sweep(self, name: str) -> SweepSummary | None:
        """One sweep in numbers, None where it has no trial."""
        with reading(self._engine) as connection:
            return sweeps.summed_up(connection, name)

    def sweep_trials(self, name: str, after: int = 0, limit: int | None = None) -> list[Numbered]:
        """The trials of a sweep in the order they were recorded, from the first number above ``after``."""
        query = sweeps.TRIED.where(trials.c.sweep == name, trials.c.id > after)
        return self._read(query.limit(limit), sweeps.numbered)

    def schema(self) -> str:
        """The schema revision, when the database can be read and is at this version's. Raises StoreError."""
        with reading(self._engine) as connection:
            found = revision(connection)
        if found != SCHEMA_REVISION:
            raise StoreError(
                f"the database has schema {found}, this version needs {SCHEMA_REVISION}; restart", field="db"
            )
        return found

    def _read(self, query: Select[Any], decode: Callable[[RowMapping], Value]) -> list[Value]:
        with reading(self._engine) as connection:
            rows = connection.execute(query).mappings().all()
        return list(self._readable(rows, decode))

    def _readable(self, rows: Iterable[RowLike], decode: Callable[[RowLike], Value]) -> Iterator[Value]:
        for row in rows:
            try:
                yield decode(row)
            except StoreError as error:
                self.unreadable += 1
                log.warning("a row was passed over: %s", error)


_DECIDED = ("actor", "reason", "at", "action", "revision")


def _same_kind(found: str, target: str | None) -> bool:
    return target is None or target_kind(found) == target_kind(target)


def rank(best: BestPlan) -> tuple[bool, str, int]:
    """What a plan outranks others of its problem by: measured before emulated, then the later one."""
    return best.timing.kind == MEASURED, best.measured_at, best.revision
