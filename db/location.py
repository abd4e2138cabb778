"""From a text to a database's URL, and to the path of a file that SQLite may use; every refusal is a StoreError."""

from __future__ import annotations

from pathlib import Path, PurePath

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from autotune.errors import StoreError

URL_FORM = "sqlite:///FILE, for example sqlite:///plans.db, or postgresql://USER@HOST/NAME"
SQLITE, POSTGRESQL = ("sqlite", "sqlite+pysqlite"), ("postgresql", "postgresql+psycopg")
"""What a URL may begin with."""
MOUNTS = Path("/proc/mounts")

NETWORK_FILE_SYSTEMS = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "ceph", "gpfs", "beegfs", "glusterfs", "afs", "fuse.sshfs")
)
"""Where locks and shared memory do not hold between hosts; SQLite's WAL needs both (sqlite.org/wal.html)."""


def parse_url(text: str) -> URL:
    """The URL of a database. Raises StoreError; no message repeats the text, which may hold a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"the database URL cannot be read; write it as {URL_FORM}", field="db") from error
    if url.drivername in POSTGRESQL:
        if not url.database:
            raise StoreError(f"the database URL names no database; write it as {URL_FORM}", field="db")
        return url
    if url.drivername not in SQLITE:
        scheme = url.drivername[:30]
        raise StoreError(f"{scheme!r} databases are not supported; write the URL as {URL_FORM}", field="db")
    if url.host or url.username or url.port or url.query:
        raise StoreError(f"the database URL holds more than a path; write it as {URL_FORM}", field="db")
    if not url.database or url.database == ":memory:":
        raise StoreError(f"the database URL names no file; write it as {URL_FORM}", field="db")
    return url


def database_path(url: URL, create: bool) -> Path:
    """The absolute path that a URL names; the file exists already unless ``create``. Raises StoreError."""
    path = Path(url.database or "")
    try:
        path = path.resolve()
        _check(path, create)
    except StoreError:  # a ValueError too
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(f"the database path cannot be used: {error}", field="db") from error
    kind = file_system(path, MOUNTS.read_text(errors="replace") if MOUNTS.exists() else "")
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"the database {path} is on a network file system ({kind}), where SQLite can lose data; use a local path",
            field="db",
        )
    return path


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that holds an absolute ``path``; ``mounts`` is the text of /proc/mounts.

    Empty where the text does not tell.
    """
    found, kind = -1, ""
    for line in mounts.splitlines():
        _, point, name, *_ = [*line.split(" "), "", "", ""]
        parts = PurePath(point.replace("\\040", " ")).parts
        if point and path.parts[: len(parts)] == parts and len(parts) >= found:
            found, kind = len(parts), name
    return kind


def _check(path: Path, create: bool) -> None:
    if path.is_dir():
        raise StoreError(f"the database path {path} is a folder; name a file in it", field="db")
    if not path.parent.is_dir():
        raise StoreError(
            f"the database {path} cannot be opened: there is no folder {path.parent}; create it first", field="db"
        )
    if not create and not path.exists():
        raise StoreError(
            f"there is no database {path}; name another with --db, or make this one with `autotune sweep`", field="db"
        )
