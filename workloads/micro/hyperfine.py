"""hyperfine, which times a program: its call for one run, and both forms of its JSON.

It cannot interleave, so it is called once for each cell and task. -N: no shell, whose start would have to be measured
and subtracted.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from workloads.client.process import die_with_parent

SINCE = (1, 13)  # the first version with -N
LOOK_S = 0.02
WORDS_MAX_BYTES = 1 << 20  # of the programs' output
# Words of hyperfine and pg_ctl after the words of the program that has failed.
OWN_WORDS = re.compile(r"Error: Command .*terminated with non-zero exit code|pg_ctl: could not|Examine the log output")


class HyperfineFailed(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a program. `memory_bytes` is its peak, if hyperfine reports it; `found` is the whole report."""

    wall_s: float
    user_s: float
    system_s: float
    memory_bytes: int | None
    found: dict[str, Any]

    def without(self, empty: Measured) -> Measured:
        """Subtract the program's time to do nothing, as hyperfine does with the start of a shell.

        Raises HyperfineFailed if nothing is left.
        """
        times = (getattr(self, name) - getattr(empty, name) for name in ("wall_s", "user_s", "system_s"))
        wall_s, user_s, system_s = (max(0.0, seconds) for seconds in times)
        if not wall_s:
            floor = f"its program takes {1000 * empty.wall_s:.1f} ms to do nothing"
            raise HyperfineFailed(f"too short to time, as {floor}: give it more rows")
        return replace(self, wall_s=wall_s, user_s=user_s, system_s=system_s)


def version(words: str) -> tuple[int, ...]:
    """Parse the output of --version. Raises ValueError for another program's."""
    match = re.match(r"hyperfine (\d+)\.(\d+)", words)
    if match is None:
        raise ValueError(f"'{words}' is not the version of a hyperfine")
    return int(match.group(1)), int(match.group(2))


def command(program: str, timed: Sequence[str], result: str) -> list[str]:
    return [
        program, "-N", "--runs", "1", "--style", "none", "--output", "inherit", "--export-json", result,
        shlex.join(timed),
    ]  # fmt: skip


def time_once(
    program: str, timed: Sequence[str], folder: str, environment: Mapping[str, str], check: Callable[[], None]
) -> Measured:
    """Time a run of a program in a folder. Raises as `call`."""
    result = os.memfd_create("result")
    try:
        call(command(program, timed, f"/proc/self/fd/{result}"), folder, environment, check, result, name=timed[0])
        return parse(os.pread(result, WORDS_MAX_BYTES, 0))
    finally:
        os.close(result)


def call(
    command: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    check: Callable[[], None],
    *files: int,
    name: str = "",
) -> None:
    """Run a program in a folder; `check` may raise to abandon it. Raises Failed with the program's last line."""
    words = os.memfd_create("words")
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            pass_fds=files,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
        try:
            while True:
                try:
                    code = process.wait(LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    check()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # its children are in its group
                process.wait()
        if code:
            raise HyperfineFailed(f"{name or command[0]}: {last_words(os.pread(words, WORDS_MAX_BYTES, 0), code)}")
    finally:
        os.close(words)


def parse(text: bytes) -> Measured:
    """Parse the result of one run. Raises Failed for anything else."""
    try:
        record = msgspec.json.decode(text, type=dict[str, Any])
        (one,) = record["results"]
        if "schema_version" in record:  # 2.0 and later: a measurement for each run
            (measurement,) = one["measurements"]
            wall_s, user_s, system_s = (
                float(measurement[f"time_{name}"]["value"]) for name in ("wall_clock", "user", "system")
            )
            memory = measurement.get("memory_peak_resident")
            memory_bytes = None if memory is None else int(memory["value"])
        else:  # user and system are means, here over one run
            (wall_s,) = map(float, one["times"])
            user_s, system_s = float(one["user"]), float(one["system"])
            memory_bytes = int(one["memory_usage_byte"][0]) if "memory_usage_byte" in one else None
    except (LookupError, TypeError, ValueError) as error:  # msgspec's errors are ValueErrors
        raise HyperfineFailed(f"the result of hyperfine cannot be read: {type(error).__name__}: {error}") from None
    return Measured(wall_s, user_s, system_s, memory_bytes, record)


def last_words(words: bytes, code: int) -> str:
    """The last line of a failed program; hyperfine's own only if the program printed nothing."""
    lines = [line.strip() for line in words.decode(errors="replace").splitlines() if line.strip()]
    messages = [line for line in lines if not OWN_WORDS.match(line)]
    return (messages or lines or [f"exit code {code}"])[-1]
