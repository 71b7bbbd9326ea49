"""How many statements a server has executed, in all and by user or query id, as pg_stat_statements counts them.

The extension may hold thousands of statements, so its counts are added up in the server, and asked for less often where
that takes long.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.postgres.pgstat import Monitor, MonitorError

By = Literal["application", "user", "query"]

STATEMENT = "statements"
PATIENCE_S = 0.5
TEXTS_S, TEXTS_PATIENCE_S = 5.0, 1.0
SHARE = 0.003  # of the time, at most: an answer that takes 6 ms is asked for every other second
LONGEST_S = 20.0  # between two questions
MOST_QUERIES = 500
TEXT_CELLS = 60
# By its extension, so that a function of another's with this name is not executed.
FUNCTION = """
SELECT extversion, p.oid::regproc::text
FROM pg_extension e
JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE extname = 'pg_stat_statements' AND proname = 'pg_stat_statements'
"""
# What is counted by, and its name.
KEYS: dict[By, tuple[str, str]] = {
    "application": ("NULL::oid", "NULL"),  # it is not known there
    "user": ("userid", "pg_get_userbyid(key)"),
    "query": ("queryid", "key"),
}
COUNTS = """
WITH counts AS MATERIALIZED (
    SELECT {key} AS key, sum(calls)::bigint AS calls, sum(rows)::bigint AS rows, sum({time}) AS ms
    FROM {function}(false)
    GROUP BY 1
)
SELECT NULL, sum(calls), sum(rows), sum(ms) FROM counts
UNION ALL
(SELECT ({name})::text, calls, rows, ms FROM counts WHERE key IS NOT NULL ORDER BY calls DESC LIMIT {most})
"""
# Utility statements are left out: their texts may hold passwords.
TEXTS = r"""
SELECT id, left(regexp_replace(text, '\s+', ' ', 'g'), {cells})
FROM (
    SELECT DISTINCT ON (queryid) queryid::text AS id, left(query, 200) AS text
    FROM {function}(true)
    WHERE queryid = ANY ($1::bigint[])
) AS found
WHERE text ~* '^\s*(select|insert|update|delete|merge|with|values)\M'
"""


class Counted(NamedTuple):
    """Statements, their rows (returned or changed) and their execution time, of one role or all."""

    calls: int
    rows: int
    ms: float

    def since(self, before: Counted) -> Counted | None:
        """What was counted since; None if counts were dropped meanwhile, as by a reset or to make room for others."""
        more = Counted(self.calls - before.calls, self.rows - before.rows, self.ms - before.ms)
        return more if more.calls >= 0 and more.rows >= 0 else None


NOTHING = Counted(0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class StatementCounts:
    """All counts at one moment. `roles` are users or query ids; empty by application."""

    total: Counted
    roles: Mapping[str, Counted]

    def since(self, before: StatementCounts) -> Iterator[tuple[str, Counted]]:
        """What roles executed since; none that has come among the `MOST_QUERIES` counted: when it did is not known."""
        unseen = NOTHING if len(before.roles) < MOST_QUERIES else None
        for name, counted in self.roles.items():
            was = before.roles.get(name, unseen)
            more = counted.since(was) if was is not None else None
            if more is not None and more.calls:
                yield name, more


class Statements:
    """Asks for the counts over a monitor's connection. Raises MonitorError, in words, if there are none."""

    def __init__(self, monitor: Monitor, by: By) -> None:
        self._monitor = monitor
        found = monitor.ask(FUNCTION)
        if not found:
            raise MonitorError("the extension pg_stat_statements is not in this database")
        version, self._function = (text or "" for text in found[0])
        major, _, minor = version.partition(".")
        time_column = "total_exec_time" if (int(major), int(minor)) >= (1, 8) else "total_time"
        question = COUNTS.format(
            key=KEYS[by][0], name=KEYS[by][1], time=time_column, function=self._function, most=MOST_QUERIES
        )
        monitor.prepare(STATEMENT, question)
        self._read_s = self._texts_due_s = 0.0
        self.interval_s = min(LONGEST_S, min(self._timed() for _ in range(3)) / SHARE)

    @property
    def often(self) -> bool:
        """Whether it is cheap enough to be asked every second."""
        return self.interval_s <= 1.0

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._read_s + self.interval_s

    @property
    def texts_due(self) -> bool:
        return time.monotonic() >= self._texts_due_s

    def read(self) -> StatementCounts:
        """Raises MonitorError if there is no answer in time."""
        rows = self._monitor.ask_prepared(STATEMENT, patience_s=PATIENCE_S)
        self._read_s = time.monotonic()
        counts = [
            (key, Counted(int(calls or 0), int(counted or 0), float(ms or 0))) for key, calls, counted, ms in rows
        ]
        return StatementCounts(counts[0][1], {key: counted for key, counted in counts[1:] if key is not None})

    def _timed(self) -> float:
        began_s = time.monotonic()
        self.read()
        return self._read_s - began_s

    def texts(self, ids: Iterable[str]) -> dict[str, str]:
        """The beginning of statements by their query ids, constants replaced; reads a file on the server."""
        question, began_s = TEXTS.format(function=self._function, cells=TEXT_CELLS), time.monotonic()
        self._texts_due_s = began_s + LONGEST_S  # also if it takes too long
        rows = self._monitor.ask(question, ("{" + ",".join(ids) + "}",), patience_s=TEXTS_PATIENCE_S)
        self._texts_due_s = began_s + max(TEXTS_S, (time.monotonic() - began_s) / SHARE)
        return {id or "": text or "" for id, text in rows}
