"""Short calls of third-party programs, bounded in time, in output, and in processes left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from engine.core.clock import patient
from engine.core.errors import UserError
from engine.system.account import Account, bound_to_engine

TIMEOUT_S = patient(10.0)
OUTPUT_MAX_BYTES = 1 << 20
SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """A program's exit code and output; bytes that are not UTF-8 become U+FFFD."""

    code: int
    output: str
    errors: str

    @property
    def shown(self) -> str:
        text = (self.errors if self.code else self.output).strip() or self.output.strip() or "nothing"
        return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


def ask(command: Sequence[str], account: Account, timeout_s: float = TIMEOUT_S) -> ProgramOutput:
    """Run a program to its end, then kill its process group. Raises UserError if it cannot start or exceeds a limit."""
    program = command[0]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
            preexec_fn=bound_to_engine(signal.SIGKILL),
            **account.identity(),
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not start"
        raise UserError(f"{program} cannot be run as user {account.name}: {reason}") from None
    with child:
        try:
            output, errors = _read(child, program, timeout_s)
        finally:
            kill_group(child)
    return ProgramOutput(child.returncode, output, errors)


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to a child that leads a process group and to its group, unless it was already waited for."""
    if child.returncode is None:  # until then its id cannot be reused
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _read(child: subprocess.Popen[bytes], program: str, timeout_s: float) -> tuple[str, str]:
    """Both outputs, until the child has ended and nothing is left to read; a grandchild may keep a pipe open."""
    assert child.stdout is not None and child.stderr is not None
    until_s = time.monotonic() + timeout_s
    parts: dict[int, bytearray] = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    open_pipes = list(parts)
    while True:
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # its group keeps its id
        ready, _, _ = select.select(open_pipes, [], [], 0.0 if ended else 0.05)
        for fd in ready:
            chunk = os.read(fd, 65536)
            parts[fd] += chunk
            if not chunk:
                open_pipes.remove(fd)
        if sum(map(len, parts.values())) > OUTPUT_MAX_BYTES:
            raise UserError(f"{program} produces endless output; it was killed after {OUTPUT_MAX_BYTES >> 20} MiB")
        if ended and not ready:
            output, errors = (bytes(chunk).decode(errors="replace") for chunk in parts.values())
            return output, errors
        if time.monotonic() > until_s:
            raise UserError(f"{program} did not exit within {timeout_s:.0f} s and was stopped")
