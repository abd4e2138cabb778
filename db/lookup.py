"""The two questions that come with every request: has the file changed, and what is best for a problem.

They are put to SQLite itself. SQLAlchemy writes the text of the statement, once; to run it there takes a tenth of what
it takes through a pool, a transaction and a result of its.
"""

from __future__ import annotations

import sqlite3
from threading import Lock
from typing import Any

from sqlalchemy import JSON, Engine, bindparam, select
from sqlalchemy.dialects import sqlite

from autotune.db.changes import Version
from autotune.db.engine import STAMP, parse, translated, watch
from autotune.db.rows import Row
from autotune.db.schema import best_plans, devices, history, problems


class Lookup:
    """One connection that only reads, outside any transaction, so that it sees every commit at once.

    May be shared by threads, which take turns. Every method raises StoreError when the file cannot be read.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._changes: object = None
        self._stamp: Version = (None, None)

    def close(self) -> None:
        """Lets go of the file; the next question opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._changes = None, None

    def version(self) -> Version:
        """Equal as long as no plan and no pin changes, whoever would change it."""
        with translated(self._engine), self._lock:
            connection = self._open()
            (changes,) = connection.execute("PRAGMA data_version").fetchone()
            if changes != self._changes:
                self._changes, self._stamp = changes, connection.execute(STAMP).fetchone()
            return self._stamp

    def best(self, key: str, device: str) -> list[Row]:
        """The history rows of the problem's best plans on the hardware, one for each kind of target."""
        with translated(self._engine), self._lock:
            found = self._open().execute(_BEST, {"key": key, "device": device}).fetchall()
        return [
            {name: parse(value) if name in _JSON else value for name, value in zip(_COLUMNS, row, strict=True)}
            for row in found
        ]

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = watch(self._engine)
        return self._connection


def _text(statement: Any) -> str:
    return str(statement.compile(dialect=sqlite.dialect(paramstyle="named")))


_BEST = _text(
    select(history)
    .join(best_plans, best_plans.c.revision == history.c.revision)
    .join(problems, problems.c.id == best_plans.c.problem_id)
    .join(devices, devices.c.id == best_plans.c.device_id)
    .where(problems.c.key == bindparam("key"), devices.c.name == bindparam("device"))
)
_COLUMNS = tuple(column.name for column in history.columns)
_JSON = frozenset(column.name for column in history.columns if isinstance(column.type, JSON))
