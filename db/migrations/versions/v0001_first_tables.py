"""The first tables: problems, devices, trials, history, best plans, wanted."""

import sqlalchemy as sa
from alembic import op

from autotune.db.schema import NUMBER

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "devices",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("target_kind", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
        sa.UniqueConstraint("name", "target_kind", name="uq_devices_name_target_kind"),
    )
    op.create_table(
        "problems",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("family", sa.String(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_problems"),
        sa.UniqueConstraint("key", name="uq_problems_key"),
    )
    op.create_index("ix_problems_family", "problems", ["family"])
    op.create_table(
        "history",
        sa.Column("revision", NUMBER, nullable=False),
        sa.Column("problem_id", NUMBER, nullable=False),
        sa.Column("device_id", NUMBER, nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("time_us", sa.Float(), nullable=False),
        sa.Column("timing", sa.JSON(), nullable=False),
        sa.Column("error", sa.Float(), nullable=False),
        sa.Column("default_time_us", sa.Float(), nullable=True),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("sweep", sa.String(), nullable=False),
        sa.Column("measured_at", sa.String(), nullable=False),
        sa.CheckConstraint("time_us > 0", name="time_positive"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_history_device_id"),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_history_problem_id"),
        sa.PrimaryKeyConstraint("revision", name="pk_history"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_history_problem_id_device_id", "history", ["problem_id", "device_id"])
    op.create_table(
        "trials",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("problem_id", NUMBER, nullable=False),
        sa.Column("device_id", NUMBER, nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("plan_key", sa.String(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("time_us", sa.Float(), nullable=True),
        sa.Column("outcome", sa.JSON(), nullable=False),
        sa.Column("sweep", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.CheckConstraint("(status = 'timed') = (time_us IS NOT NULL)", name="timed_has_time"),
        sa.CheckConstraint("time_us > 0", name="time_positive"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_trials_device_id"),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_trials_problem_id"),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint(
            "problem_id",
            "device_id",
            "fingerprint",
            "plan_key",
            name="uq_trials_problem_id_device_id_fingerprint_plan_key",
        ),
    )
    op.create_table(
        "wanted",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("problem_id", NUMBER, nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_wanted_problem_id"),
        sa.PrimaryKeyConstraint("id", name="pk_wanted"),
        sa.UniqueConstraint("problem_id", "device", name="uq_wanted_problem_id_device"),
    )
    op.create_table(
        "best_plans",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("problem_id", NUMBER, nullable=False),
        sa.Column("device_id", NUMBER, nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("time_us", sa.Float(), nullable=False),
        sa.Column("measured_at", sa.String(), nullable=False),
        sa.Column("revision", NUMBER, nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_best_plans_device_id"),
        sa.ForeignKeyConstraint(["problem_id"], ["problems.id"], name="fk_best_plans_problem_id"),
        sa.ForeignKeyConstraint(["revision"], ["history.revision"], name="fk_best_plans_revision"),
        sa.PrimaryKeyConstraint("id", name="pk_best_plans"),
        sa.UniqueConstraint("problem_id", "device_id", name="uq_best_plans_problem_id_device_id"),
    )
