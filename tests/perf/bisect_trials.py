"""How often `bench bisect` finds the commit that was planted, in histories made from a release's source.

    python -m tests.perf.bisect_trials postgresql-13.16.tar.bz2      # with the environment of an installed bench

Each trial draws a history of 30 commits, all of which change the server: one slows the step down by 5 % (a loop for
each query), two do not compile, one adds another 5 %, which a later one takes out again. Not drawn are histories in
which the lasting one comes between those two: slow, slower, and slow again. With the two changes exchanged, which is
drawn, the server is as fast after every commit, and the other change is the lasting one: no number of measurements
tells them apart, only what the commits hold. The search names the first of both, right where that one lasts.

A pilot finds how long the loop must be. All of it runs on one CPU, the last: with a single connection, client and
server take turns anyway, and on two CPUs a waking one is sometimes slow and sometimes not. Histories have most trees in
common, and a tree is built once. The same command goes on where it was stopped. Exit code 1 when fewer than 9 of 10 are
found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.run.stop import STOPPED
from tests.support.smalltree import commit, git

COUNT, BROKEN = 30, 2
SLOWER = 0.05
PROBED = 2000  # iterations of the pilot
STEP = "select.c1"
LOAD = ("--workload", "pgbench-select", "--pgbench-scale", "1", "--clients", "1", "--warmup-seconds", "1",
        "--set", "shared_buffers=64MB", "--allow-concurrent")  # fmt: skip
DATE = "2024-01-01T00:00:00Z"  # the same commits whenever they are made
SERVER = "src/backend/tcop/postgres.c"
PLACE = "\tTRACE_POSTGRESQL_QUERY_START(query_string);\n"
LOOP = "\n\tfor (volatile int planted = 0; planted < PLANTED; planted++)\n\t\t;\n"
DEFINED = re.compile(r"^#define PLANTED .*\n", re.M)


@dataclass(frozen=True, slots=True)
class History:
    """Places of commits, from 1: what stays slow, what is slow from one to the other, what does not compile."""

    planted: int
    passing: int
    mended: int
    broken: frozenset[int]

    def loops(self, place: int) -> int:
        """How many loops the server has after a commit."""
        return (place >= self.planted) + (self.passing <= place < self.mended)


def drawn(seed: int) -> History:
    """A history for a trial. A commit that plants or mends compiles, and so does the last one."""
    chance = random.Random(seed)
    while True:
        planted, passing, mended = chance.sample(range(1, COUNT + 1), 3)
        broken = frozenset(chance.sample(range(1, COUNT), BROKEN))
        if passing < mended and not passing < planted < mended and not broken & {planted, passing, mended}:
            return History(planted, passing, mended, broken)


class Repository:
    """The source of a release as commit `base`, and histories on top of it."""

    def __init__(self, path: Path, tarball: Path) -> None:
        self.path = path
        if not (path / ".git").exists():
            path.mkdir(parents=True, exist_ok=True)
            unpack = ["tar", "--extract", "--strip-components=1", "--file", str(tarball), "--directory", str(path)]
            subprocess.run(unpack, check=True)
            text = (path / SERVER).read_text()
            if text.count(PLACE) != 1:
                sys.exit(f"{tarball}: {SERVER} does not begin a query where it is looked for")
            text = text.replace(PLACE, PLACE + LOOP)
            (path / SERVER).write_text(
                text.replace('#include "postgres.h"\n', '#include "postgres.h"\n#define PLANTED 0\n')
            )
            git(path, "init", "--quiet", "--initial-branch=base")
            commit(path, "A release")
        self._files = random.Random(0).sample(sorted((path / "src/backend/commands").glob("*.c")), COUNT)

    def make(self, name: str, iterations: int, history: History) -> list[str]:
        """The commits of a history, as branch `name`."""
        git(self.path, "checkout", "--quiet", "--force", "-B", name, "base")
        for place in range(1, COUNT + 1):
            self._plant(history.loops(place) * iterations)
            for earlier in (place - 1, place):
                if earlier:
                    self._change(earlier, broken=earlier == place and place in history.broken)
            commit(self.path, f"Change {place}")
        return git(self.path, "rev-list", "--reverse", f"base..{name}").split()

    def pilot(self) -> None:
        """The branch `pilot`: one commit, with a loop of known length."""
        git(self.path, "checkout", "--quiet", "--force", "-B", "pilot", "base")
        self._plant(PROBED)
        commit(self.path, "Pilot")

    def _plant(self, iterations: int) -> None:
        server = self.path / SERVER
        server.write_text(DEFINED.sub(f"#define PLANTED {iterations}\n", server.read_text()))

    def _change(self, place: int, *, broken: bool) -> None:
        """Every commit adds a function to a file of its own."""
        file, name = self._files[place - 1], f"pgbed_change_{place}"
        text = file.read_text().partition(f"\nint {name}")[0]
        value = "missing" if broken else str(place)
        file.write_text(f"{text}\nint {name}(int);\nint {name}(int value)\n{{\n\treturn value * {value};\n}}\n")


def bench(*words: str, log: Path) -> Any:
    """What a command of `bench` prints as JSON; what it says goes to the log. None where it fails.

    Ends everything where it was stopped: the next call goes on.
    """
    with log.open("a") as sink:
        done = subprocess.run(
            [sys.executable, "-m", "engine", *words], stdout=subprocess.PIPE, stderr=sink, check=False
        )
        sink.write(f"exit code {done.returncode}\n")
    if done.returncode in (STOPPED, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL):
        sys.exit(STOPPED)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout.startswith(b"{") else None


def iterations_of(repository: Repository, folder: Path, load: tuple[str, ...]) -> int:
    """How many iterations make a query 5 % slower; measured once."""
    file, log = folder / "pilot.json", folder / "pilot.log"
    if not file.exists():
        repository.pilot()
        builds = ",".join(f"{name}=git:{repository.path}@{name}" for name in ("base", "pilot"))
        out = folder / "pilot"
        run = ("run", "--pg", builds, *load, "--repeats", "5", "--seconds", "6", "--out", str(out), "--plain")
        bench(*run, log=log)
        found = bench("compare", "--json", "--out", str(out), log=log)
        if found is None:
            sys.exit(f"the pilot failed; see {log}")
        ratio = next(each for each in found["ratios"] if each["step"] == STEP and each["metric"] == "rate_per_s")
        iterations = round(PROBED * (1 / (1 - SLOWER) - 1) / (1 / ratio["ratio"] - 1))
        file.write_text(
            json.dumps({name: ratio[name] for name in ("ratio", "low", "high")} | {"iterations": iterations})
        )
    pilot = json.loads(file.read_text())
    print(f"pilot: {PROBED} iterations make {STEP} {pilot['ratio'] - 1:+.1%} [{pilot['low'] - 1:+.1%}, "
          f"{pilot['high'] - 1:+.1%}]; {pilot['iterations']} are planted for {-SLOWER:+.0%}", flush=True)  # fmt: skip
    return int(pilot["iterations"])


def trial(seed: int, repository: Repository, iterations: int, folder: Path, options: tuple[str, ...]) -> dict[str, Any]:
    """One search and what it came to."""
    history, out, name = drawn(seed), folder / f"trial-{seed}", f"trial-{seed}"
    commits = repository.make(name, iterations, history)
    began = time.monotonic()
    words = ("--good", "base", "--bad", name, "--repo", str(repository.path), "--step", STEP, "--out", str(out))
    found = bench("bisect", *words, *options, "--json", log=folder / f"{name}.log") or {}
    places = sorted(commits.index(each) + 1 for each in found.get("candidates", []))
    ratio = found.get("ratio")
    return {
        "seed": seed,
        "planted": history.planted,
        "passing": [history.passing, history.mended],
        "broken": sorted(history.broken),
        "found": places,
        "right": history.planted in places and not set(places) - history.broken - {history.planted},
        "judgements": found.get("judgements"),
        "builds": len(list(out.glob("*/.builds/built-*"))),
        "seconds": round(time.monotonic() - began),
        "error": round(1 - found["probability"], 4) if found else None,
        "ratio": [round(ratio[name], 4) for name in ("ratio", "low", "high")] if ratio else None,
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tarball", type=Path)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first trial; the others follow")
    parser.add_argument("--seconds", type=int, default=2, help="of each server in a pair")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("/var/tmp/pgbed-bisect-trials"))
    asked = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {f"GIT_{role}_DATE": DATE for role in ("AUTHOR", "COMMITTER")}
    folder = asked.out.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    repository = Repository(folder / "postgres", asked.tarball)
    load = (*LOAD, "--seconds", str(asked.seconds))
    iterations = iterations_of(repository, folder, load)
    done_file = folder / "trials.jsonl"
    done = (
        {each["seed"]: each for line in done_file.read_text().splitlines() if (each := json.loads(line))}
        if done_file.exists()
        else {}
    )
    right = 0
    seeds = range(asked.seed, asked.seed + asked.trials)
    for seed in seeds:
        if seed not in done:
            done[seed] = trial(seed, repository, iterations, folder, (*load, "--pairs", str(asked.pairs)))
            with done_file.open("a") as file:
                file.write(json.dumps(done[seed]) + "\n")
        print(" ".join(f"{name}={value}" for name, value in done[seed].items()), flush=True)
        right += done[seed]["right"]
    print(f"found in {right} of {asked.trials}")
    return 0 if right >= 0.9 * asked.trials else 1


if __name__ == "__main__":
    sys.exit(main())
