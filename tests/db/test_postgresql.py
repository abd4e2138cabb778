"""What is different on PostgreSQL: how it is reached, how its tables are made, and who goes first."""

import builtins
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import insert, make_url, text

from autotune.db.engine import reading, writing
from autotune.db.postgresql import open_postgresql
from autotune.db.rows import history_row, problem_row
from autotune.db.schema import SCHEMA_REVISION, VERSION_TABLE, best_plans, devices, history, metadata, problems
from autotune.db.store import Store
from autotune.db.upgrade import MIGRATIONS
from autotune.errors import StoreError
from autotune.outcome import BestPlan


@pytest.fixture
def empty(postgresql: Any) -> Iterator[str]:
    """A database without a table."""
    with postgresql.database() as url:
        yield url


def message(url: str, create: bool = True) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(url, create)
    assert caught.value.field == "db"
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_migrations_make_the_tables_that_are_described(empty: str) -> None:
    Store.open(empty).close()
    with reading(open_postgresql(make_url(empty))) as connection:
        options = {"version_table": VERSION_TABLE, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        checks = connection.execute(text("SELECT conname FROM pg_constraint WHERE contype = 'c'")).scalars().all()
    assert {"ck_trials_time_positive", "ck_trials_timed_has_time", "ck_decisions_action_known"} <= set(checks)


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004"])
def test_data_of_every_earlier_schema_is_kept(empty: str, best: BestPlan, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = open_postgresql(make_url(empty))
    with writing(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        row = {name: value for name, value in history_row(best).items() if name != "finished"}
        place = {"problem_id": 1, "device_id": 1}
        connection.execute(insert(problems).values(id=1, **problem_row(best.problem)))
        connection.execute(insert(devices).values(id=1, name=best.device, target_kind="emulated"))
        connection.execute(insert(history).values(revision=1, **place, **row))
        won = {name: row[name] for name in ("fingerprint", "time_us", "measured_at")}
        connection.execute(insert(best_plans).values(revision=1, **place, **won))
    engine.dispose()
    store = Store.open(empty)
    assert [each.plan for each in store.history(best.problem, best.device)] == [best.plan]
    assert store.schema() == SCHEMA_REVISION
    store.close()


def test_reading_makes_no_table(empty: str) -> None:
    assert "there are no plans in the database" in message(empty, create=False)
    with reading(open_postgresql(make_url(empty))) as connection:
        assert connection.dialect.has_table(connection, "problems") is False


def test_what_is_not_ours_is_left_alone(empty: str) -> None:
    engine = open_postgresql(make_url(empty))
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE strangers (id integer)"))
    assert "another program's database" in message(empty)
    with writing(engine) as connection:
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num varchar)"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ('9999')"))
    assert "newer than" in message(empty)


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("postgresql://me:hunter2@127.0.0.1:1/plans", "cannot be reached"),
        ("postgresql://me:hunter2@no.such.host.invalid/plans", "cannot be reached"),
        ("postgresql:///", "names no database"),
        ("postgresql://me:hunter2@host", "names no database"),
    ],
)
def test_a_server_that_is_not_there(url: str, part: str) -> None:
    said = message(url)
    assert part in said
    assert "hunter2" not in said


def test_a_database_that_is_not_there(empty: str) -> None:
    assert "cannot be reached" in message(make_url(empty).set(database="nowhere").render_as_string(False))


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "psycopg":
            raise ImportError(name)
        return found(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'tiling-autotune[postgresql]'" in message("postgresql://me@127.0.0.1:1/plans")


def test_revisions_are_committed_in_their_order(empty: str, best: BestPlan, at_time: Callable[..., BestPlan]) -> None:
    """A writer who holds a revision back holds back those who come after: the highest is always the last committed."""
    store = Store.open(empty)
    done = threading.Event()

    def publish() -> None:
        store.publish(at_time(best, 10.0))
        done.set()

    other = threading.Thread(target=publish)
    with writing(open_postgresql(make_url(empty))) as connection:
        connection.execute(text("SELECT nextval('history_revision_seq')"))
        other.start()
        assert not done.wait(0.3)
    other.join(30)
    assert store.version() == (2, None)
    store.close()


def test_a_lost_connection_is_made_again(empty: str, best: BestPlan) -> None:
    store = Store.open(empty)
    store.publish(best)
    with writing(open_postgresql(make_url(empty))) as connection:
        query = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = :name"
        )
        connection.execute(text(query), {"name": make_url(empty).database})
    assert store.best(best.problem, best.device) is not None
    store.close()
