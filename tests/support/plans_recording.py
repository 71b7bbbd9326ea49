"""Makes the second recording of `bench demo`: an application's statements, planned by servers of two releases.

    python -m tests.support.plans_recording engine/cli/plans.tar.xz [--pg BASE,OTHER]

The application is the tests' own (tests/workloads/own/skewed): twelve tables, generated, and 40 statements that join
them. It takes about a minute, on a machine with nothing else to do. Traces of the place where it was made are removed,
and it is written only if it shows what the guide tells of: all statements planned, and plans that changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from engine.journal.archive import pack
from tests.support.benchcall import Bench
from tests.support.demo_recording import BUSY, ROOT, busy_share, neutral

APPLICATION = ROOT / "tests" / "workloads" / "own" / "skewed"
STATEMENTS = 40


def record(builds: str, out: Path, application: Path) -> Path:
    bench = Bench(out)
    done = bench("run", "--pg", builds, "--workload", "own", "--dump", str(application / "data.sql"), "--statements",
                 str(application / "statements.sql"), "--plans-only", "--plain")  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return bench.run


def check(run: Path) -> None:
    """Exits with events of the guide that the recording lacks."""
    compared = json.loads(Bench(run.parent)("compare", str(run), "--json").stdout)
    changes = [text for section in compared["sections"] if section["key"] == "plans" for text in section["findings"]]
    print(*changes, sep="\n")
    sections = {section["key"]: section for section in compared["sections"]}
    if len(sections["planning"]["rows"]) != STATEMENTS or "results" in sections:
        raise SystemExit(f"not all statements were planned: {sections.get('results')}")
    if len(changes) < 2:
        raise SystemExit("fewer than two plans changed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg", metavar="BASE,OTHER", default="13.16,18.6", help="two builds [default: 13.16,18.6]")
    parser.add_argument("to", type=Path, help="file to write")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgbed-demo-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        application = Path(folder) / "app"
        shutil.copytree(APPLICATION, application)
        if (busy := busy_share()) > BUSY:
            raise SystemExit(f"this machine is {busy:.0%} busy: record it on one that has nothing else to do")
        run = record(asked.pg, Path(folder) / "runs", application)
        check(run)
        neutral(run, asked.pg, {str(application): "~/app"})
        print(f"{asked.to}: {pack(run, asked.to):,} bytes")


if __name__ == "__main__":
    main()
