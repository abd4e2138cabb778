"""Brings a database to the present schema, and tells one that is not ours or comes from a later version."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, String, column, inspect, select, table

from autotune.db.engine import named, reading, writing
from autotune.db.schema import SCHEMA_REVISION, VERSION_TABLE
from autotune.errors import StoreError

if TYPE_CHECKING:
    from alembic.config import Config

log = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(engine: Engine, create: bool = True) -> None:
    """Runs the migrations that the database lacks, all in one transaction; none when it is at the head.

    A copy of a SQLite file as it was stays beside it, as ``plans.db.schema-0001-<nanoseconds>.backup``; of a PostgreSQL
    database the operator has copies. Raises StoreError for a database with foreign tables, a schema that this version
    does not know, or without tables unless ``create``.
    """
    with reading(engine) as connection:
        found = revision(connection)
        if found == SCHEMA_REVISION:
            return
        if found is None and not create:
            raise StoreError(
                f"there are no plans in the database {named(engine)}; name another with --db, or fill this one with "
                "`autotune sweep`",
                field="db",
            )
        if found is not None:
            _refuse_newer(connection, found)
            log.warning("the database %s is brought from schema %s to %s", named(engine), found, SCHEMA_REVISION)
        if found is not None and engine.dialect.name == "sqlite":
            copy = f"{engine.url.database}.schema-{found}-{time.time_ns()}.backup"
            connection.exec_driver_sql("VACUUM INTO ?", (copy,))
            log.warning("what it was is kept as %s", copy)
    with writing(engine) as connection:
        _migrate(connection)


def revision(connection: Connection) -> str | None:
    """The database's migration; None in an empty one. Raises StoreError where the tables are not ours."""
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE in tables:
        return connection.scalars(select(column("version_num", String)).select_from(table(VERSION_TABLE))).one_or_none()
    if tables:
        raise StoreError(
            f"{named(connection.engine)} is another program's database (it holds the table {tables[0]!r}); "
            "name another with --db",
            field="db",
        )
    return None


def _migrate(connection: Connection) -> None:
    # Imported only here: Alembic costs a third of a second that no answer from an up-to-date database should wait for.
    from alembic import command

    found = revision(connection)
    if found is not None:
        _refuse_newer(connection, found)  # another process may have been here since
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _refuse_newer(connection: Connection, found: str) -> None:
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found not in known:
        raise StoreError(
            f"the database {named(connection.engine)} has schema {found}, newer than the {SCHEMA_REVISION} "
            "of this version; upgrade autotune",
            field="db",
        )
