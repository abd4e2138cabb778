"""The tables. Times are in microseconds, instants are UTC as ISO 8601 text, bodies are the JSON of a vocabulary value.

A change here needs a migration and the new SCHEMA_REVISION; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    true,
)

SCHEMA_REVISION = "0005"
"""The migration that makes these tables."""

VERSION_TABLE = "tiling_alembic_version"
"""Not Alembic's own default, which Optuna's storage uses too: the two would refuse each other's database."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""Of a row: SQLite counts in 64 bits whatever the type, and only where it is called INTEGER."""

problems = Table(
    "problems",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    Column("family", String, nullable=False, index=True),  # the key at the unit shape: equal when only shapes differ
    Column("body", JSON, nullable=False),
)

devices = Table(
    "devices",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("name", String, nullable=False),  # the hardware's, e.g. Ascend910A
    Column("target_kind", String, nullable=False),  # the target's name up to its colon, e.g. emulated
    UniqueConstraint("name", "target_kind"),
)


def _found_where() -> list[Column[int] | Column[str]]:
    """What every record of a result begins with: the problem, the device, and the target as it was."""
    return [
        Column("problem_id", NUMBER, ForeignKey("problems.id"), nullable=False),
        Column("device_id", NUMBER, ForeignKey("devices.id"), nullable=False),
        Column("target", String, nullable=False),
        Column("fingerprint", String, nullable=False),
    ]


trials = Table(
    "trials",
    metadata,
    Column("id", NUMBER, primary_key=True),
    *_found_where(),
    Column("plan_key", String, nullable=False),
    Column("plan", JSON, nullable=False),
    Column("status", String, nullable=False),
    Column("time_us", Float),
    Column("outcome", JSON, nullable=False),
    Column("sweep", String, nullable=False, index=True),
    Column("at", String, nullable=False),
    UniqueConstraint("problem_id", "device_id", "fingerprint", "plan_key"),
    CheckConstraint("(status = 'timed') = (time_us IS NOT NULL)", name="timed_has_time"),
    CheckConstraint("time_us > 0", name="time_positive"),
)

history = Table(
    "history",
    metadata,
    Column("revision", NUMBER, primary_key=True),
    *_found_where(),
    Column("plan", JSON, nullable=False),
    Column("time_us", Float, nullable=False),
    Column("timing", JSON, nullable=False),
    Column("error", Float, nullable=False),
    Column("default_time_us", Float),
    Column("trials", Integer, nullable=False),
    Column("sweep", String, nullable=False),
    Column("measured_at", String, nullable=False),
    Column("finished", Boolean, nullable=False, server_default=true()),  # 0: the sweep that published it goes on
    Index(None, "problem_id", "device_id"),
    CheckConstraint("time_us > 0", name="time_positive"),
    sqlite_autoincrement=True,
)
"""Every publication that won, in order; rows are only ever added."""

best_plans = Table(
    "best_plans",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("problem_id", NUMBER, ForeignKey("problems.id"), nullable=False),
    Column("device_id", NUMBER, ForeignKey("devices.id"), nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("time_us", Float, nullable=False),
    Column("measured_at", String, nullable=False),
    Column("revision", NUMBER, ForeignKey("history.revision")),  # empty only within the transaction that publishes
    UniqueConstraint("problem_id", "device_id"),
)
"""The present winner of each problem on each device: what decides a publication, and where in the history it stands."""

pins = Table(
    "pins",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("problem_id", NUMBER, ForeignKey("problems.id"), nullable=False),
    Column("device_id", NUMBER, ForeignKey("devices.id"), nullable=False),
    Column("revision", NUMBER, ForeignKey("history.revision"), nullable=False),
    UniqueConstraint("problem_id", "device_id"),
)
"""The revision that is served for a problem on a device because somebody said so."""

decisions = Table(
    "decisions",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("problem_id", NUMBER, ForeignKey("problems.id"), nullable=False),
    Column("device_id", NUMBER, ForeignKey("devices.id"), nullable=False),
    Column("action", String, nullable=False),
    Column("revision", NUMBER, ForeignKey("history.revision"), nullable=False),
    Column("actor", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("at", String, nullable=False),
    Index(None, "problem_id", "device_id"),
    CheckConstraint("action IN ('pin', 'unpin')", name="action_known"),
    sqlite_autoincrement=True,
)
"""Every pin that was set or taken off, in order; rows are only ever added."""

keys = Table(
    "keys",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("prefix", String, nullable=False, unique=True),
    Column("digest", String, nullable=False),
    Column("name", String, nullable=False),
    Column("scopes", String, nullable=False),
    Column("created_at", String, nullable=False),
    Column("expires_at", String),
    Column("revoked_at", String),
)
"""Who may write over HTTP: hashes, never the keys themselves."""

wanted = Table(
    "wanted",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("problem_id", NUMBER, ForeignKey("problems.id"), nullable=False),
    Column("device", String, nullable=False),
    Column("count", Integer, nullable=False),
    Column("last_at", String, nullable=False),
    UniqueConstraint("problem_id", "device"),
)
"""Questions that had no exact answer."""
