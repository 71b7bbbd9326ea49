"""One probe over one running server: started, read without ever waiting, restarted once, always ended.

    with ProbeSession(target, "runq") as session:
        session.wait_baseline()       # before the clients start
        ...
        for frame in session.poll():  # once a second; never blocks
            ...

Whatever becomes of bpftrace, the caller sees frames, gaps and messages, never an exception, and never waits. When the
caller dies, the helper's standard input ends and bpftrace with it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import IO, Any, Self

from probes import attach_points, elf, helper, processes, script_text
from probes.bpftrace import parse_version
from probes.errors import visible
from probes.frame_reader import Reader
from probes.frames import Frame
from probes.table import BY_ID
from probes.tracer import Tracer, bpftrace_version, direct_command

PATIENCE = float(os.environ.get("PGBED_PATIENCE", "1"))  # factor for timeouts: an emulated guest is slow
START_TIMEOUT_S = 20.0 * PATIENCE
STOP_PATIENCE_S = 8.0 * PATIENCE  # more than the helper takes to end a bpftrace that hangs
HUNG_S = 6.0 * PATIENCE  # without a tick for so long, bpftrace counts as hung, unless it waits for a CPU
SILENT_NS = 3_000_000_000
RESTARTS = 1
RESCANS = 2
TICK_NS = 10_000_000  # resolution of processes' start times
RAW_CAP_BYTES = 64 * 1024 * 1024


class ProbeState(Enum):
    """FAILED and ENDED are final."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Target:
    """The postmaster and its binary, and the clients' pids with all their descendants.

    `launchers` will start clients: they themselves are not watched, only children started once the probe is ready.
    """

    postmaster: int
    binary: Path
    major: int
    clients: tuple[int, ...] = ()
    launchers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without figures, on the journal's clock; `ended_ns` is None if they did not come back."""

    probe: str
    began_ns: int
    ended_ns: int | None
    reason: str


