"""Is a job red for a head that is slower by some percent, and green the other way round, and how long does it take?

    python -m tests.perf.ci_jobs [--minutes 15] [--steps …] [--times 2] [--small] [--folder /var/tmp/pgbed-ci]

As root on a Debian-like machine with Nix. PostgreSQL's source is fetched from Debian; a commit on top of it compares
each key of an index `--times` times, and the next one takes that back. Then the script of action.yml runs in the
sandbox of `tests.support.ci_runner`, from shallow clones: the slower head against its parent, and the last one against
the slower. The first job begins with an empty Nix store and no compiled file, others with what it left. With --small
the runner has one CPU, 2 GB of memory and 5 GB of disk.

Printed are exit code, time and the sentence of each job. Exit code 1 unless the first is red and the second is green,
each within the minutes and one more for cloning. The folder stays, for a second call.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.support import demo_recording
from tests.support.ci_runner import Runner
from tests.support.smalltree import commit, git

GROUP = Path("/sys/fs/cgroup/memory/pgbed-ci")
SMALL_MEMORY, SMALL_DISK = 2 << 30, 5 << 30
SPARE_S = 60.0
JOBS = (("slow", "before", 1), ("fast", "slow", 0))  # head, base, exit code


def repository(folder: Path, times: int) -> Path:
    """The source as it is, slower, and as it was: branches `before`, `slow` and `fast`."""
    if (tree := folder / "postgres").exists():
        return tree
    demo_recording.TIMES = times
    demo_recording.planted(folder)
    git(tree, "branch", "--force", "slow", "main")
    git(tree, "branch", "--force", "before", "main~1")
    git(tree, "checkout", "--quiet", "before", "--", demo_recording.SLOWER)
    commit(tree, "Compare keys once again")
    git(tree, "branch", "--force", "fast", "main")
    return tree


def small(runner: Path) -> Runner:
    runner.mkdir(exist_ok=True)
    GROUP.mkdir(exist_ok=True)
    (GROUP / "memory.limit_in_bytes").write_text(str(SMALL_MEMORY))
    if not (image := runner / "disk.img").exists():
        with image.open("wb") as file:
            file.truncate(SMALL_DISK)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    return Runner(runner, network=True, cpus="0", disk=image, memory_group=GROUP)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--steps", default="")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/pgbed-ci"))
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    asked.folder.chmod(0o755)
    tree = repository(asked.folder, asked.times)
    runner = small(asked.folder / "small") if asked.small else Runner(asked.folder / "runner", network=True)
    runner.make()
    shutil.rmtree(runner.action, ignore_errors=True)
    runner.bring_action()
    runner.hand_over(tree)
    good = True
    for head, base, code in JOBS:
        inputs = {"base": f"origin/{base}", "minutes": f"{asked.minutes:g}"}
        inputs |= {"steps": asked.steps} if asked.steps else {}
        begun_s = time.monotonic()
        done = runner.run_action(f"file://{tree}", head, inputs)
        took_s = time.monotonic() - begun_s
        good = good and done.returncode == code and took_s < 60 * asked.minutes + SPARE_S
        print(f"{head} against {base}: exit code {done.returncode} after {took_s:.0f} s", flush=True)
        for line in (*done.stdout.splitlines(), *done.stderr.splitlines()):
            if line.startswith(("head is", "gate:", "loading", "without", "base: ready", "head: ready", "bench:")):
                print(f"    {line}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
