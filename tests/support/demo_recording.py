"""Makes the recording that `bench demo` plays: two builds in slices, with two incidents that it brings about itself.

    python -m tests.support.demo_recording --pg main=git:TREE@BEFORE,patch=git:TREE@AFTER engine/cli/demo.tar.xz

Takes about six minutes, with real servers: a commit of PostgreSQL, and one that makes it slower, so that there is a
verdict. Both are compiled here, so that their stacks can be sampled, by root. In l.i1 of the second repeat the second
build's insert backend is stopped for a while (SIGSTOP); later a session of a `nightly report` holds a lock on its
table. What would tell where it was made is taken out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from engine.journal.packed import pack
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt, StepRow
from engine.postgres.server import SUPERUSER
from tests.support.benchcall import Bench, wait_for

SIZE = ("--rows", "100000", "--rows-written", "340000", "--query-seconds", "8", "--repeats", "4")
SHAPE = ("--interleave", "slices", "--steps", "l.i0,l.x,l.i1,qr100", "--set", "shared_buffers=64MB")
REPEAT = 2  # that has the incidents
WARM_S, HELD_S, BETWEEN_S = 9.0, 4.0, 4.0  # of the step: before the first, of each, and between them
PATIENCE_S = 900.0


def second_build(bench: Bench, build: str) -> tuple[Attempt, StepRow]:
    """The running l.i1 of the second build in the repeat that is to have incidents."""

    def running() -> tuple[Attempt, StepRow] | None:
        with JournalReader(bench.run) as reader:
            cells = {cell.id: cell for cell in reader.manifest.cells}
            for attempt in reader.attempts(origins=False):
                cell = cells[attempt.cell]
                for step in reader.steps(attempt.id):
                    wanted = (cell.subject.build, cell.repeat, step.name) == (build, REPEAT, "l.i1")
                    if wanted and step.state == "running" and reader.roles(step.id):
                        return attempt, step
        return None

    return wait_for(running, "l.i1 of the repeat with incidents", PATIENCE_S)


def record(builds: str, probes: str, out: Path) -> Path:
    """Runs it, and brings about the incidents; returns the run."""
    bench = Bench(out)
    observed = ("--probes", probes) if probes else ()
    bench.detached("--pg", builds, *SIZE, *SHAPE, *observed)
    second = builds.split(",")[1].partition("=")[0]  # of what was built for it, its label
    attempt, step = second_build(bench, second)
    time.sleep(WARM_S)
    backend = bench.backend(step, "insert")
    os.kill(backend, signal.SIGSTOP)
    time.sleep(HELD_S)
    os.kill(backend, signal.SIGCONT)
    time.sleep(BETWEEN_S)
    socket = bench.run / "cells" / attempt.cell / "socket"
    with psycopg.connect(
        host=str(socket.resolve()), user=SUPERUSER, dbname="ib", application_name="nightly report"
    ) as connection:
        connection.execute("LOCK TABLE pi1 IN ACCESS EXCLUSIVE MODE")
        time.sleep(HELD_S)
    wait_for(lambda: not bench.descendants(), "the run to end", PATIENCE_S)
    return bench.run


def neutral(run: Path, builds: str) -> None:
    """Takes out of a run where it was made: names of the host and of folders, how its kernel was started.

    Of the sampled stacks those of the step's own connections stay: the others are large, and nobody is led to them.
    """
    names = {str(run.parent): "/var/tmp/pgbed"}
    for build in builds.split(","):
        _, _, tree = build.partition("=git:")
        names |= {tree.rpartition("@")[0]: "~/src/postgres"} if tree else {}

    def renamed(text: str) -> str:
        for name, other in names.items():
            text = text.replace(name, other)
        return text

    manifest = run / "manifest.json"
    manifest.write_text(renamed(json.dumps(_neutral(json.loads(manifest.read_text())), indent=1)))
    with closing(sqlite3.connect(run / "journal.db")) as journal, journal:
        for table, column, of_json in (("attempt", "origin", True), ("event", "data", False)):
            for id, text in journal.execute(f"SELECT rowid, {column} FROM {table}").fetchall():
                plain = json.dumps(_neutral(json.loads(text))) if of_json else text
                journal.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (renamed(plain), id))
    for path in run.glob("cells/*/*/*.folded"):
        if path.name.split(".")[-2] not in ("insert", "delete", "query", "index"):
            path.unlink()


def _neutral(value: Any) -> Any:
    if isinstance(value, list):
        return [_neutral(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _neutral(each) for key, each in value.items()}
    if "command_line" in found:  # of a kernel
        found |= {"command_line": "", "release": str(found.get("release", "")).partition("-")[0]}
    if {"name", "container"} <= found.keys():
        found["name"] = "demo"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg", required=True, metavar="BASE,OTHER", help="the two builds")
    parser.add_argument("--probes", default="stacks" if os.geteuid() == 0 else "", help="probes [default: stacks]")
    parser.add_argument("to", type=Path, help="file to write")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgbed-demo-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        run = record(asked.pg, asked.probes, Path(folder))
        neutral(run, asked.pg)
        print(f"{asked.to}: {pack(run, asked.to):,} bytes")


if __name__ == "__main__":
    main()
