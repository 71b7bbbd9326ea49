"""A command in a pseudo-terminal whose output is read, as a terminal would."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Terminal:
    """80x24 unless it is resized. `pid` is the command's process."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self.began_s = time.monotonic()
        self._code: int | None = None
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                given = {
                    name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
                }
                given |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **(environment or {})}
                os.execve(command[0], command, given)
            finally:
                os._exit(127)
        self.resize(80, 24)

    def resize(self, columns: int, rows: int) -> None:
        """Another size; the command is told."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def write(self, keys: bytes) -> None:
        """Types."""
        os.write(self._fd, keys)

    def until(self, word: bytes, patience_s: float = 30.0) -> float:
        """Seconds from the start until a word was shown. Raises AssertionError when it is not."""
        heard = b""
        asked_s = time.monotonic()
        while word not in heard:
            if time.monotonic() - asked_s > patience_s or self._ended():
                raise AssertionError(f"{word!r} was not shown: {heard[-4000:].decode(errors='replace')}")
            heard += self._read(0.5)
        return time.monotonic() - self.began_s

    def watch(self, seconds: float) -> None:
        """Reads the output for a while."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            self._read(min(left_s, 0.5))

    def wait(self, patience_s: float = 60.0) -> int:
        """The exit code, once it has ended; negative the signal that ended it."""
        end_s = time.monotonic() + patience_s
        while not self._ended():
            assert time.monotonic() < end_s, "it has not ended"
            self._read(0.1)
        assert self._code is not None
        return self._code

    def hang_up(self) -> None:
        """The terminal goes away."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Ends the command, if it has not ended, and the terminal."""
        if not self._ended():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()
        self.hang_up()

    def _ended(self) -> bool:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def _read(self, patience_s: float) -> bytes:
        if self._fd < 0:
            time.sleep(patience_s)
            return b""
        if not select.select([self._fd], [], [], patience_s)[0]:
            return b""
        try:
            return os.read(self._fd, 65536)
        except OSError:
            time.sleep(min(patience_s, 0.05))
            return b""
