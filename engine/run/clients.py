"""The process that forks a step's roles, as the engine sees it: given its step, waited for, ended."""

from __future__ import annotations

import math
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import workloads
from engine.core.clock import patient
from engine.core.errors import UserError
from engine.core.record import converted, parsed
from engine.postgres.cellserver import CellServer
from engine.postgres.waiting import Waiting, wait_until
from engine.remote.client_host import ClientHost
from engine.run.stop import StepFailed
from engine.system.account import bound_to_engine
from workloads.api.base import Launch
from workloads.client.counter_page import Control, Page

STOP_TIMEOUT_S = patient(15.0)
KILL_TIMEOUT_S = patient(3.5)  # after the launcher itself has killed its roles
LEAST_S, SERVER_S = patient(0.3), patient(5.0)  # of the time for ending the run, to clients, and after them


@dataclass(frozen=True, slots=True)
class Launcher:
    process: subprocess.Popen[bytes]
    log: Path  # its standard error
    output: IO[bytes]  # its standard output: the report
    spec: str

    def send(self) -> None:
        """Give it its step; until then it loads its modules and connects to nothing. Raises StepFailed if it ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(self.spec.encode())
            self.process.stdin.close()
        except BrokenPipeError:
            self.process.wait()
            raise StepFailed(self.reason()) from None

    def await_end(self, waiting: Waiting) -> None:
        """Wait for the launcher to exit after RELEASE. Raises StepFailed if it fails or does not exit."""
        what = "waiting for the clients to end"
        if not wait_until(lambda: self.process.poll() is not None, STOP_TIMEOUT_S, what, waiting):
            raise StepFailed(f"the clients did not end within {STOP_TIMEOUT_S:.0f} s; see {self.log}")
        if self.process.returncode != 0:
            raise StepFailed(self.reason())

    def end(self, server: str, waiting: Waiting) -> None:
        if self.process.poll() is not None:
            return
        left_s = waiting.left_s()
        if left_s < math.inf:
            waiting.progress(f"ending the clients of {server}")
        self.process.terminate()
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(min(KILL_TIMEOUT_S, max(LEAST_S, left_s - SERVER_S)))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def report(self) -> dict[str, Any]:
        """The launcher's output: nothing, or one JSON object. Raises StepFailed for anything else."""
        self.output.seek(0)
        text = self.output.read()
        try:
            return converted(parsed(text, "its report"), dict[str, Any], "its report") if text.strip() else {}
        except UserError as error:
            raise StepFailed(f"the client launcher: {error}") from None

    def reason(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        ended = f"the client launcher ended with exit code {self.process.returncode}"
        return f"{ended}: {lines[-1]}" if lines else ended


@contextmanager
def launched(
    launch_on: Callable[[int], Launch], roles: int, server: CellServer, host: ClientHost | None = None
) -> Iterator[tuple[Page, Launcher]]:
    """Start a launcher on a new counters page, on `host` if given; no client outlives this context.

    Its clients are forked once it is sent its step.
    """
    page = Page.create(roles)
    log = server.cell_dir / "clients.log"
    launch = launch_on(host.page_fd if host else page.fd)
    if host is not None:
        launch = host.relayed(launch, page.fd, roles, server.pass_line)
    with log.open("ab") as errors, TemporaryFile() as report:
        process = subprocess.Popen(
            launch.command,
            stdin=subprocess.PIPE,
            stdout=report,
            stderr=errors,
            pass_fds=(page.fd, *server.client_fds, *((host.channel.reading, host.channel.writing) if host else ())),
            cwd=Path(workloads.__file__).parents[1],
            start_new_session=True,
            preexec_fn=bound_to_engine(signal.SIGKILL),
            **server.account.identity(),
        )
        launcher = Launcher(process, log, report, launch.stdin)
        try:
            yield page, launcher
        finally:
            page.words[Control.STOP] = 1
            page.words[Control.RELEASE] = 1
            launcher.end(server.build.label, server.waiting)
            page.close()
