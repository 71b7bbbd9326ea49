"""A cluster that a task makes for itself: initialised like the cell's, started, killed, queried.

Its server listens in its own folder, so that no folder for sockets has to be cleaned up. libpq connects through
/proc/PID/cwd, since the path may exceed the length limit of sockets.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from psycopg.conninfo import make_conninfo
from psycopg.pq import abc

from workloads.base import Kit
from workloads.connection import COMMAND_OK, TUPLES_OK, SqlError, error_of, open_connection
from workloads.micro.hyperfine import Failed
from workloads.process import die_with_parent

Check = Callable[[], None]  # raises Stopped if the step is to be abandoned

USER, PORT = "bench", 5432
SOCKET = f".s.PGSQL.{PORT}"  # in the server's working folder
LOOK_S = 0.02
START_S, STOP_S = 120.0, 20.0
OWN_CONF = """
# set by a task for its own cluster
unix_socket_directories = '.'
listen_addresses = ''
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    kit: Kit
    data: Path

    @property
    def log(self) -> Path:
        return self.data.parent / f"{self.data.name}.log"

    def initdb(self, *more: str) -> list[str]:
        return [f"{self.kit.programs}/initdb", f"--pgdata={self.data}", *self.kit.initdb, *more]

    @property
    def postgres(self) -> list[str]:
        return [f"{self.kit.programs}/postgres", "-D", str(self.data)]

    def initialise(self, check: Check, sync: bool, settings: str) -> None:
        """Initialise it with the build's locale provider, the cell's settings, and then `settings`."""
        self.data.mkdir(mode=0o700)
        command = self.initdb(*self.kit.provider, *(() if sync else ("--no-sync",)))
        with self._running(command, signal.SIGKILL) as process:
            _await(lambda: process.poll() is not None, START_S, "initdb", check)
            if process.returncode:
                raise Failed(f"initdb: {self.last_words()}")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(f"{self.kit.conf}{OWN_CONF}{settings}")

    @contextmanager
    def server(self, check: Check) -> Iterator[Server]:
        """Run its server until the end of the block, then kill it as if the machine had lost power."""
        with self._running(self.postgres, signal.SIGQUIT) as process:
            running = Server(process.pid)
            _await(lambda: process.poll() is not None or running.answers(), START_S, "a server of its own", check)
            if process.poll() is not None:
                raise Failed(f"a server of its own ended: {self.last_words()}")
            yield running

    @contextmanager
    def _running(self, command: Sequence[str], death: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program; kill it with all its children at the end of the block, or when this process ends."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data,
                env=self.kit.environment,
                umask=0o077,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid(), int(death)),
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    kill_all(process.pid)
                    process.wait()
                reap()

    def last_words(self) -> str:
        with suppress(OSError):
            lines = self.log.read_bytes()[-4096:].decode(errors="replace").splitlines()
            return next((line for line in reversed(lines) if line.strip()), "its log is empty")
        return "it has no log"

    def postmaster(self) -> int:
        """The process id of its server; 0 without one."""
        with suppress(OSError, ValueError):
            pid = int((self.data / "postmaster.pid").read_text(errors="replace").split("\n", 1)[0])
            return pid if Path(f"/proc/{pid}/cwd").resolve() == self.data.resolve() else 0
        return 0

    def remove(self) -> None:
        self.log.unlink(missing_ok=True)
        shutil.rmtree(self.data, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Server:
    pid: int

    @property
    def dsn(self) -> str:
        return make_conninfo(host=f"/proc/{self.pid}/cwd", port=PORT, user=USER, dbname="postgres")

    def answers(self) -> bool:
        with suppress(SqlError):
            open_connection(self.dsn).finish()
            return True
        return False


class Session:
    """A connection whose statements can be abandoned. A context manager."""

    def __init__(self, dsn: str, check: Check) -> None:
        self.connection: abc.PGconn = open_connection(dsn)
        self._check = check

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.finish()

    def run(self, *statements: str) -> abc.PGresult:
        """Run statements; return the last one's last result. Raises SqlError, and any exception of the check."""
        for sql in statements:
            last = self._run(sql)
        return last

    def number(self, sql: str) -> int:
        return int(float(self.run(sql).get_value(0, 0) or b"0"))

    def _run(self, sql: str) -> abc.PGresult:
        connection, last = self.connection, None
        connection.send_query(sql.encode())
        while True:
            while connection.is_busy():
                self._check()
                if select.select([connection.socket], [], [], LOOK_S)[0]:
                    connection.consume_input()
            result = connection.get_result()
            if result is None:
                assert last is not None
                return last
            if result.status not in (COMMAND_OK, TUPLES_OK):
                raise error_of(connection, result)
            last = result


def kill_all(pid: int) -> None:
    """SIGKILL a group's leader (first, so that it cannot end the rest), the group, and its children, also leaders."""
    children = _children(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for each in children:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def reap(patience_s: float = STOP_S) -> float:
    """Wait for all children, orphans included; return their CPU time. Raises Failed if one does not end."""
    used_s, until_s = 0.0, time.monotonic() + patience_s
    while True:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return used_s
        if pid:
            used_s += usage.ru_utime + usage.ru_stime
        elif time.monotonic() > until_s:
            raise Failed("processes of a server that was killed do not end")
        else:
            time.sleep(LOOK_S / 4)


def _children(pid: int) -> list[int]:
    with suppress(OSError, ValueError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(errors="replace").split()]
    return []


def _await(done: Callable[[], bool], patience_s: float, what: str, check: Check) -> None:
    until_s = time.monotonic() + patience_s
    while not done():
        check()
        if time.monotonic() > until_s:
            raise Failed(f"{what} was not ready within {patience_s:.0f} s")
        time.sleep(LOOK_S)
