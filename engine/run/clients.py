"""The process that forks a step's roles, as the engine sees it: given its step, waited for, ended."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from engine.run.stop import StepFailed

STOP_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Launcher:
    """The process that forks a step's roles."""

    process: subprocess.Popen[bytes]
    log: Path

    def send(self, spec: str) -> None:
        """Hands it the step."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(spec.encode())
            self.process.stdin.close()
        except BrokenPipeError:
            self.process.wait()
            raise StepFailed(self.reason()) from None

    def await_end(self) -> None:
        """Waits for it after RELEASE; raises StepFailed when it ends badly, or not."""
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise StepFailed(f"the clients did not end within {STOP_TIMEOUT_S:.0f} s; see {self.log}") from None
        if code != 0:
            raise StepFailed(self.reason())

    def end(self) -> None:
        """Sees to it that it is gone, and its roles with it."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def reason(self) -> str:
        """Why it ended, by its log's last line."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        ended = f"the client launcher ended with exit code {self.process.returncode}"
        return f"{ended}: {lines[-1]}" if lines else ended
