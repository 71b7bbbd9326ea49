"""An attempt at a cell: a fresh cluster, its server, all its steps, and a record of how it ended."""

from __future__ import annotations

import sqlite3
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import Build, Cell, Manifest
from engine.features import knobs
from engine.host import disk, environment, kernel_settings
from engine.host.drift import drift
from engine.postgres.cellserver import CellServer
from engine.postgres.external_cell import ExternalCell
from engine.postgres.pgstat import MonitorError
from engine.postgres.server import Server
from engine.postgres.server_processes import ServerProcesses
from engine.postgres.waiting import Waiting
from engine.run.cell_steps import cell_steps
from engine.run.control import Commands, RunningCell
from engine.run.phase import Phase
from engine.run.remote_clients import RemoteClients
from engine.run.step import StepRunner
from engine.run.stop import Interrupted, StepFailed, Stop
from engine.system.account import make_passable

Phases = Generator[Phase, None, None]
BLAME_S, POLL_S = 0.5, 0.02


class CellAttempt:
    """An attempt at a cell, phase by phase. Whatever ends it is recorded, and ends this cell only."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        cell: Cell,
        stop: Stop,
        commands: Commands,
        remote_clients: RemoteClients | None = None,
        conninfo: str = "",
        seconds: Mapping[str, int] | None = None,
    ) -> None:
        self.finished = False
        self._seconds = seconds or {}  # of steps, where these differ from the plan
        self._conninfo = conninfo
        self._server: CellServer | None = None
        self.phase: Phase | None = None  # of the step that runs
        self.runner: StepRunner | None = None  # once the server is up
        self.idle_servers: list[ServerProcesses] = []  # stopped servers of the interleaved cells
        self._remote_clients = remote_clients or RemoteClients(manifest)
        self._phases_left = self._phases(folder, manifest, cell, stop, commands)

    def advance(self) -> bool:
        """Run up to the next phase; return False once the attempt has ended."""
        self.phase = next(self._phases_left, None)
        return self.phase is not None

    def run(self) -> None:
        """Run to the end, with no other cell interleaved."""
        while self.advance():
            if self.phase is Phase.RUNNING and self.runner is not None:
                self.runner.rest()

    def fail(self, error: Exception) -> None:
        """End the attempt, if it still runs, and record an error as if raised within it."""
        if self.phase is not None:
            with suppress(StopIteration, type(error)):
                self._phases_left.throw(error)
        self.phase = None

    def close(self) -> None:
        """End the attempt, if it still runs, without a record: the engine is ending."""
        self._phases_left.close()

    def _phases(self, folder: Path, manifest: Manifest, cell: Cell, stop: Stop, commands: Commands) -> Phases:
        journal = commands.journal
        attempt = journal.begin_attempt(cell.id, time.monotonic_ns(), {})
        commands.cells[attempt] = RunningCell(attempt)
        state, reason = "failed", None
        try:
            yield from self._run(folder, manifest, cell, attempt, stop, commands)
            state = "finished"
        except Interrupted as interrupt:
            state, reason = "interrupted", str(interrupt)
        except (UserError, StepFailed, MonitorError, psycopg.Error, sqlite3.Error, OSError) as error:
            # The cluster is gone by now, so a full disk has room for the record.
            reason = disk.with_name(" ".join(str(error).split()) or type(error).__name__, folder)
        except Exception as error:
            traceback.print_exc()  # into engine.log: a bug of ours
            reason = f"internal error, see engine.log: {type(error).__name__}: {error}"
        finally:
            del commands.cells[attempt]
            if state != "finished":
                self._remote_clients.drop()
        if state == "failed":
            journal.recover()
        if self._left:
            reason = f"{reason}; {self._left}" if reason else self._left
        journal.end_attempt(attempt, time.monotonic_ns(), state, reason)
        self.finished = state == "finished"

    def _run(
        self, folder: Path, manifest: Manifest, cell: Cell, attempt: int, stop: Stop, commands: Commands
    ) -> Phases:
        def note(kind: str, text: str) -> None:
            t_ns = time.monotonic_ns()
            journal.add_event(kind, t_ns, {"text": text}, ended_ns=t_ns, attempt=attempt)
            journal.commit()

        def progress(text: str) -> None:
            with suppress(sqlite3.Error):  # the server is ended nevertheless, and the next write fails, too
                note("progress", text)

        journal = commands.journal
        make_passable(folder)
        build = manifest.build(cell.subject.build)
        host = self._remote_clients.host()

        def surroundings() -> dict[str, Any]:
            record = environment.record(folder) | ({"client": host.environment()} if host else {})
            device = dict(manifest.config(cell.subject).device)
            return kernel_settings.without(record, (knob for name, knob in knobs().items() if name in device))

        origin: dict[str, Any] = {"environment": surroundings()}
        # The manifest records the host: a guest differs anyway.
        for finding in drift(manifest.environment, origin["environment"]) if cell.subject.kernel == HOST else ():
            note("drift", finding)
        with ExitStack() as stack:
            waiting = Waiting(progress, stop.check, stop.left_s)
            started = self._server_of(build, cell, manifest, folder, note, waiting)
            if isinstance(started, Server) and manifest.design.sliced:
                try:
                    started.prepare()
                except BaseException:
                    started.close(keep=False)
                    raise
                stack.callback(started.close, keep=manifest.keep)
                yield Phase.PREPARED
            server = self._server = stack.enter_context(started)
            if manifest.design.sliced:
                yield Phase.STARTED
                if died := server.died_reason():
                    raise StepFailed(died)
            origin["server"] = server.record()
            journal.update_origin(attempt, origin)
            with (
                _blamed(server, folder),
                StepRunner(manifest, cell, server, attempt, stop, commands, host, self.idle_servers) as runner,
            ):
                self.runner = runner
                origin["defaults"] = runner.watched.defaults
                origin["server"]["unknown"] = list(runner.watched.unknown)
                journal.update_origin(attempt, origin)
                if manifest.design.sliced:
                    yield Phase.CONNECTED
                steps = cell_steps(manifest.workload, build.label, cell.repeat, self._seconds)
                for ordinal, step in enumerate(steps):
                    stop.check()
                    yield from runner.run(ordinal, step)
        if self._left:
            note("drift", self._left)
        origin["environment_after"] = surroundings()
        journal.update_origin(attempt, origin)
        for finding in drift(origin["environment"], origin["environment_after"], under_load=True):
            note("drift", finding)

    @property
    def _left(self) -> str:
        return self._server.left if self._server is not None else ""

    def _server_of(
        self,
        build: Build,
        cell: Cell,
        manifest: Manifest,
        folder: Path,
        note: Callable[[str, str], None],
        waiting: Waiting,
    ) -> AbstractContextManager[CellServer]:
        """A server over a fresh cluster, or a fresh database on an external one: started with the context."""
        config = manifest.config(cell.subject)
        if manifest.external is not None:
            return ExternalCell(
                build, config, manifest.external, self._conninfo, manifest.run, cell.id, folder,
                note=partial(note, "drift"), waiting=waiting,
            )  # fmt: skip
        neighbours = [other.subject for other in manifest.cells if other.repeat == cell.repeat]
        return Server(
            build,
            config,
            folder,
            keep=manifest.keep,
            waiting=waiting,
            route=manifest.route,
            place=neighbours.index(cell.subject) if manifest.design.sliced else 0,
        )


@contextmanager
def _blamed(server: CellServer, folder: Path) -> Iterator[None]:
    """Put an error down to the server if it has ended: its clients notice before it can be reaped.

    If it has not, put it down to the disk, if that was full when the error came: later the cluster is gone.
    """
    try:
        yield
    except (UserError, StepFailed, MonitorError, psycopg.Error, OSError) as error:
        text = str(error) or type(error).__name__
        named = disk.with_name(text, folder)
        deadline = time.monotonic() + BLAME_S
        while time.monotonic() < deadline:
            if died := server.died_reason():
                raise StepFailed(died) from error
            time.sleep(POLL_S)
        if named != text:
            raise StepFailed(named) from error
        raise
