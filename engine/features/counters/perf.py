"""`perf stat` over running processes: starting, switching and ending it, and parsing its output.

perf counts as the engine's user: root counts everything, others only what runs outside the kernel, if
kernel.perf_event_paranoid permits that. Events are counted per process, including its later children.

Environment, set by the `bench` wrapper:
    PGBED_PERF   the program to use, or a derivation with it in bin; the machine's own if unset
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated

import msgspec

from engine.core.clock import patient
from engine.core.errors import UserError
from engine.core.perf_events import BY_NAME, EVENTS, EventCount
from engine.system.account import Account, bound_to_engine
from engine.system.subprocesses import ProgramOutput, ask, kill_group

VARIABLE = "PGBED_PERF"
PARANOID = "/proc/sys/kernel/perf_event_paranoid"
PATIENCE_S = patient(10.0)
OUTPUT_MAX_BYTES = 64 << 20
NOT_SUPPORTED, NOT_COUNTED = "<not supported>", "<not counted>"
VALUE = re.compile(r"\d{1,20}(\.\d{1,9})?")
# Plain, with a modifier (`cycles:u`), or of one of several kinds of CPU (`cpu_core/cycles/`).
EVENT = re.compile(r"(?:\w+/)?([\w-]+?)(?:[:/]([a-zA-Z]*))?")
THREAD = re.compile(r".*-(\d{1,9})", re.DOTALL)  # NAME-PID, where the name may be anything
UNITS = {"": 1.0, "msec": 1e6, "nsec": 1.0, "ns": 1.0}
OF_KERNEL = frozenset({"context-switches", "cpu-migrations"})  # these happen only in the kernel


class Line(msgspec.Struct, frozen=True, rename="kebab"):
    """The fields of perf's lines that are used; metrics that newer versions derive have no event."""

    counter_value: str | None = None
    unit: str = ""
    event: str | None = None
    event_runtime: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    pcnt_running: Annotated[float, msgspec.Meta(ge=0.0, le=101.0)] = 100.0
    thread: str = ""


def find() -> str:
    """The perf program; empty if missing, or if its derivation is not realised yet."""
    named = os.environ.get(VARIABLE, "")
    return (shutil.which("perf") or "") if not named or named.endswith(".drv") else named


def trial(program: str, account: Account) -> frozenset[str]:
    """Events that can be counted here. Raises UserError, with the reason, if there are none."""
    answer = ask([program, "stat", "-j", "--no-scale", "-e", _names(), "--", "true"], account)
    if answer.code:
        raise UserError(f"perf stat: {_refusal(answer)}")
    # perf prints counts and messages to standard error.
    lines = (line for line in answer.errors.splitlines() if line.lstrip().startswith("{"))
    counted = frozenset(event for counts in parse(lines).values() for event in counts)
    if not counted:
        raise UserError("perf stat counts nothing here")
    return counted


def parse(lines: Iterable[str]) -> dict[int, dict[str, EventCount]]:
    """Counts by process (0 if lines do not name one), then by event. Unsupported events are absent.

    An event of a process that was never on a CPU counts 0. Machines with several kinds of CPU print a line for each,
    which are added up. Raises UserError for output that perf does not print.
    """
    raw: dict[tuple[int, str], list[tuple[float, int, float]]] = {}
    for text in lines:
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=Line)
        except (ValueError, RecursionError) as error:
            raise _odd(text, str(error)) from None
        if line.event is None and line.counter_value is None:
            continue
        pid, event, value = _process(line, text), _event(line, text), line.counter_value
        if event is None or value == NOT_SUPPORTED:
            continue
        if value == NOT_COUNTED:
            raw.setdefault((pid, event), []).append((0.0, 0, 0.0))
            continue
        if value is None or not VALUE.fullmatch(value) or line.unit not in UNITS:
            raise _odd(text, "no count")
        count = float(value) * UNITS[line.unit]
        raw.setdefault((pid, event), []).append((count, line.event_runtime, line.pcnt_running))
    counts: dict[int, dict[str, EventCount]] = {}
    for (pid, event), parts in raw.items():
        counts.setdefault(pid, {})[event] = _together(parts)
    return {pid: _counted(events) for pid, events in counts.items()}


def _counted(events: dict[str, EventCount]) -> dict[str, EventCount]:
    """Drop events that had no counter while a process ran: their counts are unknown."""
    ran = "task-clock" in events and events["task-clock"].count > 0
    return {name: event for name, event in events.items() if event.enabled_ns or not ran}


