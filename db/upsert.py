"""INSERT with ON CONFLICT: the two databases write it alike, and SQLAlchemy has a construct of its own for each."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

_INSERTS = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def insert(connection: Connection, table: Table) -> Any:
    """The INSERT of the connection's database."""
    return _INSERTS[connection.dialect.name](table)
