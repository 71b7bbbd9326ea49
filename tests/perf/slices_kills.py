"""Does anything stay stopped or behind when a sliced run is killed? Engine, conductor and both, at random moments.

    PGBED_SERVERS=... python -m tests.perf.slices_kills [BASE,OTHER] [--times 100] [--seed 1] [--plan insert|pgbench]

A run of `bench` with --interleave slices is killed with SIGKILL, resumed, killed again, and so on; when it has all its
cells, another begins. After each kill

- no process of its servers stays stopped;
- nothing of the run is left after a while, no server, client, conductor or cluster; where only the conductor was
  killed, the engine goes on, and is told to stop;
- no finished cell was lost, and the run can be resumed.

In the end the last run is resumed until all its cells are finished, and no log has a traceback. Printed is, for each
kind of kill, how many there were, how many of them met slices, and how long it took until nothing was left at most.
Exit code 1 when something was wrong; each case of that is printed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.journal.reader import JournalReader
from engine.journal.run_lock import is_locked
from tests.faults.kills import awaited, finished, left_behind, lost, resumed, segments
from tests.support.benchcall import Bench, conductor_of, stopped

COMMON = ("--set", "shared_buffers=32MB", "--interleave", "slices", "--repeats", "2")
PLANS = {
    "insert": ("--rows", "2000", "--rows-written", "1000", "--steps", "l.i0,l.x,qr100,qp100", "--query-seconds", "3"),
    "pgbench": ("--workload", "pgbench-tpcb", "--pgbench-scale", "1", "--warmup-seconds", "1", "--clients", "1,8",
                "--seconds", "3"),
}  # fmt: skip
KINDS = ("engine", "conductor", "both")
LONGEST_S = 5.0  # until the kill, from the first slices on or, sometimes, from the engine's start
IN_SLICES = 0.75  # of the kills of an engine wait for slices
STOPPED_LOOKS, LOOK_S = 100, 0.02  # a process that is seen stopped so often in a row stays so


@dataclass
class Tally:
    """What was seen of one kind of kill."""

    times: int = 0
    in_slices: int = 0
    longest_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.times} times, {self.in_slices} of them in slices; nothing left after {self.longest_s:.1f} s at most"
        )


class Campaign:
    """Kills one run after the other in a folder."""

    def __init__(self, folder: Path, builds: str, plan: str, chance: random.Random) -> None:
        self._folder, self._builds, self._chance = folder, builds, chance
        self._plan = (*PLANS[plan], *COMMON)
        self._bench = Bench(folder / "0")
        self._begun = 0
        self._shared: set[str] = set()  # memory of all its servers
        self.tallies = {kind: Tally() for kind in KINDS}

    def kill(self, kind: str) -> Iterator[str]:
        """Starts or resumes the run, and kills; says what is wrong then."""
        yield from self._going()
        bench, tally = self._bench, self.tallies[kind]
        engine = bench.engine_pid()
        if kind != "engine" or self._chance.random() < IN_SLICES:
            while not conductor_of(engine) and is_locked(bench.run):
                time.sleep(LOOK_S)
        until_s = time.monotonic() + self._chance.uniform(0, LONGEST_S)
        # A conductor is there only while a step is driven: its kill waits for the next.
        while time.monotonic() < until_s or (kind != "engine" and not conductor_of(engine) and is_locked(bench.run)):
            time.sleep(LOOK_S)
        conductors = conductor_of(engine)
        victims = ([] if kind == "conductor" else [engine]) + ([] if kind == "engine" else conductors)
        if not is_locked(bench.run) or not victims:  # the run was over before
            return
        before, clients = finished(bench), _pgbenchs(bench)
        self._shared |= segments(bench)
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed_s = time.monotonic()
        tally.times += 1
        tally.in_slices += bool(conductors)
        if kind == "conductor":
            yield from self._stays_stopped()
            done = bench("stop")
            if done.returncode not in (0, 2):  # 2: it is over already
                yield f"bench stop ended with {done.returncode}: {done.stderr.strip()}"
        yield from awaited(lambda: not is_locked(bench.run), "the engine does not end")
        yield from awaited(lambda: not bench.descendants(), "processes are left")
        yield from awaited(lambda: not any(map(_lives, conductors)), "the conductor is left")
        yield from awaited(lambda: not any(map(_lives, clients)), "pgbench is left")
        yield from awaited(lambda: not list(bench.run.glob("cells/*/data")), "a cluster is left")
        yield from lost(bench, before)
        took_s = time.monotonic() - killed_s
        tally.longest_s = max(tally.longest_s, took_s)
        print(f"{kind} killed{' in slices' if conductors else ''}: nothing left after {took_s:.1f} s", flush=True)

    def finish(self) -> Iterator[str]:
        """Resumes the run until it has all its cells."""
        yield from resumed(self._bench)
        yield from left_behind(self._bench, self._shared)

    def _going(self) -> Iterator[str]:
        bench = self._bench
        if self._begun:
            planned = 2 * len(self._builds.split(","))
            finished = {attempt.cell for attempt in bench.attempts() if attempt.state == "finished"}
            if len(finished) < planned:
                done = bench("resume", "--detach")
                if done.returncode:
                    yield f"resume ended with {done.returncode}: {done.stderr.strip()}"
                return
            yield from left_behind(bench, self._shared)
        self._begun += 1
        self._bench = Bench(self._folder / str(self._begun))
        self._bench.detached("--pg", self._builds, *self._plan)

    def _stays_stopped(self) -> Iterator[str]:
        """The next step's conductor may stop the same processes: but not for as long as this."""
        left = set(stopped(self._bench.out))
        for _ in range(STOPPED_LOOKS):
            if not left:
                return
            time.sleep(LOOK_S)
            left &= set(stopped(self._bench.out))
        if left:
            yield f"{len(left)} processes stay stopped"


def _lives(pid: int) -> bool:
    with suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"engine.slices.conductor" in line or b"pgbench" in line
    return False


def _pgbenchs(bench: Bench) -> set[int]:
    """All that the run has had."""
    with JournalReader(bench.run) as reader:
        steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
        return {role.client_pid for step in steps for role in reader.roles(step.id) if role.name == "pgbench"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("builds", nargs="?", default="12.11-prebuilt,16.3-prebuilt")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan", choices=PLANS, default="insert")
    asked = parser.parse_args()
    wrong, began_s = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pgbed-kills-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        campaign = Campaign(Path(name), asked.builds, asked.plan, random.Random(asked.seed))
        while (times := sum(tally.times for tally in campaign.tallies.values())) < asked.times:
            kind = KINDS[times % len(KINDS)]
            for found in campaign.kill(kind):
                wrong += 1
                print(f"kill {times + 1}, {kind}: {found}", flush=True)
        for found in campaign.finish():
            wrong += 1
            print(f"in the end: {found}", flush=True)
    for kind, tally in campaign.tallies.items():
        print(f"{kind:<10}{tally}")
    print(f"wrong: {wrong}; {time.monotonic() - began_s:.0f} s, load {os.getloadavg()[0]:.1f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
