"""Calls of `bench` by the thousand: each in a process of its own, forked from one that has loaded everything."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from engine.cli.main import main
from tests.support import warm

TIME_S = 60.0
MEMORY_BYTES = 4 << 30
OUTPUT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to try: its name, and a function that tries it and describes the faults then."""

    name: str
    attempt: Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a call: `code` is negative where a signal ended it, SIGALRM for taking too long."""

    arguments: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


def call(arguments: Sequence[str], folder: Path, stdout: str = "") -> Outcome:
    """Runs `bench` with these arguments in `folder`, within bounds of time and memory; ends its group with it.

    `stdout` is "full", "closed" or "unread" (a pipe that nobody reads); else it is kept.
    """
    _load()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(arguments, folder, out.fileno(), err.fileno(), stdout)
        try:
            _, status = os.waitpid(child, 0)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
    return Outcome(tuple(arguments), os.waitstatus_to_exitcode(status), *texts)


@cache
def _load() -> None:
    warm.load()


def _become(arguments: Sequence[str], folder: Path, out: int, err: int, stdout: str) -> None:
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(descriptor, target)
        if stdout == "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        elif stdout == "unread":
            reading, writing = os.pipe()
            os.close(reading)
            os.dup2(writing, 1)
        sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), os.fdopen(1, "w", closefd=False)
        if stdout == "closed":
            os.close(1)
            sys.stdout = None  # as the interpreter sets it
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_BYTES, OUTPUT_BYTES))
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, TIME_S)
        main(args=list(arguments), prog_name="bench")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def faults(outcome: Outcome) -> Iterator[str]:
    """The complaint about the end of a call: nothing, where it holds."""
    if outcome.code == -signal.SIGALRM:
        yield f"did not end within {TIME_S:.0f} s"
    elif "Traceback" in outcome.stderr:
        yield f"a traceback: {outcome.stderr.strip().splitlines()[-1]}"
    elif outcome.code not in (0, 1, 2) and not (outcome.code == 3 and "--gate" in outcome.arguments):  # undecided
        yield f"ended with {outcome.code}: {outcome.stderr!r}"
    elif outcome.code == 2 and (outcome.stderr.count("\n") != 1 or len(outcome.stderr) < 10):
        yield f"no single line on stderr: {outcome.stderr!r}"
    for name, text in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        hidden = next((line for line in text.split("\n") if not line.isprintable()), None)
        if hidden is not None:
            yield f"{name} holds what a terminal acts on: {hidden!r}"
