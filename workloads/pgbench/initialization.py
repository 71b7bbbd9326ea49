"""The first step: make the same tables for all servers, load them into memory, try the scripts, measure a warm-up."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from workloads.client.connection import Check, Session
from workloads.client.counter_page import Page, Word
from workloads.client.process import begin_alone, check_stop, clock, end_alone
from workloads.pgbench import command, summary
from workloads.pgbench.program import PgbenchFailed, PgbenchProcess
from workloads.pgbench.scripts import Script
from workloads.pgbench.scripts import error_of as reason_of
from workloads.pgbench.spec import PgbenchSpec, WarmUp

T = TypeVar("T")

LOOK_S = 0.05  # between two checks for STOP
TABLES = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history")
# pgbench freezes the rows that it loads if the server can: a vacuum makes all versions alike.
SETTLE = tuple(f"VACUUM (FREEZE, ANALYZE) {table}" for table in TABLES)
WARM = (
    "SELECT sum(abalance) FROM pgbench_accounts",
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM pgbench_accounts WHERE aid > 0",
)


def initialize(spec: PgbenchSpec, page: Page, folder: Path) -> WarmUp:
    """Do the step; return the warm-up's findings. Raises Failed, Stopped or SqlError."""
    options = spec.options

    def work(session: Session) -> WarmUp:
        check = session.check
        _call(command.initialize(spec.program, options, spec.dsn), spec, folder, check)
        if spec.setup is not None:
            run_once(spec, folder, spec.setup, check)
        tables = "t" in options.init_steps
        for statement in (*SETTLE, *(("CHECKPOINT",) if spec.checkpoint else ())) if tables else ():
            session.run(statement)
        for statement in WARM if tables else ():
            session.run(statement)
        for script in spec.scripts:
            run_once(spec, folder, script, check)
        if options.warmup_seconds:
            argv = _command(spec, folder, spec.scripts, seconds=options.warmup_seconds, clients=spec.warm_clients)
            totals = summary.parse(_call(argv, spec, folder, check))
            if "tps" in totals:
                return WarmUp.of(totals["tps"], min(options.jobs, spec.warm_clients))
        return WarmUp()

    return as_step(spec.dsn, page, work)


def as_step(dsn: str, page: Page, work: Callable[[Session], T]) -> T:
    """Run work that needs one session as the step's only role. Raises as `work` does, Stopped or SqlError."""

    def check() -> None:
        check_stop(page)

    with Session(dsn, check) as session:
        page.set_word(0, Word.CLIENT_PID, os.getpid())
        page.set_word(0, Word.BACKEND_PID, session.connection.backend_pid)
        begin_alone(page)
        done = work(session)
        end_alone(page, clock())
    return done


def _command(spec: PgbenchSpec, folder: Path, scripts: Sequence[Script], **how: int) -> list[str]:
    return command.run(
        spec.program, spec.version, spec.options, scripts, str(folder), dsn=spec.dsn, seed=spec.seed, **how
    )


def run_once(spec: PgbenchSpec, folder: Path, script: Script, check: Check) -> None:
    """Try a script with one transaction. Raises Failed with its line, and any exception of `check`."""
    single = [Script(script.name, 1, script.text)]
    _call(_command(spec, folder, single, transactions=1, clients=1), spec, folder, check, single)


def _call(
    argv: list[str], spec: PgbenchSpec, folder: Path, check: Check, scripts: Sequence[Script] | None = None
) -> str:
    """Run a pgbench to its end; return its output. Raises Failed if it fails."""
    with PgbenchProcess(argv, folder, threads=0) as pgbench:
        while not pgbench.has_ended(round(LOOK_S * 1000)):
            check()
        if pgbench.code:
            raise PgbenchFailed(reason_of(pgbench.errors, spec.scripts if scripts is None else scripts, str(folder)))
        return pgbench.output
