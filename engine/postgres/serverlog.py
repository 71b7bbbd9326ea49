"""The server's log as events on the engine's clock: checkpoints, vacuums, lock waits, errors.

The cell's server must log to stderr with `line_prefix`, `lc_messages = 'C'` and `log_settings`. Message forms of
versions 12 to 19 are known; a line of any other form is passed over.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.core.format import number
from engine.core.resource import Closing

PREFIX = re.compile(r"^(\d+)\.(\d{3})\|(\d+)\|([^|]*)\|")
READ_BYTES = 1 << 20  # per poll; after a flood of errors the next polls read the rest
TEXT_CHARACTERS = 500  # kept of a statement or detail
VACUUMS, ANALYZES, ANALYZES_SINCE = "log_autovacuum_min_duration", "log_autoanalyze_min_duration", 19
SETTINGS = {"log_checkpoints": "on", VACUUMS: "0", "log_lock_waits": "on"}

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Something that happened in the server; times are CLOCK_MONOTONIC ns.

    Kinds and their data (all have `pid`):
        checkpoint            cause ("time", "wal", "immediate force wait"); once complete also those of
                              `CHECKPOINT_DATA`; `aborted` when a crash ended it
        autovacuum            operation ("vacuum", "analyze"), relation, those of `VACUUM_DATA` that the version
                              gives, such as index_scan ("needed", "not needed", "bypassed") from 14 on
        autovacuum_cancelled  relation: a lock request of another session cancelled the worker
        lock_wait             lock, target, holders (pids), waited_ms; `failed` when it ended in an error
        server_error          severity, message, backend_type, and detail, hint, context, statement if given

    `ended_ns` is None for a checkpoint or lock wait in progress. Its end comes as a second event with
    the same kind, pid and `started_ns`. A vacuum appears in the log only when it has ended.
    """

    kind: str
    started_ns: int
    ended_ns: int | None
    data: Data


