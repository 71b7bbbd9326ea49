"""The backends of pgbench's clients, without its first connection's, which inspects the tables."""

from __future__ import annotations

from collections.abc import Callable

from workloads.client.connection import execute, open_connection

QUESTION = """
SELECT pid FROM pg_stat_activity
WHERE application_name = '{application}' AND backend_type = 'client backend' AND state IS NOT NULL
AND datname = current_database()
ORDER BY backend_start
"""


def first_backends(
    has_opened_logs: Callable[[], bool], backends: Callable[[], list[int]], wait: Callable[[], None]
) -> set[int]:
    """Backends of pgbench's first connection, which inspects the tables: those seen with the logs still unopened."""
    pids: set[int] = set()
    while not has_opened_logs():
        now = backends()
        if not has_opened_logs():
            pids.update(now)
        wait()
    return pids


class Watching:
    def __init__(self, dsn: str, application: str) -> None:
        self._connection = open_connection(dsn)
        self._question = QUESTION.format(application=application).encode()

    def backends(self) -> list[int]:
        result = execute(self._connection, self._question)
        return [int(result.get_value(row, 0) or 0) for row in range(result.ntuples)]

    def close(self) -> None:
        self._connection.finish()
