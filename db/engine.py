"""A SQLAlchemy engine for one SQLite file; and for every database, transactions and the translation of its errors.

WAL lets readers go on while one writer works. A writer begins with BEGIN IMMEDIATE: a transaction that reads first and
writes later fails at once when another commit came between, whatever the time-out (sqlite.org/isolation.html).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, IntegrityError, ProgrammingError

from autotune.errors import StoreError

WAIT_S = 30
"""How long a writer waits for others: SQLite lets them in at random, not in turn."""
PRAGMAS = (
    f"busy_timeout={WAIT_S * 1000}",
    "foreign_keys=ON",
    "journal_mode=WAL",
    "synchronous=NORMAL",  # WAL stays consistent after a power cut; only the last commits may be lost
    "journal_size_limit=67108864",  # bytes the WAL file keeps after a checkpoint
)

WRITES = "autotune_writes"
"""The execution option of a connection that is going to write."""
STAMP = "SELECT (SELECT max(revision) FROM history), (SELECT max(id) FROM decisions)"
"""What a new plan or a new pin changes."""


def open_engine(path: Path) -> Engine:
    """An engine for the file at ``path``; nothing is read or created before its first connection."""
    # Threads bound the number of connections; waiting for a pooled one would only add a second time-out.
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        max_overflow=-1,
        connect_args={"check_same_thread": False},
        json_deserializer=parse,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def watch(engine: Engine) -> sqlite3.Connection:
    """A connection that only ever asks whether others have changed the file; no SQLAlchemy, which would cost more."""
    path = quote(engine.url.database or "")
    return sqlite3.connect(f"file:{path}?mode=rw", uri=True, check_same_thread=False, isolation_level=None)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection whose every statement sees the last commit. Raises StoreError."""
    with translated(engine), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that is the file's only writer; committed at the end, undone by an exception. Raises StoreError."""
    with translated(engine), engine.execution_options(**{WRITES: True}).begin() as connection:
        yield connection


@contextmanager
def translated(engine: Engine) -> Iterator[None]:
    """Turns what the file or its system refuses into a StoreError; a mistake in our own SQL still flies."""
    try:
        yield
    except (IntegrityError, ProgrammingError):
        raise
    except sqlite3.DatabaseError as error:  # from a connection that is used without SQLAlchemy
        raise StoreError(_sentence(engine, str(error)), field="db") from error
    except DatabaseError as error:
        raise StoreError(_sentence(engine, str(error.orig)), field="db") from error


def named(engine: Engine) -> str:
    """The database in a sentence: its file, or its host and name; never a user, never a password."""
    url = engine.url
    return str(url.database) if engine.dialect.name == "sqlite" else f"{url.host or 'here'}/{url.database}"


_SENTENCES = {
    "not a database": "{path} is not a database; name another file with --db",
    "malformed": "the database {path} is damaged ({cause}); restore a copy, or name another file with --db",
    "locked": f"the database {{path}} stayed locked by another process for {WAIT_S} seconds; try again when it is done",
    "readonly": "the database {path} cannot be written; give write permission to it and its folder",
    "unable to open": "the database {path} cannot be opened or created; look at the permissions of it and its folder",
    "resolve host": "the database {path} cannot be reached ({cause}); is its name right?",
    "connection failed": "the database {path} cannot be reached ({cause}); is it running, and may you connect?",
    "permission denied": "the database {path} refuses ({cause}); ask its owner for the permission",
    "timeout": "the database {path} did not answer in time ({cause}); try again later",
}


def _sentence(engine: Engine, cause: str) -> str:
    template = next((text for sign, text in _SENTENCES.items() if sign in cause), "the database {path} failed: {cause}")
    return template.format(path=named(engine), cause=" ".join(cause.split())[:200])


def parse(text: Any) -> Any:
    """A JSON column's value; None where a damaged row holds no JSON, which the row's reader then refuses."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _prepare(connection: Any, _record: object) -> None:
    # Left to itself the driver begins transactions of its own, deferred and only before some statements.
    connection.isolation_level = None
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get(WRITES):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