@dataclass(slots=True)
class LogMessage:
    """A message: its first line, continuation lines, and the fields that follow it."""

    wall_ns: int
    pid: int
    backend_type: str
    severity: str
    message: str
    line: int  # of the lines given, the first of this message
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nothing relevant can follow: messages are read while they may still be written."""
        if self.message.startswith("automatic "):
            return "elapsed: " in self.message
        return self.severity == "LOG" and (self.message.startswith("checkpoint ") or "detail" in self.fields)


def line_prefix(server_major: int) -> str:
    """The `log_line_prefix` parsed here: Unix time with milliseconds, pid, process kind (empty before 13)."""
    return f"%n|%p|{'%b' if server_major >= 13 else ''}|"


def log_settings(
    server_major: int, configured: Mapping[str, str], known: Callable[[], Collection[str]]
) -> dict[str, str]:
    """Settings of the log, whatever a version's defaults are; a config's `own` settings are left as they are.

    Analyzes have a setting of their own from 19 on: they are logged where vacuums are. Later versions are asked whether
    they still have it (`known`).
    """
    wanted = SETTINGS
    if server_major >= ANALYZES_SINCE and ANALYZES in known():
        wanted = {**SETTINGS, ANALYZES: configured.get(VACUUMS, SETTINGS[VACUUMS])}
    return {name: value for name, value in wanted.items() if name not in configured}


FIRST = re.compile(PREFIX.pattern + r"(\w+):  (.*)")
FIELDS = frozenset(("DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY", "LOCATION", "BACKTRACE"))


def records(lines: Iterable[str]) -> list[LogMessage]:
    """Group lines into messages. Lines of an unknown form are dropped, except failed assertions."""
    messages: list[LogMessage] = []
    last_field = ""
    for place, line in enumerate(lines):
        match = FIRST.fullmatch(line)
        if match is None:
            if line.startswith("\t") and messages:
                if last_field:
                    messages[-1].fields[last_field] += "\n" + line.strip()
                else:
                    messages[-1].message += "\n" + line.strip()
            elif line.startswith("TRAP: "):  # a failed assertion, printed without prefix
                messages.append(LogMessage(time.time_ns(), 0, "", "PANIC", line, place))
                last_field = ""
            continue
        seconds, millis, pid, backend_type, word, text = match.groups()
        if word in FIELDS:
            if messages and messages[-1].pid == int(pid):
                last_field = word.lower()
                messages[-1].fields[last_field] = text
        else:
            wall_ns = int(seconds) * 1_000_000_000 + int(millis) * 1_000_000
            messages.append(LogMessage(wall_ns, int(pid), backend_type, word, text, place))
            last_field = ""
    return messages


class ServerLog(Closing):
    """Follows a growing log file. A context manager.

    `anchor` is (CLOCK_MONOTONIC ns, Unix time in ns) of one instant; set it anew when the wall clock was stepped. The
    file may not exist yet, end within a line, be truncated or replaced, and hold any bytes.
    """

    def __init__(self, path: Path, anchor: tuple[int, int]) -> None:
        self.path = path
        self.anchor = anchor
        self._fd = -1
        self._offset = 0
        self._rest = b""
        self._held: list[str] = []
        self._checkpoint: LogEvent | None = None
        self._lock_waits: dict[int, LogEvent] = {}

    def poll(self) -> list[LogEvent]:
        """The events since the last poll, in the order of the log.

        A last message that may continue (an error, whose statement follows) is kept for the next poll.
        """
        lines = self._lines()
        quiet = lines is None
        lines = [*self._held, *(lines or ())]
        todo, self._held = records(lines), []
        if todo and not todo[-1].complete and not quiet:
            self._held = lines[todo.pop().line :]
        return [event for record in todo for event in self._events(record)]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lines(self) -> list[str] | None:
        try:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDONLY)
                self._offset, self._rest = 0, b""
            data = os.pread(self._fd, READ_BYTES, self._offset)
            if not data:
                self._follow()
                data = os.pread(self._fd, READ_BYTES, self._offset)
        except OSError:
            return None
        if not data:
            return None
        self._offset += len(data)
        complete, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest
        return complete.decode(errors="replace").split("\n") if newline else []

    def _follow(self) -> None:
        """Check at the end of the file whether it was replaced or truncated."""
        ours, named = os.fstat(self._fd), self.path.stat()
        if ours.st_ino != named.st_ino or ours.st_dev != named.st_dev:
            replacement = os.open(self.path, os.O_RDONLY)
            os.close(self._fd)
            self._fd, self._offset, self._rest = replacement, 0, b""
        elif ours.st_size < self._offset:
            self._offset, self._rest = 0, b""

    def _events(self, record: LogMessage) -> list[LogEvent]:
        at_ns = self.anchor[0] + record.wall_ns - self.anchor[1]
        if record.severity == "LOG":
            for pattern, read in FORMS:
                match = pattern.match(record.message)
                if match is not None:
                    return read(self, record, match, at_ns)
        if record.severity in ("ERROR", "FATAL", "PANIC"):
            if record.message == "canceling autovacuum task":
                table = TABLE.search(record.fields.get("context", ""))
                data: Data = {"pid": record.pid, "relation": relation_name(table[1]) if table else ""}
                return [LogEvent("autovacuum_cancelled", at_ns, at_ns, data)]
            if record.message.startswith(EXPECTED):
                return []
            return [*self._end_lock_wait(record.pid, at_ns, {"failed": True}), _error(record, at_ns)]
        return [_error(record, at_ns)] if GRAVE.search(record.message) else []

    def _checkpoint_begins(self, record: LogMessage, match: re.Match[str], at_ns: int) -> list[LogEvent]:
        ended = self._abort(at_ns)
        self._checkpoint = LogEvent("checkpoint", at_ns, None, {"pid": record.pid, "cause": match[1]})
        return [*ended, self._checkpoint]

    def _checkpoint_ends(self, record: LogMessage, match: re.Match[str], at_ns: int) -> list[LogEvent]:
        data: Data = {"pid": record.pid, "cause": "", **_found(CHECKPOINT_DATA, match[1])}
        started_ns = at_ns - round(data.get("total_s", 0.0) * 1e9)
        if self._checkpoint is not None:
            started_ns = self._checkpoint.started_ns
            data = {**data, "cause": self._checkpoint.data["cause"]}
        self._checkpoint = None
        return [LogEvent("checkpoint", started_ns, at_ns, data)]

    def _abort(self, at_ns: int) -> list[LogEvent]:
        old, self._checkpoint = self._checkpoint, None
        return [LogEvent("checkpoint", old.started_ns, at_ns, {**old.data, "aborted": True})] if old else []

    def _crash(self, record: LogMessage, match: re.Match[str], at_ns: int) -> list[LogEvent]:
        ended = [event for pid in list(self._lock_waits) for event in self._end_lock_wait(pid, at_ns, {"failed": True})]
        return [*self._abort(at_ns), *ended]

    def _vacuum(self, record: LogMessage, match: re.Match[str], at_ns: int) -> list[LogEvent]:
        data: Data = {"pid": record.pid, "operation": match[1], "relation": relation_name(match[2])}
        data |= _found(VACUUM_DATA, record.message)
        return [LogEvent("autovacuum", at_ns - round(data.get("elapsed_s", 0.0) * 1e9), at_ns, data)]

    def _lock_wait(self, record: LogMessage, match: re.Match[str], at_ns: int) -> list[LogEvent]:
        pid, waited_ms = int(match[1]), float(match[4])
        named = record.fields.get("detail", "").partition(" Wait queue")[0]
        holders = [int(holder) for holder in re.findall(r"\d+", named)]
        data: Data = {"pid": pid, "lock": match[2], "target": match[3], "holders": holders, "waited_ms": waited_ms}
        event = LogEvent("lock_wait", at_ns - round(waited_ms * 1e6), None, data)
        return [self._lock_waits.setdefault(pid, event)]

    def _lock_got(self, record: LogMessage, match: re.Match[str], at_ns: int) -> list[LogEvent]:
        return self._end_lock_wait(int(match[1]), at_ns, {"waited_ms": float(match[4])})

    def _end_lock_wait(self, pid: int, at_ns: int, data: Data) -> list[LogEvent]:
        old = self._lock_waits.pop(pid, None)
        return [LogEvent("lock_wait", old.started_ns, at_ns, {**old.data, **data})] if old else []


# Log messages that become events.
GRAVE = re.compile(r" was terminated by signal \d+|^server process .* exited with exit code|No space left on device")
# Errors of clients, such as the engine, that connect while the server starts or stops.
EXPECTED = ("the database system is starting up", "the database system is shutting down")
TABLE = re.compile(r'automatic \S+ of table "([^"]+)"')
LOCK = r"process (\d+) {} (\w+Lock|\w+) on (.+?) after ([\d.]+) ms"

Reader = Callable[[ServerLog, LogMessage, re.Match[str], int], list[LogEvent]]
FORMS: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (re.compile(r"checkpoint starting: *(.*)"), ServerLog._checkpoint_begins),
    (re.compile(r"checkpoint complete: *(.*)"), ServerLog._checkpoint_ends),
    (
        re.compile(r'automatic (?:aggressive )?(vacuum|analyze)(?: to prevent wraparound)? of table "([^"]+)"'),
        ServerLog._vacuum,
    ),
    (re.compile(LOCK.format("still waiting for")), ServerLog._lock_wait),
    (re.compile(LOCK.format("acquired")), ServerLog._lock_got),
    (re.compile(r"all server processes terminated|database system was interrupted"), ServerLog._crash),
)

# A checkpoint's and a vacuum's message; the groups are the keys of an event's data.
CHECKPOINT_DATA = (
    re.compile(r"wrote (?P<buffers>\d+) buffers \((?P<percent>[\d.]+)%\)"),
    re.compile(r"(?P<wal_added>\d+) WAL file\(s\) added, (?P<wal_removed>\d+) removed, (?P<wal_recycled>\d+) recycled"),
    re.compile(r"write=(?P<write_s>[\d.]+) s, sync=(?P<sync_s>[\d.]+) s, total=(?P<total_s>[\d.]+) s"),
    re.compile(r"sync files=(?P<sync_files>\d+), longest=(?P<longest_s>[\d.]+) s, average=(?P<average_s>[\d.]+) s"),
    re.compile(r"distance=(?P<distance_kb>\d+) kB, estimate=(?P<estimate_kb>\d+) kB"),
)
VACUUM_DATA = (
    re.compile(r"index scans: (?P<index_scans>\d+)"),
    re.compile(r"\npages: (?P<pages_removed>\d+) removed, (?P<pages_remain>\d+) remain"),
    re.compile(
        r"\ntuples: (?P<tuples_removed>\d+) removed, (?P<tuples_remain>\d+) remain, (?P<tuples_dead>\d+) are dead"
    ),
    re.compile(r"\nbuffer usage: (?P<hits>\d+) hits, (?P<misses>\d+) (?:misses|reads), (?P<dirtied>\d+) dirtied"),
    re.compile(
        r"\nWAL usage: (?P<wal_records>\d+) records, (?P<wal_fpi>\d+) full page images, (?P<wal_bytes>\d+) bytes"
    ),
    re.compile(r"elapsed: (?P<elapsed_s>[\d.]+) s"),
    re.compile(r"\nindex scan (?P<index_scan>needed|not needed|bypassed)"),
)


def relation_name(qualified: str) -> str:
    """Shorten `ib.public.pi1` to `pi1`; a relation of another schema keeps its schema."""
    _, _, rest = qualified.partition(".")
    return rest.removeprefix("public.")


def _found(patterns: Iterable[re.Pattern[str]], text: str) -> Data:
    return {
        name: number(value) if value[0].isdecimal() else value
        for pattern in patterns
        if (match := pattern.search(text)) is not None
        for name, value in match.groupdict().items()
    }


def _error(record: LogMessage, at_ns: int) -> LogEvent:
    data: Data = {
        "pid": record.pid,
        "severity": record.severity,
        "message": record.message[:TEXT_CHARACTERS],
        "backend_type": record.backend_type,
    }
    data |= {name: text[:TEXT_CHARACTERS] for name, text in record.fields.items()}
    return LogEvent("server_error", at_ns, at_ns, data)
