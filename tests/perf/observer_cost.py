"""What watching costs: CPU of the engine with its samplers, of the monitor's backend, and of a plain live display.

    PGBED_SERVERS=... python -m tests.perf.observer_cost [--server 16.3-prebuilt] [--seconds S] [--clients N]

One run of one cell; every figure is a share of one core over the seconds in which clients worked. The promise is at
most 1 % of one core for engine and samplers together.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.journal.reader import JournalReader

ROOT = Path(__file__).resolve().parents[2]

PROMISE = 0.01


def measure(server: str, seconds: int, clients: int) -> int:
    """Runs the cell with a display beside it and prints the shares; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="pgbed-observer-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        bench = [sys.executable, "-m", "engine"]
        plan = ["--rows", "100000", "--rows-written", "20000", "--query-seconds", str(seconds), "--repeats", "1"]
        options = ["--out", folder, "--clients", str(clients), "--steps", "qr100,qp100", "--set", "shared_buffers=1GB"]
        subprocess.run([*bench, "run", "--pg", server, *plan, *options, "--detach"], cwd=ROOT, check=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*bench, "watch", "--out", folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        display_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        (run,) = (path.parent for path in Path(folder).glob("*/manifest.json"))
        with JournalReader(run) as reader:
            attempt = reader.attempts()[-1]
            if attempt.state != "finished":
                sys.exit(f"the cell {attempt.state}: {attempt.reason}")
            steps = [step for step in reader.steps(attempt.id) if step.totals and step.kind == "query"]
            watched_s = sum(step.totals.seconds for step in steps if step.totals)
            engine_s = sum(step.totals.engine_cpu_ns for step in steps if step.totals) / 1e9
            samples = [sample for step in steps for sample in reader.samples(step.id)]
            monitor_s = sum(data["cpu_ns"] for _, _, source, data in samples if source == "monitor") / 1e9
            whole_s = ((attempt.ended_ns or 0) - attempt.started_ns) / 1e9
    print(f"{watched_s:.0f} s of query steps, {clients} client{'s' if clients > 1 else ''}, shares of one core:")
    total = (engine_s + monitor_s) / watched_s
    for name, share in (
        ("engine and samplers", engine_s / watched_s),
        ("the monitor's backend", monitor_s / watched_s),
        ("both", total),
        ("a plain live display, its start included", display_s / whole_s),
    ):
        print(f"  {share:7.3%}  {name}")
    print("reached" if total <= PROMISE else "MISSED", f"(at most {PROMISE:.0%} for the engine and its samplers)")
    return 0 if total <= PROMISE else 1


def main() -> int:
    """Reads the options and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="16.3-prebuilt")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=1)
    options = parser.parse_args()
    if "PGBED_SERVERS" not in os.environ:
        sys.exit("PGBED_SERVERS is not set: it names a folder of LABEL -> PostgreSQL install")
    return measure(options.server, options.seconds, options.clients)


if __name__ == "__main__":
    sys.exit(main())
