"""Brings a database to the present schema, and tells one that is not ours or comes from a later version."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, String, column, inspect, select, table

from autotune.db.engine import reading, writing
from autotune.db.schema import SCHEMA_REVISION, VERSION_TABLE
from autotune.errors import StoreError

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(engine: Engine) -> None:
    """Runs the migrations that the database lacks, all in one transaction; none when it is at the head.

    Raises StoreError for a database with foreign tables or a schema that this version does not know.
    """
    with reading(engine) as connection:
        if revision(connection) == SCHEMA_REVISION:
            return
    with writing(engine) as connection:
        _migrate(connection)


def revision(connection: Connection) -> str | None:
    """The database's migration; None in an empty one. Raises StoreError where the tables are not ours."""
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE in tables:
        return connection.scalars(select(column("version_num", String)).select_from(table(VERSION_TABLE))).one_or_none()
    if tables:
        raise StoreError(
            f"{connection.engine.url.database} is another program's database (it holds the table {tables[0]!r}); "
            "name another file with --db",
            field="db",
        )
    return None


def _migrate(connection: Connection) -> None:
    # Imported only here: Alembic costs a third of a second that no answer from an up-to-date database should wait for.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    found = revision(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise StoreError(
            f"the database {connection.engine.url.database} has schema {found}, newer than the {SCHEMA_REVISION} "
            "of this version; upgrade autotune",
            field="db",
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
