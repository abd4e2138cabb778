"""The trials of a sweep are found by its name."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_index("ix_trials_sweep", "trials", ["sweep"])
