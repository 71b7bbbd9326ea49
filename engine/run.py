"""The engine: runs the cells of a manifest one after another, and leaves nothing behind however it ends."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg

from engine import environment
from engine.account import make_passable
from engine.cluster import kill_leftover
from engine.commands import Commands
from engine.control import Control
from engine.drift import Record, drift
from engine.endings import Interrupted, StepFailed, Stop
from engine.errors import UserError
from engine.hostlock import alone_on_the_host
from engine.journal import read_manifest
from engine.model import Cell, Manifest
from engine.server import Server
from engine.step import StepRunner
from engine.writer import JournalWriter
from workloads.insert.steps import Step


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: how many cells are finished and failed, and whether it was asked to stop."""

    finished: int
    failed: int
    interrupted: bool


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """SIGINT, SIGTERM and SIGHUP ask the run to stop; it then ends its cell and can be resumed."""
    stop = Stop()

    def ask(number: int, _: FrameType | None) -> None:
        stop.reason = stop.reason or f"{signal.Signals(number).name} received"

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def execute(run: Path) -> Outcome:
    """Runs every cell of a run that is not finished yet.

    Raises UserError when another engine has the run, or its manifest or journal cannot be read.
    """
    manifest = Manifest.of(read_manifest(run))
    with (
        stop_on_signals() as stop,
        alone_on_the_host(manifest.beside),
        JournalWriter.open(run) as journal,
        Control(run) as control,
    ):
        commands = Commands(journal)

        def hear() -> None:
            control.poll(commands.answer)
            if commands.stop_wanted:
                stop.reason = stop.reason or "asked to stop"

        stop.hear = hear
        for orphan in journal.close_orphans():
            kill_leftover(cell_folder(run, orphan))
        finished = journal.finished_cells()
        failed = 0
        for cell in manifest.cells:
            if cell.id in finished:
                continue
            if stop.reason:
                break
            if _attempt(run, manifest, cell, journal, stop, commands):
                finished.add(cell.id)
            elif not stop.reason:
                failed += 1
        return Outcome(len(finished), failed, bool(stop.reason))


def cell_folder(run: Path, cell: str) -> Path:
    """Where a cell keeps its cluster and its server's log."""
    return run / "cells" / cell


def _attempt(run: Path, manifest: Manifest, cell: Cell, journal: JournalWriter, stop: Stop, commands: Commands) -> bool:
    """Runs one cell; True when it finished. Whatever ends it is recorded and ends this cell only."""
    folder = cell_folder(run, cell.id)
    if not manifest.keep:
        kill_leftover(folder)
    make_passable(folder)
    attempt = commands.attempt = journal.begin_attempt(cell.id, time.monotonic_ns(), {})
    try:
        _run_cell(folder, manifest, cell, attempt, journal, stop, commands)
    except Interrupted as interrupt:
        journal.end_attempt(attempt, time.monotonic_ns(), "interrupted", str(interrupt))
        return False
    except (UserError, StepFailed, psycopg.Error, sqlite3.Error, OSError) as error:
        # The cluster is gone by now, so a disk that was full has room again for saying so.
        reason = " ".join(str(error).split()) or type(error).__name__
        journal.recover()
        journal.end_attempt(attempt, time.monotonic_ns(), "failed", reason)
        return False
    except Exception as error:
        traceback.print_exc()  # into engine.log: this is a fault of ours
        journal.recover()
        reason = f"internal error, see engine.log: {type(error).__name__}: {error}"
        journal.end_attempt(attempt, time.monotonic_ns(), "failed", reason)
        return False
    journal.end_attempt(attempt, time.monotonic_ns(), "finished")
    return True


def _run_cell(
    folder: Path,
    manifest: Manifest,
    cell: Cell,
    attempt: int,
    journal: JournalWriter,
    stop: Stop,
    commands: Commands,
) -> None:
    build = manifest.build(cell.subject.build)
    origin: dict[str, Any] = {"environment": environment.record(folder)}
    _note_drift(manifest.environment, origin["environment"], attempt, journal)

    def tell(text: str) -> None:
        t_ns = time.monotonic_ns()
        journal.add_event("progress", t_ns, {"text": text}, ended_ns=t_ns, attempt=attempt)
        journal.commit()

    config = manifest.config(cell.subject)
    with Server(build, config, folder, keep=manifest.keep, progress=tell, check=stop.check) as server:
        origin["server"] = server.record()
        journal.update_origin(attempt, origin)
        with StepRunner(manifest, cell, server, journal, attempt, stop, commands) as runner:
            for ordinal, record in enumerate(manifest.workload["steps"]):
                stop.check()
                runner.run(ordinal, Step.of(record))
    origin["environment_after"] = environment.record(folder)
    journal.update_origin(attempt, origin)
    _note_drift(origin["environment"], origin["environment_after"], attempt, journal)


def _note_drift(before: Record, after: Record, attempt: int, journal: JournalWriter) -> None:
    for finding in drift(before, after):
        t_ns = time.monotonic_ns()
        journal.add_event("drift", t_ns, {"text": finding}, ended_ns=t_ns, attempt=attempt)
