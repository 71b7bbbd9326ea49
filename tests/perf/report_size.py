"""How large a report of a long comparison is, and how long it takes to make and to open.

    python -m tests.perf.report_size            2 builds, 5 repeats, 10 steps of 2 h

The run is made up: no server. What is asked of a report: under 12 MB, made in under 10 s, opened in under 2 s.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support import journal, totals
from tests.support.browser import Browser
from workloads import histogram

STEPS = ("l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000")


def long_run(path: Path, repeats: int, seconds: int) -> Path:
    """A run of two builds whose steps have that many seconds of three connections."""
    vars(journal)["STEPS"] = STEPS
    totals.RATES.update(dict.fromkeys(STEPS, 8000.0) | {"l.x": 400_000.0})
    journal.make_run(path, repeats=repeats)
    chance = random.Random(1)
    services = [
        histogram.pack(
            {histogram.index(round(chance.lognormvariate(5, 1))): 1 + chance.randrange(50) for _ in range(30)}
        )
        for _ in range(100)
    ]
    with sqlite3.connect(path / "journal.db") as database:
        database.execute("DELETE FROM role_second")
        # One after another, as those of a real run are.
        (first_ns,) = database.execute("SELECT min(started_ns) FROM step").fetchone()
        began = f"{first_ns} + id * {seconds + 60} * 1000000000"
        database.execute(f"UPDATE step SET started_ns = {began}, ended_ns = {began} + {seconds} * 1000000000")
        for role, began_ns in database.execute(
            "SELECT role.id, step.started_ns FROM role JOIN step ON step.id = step_id"
        ).fetchall():
            database.executemany(
                "INSERT INTO role_second (role_id, t_ns, dt_ns, statements, rows, in_flight_ns, max_us, service) "
                "VALUES (?, ?, 1000000000, ?, ?, 0, 3000, ?)",
                (
                    (role, began_ns + second * 1_000_000_000, count, 10 * count, services[second % 100])
                    for second in range(1, seconds + 1)
                    for count in [round(chance.gauss(8000, 300))]
                ),
            )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=7200)
    parser.add_argument("--run", type=Path, help="folder of the run: made if it is not there, and kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        run = asked.run or Path(folder) / "long"
        if not run.exists():
            long_run(run, asked.repeats, asked.seconds)
        to = Path(folder) / "report.html"
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "engine", "report", str(run), "--out", str(to)], check=True, env=os.environ
        )
        print(f"made in {time.monotonic() - began:.1f} s, {to.stat().st_size / 1e6:.1f} MB")
        with Browser() as browser:
            print(f"opened in {browser.open(to):.1f} s; {browser.problems or 'no complaints'}")
            began = time.monotonic()
            browser.evaluate("dispatchEvent(new Event('beforeprint'))")
            print(f"all charts drawn in {time.monotonic() - began:.1f} s more")


if __name__ == "__main__":
    main()
