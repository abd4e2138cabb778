"""The record of everything tried, and the best plan of every problem."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, RowMapping, Select, Table, and_, exists, func, or_, select, update
from sqlalchemy.dialects.sqlite import insert

from autotune.db import keys
from autotune.db.engine import open_engine, reading, writing
from autotune.db.keys import Key
from autotune.db.location import database_path
from autotune.db.lookup import Lookup
from autotune.db.pins import Decided, Decision, pin, unpin
from autotune.db.rows import (
    Listed,
    Page,
    Row,
    Wanted,
    family,
    history_row,
    problem_row,
    target_kind,
    to_best,
    to_problem,
    to_trial,
    trial_row,
)
from autotune.db.schema import SCHEMA_REVISION, best_plans, decisions, devices, history, pins, problems, trials, wanted
from autotune.db.upgrade import revision, upgrade
from autotune.errors import StoreError
from autotune.outcome import MEASURED, BestPlan, Trial
from autotune.problem import AttentionProblem

log = logging.getLogger(__name__)

Value = TypeVar("Value")
RowLike = TypeVar("RowLike", RowMapping, Row)

WANTED_AT_ONCE = 50
WANTED_LIMIT = 10_000
"""Most problems that misses may add: anybody who can ask can miss, and the file must not grow without bound."""


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
        self._lookup = Lookup(engine)

    @classmethod
    def open(cls, url: str, create: bool = True) -> Store:
        """Opens ``sqlite:///FILE`` at the present schema, upgrading an older one; makes the file only if ``create``.

        Raises StoreError: no such file or folder, no permission, not a database, damaged, a later schema.
        """
        engine = open_engine(database_path(url, create))
        try:
            upgrade(engine)
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
            row = trial_row(trial) | _keys(connection, trial.problem, trial.device, trial.target)
            statement = insert(trials).values(row).on_conflict_do_nothing().returning(trials.c.id)
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
        query = _of(select(trials), trials, problem, device, target).order_by(trials.c.id).offset(skip)
        if fingerprint is not None:
            query = query.where(trials.c.fingerprint == fingerprint)
        return self._read(query.limit(limit), lambda row: to_trial(row, problem, device))

    def trials_since(self, at: str) -> Iterator[Trial]:
        """Trials of every problem from a UTC instant on, in the order they were recorded; damaged ones left out."""
        query = select(trials, problems.c.key, problems.c.body, devices.c.name).where(trials.c.at >= at)
        query = query.join(problems, problems.c.id == trials.c.problem_id).order_by(trials.c.id)
        query = query.join(devices, devices.c.id == trials.c.device_id)
        with reading(self._engine) as connection:
            rows = connection.execute(query).mappings().all()
        return self._readable(rows, lambda row: to_trial(row, to_problem(row["key"], row["body"]), row["name"]))

    def publish(self, best: BestPlan, over: int | None = None) -> bool:
        """Makes ``best`` the plan that is served, if it wins; then it is in the history too, under a new revision.

        It wins where there is none, over a slower one of its own fingerprint, over one of another fingerprint that was
        not measured later, and over the revision ``over``, which its publisher knows to be no better: that has lost a
        race to it, or is the same plan. The database alone decides, in one statement: no publisher undoes another's.
        """
        with writing(self._engine) as connection:
            return _publish(connection, best, over)

    def publish_all(self, bests: Iterable[BestPlan], dry_run: bool = False) -> list[bool]:
        """Publishes several in one transaction, in this order; a dry run says what would win and changes nothing."""
        with writing(self._engine) as connection:
            won = [_publish(connection, best) for best in bests]
            if dry_run:
                connection.rollback()
            return won

    def pin(self, revision: int, decision: Decision) -> None:
        """Serves this revision for its problem, device and target kind, whatever wins. Raises InvalidInput."""
        with writing(self._engine) as connection:
            pin(connection, revision, decision)

    def unpin(self, revision: int, decision: Decision) -> bool:
        """Takes the pin off this revision; False where it has none. Raises InvalidInput for an unknown revision."""
        with writing(self._engine) as connection:
            return unpin(connection, revision, decision)

    def pinned(self, problem: AttentionProblem, device: str, target: str | None = None) -> BestPlan | None:
        """The plan that is pinned for exactly this problem; a measured one outranks an emulated one."""
        query = _of(_PINNED, pins, problem, device, target)
        return max(self._read(query, lambda row: to_best(row, problem, device)), key=rank, default=None)

    def decisions(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[Decided]:
        """Every pin that was set or taken off for this problem, oldest first."""
        query = _of(select(decisions), decisions, problem, device, target).order_by(decisions.c.id)
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
        query = _BESTS.add_columns(problems.c.key, problems.c.body)
        query = _on(query.join(problems, problems.c.id == best_plans.c.problem_id), best_plans, device, None)
        query = query.where(problems.c.family == family(problem))
        return self._read(query, lambda row: to_best(row, to_problem(row["key"], row["body"]), device))

    def version(self) -> object:
        """Equal as long as no plan and no pin changes, whoever would change it. Costs microseconds."""
        return self._lookup.version()

    def pinned_places(self) -> frozenset[tuple[str, str]]:
        """The problem's key and the hardware's name of every pin."""
        query = select(problems.c.key, devices.c.name).join(pins, pins.c.problem_id == problems.c.id)
        query = query.join(devices, devices.c.id == pins.c.device_id)
        with reading(self._engine) as connection:
            return frozenset((key, name) for key, name in connection.execute(query))

    def plans(self, after: int = 0, limit: int = 100, device: str | None = None, target: str | None = None) -> Page:
        """At most ``limit`` best plans in the order of their ids, from the first id above ``after``."""
        query = _LISTED.where(best_plans.c.id > after).order_by(best_plans.c.id).limit(limit + 1)
        with reading(self._engine) as connection:
            rows = connection.execute(_narrowed(query, device, target)).mappings().all()
        more = len(rows) > limit
        return Page(list(self._readable(rows[:limit], _listed)), rows[limit - 1]["id"] if more else None)

    def covered(self, before: int | None = None, limit: int = 100) -> Page:
        """The best plans of ``limit`` problems, the latest first; ``next`` is the ``before`` of the next page."""
        number = best_plans.c.problem_id
        query = select(number).distinct().order_by(number.desc()).limit(limit + 1)
        with reading(self._engine) as connection:
            found = connection.scalars(query if before is None else query.where(number < before)).all()
        rows = self._read(_LISTED.where(number.in_(found[:limit])).order_by(number.desc(), best_plans.c.id), _listed)
        return Page(rows, found[limit - 1] if len(found) > limit else None)

    def revision(self, number: int) -> BestPlan | None:
        """The plan that was published under that revision."""
        query = select(history, problems.c.key, problems.c.body, devices.c.name)
        query = query.join(problems, problems.c.id == history.c.problem_id)
        query = query.join(devices, devices.c.id == history.c.device_id).where(history.c.revision == number)
        return next(iter(self._read(query, _whole)), None)

    def plan(self, id: int) -> Listed | None:
        """The best plan with that id."""
        return next(iter(self._read(_LISTED.where(best_plans.c.id == id), _listed)), None)

    def problem(self, key: str) -> AttentionProblem | None:
        """The problem of that key, where anybody has swept it or asked for it."""
        query = select(problems).where(problems.c.key == key)
        return next(iter(self._read(query, lambda row: to_problem(row["key"], row["body"]))), None)

    def history(self, problem: AttentionProblem, device: str, target: str | None = None) -> list[BestPlan]:
        """Every plan that was published for this problem and won, oldest first."""
        query = _of(select(history), history, problem, device, target).order_by(history.c.revision)
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
        """Counts a question that had no exact answer. at: UTC, ISO 8601. New ones are dropped at WANTED_LIMIT."""
        self.want_all([Wanted(problem, device, 1, at)])

    def want_all(self, misses: Iterable[Wanted]) -> None:
        """The same for several; a few in each transaction, so that no publisher waits for long."""
        waiting = list(misses)
        for start in range(0, len(waiting), WANTED_AT_ONCE):
            with writing(self._engine) as connection:
                room = WANTED_LIMIT - _count(connection, wanted)
                for miss in waiting[start : start + WANTED_AT_ONCE]:
                    room -= _want(connection, miss, room)

    def wanted(self, limit: int = 100) -> list[Wanted]:
        """What was asked for and no sweep has found and finished a best plan of its own for, the most asked first."""
        answered = exists().where(
            history.c.revision == best_plans.c.revision,
            history.c.finished,
            best_plans.c.problem_id == wanted.c.problem_id,
            best_plans.c.device_id == devices.c.id,
            devices.c.name == wanted.c.device,
        )
        query = select(wanted, problems.c.key, problems.c.body).join(problems, problems.c.id == wanted.c.problem_id)
        query = query.where(~answered).order_by(wanted.c.count.desc(), wanted.c.id).limit(limit)
        return self._read(query, _wanted)

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
_PINNED = select(history).join(pins, pins.c.revision == history.c.revision)
_BESTS = select(history).join(best_plans, best_plans.c.revision == history.c.revision)
_LISTED = (
    _BESTS.add_columns(
        best_plans.c.id, problems.c.key, problems.c.body, devices.c.name, pins.c.revision.label("pinned")
    )
    .join(problems, problems.c.id == best_plans.c.problem_id)
    .join(devices, devices.c.id == best_plans.c.device_id)
    .outerjoin(pins, and_(pins.c.problem_id == problems.c.id, pins.c.device_id == devices.c.id))
)


def _whole(row: RowMapping) -> BestPlan:
    return to_best(row, to_problem(row["key"], row["body"]), row["name"])


def _listed(row: RowMapping) -> Listed:
    return Listed(row["id"], _whole(row), row["pinned"])


def _wanted(row: RowMapping) -> Wanted:
    return Wanted(to_problem(row["key"], row["body"]), row["device"], row["count"], row["last_at"])


def _want(connection: Connection, miss: Wanted, room: int) -> bool:
    """Counts a miss; True where that took one of the ``room`` rows that are left."""
    known = _of_problem(select(wanted.c.id), wanted, miss.problem).where(wanted.c.device == miss.device)
    new = connection.scalar(known) is None
    if new and room <= 0:
        return False
    row = {"device": miss.device, "count": miss.count, "last_at": miss.last_at}
    row["problem_id"] = _problem_id(connection, miss.problem)
    again = {"count": wanted.c.count + miss.count, "last_at": miss.last_at}
    columns = [wanted.c.problem_id, wanted.c.device]
    connection.execute(insert(wanted).values(row).on_conflict_do_update(index_elements=columns, set_=again))
    return new


def _same_kind(found: str, target: str | None) -> bool:
    return target is None or target_kind(found) == target_kind(target)


def rank(best: BestPlan) -> tuple[bool, str, int]:
    """What a plan outranks others of its problem by: measured before emulated, then the later one."""
    return best.timing.kind == MEASURED, best.measured_at, best.revision


def _publish(connection: Connection, best: BestPlan, over: int | None = None) -> bool:
    row = history_row(best) | _keys(connection, best.problem, best.device, best.target)
    _give_up_unreadable(connection, row, best)
    winner = connection.scalar(_challenge(row, over))
    if winner is None:
        return False
    number = connection.scalar(insert(history).values(row).returning(history.c.revision))
    connection.execute(update(best_plans).where(best_plans.c.id == winner).values(revision=number))
    return True


def _give_up_unreadable(connection: Connection, row: Row, best: BestPlan) -> None:
    """A winner that nobody can read loses to whatever comes: its time would else defend its place for ever."""
    place = (best_plans.c.problem_id == row["problem_id"], best_plans.c.device_id == row["device_id"])
    for served in connection.execute(_BESTS.where(*place)).mappings().all():
        try:
            to_best(served, best.problem, best.device)
        except StoreError as error:
            log.warning("a winner was given up: %s", error)
            connection.execute(update(best_plans).where(*place).values(time_us=inf, measured_at=""))


def _challenge(row: Row, over: int | None) -> Any:
    """The one statement that decides a publication: returns the row's id when ``row`` won, nothing when it lost."""
    columns = ("problem_id", "device_id", "fingerprint", "time_us", "measured_at")
    statement = insert(best_plans).values({name: row[name] for name in columns})
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


