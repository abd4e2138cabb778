"""Pins, and the decisions of people about them."""

import sqlalchemy as sa
from alembic import op

from autotune.db.schema import NUMBER

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "pins",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("problem_id", NUMBER, nullable=False),
        sa.Column("device_id", NUMBER, nullable=False),
        sa.Column("revision", NUMBER, nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_pins_device_id"),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_pins_problem_id"),
        sa.ForeignKeyConstraint(["revision"], ["history.revision"], name="fk_pins_revision"),
        sa.PrimaryKeyConstraint("id", name="pk_pins"),
        sa.UniqueConstraint("problem_id", "device_id", name="uq_pins_problem_id_device_id"),
    )
    op.create_table(
        "decisions",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("problem_id", NUMBER, nullable=False),
        sa.Column("device_id", NUMBER, nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("revision", NUMBER, nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.CheckConstraint("action IN ('pin', 'unpin')", name="action_known"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_decisions_device_id"),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_decisions_problem_id"),
        sa.ForeignKeyConstraint(["revision"], ["history.revision"], name="fk_decisions_revision"),
        sa.PrimaryKeyConstraint("id", name="pk_decisions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_decisions_problem_id_device_id", "decisions", ["problem_id", "device_id"])
