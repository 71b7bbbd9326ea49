"""What a build of a source tree costs: the first one, one after a change of one line, and one of what is there.

    python -m tests.perf.source_builds ~/src/postgres      # with the environment of an installed bench

The tree is copied and left alone; ccache begins with nothing. CPU time is that of the builders too, where Nix runs
them itself (root, or a user without a daemon).
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.builds import resolve


def main(tree: Path) -> None:
    with TemporaryDirectory(prefix="pgbed-source-", dir="/var/tmp") as folder:
        copy, cache = Path(folder) / "tree", Path(folder) / "ccache"
        cache.mkdir()
        Path(folder).chmod(0o755)  # for whoever builds
        cache.chmod(0o777)
        os.environ["PGBED_CCACHE"] = str(cache)
        shutil.copytree(tree, copy, symlinks=True)
        # A tree that nobody has built yet, whatever the store has.
        _change(copy, f"/* {time.time_ns()} */")
        first = _timed("first build", copy)
        _change(
            copy, "static int pgbed_changed = 1; int pgbed_read(void); int pgbed_read(void) { return pgbed_changed; }"
        )
        second = _timed("after a change of one line", copy)
        print(f"ratio: wall {second[0] / first[0]:.2f}, CPU {second[1] / first[1]:.2f}")
        _timed("what is there", copy)


def _change(tree: Path, line: str) -> None:
    with min((tree / "src" / "backend").rglob("*.c")).open("a") as file:
        file.write(line + "\n")


def _timed(what: str, tree: Path) -> tuple[float, float]:
    wall, before = time.monotonic(), os.times()
    resolve.resolve([f"measured={tree}"], lambda _: None)
    after = os.times()
    spent = time.monotonic() - wall, sum(after[2:4]) - sum(before[2:4])
    print(f"{what}: {spent[0]:.0f} s, CPU {spent[1]:.0f} s", flush=True)
    return spent


if __name__ == "__main__":
    main(Path(sys.argv[1]).expanduser())
