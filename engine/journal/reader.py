"""The journal: the only interface between the engine and whatever reads a run.

Any number of `JournalReader`s give its rows as in `engine.journal.rows`; the one writer is `engine.journal.writer`.
`schema.sql` describes the tables. A run folder holds `manifest.json`, `journal.db`, `engine.lock`, a folder `cells/`
with the servers' logs, and `tags.json` if it was tagged.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from engine.core.errors import UserError
from engine.core.model import Manifest
from engine.core.record import converted, parsed
from engine.journal.database import check_schema, database_path, is_log, readable
from engine.journal.manifest import manifest_of, read_record
from engine.journal.rows import (
    Attempt,
    ChartSecond,
    EngineStart,
    EventRow,
    ProbeFrame,
    RoleRow,
    RoleSecond,
    SliceRow,
    StepRow,
    WaitSecond,
)
from engine.journal.run_lock import is_locked
from workloads.client import histogram

FAR_NS = 2**63 - 1  # later than any time
_WITHIN = "t_ns > ? AND t_ns <= ?"
_OF_ROLE, _ITS_STEP = "role_id = ?1", "(SELECT step_id FROM role WHERE id = ?1)"
_OF_STEP = "role_id IN (SELECT id FROM role WHERE step_id = ?1)"
LAST_TICK_NS = 1_000_000_000  # a step's last interval may end this much later than the step
JSON_COLUMNS = frozenset({"origin", "plan", "totals", "data", "quality"})

Row = TypeVar("Row")


class JournalReader:
    """Read a run, finished or under way: every read sees the engine's last commit and writes nothing.

    SQLite creates files next to a journal that it opens for reading, which fails in a read-only folder. So the journal
    is opened the usual way only while an engine has the run; otherwise it is read as an immutable file, together with
    the log that a dead engine left. A change of the log shows that an engine came or went.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._record = read_record(run)
        self._log = run / "journal.db-wal"
        self._place = str(run / "journal.db")
        self._opened = 0
        self._open()

    def _open(self) -> None:
        path = database_path(self.run)
        if not path.is_file():
            raise UserError(f"{self.run}: its journal.db is missing")
        with readable(self.run):
            self._live = is_locked(self.run)
            self._seen = self._look()
            with_log = self._seen is not None and (self._live or is_log(self._log))
            how = "immutable=1" if not with_log else "mode=ro" if self._live else "mode=ro&vfs=unix-none"
            address = f"file:{quote(os.fsencode(path))}?{how}"
            self._db = sqlite3.connect(address, uri=True, isolation_level=None, timeout=5)
            self._opened += 1
            if with_log and not self._live:
                self._db.execute("PRAGMA locking_mode = EXCLUSIVE")  # keeps the log's index in memory
            check_schema(self._db, self.run)

    def _look(self) -> tuple[int, ...] | None:
        """Identity of the log's state: while an engine writes, only which file it is."""
        try:
            stat = self._log.stat()
        except OSError:
            return None
        return (stat.st_ino,) if self._live else (stat.st_ino, stat.st_size, stat.st_mtime_ns)

    def _reopen_if_changed(self) -> None:
        if self._look() != self._seen:
            self._db.close()
            self._open()

    @cached_property
    def manifest(self) -> Manifest:
        return manifest_of(self._record, self.run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def version(self) -> int:
        """A number that changes with every commit of the engine; far cheaper than reading."""
        with readable(self.run):
            self._reopen_if_changed()
            (number,) = self._db.execute("PRAGMA data_version").fetchone()
            return (self._opened << 32) + int(number)

    def sessions(self) -> list[EngineStart]:
        return self._read(EngineStart, "session")

    def attempts(self, after_id: int = 0, *, origins: bool = True) -> list[Attempt]:
        """Attempts with an id greater than `after_id`, oldest first; without `origins`, theirs are empty."""
        without = {} if origins else {"origin": "'{}'"}
        return self._read(Attempt, "attempt", "id > ?", after_id, instead=without)

    def origin(self, attempt: int) -> dict[str, Any]:
        """Circumstances of an attempt: its environments and server."""
        ((recorded,),) = self._rows("attempt", "origin", "id = ?", attempt)
        return self._object("attempt", recorded)

    def steps(self, attempt: int) -> list[StepRow]:
        return self._read(StepRow, "step", "attempt_id = ?", attempt)

    def rates(self, attempt: int) -> dict[str, float]:
        """Rate per finished step, or time where that is the primary metric."""
        figures = {row.name: row.rate_per_s if row.time_s is None else row.time_s for row in self.steps(attempt)}
        return {name: value for name, value in figures.items() if value is not None}

    def step(self, id: int) -> StepRow:
        """The present row of a step; it changes while the step runs."""
        (step_row,) = self._read(StepRow, "step", "id = ?", id)
        return step_row

    def latest_step(self, attempt: int) -> StepRow | None:
        where = "id = (SELECT max(id) FROM step WHERE attempt_id = ?)"
        return next(iter(self._read(StepRow, "step", where, attempt)), None)

    def roles(self, step: int) -> list[RoleRow]:
        return self._read(RoleRow, "role", "step_id = ?", step)

    def role_seconds(self, role: int) -> list[RoleSecond]:
        """Intervals of a connection, in order."""
        return self._intervals(RoleSecond, RoleSecond._fields, _OF_ROLE, _ITS_STEP, role)

    def seconds(self, step: int, after_ns: int, until_ns: int) -> list[RoleSecond]:
        """Intervals of all connections of a step that end in (after_ns, until_ns], in order."""
        return self._intervals(RoleSecond, RoleSecond._fields, _OF_STEP, "?1", step, after_ns, until_ns)

    def counts(self, step: int, after_ns: int = 0) -> list[ChartSecond]:
        """Like `seconds`, but without histograms and wait events."""
        return self._intervals(ChartSecond, ChartSecond._fields, _OF_STEP, "?1", step, after_ns)

    def services(self, step: int, after_ns: int = 0) -> list[tuple[int, int, int, histogram.Counts]]:
        """Service times per interval that ends after `after_ns`, in order: (role, t_ns, dt_ns, histogram)."""
        columns, of = ("role_id", "t_ns", "dt_ns", "service"), tuple[int, int, int, bytes]
        intervals = self._intervals(of, columns, _OF_STEP, "?1", step, after_ns)
        return [(role, t_ns, dt_ns, _counts(service)) for role, t_ns, dt_ns, service in intervals]

    def numbers(self, role: int, names: Sequence[str]) -> list[tuple[int, ...]]:
        """Fields of `ChartSecond` for all intervals of a connection, in order."""
        assert set(names) <= set(ChartSecond._fields)
        return self._intervals(tuple[int, ...], names, _OF_ROLE, _ITS_STEP, role)

    def packed_services(self, role: int) -> list[tuple[int, bytes]]:
        """Service times of all intervals of a connection, in order: (t_ns, packed histogram, unchecked)."""
        return self._intervals(tuple[int, bytes], ("t_ns", "service"), _OF_ROLE, _ITS_STEP, role)

    def waits(self, step: int, after_ns: int = 0) -> list[tuple[int, int, int, str | None]]:
        """Wait events at the ends of a step's intervals, in order: (role, t_ns, dt_ns, event)."""
        columns, of = ("role_id", "t_ns", "dt_ns", "wait_event"), tuple[int, int, int, str | None]
        return self._intervals(of, columns, _OF_STEP, "?1", step, after_ns)

    def clients_cpu(self, step: int) -> list[tuple[int, int]]:
        """CPU time of all clients of a step, summed over intervals with the same end: (t_ns, ns), in order."""
        columns, of = ("t_ns", "client_cpu_ns"), tuple[int, int | None]
        intervals = self._intervals(of, columns, _OF_STEP, "?1", step)
        return [(t_ns, sum(cpu_ns or 0 for _, cpu_ns in group)) for t_ns, group in groupby(intervals, itemgetter(0))]

    def _intervals(
        self,
        of: type[Row],
        columns: Sequence[str],
        which: str,
        step: str,
        id: int,
        after_ns: int = 0,
        until_ns: int = FAR_NS,
    ) -> list[Row]:
        """Rows of role_second; `which` and `step` are SQL, ?1 is `id`. The step's time is there for the index."""
        began, ended = (f"(SELECT {column} FROM step WHERE id = {step})" for column in ("started_ns", "ended_ns"))
        within = f"t_ns > max(?2, {began}) AND t_ns <= min(?3, coalesce({ended} + {LAST_TICK_NS}, ?3))"
        where, order = f"{which} AND {within}", "t_ns, role_id"
        rows = self._rows("role_second", ", ".join(columns), where, id, after_ns, until_ns, order=order)
        return converted(rows, list[of], self._table("role_second"))  # type: ignore[valid-type]

    def wait_seconds(self, step: int, after_ns: int = 0) -> list[WaitSecond]:
        where = f"step_id = ? AND {_WITHIN}"
        return self._read(WaitSecond, "wait_second", where, step, after_ns, FAR_NS, order="t_ns, role")

    def outcomes(self, role: int) -> list[tuple[int, dict[str, int]]]:
        """Outcomes of a connection's transactions, in order: (t_ns, counts)."""
        rows = self._rows("role_outcome", "t_ns, data", "role_id = ?", role, order="t_ns")
        intervals = [(t_ns, self._object("role_outcome", data)) for t_ns, data in rows]
        return converted(intervals, list[tuple[int, dict[str, int]]], self._table("role_outcome"))

    def samples(
        self, step: int, after_ns: int = 0, until_ns: int = FAR_NS, sources: Collection[str] = ()
    ) -> list[tuple[int, int, str, dict[str, Any]]]:
        """Samples that end in (after_ns, until_ns], of some or all sources: (t_ns, dt_ns, source, data), in order."""
        where = f"step_id = ? AND {_WITHIN}" + (f" AND source IN ({', '.join('?' * len(sources))})" if sources else "")
        arguments = (step, after_ns, until_ns, *sources)
        rows = self._rows("sample", "t_ns, dt_ns, source, data", where, *arguments, order="t_ns, source")
        intervals = [(t, dt, source, self._object("sample", data)) for t, dt, source, data in rows]
        return converted(intervals, list[tuple[int, int, str, dict[str, Any]]], self._table("sample"))

    def probe_frames(self, step: int, after_ns: int = 0, until_ns: int = FAR_NS) -> list[ProbeFrame]:
        """Frames of a step's probes that end in (after_ns, until_ns], in order."""
        where, order = f"step_id = ? AND {_WITHIN}", "t_ns, probe, role"
        return self._read(ProbeFrame, "probe_frame", where, step, after_ns, until_ns, order=order)

    def slices(self, step: int, after_block: int = -1) -> list[SliceRow]:
        where = "step_id = ? AND block > ?"
        return self._read(SliceRow, "slice", where, step, after_block, order="block, place")

    def events(
        self, step: int | None = None, after_id: int = 0, kinds: Sequence[str] = (), *, attempt: int | None = None
    ) -> list[EventRow]:
        """Events with an id greater than `after_id`, oldest first, filtered by the arguments that are given."""
        where, arguments = "id > ?", [after_id]
        for column, value in (("step_id", step), ("attempt_id", attempt)):
            if value is not None:
                where, arguments = f"{where} AND {column} = ?", [*arguments, value]
        where += f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        return self._read(EventRow, "event", where, *arguments, *kinds)

    def decisions(self) -> list[EventRow]:
        """Decisions on the number of repeats, oldest first: see `engine.journal.outcome`."""
        design = self.manifest.design
        return self.events(kinds=("plan",)) if design.adaptive or design.minutes else []

    def event(self, id: int) -> EventRow:
        """The present row of an event; it changes while the event lasts."""
        (event_row,) = self._read(EventRow, "event", "id = ?", id)
        return event_row

    def settings(self, attempt: int) -> list[tuple[str, str, str]]:
        """Settings that differ from the server's defaults: (name, value, source)."""
        rows = self._rows("setting", "name, value, source", "attempt_id = ?", attempt, order="name")
        return converted(rows, list[tuple[str, str, str]], self._table("setting"))

    def differences(self, step: int) -> dict[str, dict[str, dict[str, Any]]]:
        """pg_stat differences over a step: counters by view and object."""
        views: dict[str, dict[str, dict[str, Any]]] = {}
        for view, name, data in self._rows("difference", "view, object, data", "step_id = ?", step, order="view"):
            views.setdefault(str(view), {})[str(name)] = self._object("difference", data)
        return views

    def sizes(self, step: int) -> list[tuple[str, str, int]]:
        """Sizes after a step: (relation, kind, bytes)."""
        rows = self._rows("size", "relation, kind, bytes", "step_id = ?", step, order="relation")
        return converted(rows, list[tuple[str, str, int]], self._table("size"))

    def _read(
        self,
        of: type[Row],
        table: str,
        where: str = "1",
        *arguments: Any,
        order: str = "id",
        instead: dict[str, str] | None = None,
    ) -> list[Row]:
        """Rows as dataclasses with fields named like the columns; `instead` replaces columns by SQL expressions."""
        assert is_dataclass(of)
        names = [field.name for field in fields(of)]
        columns = ", ".join((instead or {}).get(name, name) for name in names)
        rows = [
            dict(zip(names, row, strict=True)) for row in self._rows(table, columns, where, *arguments, order=order)
        ]
        for name in JSON_COLUMNS.intersection(names):
            for row in rows:
                row[name] = None if row[name] is None else self._object(table, row[name])
        return converted(rows, list[of], self._table(table))  # type: ignore[valid-type]

    def _object(self, table: str, text: Any) -> dict[str, Any]:
        where = self._table(table)
        return converted(parsed(converted(text, str, where), where), dict[str, Any], where)

    def _table(self, table: str) -> str:
        return f"{self._place}: table {table}"

    def _rows(self, table: str, columns: str, where: str, *arguments: Any, order: str = "id") -> list[tuple[Any, ...]]:
        with readable(self.run):
            self._reopen_if_changed()
            query = f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {order}"
            return self._db.execute(query, arguments).fetchall()


def service_counts(second: RoleSecond) -> histogram.Counts:
    """Service time histogram of an interval. Raises UserError if it is damaged."""
    return _counts(second.service)


def _counts(service: bytes) -> histogram.Counts:
    try:
        return histogram.unpack(service)
    except ValueError as error:
        raise UserError(f"journal.db: table role_second: damaged histogram: {error}") from None


def chosen_together(attempts: Sequence[Attempt], groups: Iterable[Collection[str]]) -> dict[str, Attempt]:
    """The attempts of one engine start per group: the last in which all of it finished, else the last of any."""
    chosen: dict[str, Attempt] = {}
    for group in groups:
        by_start: dict[int, dict[str, Attempt]] = {}
        for attempt in attempts:
            if attempt.cell in group:
                by_start.setdefault(attempt.session_id, {})[attempt.cell] = attempt
        starts = list(by_start.values())
        complete = [
            start for start in starts if len(start) == len(group) and {a.state for a in start.values()} == {"finished"}
        ]
        chosen |= (complete or starts or [{}])[-1]
    return chosen


def chosen_attempts(attempts: Iterable[Attempt]) -> dict[str, Attempt]:
    """The last attempt at each cell that finished, else the last."""
    chosen: dict[str, Attempt] = {}
    for attempt in attempts:
        if attempt.state == "finished" or attempt.cell not in chosen or chosen[attempt.cell].state != "finished":
            chosen[attempt.cell] = attempt
    return chosen
