"""Whether a sweep had finished with a problem when it published a plan of it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("history", sa.Column("finished", sa.Boolean(), server_default=sa.true(), nullable=False))