class ProbeSession:
    """One probe over one server, a context manager. Not thread-safe.

    `messages` are lines for the user, `gaps` times without figures; both only grow. `origin` is known once started.
    `folder` keeps the script, the origin and the raw stream (cut at 64 MiB). `command` replaces
    `tracer.helper_command`.
    """

    def __init__(
        self,
        target: Target,
        probe: str,
        *,
        folder: Path | None = None,
        allow_slow: bool = False,
        tracking: bool = True,
        mount_tracefs: bool = False,
        command: tuple[str, ...] | None = None,
    ) -> None:
        self.target = target
        self.probe = BY_ID[probe]
        self.state = ProbeState.IDLE
        self.messages: list[str] = []
        self.gaps: list[Gap] = []
        self.restarts = 0
        self.origin: dict[str, Any] = {}
        self._folder = folder
        self._allow_slow, self._tracking, self._mount = allow_slow, tracking, mount_tracefs
        self._command = command
        self.tracer: Tracer | None = None
        self._then: Callable[[], None] | None = None  # next action once the tracer that was asked to end has done so
        self.reader = Reader(probe)
        self._raw: IO[bytes] | None = None
        self._expected = 0
        self._rescans = 0
        self._open_gap: Gap | None = None
        self._counted = False
        self._clients: tuple[int, ...] = ()  # clients that were passed to the helper
        self._spawned_boot_ns = 0
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._process_of: dict[int, int] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- for the caller

    def start(self) -> None:
        """Start bpftrace and return before it is ready. Raises ProbeError if the probe is not available."""
        binary = elf.read(self.target.binary.resolve())
        attachments = attach_points.resolve_all(
            binary, self.probe.events, self.target.major, kernel=helper.kernel_version(), allow_slow=self._allow_slow
        )
        bpftrace = bpftrace_version(self._command or direct_command())
        self.origin = attach_points.origin(self.probe, bpftrace, binary, attachments)
        # The helper renders its own, with the processes of that moment: this one is for the record and the count.
        script = script_text.script(
            self.probe.id,
            {},
            binary=binary.path,
            attachments=attachments,
            machine=binary.machine,
            tracking=self._tracking,
            owner=os.geteuid(),
            bpftrace=parse_version(bpftrace) or (0, 17),
            cpus=os.cpu_count() or 1,
        )
        self._expected = len(script_text.attach_points(script))
        self.reader = Reader(
            self.probe.id, process_of=self._process, attach=self.origin["attach"], slow_entry=self.origin["slow_entry"]
        )
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it will hold kernel addresses
            (self._folder / f"{self.probe.id}.bt").write_text(script, encoding="utf-8")
            (self._folder / f"{self.probe.id}.json").write_text(json.dumps(self.origin, indent=1), encoding="utf-8")
            self._raw = (self._folder / f"{self.probe.id}.raw.jsonl").open("ab", buffering=0)
        self._spawn()

    def wait_baseline(self, timeout_s: float = 3 * START_TIMEOUT_S) -> bool:
        """Wait until the first tick has been read: all later events will be in a frame. It may wait for a CPU first."""
        until_s = time.monotonic() + timeout_s
        while self.state in (ProbeState.STARTING, ProbeState.RUNNING) and time.monotonic() < until_s:
            if self.state is ProbeState.RUNNING and self.reader.baseline_ns is not None:
                return True
            self.poll()
            time.sleep(0.01)
        return False

    def poll(self) -> tuple[Frame, ...]:
        """Return the frames since the last call. Never blocks or raises: a probe must not end a step."""
        try:
            return self._poll()
        except Exception as error:
            self._fail(f"{self.probe.id} has stopped: {type(error).__name__}: {error}")
            return ()

    def _poll(self) -> tuple[Frame, ...]:
        tracer = self.tracer
        if tracer is None:
            return ()
        frames = self._read(tracer)
        code = tracer.ended()
        if self._then is not None:
            if code is not None:
                self._drop(tracer)
                then, self._then = self._then, None
                then()
            return ()
        if self.state is ProbeState.STARTING:
            self._look_ready()
        if code is not None and self.state is ProbeState.STARTING and living(self._clients) != self._clients:
            self._end_then(self._spawn)  # a client exited before the helper looked
        elif code is not None:
            frames += self._read(tracer)
            self._lost(f"bpftrace ended with code {code}")
        elif tracer.hung(START_TIMEOUT_S if self.state is ProbeState.STARTING else HUNG_S):
            self._lost("bpftrace printed nothing and was not waiting for a CPU")
        return frames

    @property
    def silent(self) -> bool:
        """Whether it has been attached for 3 s and counted nothing: a fault if statements were running."""
        if self._counted or self._first_ns is None or self._last_ns is None:
            return False
        return self._last_ns - self._first_ns >= SILENT_NS

    @property
    def over(self) -> bool:
        """Whether it has ended with its bpftrace, so that `poll` need not be called any more."""
        return self.state in (ProbeState.FAILED, ProbeState.ENDED) and self.tracer is None

    def ask_stop(self) -> None:
        """Begin to end the probe and return at once; `poll` completes it, `stop` waits for that."""
        if self.state is not ProbeState.FAILED:
            self.state = ProbeState.ENDED
        self._close_gap(None)
        if self.tracer is not None:
            self.tracer.ask_end()
            self._then = lambda: None

    def stop(self) -> tuple[Frame, ...]:
        """End bpftrace; return the last whole frames. Takes a fraction of a second, five if bpftrace hangs."""
        frames: tuple[Frame, ...] = ()
        self.ask_stop()
        until_s = time.monotonic() + STOP_PATIENCE_S
        while self.tracer is not None and time.monotonic() < until_s:
            frames += self._read(self.tracer)
            self.poll()
            time.sleep(0.01)
        if self.tracer is not None:  # started through sudo, it cannot be killed from here
            self._report(f"probes: {self.probe.id}: its helper does not exit; check for a leftover bpftrace process")
            self._drop(self.tracer)
        if self._raw is not None:
            self._raw.close()
            self._raw = None
        return frames

    # -- inside

    def _spawn(self) -> None:
        target = self.target
        self._spawned_boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        arguments = [
            self.probe.id,
            *("--binary", str(target.binary)),
            *("--major", str(target.major)),
            *("--server", str(target.postmaster)),
        ]
        self._clients = living(target.clients)  # the helper refuses exited ones
        for option, pids in (("--client", self._clients), ("--launcher", target.launchers)):
            arguments += [word for pid in pids for word in (option, str(pid))]
        arguments += ["--allow-slow"] if self._allow_slow else []
        arguments += ["--untracked"] if not self._tracking else []
        arguments += ["--mount-tracefs"] if self._mount else []
        self.reader.restart()
        self._first_ns = None
        self.state = ProbeState.STARTING
        self.tracer = Tracer(tuple(arguments), self._command)

    def _read(self, tracer: Tracer) -> tuple[Frame, ...]:
        for text in tracer.errors():
            self._report(text if text.startswith("probes:") else f"probes: {self.probe.id}: {text}")
        starved, data = tracer.starved, tracer.read()
        if not data:
            return ()
        if starved and self.state is ProbeState.RUNNING:
            reason = "bpftrace was waiting for a CPU; the counts of that time are in one frame"
            self.gaps.append(self._gap(reason, time.monotonic_ns()))
        if self._raw is not None and self._raw.tell() < RAW_CAP_BYTES:
            try:
                self._raw.write(data)
            except OSError:  # a full disk ends the raw stream, not the probe
                self._raw.close()
                self._raw = None
        self.reader.offset_ns = boot_offset_ns()
        frames = self.reader.feed(data)
        if frames and self._tracking:
            for tid in self._process_of.keys() - self.reader.groups.keys():
                del self._process_of[tid]
        for frame in frames:
            for text in frame.quality.warnings(self.probe.id):
                self._report(text)
            self._counted = self._counted or bool(frame.records)
            self._first_ns = self._first_ns or frame.t_ns - frame.dt_ns
            self._last_ns = frame.t_ns
        for text in self.reader.errors:
            self._report(f"probes: {self.probe.id}: {text}")
        self.reader.errors.clear()
        return frames

    def _look_ready(self) -> None:
        reader = self.reader
        if reader.ready_ns is None or reader.attached is None:
            return
        if reader.attached < self._expected:
            self._fail(
                f"{self.probe.id} has stopped: bpftrace attached only {reader.attached} of {self._expected} points, "
                "so that its figures would be wrong"
            )
            return
        # A server process forked between the helper's look at /proc and the attaching may be missed. The first burst
        # reveals it; without such a process there is no need to wait for that.
        born = self._born_meanwhile() if self._tracking else set()
        if born and reader.baseline_ns is None:
            return
        if born - reader.groups.keys():
            if self._rescans < RESCANS:
                self._rescans += 1
                self._end_then(self._spawn)
                return
            self._report(
                f"probes: {self.probe.id}: {len(born - reader.groups.keys())} server processes started while it was "
                "being attached and are not counted"
            )
        self.state = ProbeState.RUNNING
        self._close_gap(time.monotonic_ns())

    def _born_meanwhile(self) -> set[int]:
        until_ns = (self.reader.baseline_ns or time.clock_gettime_ns(time.CLOCK_BOOTTIME)) - 2 * TICK_NS
        born = set()
        for pid in processes.descendants(self.target.postmaster, processes.parents()):
            began_ns = processes.started_ns(pid)
            if began_ns is not None and self._spawned_boot_ns - TICK_NS <= began_ns <= until_ns:
                born.add(pid)
        return born

    def _lost(self, reason: str) -> None:
        """bpftrace has ended or hangs: start another, once; then the probe fails."""
        if self.restarts >= RESTARTS or (self.state is ProbeState.STARTING and self.restarts == 0):
            self._fail(f"{self.probe.id} has stopped: {reason}")
            return
        self.restarts += 1
        self._report(f"probes: {self.probe.id} is restarted: {reason}")
        self._open_gap = self._gap(reason)
        self._end_then(self._spawn)

    def _fail(self, reason: str) -> None:
        self.state = ProbeState.FAILED
        self._report(f"probes: {reason}")
        self._open_gap = self._open_gap or self._gap(reason)
        self._close_gap(None)
        self._end_then(lambda: None)

    def _report(self, text: str) -> None:
        self.messages.append(visible(text))

    def _end_then(self, then: Callable[[], None]) -> None:
        if self.tracer is not None:
            self.tracer.ask_end()
            self._then = then

    def _gap(self, reason: str, ended_ns: int | None = None) -> Gap:
        return Gap(self.probe.id, self._last_ns or time.monotonic_ns(), ended_ns, reason)

    def _close_gap(self, ended_ns: int | None) -> None:
        if self._open_gap is not None:
            self.gaps.append(replace(self._open_gap, ended_ns=ended_ns))
            self._open_gap = None

    def _drop(self, tracer: Tracer) -> None:
        tracer.close()
        self.tracer = None

    def _process(self, tid: int) -> int:
        process = self._process_of.get(tid)
        if process is None:
            process = self._process_of[tid] = processes.process_of(tid)
        return process


def living(pids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(pid for pid in pids if Path(f"/proc/{pid}").exists())


def boot_offset_ns() -> int:
    """CLOCK_BOOTTIME, bpftrace's clock, less CLOCK_MONOTONIC: the time that the machine was suspended."""
    before_ns = time.monotonic_ns()
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    offset_ns = boot_ns - (before_ns + time.monotonic_ns()) // 2
    return offset_ns if offset_ns > 1_000_000 else 0  # less is the time between the readings
