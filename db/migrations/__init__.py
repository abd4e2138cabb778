"""Alembic migrations, run by ``autotune.db.upgrade``."""
