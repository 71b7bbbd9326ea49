"""A cluster that a task makes for itself: initialised like the cell's, started by pg_ctl, killed, queried.

Its server listens in its own folder, so that no folder for sockets has to be cleaned up. libpq connects through
/proc/PID/cwd, since the path may exceed the length limit of sockets.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from psycopg.conninfo import make_conninfo

from workloads.api.base import Kit
from workloads.client.connection import Check
from workloads.micro.hyperfine import HyperfineFailed, call

USER, PORT = "bench", 5432
LOOK_S = 0.02
STOP_S = 20.0
STARTING_S = 2.0  # until a server that pg_ctl starts has its pid file
START_S = 86_400  # recovery may take long
OWN_CONF = """
# set by a task for its own cluster
unix_socket_directories = '.'
listen_addresses = ''
"""


@dataclass(eq=False)
class Cluster:
    """A context manager that ends its server and removes its data. pg_ctl leaves a server without a parent: a guard, a
    child, ends it if this process is killed.
    """

    kit: Kit
    data: Path
    _guard: int = 0

    def __enter__(self) -> Cluster:
        launcher = os.pidfd_open(os.getpid())
        self._guard = os.fork()
        if self._guard == 0:
            self._await_end(launcher)
        os.close(launcher)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.end()
        finally:
            os.kill(self._guard, signal.SIGKILL)
            os.waitpid(self._guard, 0)
            shutil.rmtree(self.data, ignore_errors=True)

    def _await_end(self, launcher: int) -> NoReturn:
        """The guard."""
        try:
            os.setsid()
            select.select([launcher], [], [])
            until_s = time.monotonic() + STARTING_S
            while not self._signal(signal.SIGQUIT) and time.monotonic() < until_s:
                time.sleep(LOOK_S)
        finally:
            os._exit(0)

    def initdb(self, *more: str) -> list[str]:
        return [f"{self.kit.programs}/initdb", f"--pgdata={self.data}", *self.kit.initdb, *more]

    @property
    def start(self) -> list[str]:
        """The command that starts its server and waits until it accepts connections. It prints the server's log."""
        return [f"{self.kit.programs}/pg_ctl", "start", "-w", "-s", f"--timeout={START_S}", f"--pgdata={self.data}"]

    def initialise(self, check: Check, sync: bool, settings: str) -> None:
        """Initialise it with the build's locale provider, the cell's settings, and then `settings`."""
        self.data.mkdir(mode=0o700)
        command = self.initdb(*self.kit.provider, *(() if sync else ("--no-sync",)))
        call(command, str(self.data), self.kit.environment, check)
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(f"{self.kit.conf}{OWN_CONF}{settings}")

    @contextmanager
    def server(self, check: Check) -> Iterator[str]:
        """Run its server for the block, with its DSN, then kill it as if the machine had lost power."""
        try:
            call(self.start, str(self.data), self.kit.environment, check)
            folder = f"/proc/{self.postmaster()}/cwd"
            yield make_conninfo(host=folder, port=PORT, user=USER, dbname="postgres")
        finally:
            self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGQUIT) -> float:
        """End its server, if one runs; return the CPU time of all its processes. Raises Failed if one does not end."""
        used_s, until_s = 0.0, time.monotonic() + STOP_S
        while _children() != [self._guard]:
            self._signal(how)  # again, as one that pg_ctl has just started is not known yet
            pid, _, usage = os.wait4(-1, os.WNOHANG)
            if pid:
                used_s += usage.ru_utime + usage.ru_stime
            elif time.monotonic() > until_s:
                raise HyperfineFailed("processes of a server that was killed do not end")
            else:
                time.sleep(LOOK_S / 4)
        return used_s

    def _signal(self, how: signal.Signals) -> bool:
        """Signal its server; return whether there is one."""
        with suppress(ProcessLookupError):
            if pid := self.postmaster():
                os.kill(pid, how)
                return True
        return False

    def postmaster(self) -> int:
        """The process id of its server; 0 without one."""
        with suppress(OSError, ValueError):
            pid = int((self.data / "postmaster.pid").read_text(errors="replace").split("\n", 1)[0])
            return pid if Path(f"/proc/{pid}/cwd").resolve() == self.data.resolve() else 0
        return 0


def _children() -> list[int]:
    return [int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text("utf-8").split()]
