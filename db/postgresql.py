"""A SQLAlchemy engine for a PostgreSQL database, and its version of what SQLite is asked with every request.

Writers take turns here too: each transaction that writes holds one advisory lock until its commit. So revisions are
committed in the order in which they are counted, and whoever asks for the highest one misses none
(postgresql.org/docs/current/explicit-locking.html, advisory locks).
"""

from __future__ import annotations

from sqlalchemy import URL, Connection, Engine, bindparam, create_engine, event, select, text

from autotune.db.changes import Version
from autotune.db.engine import STAMP, WRITES, parse, reading
from autotune.db.rows import Row
from autotune.db.schema import best_plans, devices, history, problems
from autotune.errors import StoreError

WRITER_LOCK = 0x7469_6C69_6E67
"""Any number that no other program on the database takes: "tiling" in ASCII."""
CONNECT_S = 5
STATEMENT_MS = 30_000
"""What SQLite's writers wait too."""


def open_postgresql(url: URL) -> Engine:
    """An engine for the database; nothing is asked before its first connection. Raises StoreError without a driver."""
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args={
                "connect_timeout": CONNECT_S,
                "application_name": "autotune",
                "options": f"-c statement_timeout={STATEMENT_MS}",
            },
            pool_pre_ping=True,
            json_deserializer=parse,
        )
    except ImportError as error:
        raise StoreError(
            "a PostgreSQL database needs psycopg: pip install 'tiling-autotune[postgresql]'", field="db"
        ) from error
    event.listen(engine, "begin", _take_turns)
    return engine


class PostgresLookup:
    """As ``autotune.db.lookup.Lookup``, through the pool: a question costs a round trip."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        """There is nothing to let go of."""

    def version(self) -> Version:
        """Equal as long as no plan and no pin changes, whoever would change it."""
        with reading(self._engine) as connection:
            revision, decision = connection.execute(text(STAMP)).one()
            return revision, decision

    def best(self, key: str, device: str) -> list[Row]:
        """The history rows of the problem's best plans on the hardware, one for each kind of target."""
        with reading(self._engine) as connection:
            return [dict(row) for row in connection.execute(_BEST, {"key": key, "device": device}).mappings()]


_BEST = (
    select(history)
    .join(best_plans, best_plans.c.revision == history.c.revision)
    .join(problems, problems.c.id == best_plans.c.problem_id)
    .join(devices, devices.c.id == best_plans.c.device_id)
    .where(problems.c.key == bindparam("key"), devices.c.name == bindparam("device"))
)


def _take_turns(connection: Connection) -> None:
    if connection.get_execution_options().get(WRITES):
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": WRITER_LOCK})