def _together(parts: Sequence[tuple[float, int, float]]) -> EventCount:
    """Combine an event's (count, ns counted, percent of time counted) over kinds of CPU."""
    count, running_ns = sum(part[0] for part in parts), sum(part[1] for part in parts)
    percent = min(100.0, sum(part[2] for part in parts))
    if percent <= 0 or not running_ns:
        return EventCount(count, running_ns, running_ns)
    return EventCount(count * 100 / percent, round(running_ns * 100 / percent), running_ns)


def _event(line: Line, text: str) -> str | None:
    """The event's plain name; None for a kernel-only event counted without the kernel."""
    match = EVENT.fullmatch(line.event or "")
    if match is None or match[1] not in BY_NAME:
        raise _odd(text, "an event that was not asked for")
    return None if "u" in (match[2] or "") and match[1] in OF_KERNEL else match[1]


def _process(line: Line, text: str) -> int:
    if not line.thread:
        return 0
    match = THREAD.fullmatch(line.thread)
    if match is None:
        raise _odd(text, "no process")
    return int(match[1])


def _odd(text: str, why: str) -> UserError:
    return UserError(f"perf stat printed unexpected output ({why}): {text.strip()[:200]}")


def _names() -> str:
    return ",".join(event.name for event in EVENTS)


def _refusal(answer: ProgramOutput) -> str:
    return f"{_first_line(answer.errors or answer.output)}{_paranoia()}"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and line.strip() != "Error:"]
    return lines[0][:200] if lines else "it ended without a word"


def _paranoia() -> str:
    with suppress(OSError, ValueError):
        with open(PARANOID) as file:  # noqa: PTH123 (not a file, a setting)
            level = int(file.read())
        if os.geteuid() and level > 1:
            return f" (kernel.perf_event_paranoid is {level}; see man perf_event_open)"
    return ""


class Counting:
    """perf attached to some processes, not counting yet; `close` ends it.

    Raises UserError if perf does not start, or refuses. perf ends with the thread that started it, and on its own once
    all counted processes have ended.
    """

    def __init__(self, program: str, pids: Sequence[int]) -> None:
        self.user_only = False  # set by `end`: whether kernel events were left out
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        try:
            self._process = subprocess.Popen(
                [program, "stat", "-j", "--per-thread", "--no-scale", "--log-fd", "1", "--delay", "-1",
                 "--control", f"fd:{orders},{answers}", "-e", _names(), "-p", ",".join(map(str, pids))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env={**os.environ, "LC_ALL": "C"},
                pass_fds=(orders, answers),
                start_new_session=True,
                preexec_fn=bound_to_engine(signal.SIGKILL),
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self._orders)
            os.close(self._answers)
            reason = error.strerror if isinstance(error, OSError) else "it does not start"
            raise UserError(f"{program}: {reason}") from None
        finally:
            os.close(orders)
            os.close(answers)
        try:
            self._tell("ping")
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        self._tell("enable")

    def stop(self) -> None:
        """Raises UserError if perf has ended."""
        self._tell("disable")

    def end(self) -> dict[int, dict[str, EventCount]]:
        """End perf; return its counts like `parse`. Raises UserError if it reports nothing."""
        self._process.send_signal(signal.SIGINT)
        try:
            output, errors = self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise UserError(f"perf stat did not end within {PATIENCE_S:.0f} s") from None
        finally:
            self.close()
        if len(output) > OUTPUT_MAX_BYTES:
            raise UserError("perf stat produces endless output")
        counts = parse(output.decode(errors="replace").splitlines())
        self.user_only = b':u"' in output or b'/u"' in output
        if not counts:
            raise UserError(f"perf stat counted nothing: {_first_line(errors.decode(errors='replace'))}")
        return counts

    def close(self) -> None:
        """End perf without its counts. May be called again."""
        kill_group(self._process)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        for fd in (self._orders, self._answers):
            if fd >= 0:
                os.close(fd)
        self._orders = self._answers = -1

    def _tell(self, order: str) -> None:
        with suppress(BrokenPipeError):
            os.write(self._orders, f"{order}\n".encode())
        until_s, answer = time.monotonic() + PATIENCE_S, b""
        answers = select.poll()  # select.select takes no descriptor above 1023
        answers.register(self._answers, select.POLLIN)
        while b"ack" not in answer:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise UserError(f"perf stat did not answer within {PATIENCE_S:.0f} s")
            if answers.poll(left_s * 1000):
                part = os.read(self._answers, 64)
                if not part:
                    raise UserError(f"perf stat: {self._end_words()}")
                answer += part

    def _end_words(self) -> str:
        try:
            _, errors = self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return f"{_first_line(errors.decode(errors='replace'))}{_paranoia()}"
