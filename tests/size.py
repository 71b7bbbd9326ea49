"""Lines of the product and of its tests, by package.

    python tests/size.py [COMMIT]

Without a commit, those of the files that git knows in the work tree. Recordings, pictures of screens and libraries of
others are not counted.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import PurePosixPath

KINDS = {".py", ".nix", ".sh", ".bt", ".sql", ".css", ".js", ".html", ".c"}
PRODUCT = ("engine", "tui", "workloads", "probes", "nix")
OTHERS = ("engine/report/scripts/",)  # libraries


def git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), capture_output=True, text=True, errors="replace", check=True).stdout


def lines(commit: str | None) -> dict[str, int]:
    """The lines of each file that counts."""
    listing = git("ls-tree", "-r", "--name-only", commit) if commit else git("ls-files")
    paths = [path for path in listing.splitlines() if PurePosixPath(path).suffix in KINDS]
    paths = [path for path in paths if path.startswith((*(f"{top}/" for top in PRODUCT), "tests/", "flake.nix"))]
    paths = [path for path in paths if not path.startswith(OTHERS)]
    return {path: git("show", f"{commit or ''}:{path}").count("\n") for path in paths}


def package(path: str) -> str:
    """The package of a file: `engine/run`, `probes`, `tests`."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[:2]) if parts[0] in ("engine", "tui", "workloads") and len(parts) > 2 else parts[0]


def main(commit: str | None = None) -> None:
    counts: Counter[str] = Counter()
    for path, count in lines(commit).items():
        counts[package(path)] += count
    for name, count in sorted(counts.items()):
        print(f"{name:<24}{count:>8,}")
    tests = counts.pop("tests", 0)
    print(f"{'product':<24}{counts.total():>8,}\n{'tests':<24}{tests:>8,}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
