"""What watching costs: CPU of the engine with its samplers, of the monitor's backend, and of a plain live display.

    PGBED_SERVERS=... python -m tests.perf.observer_cost [--server 16.3-prebuilt] [--seconds S] [--clients N]
        [--workload insert|pgbench-select]

One run of one cell; every figure is a share of one core over the seconds in which clients worked. With pgbench its
launcher, which reads the log, is an observer, too: how many lines a second that has goes by a warm-up, which is slower
beside other work. The promise is at most 1 % of one core for engine and samplers
together, and 2 % for all observers with 200 connections: 50 clients of the Insert Benchmark have four each, 200 clients
of pgbench one.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.journal.reader import JournalReader
from engine.journal.rows import StepRow
from tests.support.steprun import cpu_s

ROOT = Path(__file__).resolve().parents[2]

PROMISE, PROMISE_OF_MANY = 0.01, 0.02
FEW = 10  # connections
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """What is watched: the options of the run, the kind of its steps, the connections of a client."""

    options: tuple[str, ...]
    kind: str
    length: str
    connections: int


LOADS = {
    "insert": Load(
        ("--rows", "100000", "--rows-written", "20000", "--steps", "qr100,qp100"), "query", "--query-seconds", 4
    ),
    "pgbench-select": Load(("--workload", "pgbench-select"), "transactions", "--seconds", 1),
}


def measure(server: str, seconds: int, clients: int, load: Load) -> int:
    """Runs the cell with a display beside it and prints the shares; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="pgbed-observer-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        bench = [sys.executable, "-m", "engine"]
        plan = [*load.options, load.length, str(seconds), "--clients", str(clients), "--repeats", "1"]
        options = ["--out", folder, "--set", "shared_buffers=1GB"]
        subprocess.run([*bench, "run", "--pg", server, *plan, *options, "--detach"], cwd=ROOT, check=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        watch = subprocess.Popen([*bench, "watch", "--out", folder], cwd=ROOT, stdout=subprocess.DEVNULL)
        (run,) = (path.parent for path in Path(folder).glob("*/manifest.json"))
        launchers_s = launchers(run, watch) if load.kind == "transactions" else 0.0
        if watch.wait():
            sys.exit(f"bench watch ended with {watch.returncode}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        display_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        with JournalReader(run) as reader:
            attempt = reader.attempts()[-1]
            if attempt.state != "finished":
                sys.exit(f"the cell {attempt.state}: {attempt.reason}")
            steps = [step for step in reader.steps(attempt.id) if step.totals and step.kind == load.kind]
            watched_s = sum(step.totals.seconds for step in steps if step.totals)
            engine_s = sum(step.totals.engine_cpu_ns for step in steps if step.totals) / 1e9
            lines = sum(step.totals.report.get("log_lines", 0) for step in steps if step.totals)
            samples = [sample for step in steps for sample in reader.samples(step.id)]
            monitor_s = sum(data["cpu_ns"] for _, _, source, data in samples if source == "monitor") / 1e9
            whole_s = ((attempt.ended_ns or 0) - attempt.started_ns) / 1e9
    connections = load.connections * clients
    promise = PROMISE if connections <= FEW else PROMISE_OF_MANY
    print(f"{watched_s:.0f} s, {connections} connections, shares of one core:")
    total = (engine_s + monitor_s + launchers_s) / watched_s
    for name, share in (
        ("engine and samplers", engine_s / watched_s),
        ("the monitor's backend", monitor_s / watched_s),
        (f"pgbench's launcher, {lines / watched_s:.0f} lines of the log a second", launchers_s / watched_s),
        ("all of them", total),
        ("a plain live display, its start included", display_s / whole_s),
    ):
        print(f"  {share:7.3%}  {name}")
    print("reached" if total <= promise else "MISSED", f"(at most {promise:.0%} for the observers)")
    return 0 if total <= promise else 1


def launchers(run: Path, watch: subprocess.Popen[bytes]) -> float:
    """CPU seconds that the launchers of pgbench use while their steps run, as far as is seen twice a second."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    while watch.poll() is None:
        with JournalReader(run) as reader:
            for step in _running(reader):
                client = next((role.client_pid for role in reader.roles(step.id)), 0)
                with suppress(OSError, IndexError):
                    launcher = int(Path(f"/proc/{client}/stat").read_text().rpartition(")")[2].split()[1])
                    last[step.id] = cpu_s(launcher)
                    first.setdefault(step.id, last[step.id])
        time.sleep(LOOK_S)
    return sum(last[step] - first[step] for step in last)


def _running(reader: JournalReader) -> list[StepRow]:
    steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
    return [step for step in steps if step.state == "running" and step.kind == "transactions"]


def main() -> int:
    """Reads the options and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="16.3-prebuilt")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--workload", choices=LOADS, default="insert")
    options = parser.parse_args()
    if "PGBED_SERVERS" not in os.environ:
        sys.exit("PGBED_SERVERS is not set: it names a folder of LABEL -> PostgreSQL install")
    return measure(options.server, options.seconds, options.clients, LOADS[options.workload])


if __name__ == "__main__":
    sys.exit(main())