def _keys(connection: Connection, problem: AttentionProblem, device: str, target: str) -> Row:
    row = {"name": device, "target_kind": target_kind(target)}
    connection.execute(insert(devices).values(row).on_conflict_do_nothing())
    query = select(devices.c.id).where(devices.c.name == device, devices.c.target_kind == row["target_kind"])
    return {"problem_id": _problem_id(connection, problem), "device_id": connection.scalar(query)}


def _problem_id(connection: Connection, problem: AttentionProblem) -> int:
    connection.execute(insert(problems).values(problem_row(problem)).on_conflict_do_nothing())
    number: int = connection.scalars(select(problems.c.id).where(problems.c.key == problem.key)).one()
    return number


def _count(connection: Connection, table: Table) -> int:
    count: int = connection.execute(select(func.count()).select_from(table)).scalar_one()
    return count


def _of(query: Select[Any], table: Table, problem: AttentionProblem, device: str, target: str | None) -> Select[Any]:
    return _on(_of_problem(query, table, problem), table, device, target)


def _of_problem(query: Select[Any], table: Table, problem: AttentionProblem) -> Select[Any]:
    return query.join(problems, problems.c.id == table.c.problem_id).where(problems.c.key == problem.key)


def _on(query: Select[Any], table: Table, device: str, target: str | None) -> Select[Any]:
    return _narrowed(query.join(devices, devices.c.id == table.c.device_id), device, target)


def _narrowed(query: Select[Any], device: str | None, target: str | None) -> Select[Any]:
    query = query if device is None else query.where(devices.c.name == device)
    return query if target is None else query.where(devices.c.target_kind == target_kind(target))
