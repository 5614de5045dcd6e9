"""One PostgreSQL server for the whole room."""

from __future__ import annotations

from postgres_server import postgres

__all__ = ["postgres"]
