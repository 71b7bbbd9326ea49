"""Processes of a run killed, or its disk filled, at random moments; then the run is resumed.

Nothing that was measured is lost, the run can be finished, and nothing is left behind: no process, cluster, socket or
segment of shared memory, no traceback in any log.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from engine.core.errors import UserError
from engine.journal.reader import JournalReader
from engine.journal.run_lock import is_locked
from engine.journal.totals import StepTotals
from tests.faults.call import Case
from tests.support.benchcall import Bench, processes_of

PLAN = ("--rows", "2000", "--rows-written", "1000", "--query-seconds", "1", "--set", "shared_buffers=32MB",
        "--steps", "l.i0,l.i1,qr100", "--repeats", "2")  # fmt: skip
LONGEST_S = 14.0  # until the kill: about what the run takes
PATIENCE_S = 120.0

Processes = Mapping[str, list[int]]
Chosen = Callable[[Processes, random.Random], list[int]]
KINDS: Mapping[str, Callable[[str], object]] = {
    "engine": re.compile(r"-m engine engine ").search,
    "postmaster": re.compile(r"bin/postgres ").search,
    "backend": re.compile(r"^postgres: ").search,
    "client": re.compile(r"workloads").search,
}
TARGETS: Mapping[str, Chosen] = {
    **{kind: lambda there, chance, kind=kind: _one(there[kind], chance) for kind in KINDS},  # type: ignore[misc]
    "engine and postmaster": lambda there, chance: _one(there["engine"], chance) + _one(there["postmaster"], chance),
    "all clients": lambda there, _: there["client"],
    "three of all": lambda there, chance: chance.sample(there["all"], min(3, len(there["all"]))),
    "all": lambda there, _: there["all"],
}

HANGS: Mapping[str, tuple[str, ...]] = {
    "stop of a hanging postmaster": ("postmaster",),
    "stop of a hanging server and its clients": ("postmaster", "backend", "client"),
}

FULL_DISK = "full disk"
DISK_SIZE = "1g"


def cases(folder: Path, label: str, count: int, seed: int) -> Iterator[Case]:
    """Kills of each kind in turn, Ctrl-C, stops while servers hang, full disks; the seed gives the moments."""
    kinds = [*TARGETS, "Ctrl-C", *HANGS, FULL_DISK]
    for turn in range(count):
        kind, chance = kinds[turn % len(kinds)], random.Random(f"{seed}-{turn}")
        after_s = chance.uniform(0, LONGEST_S)
        name = f"{turn} seed {seed}: {kind} after {after_s:.2f} s"
        bench = Bench(folder / f"kill-{turn}")
        if kind == "Ctrl-C":
            yield Case(name, partial(_interrupted, bench, label, after_s))
        elif kind == FULL_DISK:
            yield Case(name, partial(_filled, bench, label, after_s))
        elif kind in HANGS:
            yield Case(name, partial(_hung, bench, label, after_s, HANGS[kind]))
        else:
            yield Case(name, partial(_killed, bench, label, after_s, TARGETS[kind], chance))


def begun(bench: Bench, label: str, after_s: float) -> None:
    """Start a run, and let it get so far. AssertionError, with its output, if it does not start."""
    bench.detached("--pg", label, *PLAN)
    time.sleep(after_s)


def _killed(bench: Bench, label: str, after_s: float, chosen: Chosen, chance: random.Random) -> Iterator[str]:
    begun(bench, label, after_s)
    before, shared = finished(bench), segments(bench)
    for process in chosen(_processes(bench), chance):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    yield from awaited(lambda: not is_locked(bench.run), "the engine does not end")
    yield from resumed(bench)
    yield from lost(bench, before)
    yield from left_behind(bench, shared)


def _hung(bench: Bench, label: str, after_s: float, kinds: tuple[str, ...]) -> Iterator[str]:
    begun(bench, label, after_s)
    before, shared, there = finished(bench), segments(bench), _processes(bench)
    for process in (process for kind in kinds for process in there[kind]):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
    stopped = bench("stop")
    if stopped.returncode not in (0, 2):  # 2 once the run is over
        yield f"stop ended with {stopped.returncode}: {stopped.stderr!r}"
    yield from awaited(lambda: not is_locked(bench.run), "the engine does not end")
    with JournalReader(bench.run) as reader:
        yield from (f"{row.cell} was not ended but killed" for row in reader.attempts() if row.state == "running")
    yield from resumed(bench)
    yield from lost(bench, before)
    yield from left_behind(bench, shared)


def _filled(bench: Bench, label: str, after_s: float) -> Iterator[str]:
    bench.out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE},mode=755", "tmpfs", bench.out], check=True)
    try:
        begun(bench, label, after_s)
        filler, before, shared = bench.out / "filler", finished(bench), segments(bench)
        with filler.open("wb", buffering=0) as file:
            deadline = time.monotonic() + PATIENCE_S
            while is_locked(bench.run) and time.monotonic() < deadline:
                with suppress(OSError):  # takes the space again that the end of a cell sets free
                    file.write(bytes(1 << 20))
                    continue
                time.sleep(0.1)
        yield from awaited(lambda: not is_locked(bench.run), "the engine does not end")
        filler.unlink()
        with JournalReader(bench.run) as reader:
            reasons = [str(attempt.reason) for attempt in reader.attempts() if attempt.state == "failed"]
        yield from (f"a failure does not name the disk: {reason}" for reason in reasons if "is full" not in reason)
        yield from resumed(bench)
        yield from lost(bench, before)
        yield from left_behind(bench, shared)
    finally:
        bench("stop")
        subprocess.run(["umount", "-l", bench.out], check=True)


def _interrupted(bench: Bench, label: str, after_s: float) -> Iterator[str]:
    command = bench.command("run", "--pg", label, *PLAN)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        time.sleep(0.3 + after_s)  # Python itself has started by then
        finished = started.poll() is not None
        started.send_signal(signal.SIGINT)
        _, complaint = started.communicate(timeout=PATIENCE_S)
    if not finished and started.returncode not in (0, 130):
        yield f"ended with {started.returncode}"
    if "Traceback" in complaint:
        yield f"a traceback: {complaint.splitlines()[-1]}"
    if bench.out.is_dir() and list(bench.out.glob("*/manifest.json")):
        yield from resumed(bench)
        yield from left_behind(bench, set())


def resumed(bench: Bench) -> Iterator[str]:
    """Resumes a run until it has all its cells."""
    for _ in range(3):
        done = bench("resume", "--plain")
        if done.returncode not in (0, 1) or "Traceback" in done.stdout + done.stderr:
            yield f"resume ended with {done.returncode}: {done.stderr.strip()!r}"
            return
        if done.returncode == 0:
            break
    with JournalReader(bench.run) as reader:
        planned = {cell.id for cell in reader.manifest.cells}
        lacking = planned - {attempt.cell for attempt in reader.attempts() if attempt.state == "finished"}
    if lacking:
        yield f"not finished by resume: {', '.join(sorted(lacking))}"


def left_behind(bench: Bench, shared: set[str]) -> Iterator[str]:
    """Remains of a run that is over: processes, files, of the segments of shared memory `shared`; tracebacks."""
    yield from awaited(lambda: not bench.descendants(), "processes are left")
    for pattern in ("cells/*/data", "cells/*/socket"):
        yield from (f"{path} is left" for path in bench.run.glob(pattern))
    yield from (f"shared memory {segment} is left" for segment in sorted(shared & _existing_segments()))
    for log in bench.run.glob("**/*.log"):
        if "Traceback" in log.read_text(errors="replace"):
            yield f"a traceback in {log.relative_to(bench.run)}"


def awaited(holds: Callable[[], bool], otherwise: str) -> Iterator[str]:
    """Waits until something holds; says so when it does not."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            yield otherwise
            return
        time.sleep(0.1)


