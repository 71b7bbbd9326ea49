"""The first step: make the same tables for all servers, load them into memory, try the scripts, measure a warm-up."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from psycopg.pq import abc

from workloads import client_gate
from workloads.base import SCHEMA_MARK
from workloads.connection import COMMAND_OK, TUPLES_OK, error_of, open_connection
from workloads.counter_page import Control, Page, State, Word
from workloads.pgbench import command, summary
from workloads.pgbench.program import Failed, Pgbench
from workloads.pgbench.scripts import Script, waits
from workloads.pgbench.scripts import error_of as reason_of
from workloads.pgbench.spec import Found, Spec
from workloads.process import check_stop, clock

T = TypeVar("T")

SYNTAX_ERROR = "syntax error at "  # a word, or the end of input
LOOK_S = 0.05  # between two checks for STOP
TABLES = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history")
# pgbench freezes what it loads if the server can: a vacuum makes all versions alike.
SETTLE = tuple(f"VACUUM (FREEZE, ANALYZE) {table}" for table in TABLES)
WARM = (
    "SELECT sum(abalance) FROM pgbench_accounts",
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM pgbench_accounts WHERE aid > 0",
)


def initialize(spec: Spec, page: Page, folder: Path) -> Found:
    """Do the step; return the warm-up's findings. Raises Failed, Stopped or SqlError."""
    options = spec.options

    def work(session: Session) -> Found:
        check = session.check
        if spec.schema:
            make_schema(session, spec.schema)
        for name in {options.tablespace, options.index_tablespace} - {""}:
            place = Path(spec.data_folder) / f"tablespace-{name}"
            place.mkdir(mode=0o700)
            session.execute(f'CREATE TABLESPACE "{name}" LOCATION {literal(str(place))}')
        _call(command.initialize(spec.program, options, spec.dsn), spec, folder, check)
        if spec.setup is not None:
            run_once(spec, folder, spec.setup, check)
        tables = "t" in options.init_steps
        for statement in (*SETTLE, *(("CHECKPOINT",) if spec.checkpoint else ())) if tables else ():
            session.execute(statement)
        for statement in WARM if tables else ():
            session.execute(statement)
        # Background scripts may use tables of the main workload, which do not exist yet: only their syntax is checked.
        ready = not spec.schema or all(script.builtin for script in spec.scripts)
        for script in spec.scripts if ready else [each for each in spec.scripts if not waits([each])]:
            try:
                run_once(spec, folder, script, check)
            except Failed as error:
                if ready or SYNTAX_ERROR in str(error):
                    raise
        if options.warmup_seconds and ready:
            argv = _command(spec, folder, spec.scripts, seconds=options.warmup_seconds, clients=spec.warm_clients)
            told = summary.parse(_call(argv, spec, folder, check))
            if "tps" in told:
                return Found.of(told["tps"], min(options.jobs, spec.warm_clients))
        return Found()

    return as_step(spec.dsn, page, work)


def make_schema(session: Session, name: str) -> None:
    session.execute(f"CREATE SCHEMA {name}")
    session.execute(f"COMMENT ON SCHEMA {name} IS {literal(SCHEMA_MARK)}")


def as_step(dsn: str, page: Page, work: Callable[[Session], T]) -> T:
    """Run work that needs one session as the step's only role. Raises as `work` does, Stopped or SqlError."""

    def check() -> None:
        check_stop(page)

    with contextlib.closing(Session(dsn, check)) as session:
        page.set_word(0, Word.CLIENT_PID, os.getpid())
        page.set_word(0, Word.BACKEND_PID, session.connection.backend_pid)
        page.set_word(0, Word.STATE, State.READY)
        while not page.words[Control.START_NS]:
            check()
            time.sleep(0.002)
        page.set_word(0, Word.STARTED_NS, clock())
        page.set_word(0, Word.STATE, State.RUNNING)
        done = work(session)
        page.set_word(0, Word.ENDED_NS, clock())
        page.set_word(0, Word.STATE, State.DONE)
        client_gate.tell_change(page)
        while not page.words[Control.RELEASE]:
            time.sleep(0.002)
    return done


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _command(spec: Spec, folder: Path, scripts: Sequence[Script], **how: int) -> list[str]:
    return command.run(
        spec.program, spec.version, spec.options, scripts, str(folder), dsn=spec.dsn, seed=spec.seed, **how
    )


def run_once(spec: Spec, folder: Path, script: Script, check: Callable[[], None]) -> None:
    """Try a script with one transaction. Raises Failed with its line, and any exception of `check`."""
    single = [Script(script.name, 1, script.text)]
    _call(_command(spec, folder, single, transactions=1, clients=1), spec, folder, check, single)


def _call(
    argv: list[str],
    spec: Spec,
    folder: Path,
    check: Callable[[], None],
    scripts: Sequence[Script] | None = None,
) -> str:
    """Run a pgbench to its end; return its output. Raises Failed if it fails."""
    with Pgbench(argv, folder, threads=0) as pgbench:
        while not pgbench.has_ended(round(LOOK_S * 1000)):
            check()
        if pgbench.code:
            raise Failed(reason_of(pgbench.errors, spec.scripts if scripts is None else scripts, str(folder)))
        return pgbench.output


class Session:
    """A connection whose statements can be abandoned."""

    def __init__(self, dsn: str, check: Callable[[], None]) -> None:
        self.connection: abc.PGconn = open_connection(dsn)
        self.check = check

    def execute(self, sql: str) -> None:
        """Run one statement. Raises SqlError, and any exception of `check`."""
        connection = self.connection
        connection.send_query(sql.encode())
        while True:
            while connection.is_busy():
                self.check()
                if select.select([connection.socket], [], [], LOOK_S)[0]:
                    connection.consume_input()
            result = connection.get_result()
            if result is None:
                return
            if result.status not in (COMMAND_OK, TUPLES_OK):
                raise error_of(connection, result)

    def close(self) -> None:
        self.connection.finish()
