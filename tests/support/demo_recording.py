"""Makes the first recording of `bench demo`: two builds in slices, with two incidents that it brings about itself.

    python -m tests.support.demo_recording

That is all, as root on a Debian-like machine with Nix and nothing else to do: PostgreSQL's source is fetched from
Debian, a change that makes it slower is planted in it, and both are compiled here, so that their stacks can be sampled:
about ten minutes, once. The recording takes about twenty more, and the pictures drawn over it one. Other builds are
given with `--pg BASE,OTHER`, and another file, without pictures, with `--to`.

In l.i1 of the second repeat the second build's insert backend is stopped for a while (SIGSTOP); later a session of a
`nightly report` holds a lock on its table. Traces of the place of its making are taken out. It is written only if it
shows what the guide tells of: both incidents as long as they were, and a slower build.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from engine.builds import resolve
from engine.cli.demo import RECORDING
from engine.journal.archive import pack
from engine.journal.reader import FAR_NS, JournalReader
from engine.journal.rows import Attempt, StepRow
from engine.postgres.server import SUPERUSER
from engine.view.events import incident_words, stall_seconds
from tests.support.benchcall import Bench, wait_for
from tests.support.smalltree import commit, git
from tui.demo.tour import stalled

SIZE = ("--rows", "100000", "--rows-written", "600000", "--query-seconds", "8", "--repeats", "8")
SHAPE = ("--interleave", "slices", "--steps", "l.i0,l.x,l.i1,qr100", "--set", "shared_buffers=64MB")
REPEAT = 2  # that has the incidents
WARM_S, HELD_S, BETWEEN_S = 9.0, 4.0, 4.0  # of the step: before the first, of each, and between them
PATIENCE_S = 900.0
BUSY = 0.1  # of the CPUs, by others: the recording would show them
WITHIN_S = 1.5  # an incident is recorded as long as it was
ROOT = Path(__file__).parents[2]
MAJOR = "15"
FETCH = """
. nix/tarballs.sh
debian_tarball "$1" "$2" && exit
version=$(sed -n "s/.*_\\([0-9.]*\\)\\.orig\\.tar\\.bz2'.*/\\1/p" "$2/uris")
debian_tarball "$version" "$2" || { echo "$why" >&2; exit 1; }
"""
# The slow-down of the second build: it compares each key of an index several times.
SLOWER = "src/backend/access/nbtree/nbtsearch.c"
COMPARES = re.compile(r"^int32\n_bt_compare\((.*?)\)\n\{", re.MULTILINE | re.DOTALL)
AGAIN = """

int32
_bt_compare({parameters})
{{
\tfor (int again = 0; again < {again}; again++)
\t\t(void) compare_once(rel, key, page, offnum);
\treturn compare_once(rel, key, page, offnum);
}}
"""
TIMES = 4
PICTURES = (("film", "pictures/demo.svg"), ("pictures", "pictures"))


def planted(folder: Path) -> str:
    """PostgreSQL's source as a repository of two commits, the second one slower; the two as `--pg` has them."""
    subprocess.run(["bash", "-c", FETCH, "fetch", f"{MAJOR}.18", str(folder)], cwd=ROOT, check=True)
    (tarball,) = folder.glob("postgresql-*.tar.bz2")
    tree = folder / "postgres"
    tree.mkdir()
    subprocess.run(["tar", "-xjf", tarball, "-C", tree, "--strip-components=1"], check=True)
    git(tree, "init", "--quiet", "--initial-branch=main")
    before = commit(tree, "PostgreSQL")
    (tree / SLOWER).write_text(slower((tree / SLOWER).read_text()))
    return f"main=git:{tree}@{before},patch=git:{tree}@{commit(tree, 'Compare keys several times')}"


def slower(source: str) -> str:
    """The index search with keys compared several times."""
    (match,) = COMPARES.finditer(source)
    once = f"static pg_noinline int32\ncompare_once({match[1]})\n{{"
    declared = f"static int32 compare_once({match[1]});\n"
    first = source.index("static ")
    changed = source[:first] + declared + source[first : match.start()] + once + source[match.end() :]
    return changed + AGAIN.format(parameters=match[1], again=TIMES - 1)


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
    second = builds.split(",")[1].partition("=")[0]  # of its build, the label
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


def neutral(run: Path, builds: str, folders: Mapping[str, str] = {}) -> None:
    """Takes out of a run where it was made: names of the host and of folders, how its kernel was started.

    `folders` are further ones, with their new names. Of the sampled stacks those of the step's own
    connections stay: the others are large, and nobody is led to them.
    """
    names = {str(run.parent): "/var/tmp/pgbed", **folders}
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
        return [_neutral(item) for item in value]
    if not isinstance(value, dict):
        return value
    entries = {key: _neutral(item) for key, item in value.items()}
    if "command_line" in entries:  # of a kernel
        entries |= {"command_line": "", "release": str(entries.get("release", "")).partition("-")[0]}
    if {"name", "container"} <= entries.keys():
        entries["name"] = "demo"
    return entries


def busy_share(seconds: float = 5.0) -> float:
    """The share of the CPUs that is used now."""

    def times() -> tuple[int, int]:
        fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    before = times()
    time.sleep(seconds)
    every, idle = (now - then for now, then in zip(times(), before, strict=True))
    return 1 - idle / every


def check(run: Path) -> None:
    """Exits with events of the guide that the recording lacks."""
    _, step, incidents = stalled(run)
    texts = [incident_words(incident, FAR_NS) for incident in incidents]
    lengths = [max(stall_seconds(stall, FAR_NS) for stall in incident) for incident in incidents]
    wanted = ("is stopped", "nightly report")
    if step != "l.i1" or len(texts) != 2 or not all(word in text for word, text in zip(wanted, texts, strict=True)):
        raise SystemExit(f"not the two incidents that were brought about, but {texts or 'none'}")
    if any(abs(length - HELD_S) > WITHIN_S for length in lengths):
        raise SystemExit(f"the incidents were of {HELD_S:g} s; recorded are {texts}")
    answer = subprocess.run(
        [sys.executable, "-m", "engine", "compare", str(run)], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    print(*texts, "\n".join(answer.splitlines()[:8]), sep="\n")
    if "slower" not in answer:
        raise SystemExit("no verdict: the second build is not slower")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg", metavar="BASE,OTHER", help="two builds [default: made for it]")
    parser.add_argument("--probes", default="stacks" if os.geteuid() == 0 else "", help="probes [default: stacks]")
    parser.add_argument("--to", type=Path, help="file to write [default: the demo's own, and the README's pictures]")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgbed-demo-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        builds = asked.pg or planted(Path(folder))
        out = Path(folder) / "runs"
        out.mkdir()
        for build in builds.split(","):  # so that nothing is compiled while it is recorded
            if "=git:" in build:
                resolve.resolve([build], lambda text: print(text, flush=True))
        if (busy := busy_share()) > BUSY:
            raise SystemExit(f"this machine is {busy:.0%} busy: record it on one that has nothing else to do")
        run = record(builds, asked.probes, out)
        check(run)
        neutral(run, builds)
        to = asked.to or ROOT / "engine/cli" / RECORDING
        print(f"{to}: {pack(run, to):,} bytes")
    for module, path in () if asked.to else PICTURES:
        subprocess.run([sys.executable, "-m", f"tests.support.{module}", path], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
