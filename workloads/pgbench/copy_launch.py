"""The launcher of bulk loads: one pgbench, each of whose transactions has the server COPY a file into a table.

Each client has a table of its own. Before the step, the tables are held by a lock (SHARE), for which each client's
first statement waits; it is released when the step begins. So nothing is loaded earlier, nobody needs to be stopped,
and the table that a backend waits for reveals its client. At the end of its time pgbench gets SIGALRM, as from its own
--time: each client finishes its transaction, so that all are complete and counted. The step is over when the last of
them has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from psycopg.pq import abc

from workloads import client_gate
from workloads.base import CLIENT_FOLDER
from workloads.connection import execute, open_connection
from workloads.counter_page import Control, Page, State, Word
from workloads.pgbench import command, copy_file, summary
from workloads.pgbench.completions import Ends
from workloads.pgbench.initialization import Session, as_step, literal, make_schema
from workloads.pgbench.launch import OFTEN_MS
from workloads.pgbench.launcher import serve
from workloads.pgbench.log import parse
from workloads.pgbench.log_counts import Counting, report
from workloads.pgbench.options import CopyOptions, Options
from workloads.pgbench.program import Failed, Pgbench
from workloads.pgbench.scripts import Script
from workloads.process import check_stop, clock

TABLE = "pgbench_copy_"  # and the number of its client, from 0
FILE = "copy.csv"
SCRIPT = "copy.sql"
LOOK_S = 0.01
# The wait of the first statements is irrelevant to readers of the server's log.
SESSION = " options='-c log_lock_waits=off'"
WAITING = f"""
SELECT c.relname, l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
WHERE NOT l.granted AND l.locktype = 'relation' AND c.relname LIKE '{TABLE}%'
"""


class CopySpec(msgspec.Struct, frozen=True, kw_only=True):
    """One step, as the launcher's input. There are `tables`, in `schema` if named. `version` is pgbench's major one."""

    page_fd: int
    folder: str
    data_folder: str
    dsn: str
    program: str
    version: int
    options: CopyOptions
    step: dict[str, Any]
    tables: int
    seed: int
    file_seed: int
    schema: str = ""


def script(options: CopyOptions, file: Path) -> str:
    """The transaction of a client. pgbench allows COPY with parameters in the simple protocol only."""
    copy = f"COPY {TABLE}:client_id FROM {literal(str(file))} WITH (FORMAT csv);\n"
    return copy if options.copy_truncate == "never" else f"BEGIN;\nTRUNCATE {TABLE}:client_id;\n{copy}END;\n"


def prepare(spec: CopySpec, page: Page) -> None:
    """The first step: make the file and the tables, and load one of them once. Raises as `as_step`."""
    options, file = spec.options, Path(spec.data_folder) / FILE

    def work(session: Session) -> None:
        if spec.schema:
            make_schema(session, spec.schema)
            session.execute(f"SET search_path = {spec.schema}")
        copy_file.write(file, options.copy_rows, spec.file_seed, session.check)
        names = [f"{TABLE}{client}" for client in range(spec.tables)]
        for name in names:
            unlogged = "UNLOGGED " if options.unlogged else ""
            session.execute(f"CREATE {unlogged}TABLE {name} ({copy_file.COLUMNS})")
        session.execute(f"COPY {names[0]} FROM {literal(str(file))} WITH (FORMAT csv)")
        session.execute(f"TRUNCATE {names[0]}")
        session.execute("CHECKPOINT")

    as_step(spec.dsn, page, work)


class _Held:
    """Tables of some clients, locked until `release`."""

    def __init__(self, dsn: str, clients: int) -> None:
        self._connection = open_connection(dsn)
        names = ", ".join(f"{TABLE}{client}" for client in range(clients))
        self._execute("BEGIN")
        self._execute(f"LOCK TABLE {names} IN SHARE MODE")

    def _execute(self, sql: str) -> abc.PGresult:
        return execute(self._connection, sql.encode())

    def waiting(self) -> dict[int, int]:
        found = self._execute(WAITING)
        rows = ([found.get_value(row, column) or b"" for column in (0, 1)] for row in range(found.ntuples))
        return {int(name.decode().removeprefix(TABLE)): int(pid) for name, pid in rows}

    def release(self) -> None:
        self._execute("COMMIT")

    def close(self) -> None:
        self._connection.finish()


@dataclass(eq=False)
class Loads:
    spec: CopySpec
    page: Page
    folder: Path
    start_ns: int = 0
    _waited_ns: int = 0  # of all clients, for the start of the step, after their transactions had begun
    _ended_ns: int = 0  # end of the last transaction
    _script: Script = field(init=False)

    def run(self) -> None:
        """Run the step to its end. Raises Failed, Stopped or SqlError."""
        spec, page, clients = self.spec, self.page, self.page.roles
        file = Path(spec.data_folder) / FILE
        load = copy_file.measured(file)  # and into memory
        self._script = Script(SCRIPT, 1, script(spec.options, file))
        (self.folder / SCRIPT).write_text(self._script.text)
        self.counting = Counting(page, 1, time.time_ns() - clock(), False, 0.0)
        threads = min(spec.options.jobs, clients)
        with (
            contextlib.closing(_Held(spec.dsn, clients)) as held,
            Pgbench(self._command(), self.folder, threads, by_line=True) as self.pgbench,
        ):
            began_ns = clock()
            while len(waiting := held.waiting()) < clients:
                self._check()
                time.sleep(LOOK_S)
            for slot in range(clients):
                page.set_word(slot, Word.CLIENT_PID, self.pgbench.pid)
                page.set_word(slot, Word.BACKEND_PID, waiting[slot])
                page.set_word(slot, Word.CONNECT_NS, (clock() - began_ns) // clients)
            self._await_start()
            held.release()
            self._work()
            while not page.words[Control.RELEASE]:
                time.sleep(LOOK_S)
            found = summary.parse(self.pgbench.output.replace(f"{self.folder}/", ""))
        sys.stdout.buffer.write(msgspec.json.encode(self._report(found) | {"load": load}))

    def _command(self) -> list[str]:
        spec, options = self.spec, Options(jobs=self.spec.options.jobs)
        program, *words = command.run(
            spec.program,
            spec.version,
            options,
            [self._script],
            str(self.folder),
            clients=self.page.roles,
            dsn=spec.dsn + SESSION,
            seed=spec.seed,
            transactions=spec.step["transactions"] or None,
        )
        return [program, "--log", f"--log-prefix={self.folder / 'log'}", *words]

    def _await_start(self) -> None:
        words = self.page.words
        self._set_states(State.READY)
        while not words[Control.START_NS]:
            self._check()
            time.sleep(0.002)
        self.start_ns = self.counting.began_ns = words[Control.START_NS]
        while clock() < self.start_ns:
            time.sleep(0.0005)
        if each := int(self.spec.step["transactions"]):
            self.counting.ends = Ends(self.page.roles, each, self.start_ns, 1)
        for slot in range(self.page.roles):
            self.page.set_word(slot, Word.STARTED_NS, clock())
        self._set_states(State.RUNNING)

    def _work(self) -> None:
        """Read the log until pgbench has ended, which it is told to do once the time is over."""
        seconds = int(self.spec.step["seconds"])
        until_ns = self.start_ns + seconds * 1_000_000_000 if seconds else None
        while not self.pgbench.has_ended(OFTEN_MS):
            self._read()
            check_stop(self.page)
            if until_ns is not None and clock() >= until_ns:
                self.pgbench.send(signal.SIGALRM)
                until_ns = None
        self._read()
        if self.pgbench.code:
            raise Failed(self.pgbench.reason([self._script]))
        if self.counting.ends is not None:
            self.counting.ends.close(clock())
        for slot in range(self.page.roles):
            self.page.set_word(slot, Word.ENDED_NS, self._ended_ns or clock())
        self._set_states(State.DONE)

    def _read(self) -> None:
        for text in itertools.chain.from_iterable(self.pgbench.lines()):
            line = parse(text, lag=False, retries=False)
            if line is None:
                continue
            ended_ns = line.ended_us * 1000 - self.counting.wall_ns
            in_step_us = max(0, ended_ns - self.start_ns) // 1000
            if line.time_us > in_step_us:  # its client's first, which waited for the step to begin
                self._waited_ns += (line.time_us - in_step_us) * 1000
                line = line._replace(time_us=in_step_us)
            self._ended_ns = max(self._ended_ns, ended_ns)
            self.counting.take(line)
            if not line.outcome:
                self.page.add_time(line.client, ended_ns, line.time_us * 1000)

    def _report(self, found: dict[str, Any]) -> dict[str, Any]:
        """The step's report; `stop_ms` of the statement that waited for the start is the total wait."""
        said = report(found, self.counting, 0)
        waited = 0 if self.spec.options.copy_truncate == "never" else 1
        for place, statement in enumerate(said.get("statements", [])):
            if place == waited:
                statement["stop_ms"] = self._waited_ns / 1e6 / max(1, found.get("processed", 0))
        return said

    def _check(self) -> None:
        check_stop(self.page)
        if self.pgbench.has_ended():
            raise Failed(self.pgbench.reason([self._script]))

    def _set_states(self, state: State) -> None:
        for slot in range(self.page.roles):
            self.page.set_word(slot, Word.STATE, state)
        client_gate.tell_change(self.page)


def run(spec: CopySpec, page: Page) -> None:
    if spec.step["kind"] == "init":
        prepare(spec, page)
        return
    with TemporaryDirectory(prefix=CLIENT_FOLDER, dir=spec.folder) as folder:
        Loads(spec, page, Path(folder)).run()


if __name__ == "__main__":
    sys.exit(serve(CopySpec, run))