def lost(bench: Bench, before: Mapping[str, list[StepTotals | None]]) -> Iterator[str]:
    """Cells that were `finished` before, and are no more what they were."""
    after = finished(bench)
    yield from (f"{cell} was measured and is lost or changed" for cell in before if before[cell] != after.get(cell))


def finished(bench: Bench) -> dict[str, list[StepTotals | None]]:
    """The totals of all steps of each cell that is finished."""
    try:
        with JournalReader(bench.run) as reader:
            done = [attempt for attempt in reader.attempts() if attempt.state == "finished"]
            return {attempt.cell: [step.totals for step in reader.steps(attempt.id)] for attempt in done}
    except UserError:
        return {}


def _processes(bench: Bench) -> Processes:
    by_kind: dict[str, list[int]] = {kind: [] for kind in (*KINDS, "all")}
    for process, line in processes_of(bench.out):
        kind = next((kind for kind, matches in KINDS.items() if matches(line)), None)
        if kind is not None:
            by_kind[kind].append(process)
            by_kind["all"].append(process)
    return by_kind


def segments(bench: Bench) -> set[str]:
    """The shared memory, by name or System V number, of the run's servers."""
    names = set()
    for process in _processes(bench)["postmaster"]:
        with suppress(OSError):
            for line in Path(f"/proc/{process}/maps").read_text().splitlines():
                if "/dev/shm/PostgreSQL." in line:
                    names.add(line.split()[5])
                elif "/SYSV" in line:
                    names.add(line.split()[4])
    return names


def _existing_segments() -> set[str]:
    numbers = [line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return {*map(str, Path("/dev/shm").iterdir()), *numbers}


def _one(processes: list[int], chance: random.Random) -> list[int]:
    return [chance.choice(processes)] if processes else []
