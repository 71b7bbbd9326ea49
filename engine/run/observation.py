"""An observation: servers that others use are watched side by side, a cell with one step each, until it is to end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from engine.core.model import Manifest
from engine.core.record import converted
from engine.journal.writer import JournalWriter
from engine.observe.observer import STATEMENTS, TRANSACTIONS, Observer
from engine.observe.stalls import StallRule
from engine.postgres.external_server import Found
from engine.postgres.server_activity import ServerActivity
from engine.postgres.statement_counts import By
from engine.run.control import Commands, Control, RunningCell

POLL_S = 0.1  # between checks for commands


class Watched(NamedTuple):
    """A server, and the connection over which it is watched."""

    found: Found
    activity: ServerActivity

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"{self.found.name}: {note}" for note in self.activity.notes)


def unit_of(servers: Sequence[Watched]) -> str:
    """What the rates count: statements, if all servers count them and tell in no time, or else transactions."""
    counts = [server.activity.statements for server in servers]
    return STATEMENTS if all(count is not None and count.often for count in counts) else TRANSACTIONS


class Observation:
    """Watches servers into a run's journal, from `with` on; `watch` returns after a while, or once it has `ended`."""

    def __init__(self, run: Path, manifest: Manifest, servers: Sequence[Watched]) -> None:
        self.ended = False
        self._run, self._manifest, self._servers = run, manifest, servers
        self._open = ExitStack()
        self._observers: list[Observer] = []
        self._step = manifest.workload["steps"][0]
        self._end_ns: int | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._journal = opened.enter_context(JournalWriter.open(self._run))
            self._control = opened.enter_context(Control(self._run))
            self._commands = Commands(self._journal)
            unit = unit_of(self._servers)
            rule = converted(self._manifest.stall_rule, StallRule, "manifest.json: stall_rule")
            by: By = self._step["by"]
            for cell, server in zip(self._manifest.cells, self._servers, strict=True):
                found = server.found
                attempt = self._journal.begin_attempt(cell.id, time.monotonic_ns(), self._origin(found))
                self._journal.add_settings(attempt, ((*setting, "server") for setting in found.settings))
                connect = partial(ServerActivity, found.conninfo, by)
                observer = Observer(self._journal, attempt, server.activity, connect, rule, unit)
                plan = {**self._step, "version": found.version, "address": found.address}
                observer.begin(0, str(self._step["name"]), plan)
                self._commands.cells[attempt] = RunningCell(attempt, observer.step)
                self._observers.append(observer)
            if seconds := self._step.get("seconds"):
                self._end_ns = time.monotonic_ns() + round(seconds * 1e9)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def watch(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self.ended and (left_s := until_s - time.monotonic()) > 0:
            for observer in self._observers:
                observer.watch()
            self._control.poll(self._commands.answer)
            if self._commands.stop_wanted or (self._end_ns is not None and time.monotonic_ns() >= self._end_ns):
                self.end()
            due_s = (min(observer.due_ns for observer in self._observers) - time.monotonic_ns()) / 1e9
            time.sleep(max(0.0, min(due_s, left_s, POLL_S)))

    def end(self) -> None:
        """Complete the record and close everything. Later calls do nothing."""
        if self.ended:
            return
        self.ended = True
        with self._open:
            for attempt, observer in zip(self._commands.cells, self._observers, strict=True):
                observer.finish()
                self._journal.end_attempt(attempt, time.monotonic_ns(), "finished")

    def _origin(self, server: Found) -> dict[str, object]:
        return {
            "environment": self._manifest.environment,
            "server": {
                "external": server.address,
                "version": server.built,
                "started": server.started,
                "role": server.role,
                "may_see_all": server.may_see_all,
                "settings": dict(server.settings),
                "unknown": [],
            },
        }
