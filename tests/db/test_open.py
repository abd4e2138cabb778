"""Opening a database: what is refused, in which words, and what is left behind."""

import os
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotune.db.location as location
from autotune.db.location import database_path, file_system, parse_url
from autotune.db.store import Store
from autotune.errors import StoreError
from autotune.outcome import BestPlan

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
//nas/big /mnt/big\\040disk cifs rw 0 0
"""


def message(url: str, create: bool = True) -> str:
    with pytest.raises(StoreError) as caught:
        Store.open(url, create=create)
    assert caught.value.field == "db"
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_it_makes_the_file_and_finds_it_again(tmp_path: Path) -> None:
    Store.open(f"sqlite:///{tmp_path}/new.db").close()
    Store.open(f"sqlite:///{tmp_path}/new.db", create=False).close()


def test_a_relative_path_and_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x.db", "a b%c.db", "plänè.db", "no-suffix"):
        Store.open(f"sqlite:///{name}").close()
        assert (tmp_path / name).is_file()


def test_reading_makes_no_file(tmp_path: Path) -> None:
    text = message(f"sqlite:///{tmp_path}/absent.db", create=False)
    assert f"there is no database {tmp_path}/absent.db" in text
    assert "autotune sweep" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("", "cannot be read"),
        ("plans.db", "sqlite:///FILE"),
        ("://", "cannot be read"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite://host/plans.db", "more than a path"),
        ("sqlite:///plans.db?mode=ro", "more than a path"),
        ("sqlite+aiosqlite:///plans.db", "'sqlite+aiosqlite' databases are not supported"),
        ("mysql://localhost/plans", "'mysql' databases are not supported"),
        ("sqlite:///pl\0ans.db", "cannot be used"),
        ("sqlite:///" + "x" * 5000, "cannot be used"),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_a_url_that_is_none(url: str, part: str, create: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert part in message(url, create)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@host/plans",
        "postgresql://me:hunter2@host:notaport/plans",
        "sqlite://me:hunter2@/plans.db",
        "hunter2",
        "sqlite://hunter2@@@:/x?a=hunter2",
        "mysql:/me:hunter2@host/plans",
    ],
)
def test_no_message_repeats_a_password(url: str) -> None:
    assert "hunter2" not in message(url)


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_a_store_error(text: str) -> None:
    with suppress(StoreError):
        url = parse_url(text)
        assert url.drivername == "postgresql" or database_path(url, create=False).exists()


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert f"there is no folder {tmp_path}/a/b" in message(f"sqlite:///{tmp_path}/a/b/plans.db")


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    assert "is a folder" in message(f"sqlite:///{tmp_path}")


def test_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be" in message(f"sqlite:///{tmp_path}/file/plans.db")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux's /proc, where nobody can create a file")
def test_a_folder_where_nobody_may_write() -> None:
    assert "cannot be opened or created" in message("sqlite:////proc/self/plans.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "plans.db"
    Store.open(f"sqlite:///{path}").close()
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    assert "permission" in message(f"sqlite:///{path}")
    tmp_path.chmod(0o700)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "plans.db"
    path.write_text("these are notes, no database; " * 200)
    before = path.read_bytes()
    assert f"{path} is not a database" in message(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE studies (id INTEGER)")
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    assert "another program's database" in message(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert tables == {"studies", "alembic_version"}


def test_a_later_schema(tmp_path: Path) -> None:
    path = tmp_path / "plans.db"
    Store.open(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tiling_alembic_version SET version_num = '9999'")
    assert "9999, newer than" in message(f"sqlite:///{path}")
    assert "9999, newer than" in message(f"sqlite:///{path}", create=False)


def test_a_damaged_database(tmp_path: Path, best: BestPlan) -> None:
    path = tmp_path / "plans.db"
    store = Store.open(f"sqlite:///{path}")
    store.publish(best)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        Store.open(f"sqlite:///{path}").best(best.problem, best.device)


def test_a_database_that_vanishes_while_it_is_open(tmp_path: Path, best: BestPlan) -> None:
    path = tmp_path / "plans.db"
    store = Store.open(f"sqlite:///{path}")
    store.close()
    path.write_text("overwritten with something else " * 100)
    with pytest.raises(StoreError, match="not a database"):
        store.best(best.problem, best.device)
    with pytest.raises(StoreError, match="not a database"):
        store.schema()


def test_a_writer_that_never_ends(tmp_path: Path, best: BestPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.db.engine.PRAGMAS", ("busy_timeout=20", "journal_mode=WAL"))
    path = tmp_path / "plans.db"
    store = Store.open(f"sqlite:///{path}")
    store.publish(best)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        store.publish(best)
    assert store.best(best.problem, best.device) is not None  # a reader does not wait
    other.execute("ROLLBACK")
    other.close()
    assert not store.publish(best)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/plans.db", "ext4"),
        ("/tmp/plans.db", "tmpfs"),
        ("/tmpfiles/plans.db", "ext4"),
        ("/home/me/plans.db", "nfs4"),
        ("/home/local/plans.db", "xfs"),
        ("/mnt/big disk/plans.db", "cifs"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(location, "MOUNTS", mounts)
    assert "network file system (nfs4)" in message(f"sqlite:///{tmp_path}/plans.db")
    assert not (tmp_path / "plans.db").exists()


def test_an_up_to_date_database_opens_without_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/plans.db"
    Store.open(url).close()
    code = f"import sys; from autotune.db.store import Store; Store.open({url!r}); print('alembic' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
