"""The engine: runs the cells of a manifest one after another, and leaves nothing behind however it ends."""

from __future__ import annotations

import contextlib
import itertools
import math
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from engine.core.kernel import HOST
from engine.core.model import Cell, Manifest
from engine.features import around_cells
from engine.host import disk, kernel_settings
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.runs import planned
from engine.journal.writer import JournalWriter
from engine.postgres.cluster import kill_leftover
from engine.postgres.external_cell import LeftBehind, clear, left_in
from engine.postgres.server_environment import ignore_libpq_variables
from engine.postgres.waiting import Waiting
from engine.run.attempt import CellAttempt
from engine.run.control import Commands, ControlSocket
from engine.run.guest import GuestAttempt
from engine.run.interleaved_cells import run_interleaved
from engine.run.reaper import reaper
from engine.run.remote_clients import RemoteClients
from engine.run.stop import Stop
from engine.run.stopping_rule import StoppingRule
from engine.system.account import unprivileged
from engine.system.host_lock import exclusive_run


@dataclass(frozen=True, slots=True)
class Outcome:
    failed: int
    interrupted: bool


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[Stop]:
    """Ask the run to stop on SIGINT, SIGTERM and SIGHUP; it then ends its cell and can be resumed."""
    stop = Stop()

    def ask(number: int, _: FrameType | None) -> None:
        stop.ask(f"{signal.Signals(number).name} received")

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def execute(run: Path, connections: Mapping[str, str] | None = None) -> Outcome:
    """Run all unfinished cells of a run. Removes libpq's variables from the environment.

    `connections` are the connection strings of external servers, by build label. Raises UserError if another engine has
    the run, or its manifest or journal cannot be read, and DiskFull if they cannot be written.
    """
    ignore_libpq_variables()
    manifest, connections = planned(run, signed=True), connections or {}
    with (
        disk.named_when_full(run),
        _stop_on_signals() as stop,
        exclusive_run(concurrent=manifest.allow_concurrent),
        JournalWriter.open(run) as journal,
        ControlSocket(run) as control,
        reaper(run) as clearing,
        RemoteClients(manifest) as remote_clients,
    ):
        commands = Commands(journal)

        def poll_control() -> None:
            control.poll(commands.answer)
            if commands.stop_wanted:
                stop.ask("asked to stop")

        stop.poll_control = poll_control
        kernel_settings.restore_left()
        orphans, uid = journal.close_orphans(), unprivileged().uid
        places = {cell.id: (run / "cells" / cell.id, manifest.build(cell.subject.build).bin) for cell in manifest.cells}
        for cell in manifest.cells:
            if cell.id in orphans:
                kill_leftover(*places[cell.id], uid)
        with JournalReader(run) as reader:
            finished = outcome.finished(manifest, reader.attempts(origins=False))
        stopping_rule = StoppingRule(run, manifest, journal)
        failed = 0
        for repeat, groups in itertools.groupby(outcome.groups(manifest), key=lambda cells: cells[0].repeat):
            left = [cells for cells in groups if not finished.issuperset(cell.id for cell in cells)]
            if left and not stop.reason:
                stopping_rule.decide(repeat - 1)
            if stop.reason or repeat > stopping_rule.repeats:
                break
            for cells in left:
                if stop.reason:
                    break
                in_guests = all(cell.subject.kernel != HOST for cell in cells)
                conninfo, config = connections.get(cells[0].subject.build, ""), manifest.config(cells[0].subject)
                with (
                    clearing.watching([places[cell.id] for cell in cells], uid, conninfo),
                    contextlib.nullcontext() if in_guests else around_cells(manifest.parts, config, run),
                ):
                    for cell in cells:
                        # Even if clusters are kept: a repeated cell needs the space of the previous one.
                        kill_leftover(*places[cell.id], uid)
                    _clear_attached(run, connections, stop)
                    failed += _run(cells, run, manifest, stop, commands, stopping_rule, remote_clients, conninfo)
        if not stop.reason:
            stopping_rule.decide(manifest.design.repeats)
        return Outcome(failed, bool(stop.reason))


def _run(
    cells: Sequence[Cell],
    run: Path,
    manifest: Manifest,
    stop: Stop,
    commands: Commands,
    stopping_rule: StoppingRule,
    remote_clients: RemoteClients,
    conninfo: str,
) -> int:
    def attempt_at(cell: Cell) -> CellAttempt | GuestAttempt:
        folder = run / "cells" / cell.id
        if cell.subject.kernel != HOST:
            return GuestAttempt(folder, manifest, cell, stop, commands)
        return CellAttempt(folder, manifest, cell, stop, commands, remote_clients, conninfo, stopping_rule.seconds)

    attempts = [attempt_at(cell) for cell in cells]
    if len(attempts) == 1:
        attempts[0].run()
    else:
        interleaved = [attempt for attempt in attempts if isinstance(attempt, CellAttempt)]
        run_interleaved(interleaved, manifest, unprivileged())
    return sum(not attempt.finished for attempt in attempts) if not stop.reason else 0


def _clear_attached(run: Path, connections: Mapping[str, str], stop: Stop) -> None:
    """Drop what earlier cells left on external servers, as far as possible now, and until a stop."""

    def check() -> None:
        if stop.left_s() < math.inf:
            raise LeftBehind("not dropped before the run had to end")

    for folder, databases in left_in(run).items() if connections else ():
        if databases.build in connections:
            with contextlib.suppress(LeftBehind):
                clear(folder, connections[databases.build], Waiting(check=check))
