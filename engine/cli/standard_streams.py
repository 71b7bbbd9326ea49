"""Standard input, output and error of a command where they are closed, full, or a pipe without a reader."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from typing import Any, TextIO

from engine.core.errors import UserError
from engine.report.console import complain

OUTPUT = "standard output"
REFUSED = 2
NOT_READ = 128 + signal.SIGPIPE  # as a shell reports a program that the signal ended


class NotRead(Exception):
    """Nobody reads standard output any more. No OSError: click and rich exit with 1 for that."""


class _Output(io.FileIO):
    """A descriptor whose errors name it, as other files' errors do."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise NotRead from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, OUTPUT) from None


def prepare() -> None:
    """Open closed streams, so that no file gets its number, and let errors of standard output name it.

    Raises UserError if standard output is closed.
    """
    lacking = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if name in lacking:
            with suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))
    if "stdout" in lacking:
        raise UserError(f"{OUTPUT} is closed: give it a place, such as > /dev/null")
    with suppress(OSError, ValueError):  # one in memory has no number
        raw = io.BufferedWriter(_Output(sys.stdout.fileno(), "w", closefd=False))
        encoding, lines = sys.stdout.encoding, sys.stdout.line_buffering
        sys.stdout = io.TextIOWrapper(raw, encoding, "backslashreplace", line_buffering=bool(lines))


def settle(code: int) -> int:
    """The exit code, after giving up text that cannot be written: the interpreter would end with another one for it."""
    try:
        sys.stdout.flush()
    except NotRead:
        code = NOT_READ
    except OSError as error:
        code = code if code == REFUSED else complain(f"{OUTPUT}: {error.strerror}")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, NotRead):
            _discard(stream)
    return code


def _discard(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
