"""The engine: runs the cells of a manifest one after another, and leaves nothing behind however it ends."""

from __future__ import annotations

import contextlib
import itertools
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from engine.core.kernel import HOST
from engine.core.model import Cell, Manifest
from engine.host import scheduler
from engine.host.account import unprivileged
from engine.host.lock import exclusive_run
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.runs import planned
from engine.journal.writer import JournalWriter
from engine.postgres.cluster import kill_leftover
from engine.postgres.server import ignore_libpq_variables
from engine.run.abreast import run_abreast
from engine.run.attempt import Attempt
from engine.run.control import Commands, Control
from engine.run.ending import Ending
from engine.run.guest import GuestAttempt
from engine.run.reaper import reaper
from engine.run.stop import Stop


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: how many cells failed, and whether it was asked to stop."""

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
    """Runs every cell of a run that is not finished yet. libpq's variables in the environment are removed.

    Raises UserError when another engine has the run, or its manifest or journal cannot be read.
    """
    ignore_libpq_variables()
    manifest = planned(run)
    with (
        stop_on_signals() as stop,
        exclusive_run(concurrent=manifest.allow_concurrent),
        JournalWriter.open(run) as journal,
        Control(run) as control,
        reaper(run) as clearing,
    ):
        commands = Commands(journal)

        def poll_control() -> None:
            control.poll(commands.answer)
            if commands.stop_wanted:
                stop.reason = stop.reason or "asked to stop"

        stop.poll_control = poll_control
        orphans, uid = journal.close_orphans(), unprivileged().uid
        places = {cell.id: (run / "cells" / cell.id, manifest.build(cell.subject.build).bin) for cell in manifest.cells}
        for cell in manifest.cells:
            if cell.id in orphans:
                kill_leftover(*places[cell.id], uid)
        with JournalReader(run) as reader:
            finished = outcome.finished(manifest, reader.attempts(origins=False))
        ending = Ending(run, manifest, journal)
        failed = 0
        for repeat, groups in itertools.groupby(outcome.groups(manifest), key=lambda cells: cells[0].repeat):
            left = [cells for cells in groups if not finished.issuperset(cell.id for cell in cells)]
            if left and not stop.reason:
                ending.decide(repeat - 1)
            if stop.reason or repeat > ending.repeats:
                break
            for cells in left:
                if stop.reason:
                    break
                tunables = manifest.tunables if any(cell.subject.kernel == HOST for cell in cells) else ()
                with (
                    clearing.watching([places[cell.id] for cell in cells], uid, scheduler.values(tunables)),
                    scheduler.tuned(tunables),
                ):
                    for cell in cells:
                        # Also where clusters are kept: a cell that is run again needs the place of the one before.
                        kill_leftover(*places[cell.id], uid)
                    failed += _run(cells, run, manifest, stop, commands, ending)
        if not stop.reason:
            ending.decide(manifest.repeats)
        return Outcome(failed, bool(stop.reason))


def _run(cells: Sequence[Cell], run: Path, manifest: Manifest, stop: Stop, commands: Commands, ending: Ending) -> int:
    """Runs the cells of a repeat that are to run together, or one by itself; returns how many of them failed."""
    attempts = [
        (Attempt if cell.subject.kernel == HOST else GuestAttempt)(
            run / "cells" / cell.id, manifest, cell, stop, commands
        )
        for cell in cells
    ]
    if len(attempts) == 1:
        attempts[0].run()
    else:
        abreast = [attempt for attempt in attempts if isinstance(attempt, Attempt)]
        run_abreast(abreast, manifest, unprivileged(), ending.scatter())
    return sum(not attempt.finished for attempt in attempts) if not stop.reason else 0
