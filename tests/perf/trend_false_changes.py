"""How often does `bench trend` name a change that is not there, and which changes does it find? The same on every run.

    python tests/perf/trend_false_changes.py [--folders 1000]

A folder has twenty series, such as ten steps of two builds, of so many points each; a point keeps a part of the
deviation of the one before, its `memory`. Printed are

- the share of folders without a change in which one is named, with its standard error: at most one in twenty;
- the share of series with a change, of folders of twenty, in which just that is found: at the point, and within two.

Exit code 1 when a promise that `bench trend` makes is broken.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
import numpy.typing as npt

from engine.analysis.trend_changes import MEMORY, PROMISED, changes

SEED = 20240529
SERIES, POINTS = 20, 30
MARGIN = 0.02
LEVEL, DROP = 100.0, 0.04
SAYS = 0.95  # of planted changes at a scatter of 1 %, without memory

Rows = npt.NDArray[np.float64]


def noise(random: np.random.Generator, points: int, memory: float, *, heavy: bool = False) -> Rows:
    """Deviations of a folder's series, of standard deviation 1; heavy ones have tails as those of t with 4 degrees."""
    shape = (SERIES, points)
    fresh = random.standard_t(4, shape) / math.sqrt(2) if heavy else random.standard_normal(shape)
    fresh[:, 0] /= math.sqrt(1 - memory**2)
    for point in range(1, points):
        fresh[:, point] += memory * fresh[:, point - 1]
    return fresh * math.sqrt(1 - memory**2)


def false_folders(folders: int, points: int, memory: float, *, heavy: bool = False) -> float:
    """The share of folders without a change in which any is named, however small."""
    random = np.random.default_rng(SEED)
    return sum(
        any(changes((LEVEL + row).tolist(), SERIES, 0.0) for row in noise(random, points, memory, heavy=heavy))
        for _ in range(folders)
    ) / folders  # fmt: skip


def planted(folders: int, scatter: float, memory: float, first: int, end: int) -> tuple[float, float]:
    """The shares of series with a lower stretch in which just its edges are found, exactly, and within two points."""
    random, edges = np.random.default_rng(SEED), [edge for edge in (first, end) if edge < POINTS]
    exact = near = 0
    for _ in range(folders):
        rows = LEVEL * (1 + scatter * noise(random, POINTS, memory))
        rows[:, first:end] *= 1 - DROP
        for row in rows:
            found = [place for place, _ in changes(row.tolist(), SERIES, MARGIN)]
            exact += found == edges
            near += len(found) == len(edges) and all(abs(a - b) <= 2 for a, b in zip(found, edges, strict=True))
    return exact / folders / SERIES, near / folders / SERIES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folders", type=int, default=1000)
    folders = parser.parse_args().folders
    broken: list[str] = []

    print(f"folders of {SERIES} series without a change in which one is named")
    print(f"{'points':>8}{'memory':>8}{'noise':>8}{'folders':>9}{'share':>8}{'error':>8}")
    cases = [(POINTS, memory, False, folders) for memory in (0.0, 0.25, MEMORY, 0.7)]
    cases += [(POINTS, MEMORY, True, folders), (10, MEMORY, False, folders), (60, MEMORY, False, folders // 4)]
    cases += [(200, MEMORY, False, folders // 20)]
    for points, memory, heavy, count in cases:
        share = false_folders(count, points, memory, heavy=heavy)
        error = math.sqrt(max(share, PROMISED) * (1 - PROMISED) / count)
        shape = "t(4)" if heavy else "normal"
        print(f"{points:>8}{memory:>8}{shape:>8}{count:>9}{share:>8.1%}{error:>8.1%}", flush=True)
        if memory <= MEMORY and share > PROMISED + error:
            broken.append(
                f"{share:.1%} of folders without a change show one ({points} points, memory {memory}, {shape})"
            )

    print(f"\nseries of {POINTS} points that are {DROP:.0%} lower from a point on, or for a while: what is found")
    print(f"{'scatter':>8}{'memory':>8}{'lower':>10}{'exactly':>9}{'within 2':>9}")
    for scatter in (0.005, 0.01, 0.015):
        for memory in (0.0, MEMORY):
            for first, end in ((15, POINTS), (24, POINTS), (10, 20)):
                exact, near = planted(folders // 40, scatter, memory, first, end)
                print(f"{scatter:>8.1%}{memory:>8}{f'{first} to {end}':>10}{exact:>9.1%}{near:>9.1%}", flush=True)
                if scatter == 0.01 and memory == 0 and first == POINTS // 2 and near < SAYS:
                    broken.append(f"a change by {DROP:.0%} at a scatter of {scatter:.0%} is found in {near:.1%} only")

    for promise in broken:
        print(f"broken: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
