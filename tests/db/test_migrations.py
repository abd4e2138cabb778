"""The migrations make exactly the tables that the code describes."""

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from autotune.db.engine import open_engine, reading
from autotune.db.schema import SCHEMA_REVISION, VERSION_TABLE, metadata
from autotune.db.store import Store
from autotune.db.upgrade import MIGRATIONS
from autotune.outcome import BestPlan


def definitions(path: Path) -> dict[str, list[str]]:
    """Name to words of every CREATE statement, one a line, whatever their order and how a later column was put in."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {
        name: sorted(line.strip(" \t,") for line in sql.replace("NULL, f", "NULL\nf").splitlines())
        for name, sql in rows
    }


def test_the_schema_revision_is_the_only_head() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_REVISION]


def test_no_drift_that_alembic_can_see(tmp_path: Path, url: str) -> None:
    Store.open(url).close()
    options = {"version_table": VERSION_TABLE, "compare_server_default": True}
    with reading(open_engine(tmp_path / "plans.db")) as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_no_drift_in_checks_and_names(tmp_path: Path, url: str) -> None:
    Store.open(url).close()
    metadata.create_all(create_engine(f"sqlite:///{tmp_path / 'described.db'}"))
    migrated = definitions(tmp_path / "plans.db")
    del migrated[VERSION_TABLE]
    assert migrated == definitions(tmp_path / "described.db")
    assert any("ck_trials_time_positive" in line for line in migrated["trials"])


def test_opening_again_changes_nothing(tmp_path: Path, url: str, best: BestPlan) -> None:
    store = Store.open(url)
    store.publish(best)
    store.close()
    before = definitions(tmp_path / "plans.db")
    again = Store.open(url)
    assert definitions(tmp_path / "plans.db") == before
    assert [each.plan for each in again.history(best.problem, best.device)] == [best.plan]
    again.close()


def test_an_empty_file_is_a_new_database(tmp_path: Path, url: str, best: BestPlan) -> None:
    (tmp_path / "plans.db").touch()
    assert Store.open(url).publish(best)


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = tmp_path / "migrations"
    versions.mkdir()
    (versions / "env.py").write_text((MIGRATIONS / "env.py").read_text())
    (versions / "versions").mkdir()
    (versions / "versions" / "broken.py").write_text(
        "from alembic import op\n"
        "revision, down_revision = 'x', None\n"
        "def upgrade():\n"
        "    op.execute('CREATE TABLE half_done (id INTEGER)')\n"
        "    raise KeyError('broken')\n"
    )
    monkeypatch.setattr("autotune.db.upgrade.MIGRATIONS", versions)
    with pytest.raises(KeyError):
        Store.open(url)
    assert definitions(tmp_path / "plans.db") == {}


def test_wal_and_foreign_keys_are_on(tmp_path: Path, url: str) -> None:
    Store.open(url).close()
    with reading(open_engine(tmp_path / "plans.db")) as connection:
        values = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        }
    assert values == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30000, "synchronous": 1}
