"""A database that a test has for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from engine.postgres.server import Server


@dataclass
class Database:
    """An empty database and how to reach it."""

    server: Server
    name: str
    dsn: str
    _log_start: int = field(default=0)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a statement, run in autocommit."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def one(self, sql: str) -> Any:
        """The only value of a statement."""
        return self.run(sql)[0][0]

    def log_statements(self) -> None:
        """Let the server log every statement that new connections to this database send."""
        self.run(f"ALTER DATABASE {self.name} SET log_statement = 'all'")
        self.run(f"ALTER DATABASE {self.name} SET log_min_duration_statement = -1")
        self._log_start = Path(self.server.log_path).stat().st_size

    def logged(self) -> list[str]:
        """The statements logged since the last call; forgets them."""
        with Path(self.server.log_path).open("rb") as log:
            log.seek(self._log_start)
            text = log.read()
        self._log_start += len(text)
        marked = text.decode().splitlines()
        return [line.split("statement: ", 1)[1] for line in marked if "LOG:  statement: " in line]
