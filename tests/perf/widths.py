"""How much narrower are intervals than those of an older revision? README's first comparison, of a build with itself.

    PGBED_SERVERS=... python -m tests.perf.widths --before TREE [--build 18.6-prebuilt] [--runs 3] [BENCH OPTIONS]

TREE is a work tree of the older revision (`git worktree add TREE 5b244832`). Each round is two runs of `bench --aa` at
quick scale, one by each tree: first the new one, in the next round first the old one. Each judges its own run by its
own code. Printed are each run's time and known steps and, after each round, over the runs so far: for every step the
median half widths of the 95 % intervals of both trees, their ratio, and how many intervals hold 1; the median of the
ratios over query and write steps. The plan need not take both as long, and a width falls with the square root
of time: the second ratio is that of widths at the same number of minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from engine.results.comparison import CHANGED, KNOWN
from tests.perf.layouts import bench

NEW = Path(__file__).resolve().parents[2]
QUERIES_AND_WRITES = ("q", "l.i1", "l.i2")  # how the names of such steps begin


@dataclass
class Tree:
    """What the runs of one revision came to: their times, and of each step the bounds of its ratio."""

    name: str
    path: Path
    times_s: list[float] = field(default_factory=list)
    bounds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def run(self, out: Path, plan: Sequence[str]) -> str:
        """Run the plan; say what it came to."""
        began_s = time.monotonic()
        self._bench(out, "run", *plan)
        self.times_s.append(time.monotonic() - began_s)
        return f"{self.times_s[-1]:.0f} s, {self.take(json.loads(self._bench(out, 'compare', '--json')))}"

    def take(self, compared: dict[str, Any]) -> str:
        """Add a comparison; say how many steps are known, and what is called different."""
        rates = [ratio for ratio in compared["ratios"] if ratio["metric"] == "rate_per_s" and ratio["low"]]
        for ratio in rates:
            self.bounds.setdefault(ratio["step"], []).append((ratio["low"], ratio["high"]))
        known = sum(ratio["verdict"] in KNOWN for ratio in rates)
        wrong = [f"{ratio['step']} {ratio['ratio']:.3f}" for ratio in rates if ratio["verdict"] in CHANGED]
        return f"{known} of {len(rates)} steps known, called different: {', '.join(wrong) or 'none'}"

    def half_width(self, step: str) -> float:
        return median(math.sqrt(high / low) - 1 for low, high in self.bounds[step])

    def held(self, step: str) -> str:
        return f"{sum(low <= 1 <= high for low, high in self.bounds[step])} of {len(self.bounds[step])}"

    def _bench(self, out: Path, *words: str) -> str:
        return subprocess.run(bench(out, *words), cwd=self.path, check=True, stdout=subprocess.PIPE, text=True).stdout


def table(old: Tree, new: Tree) -> list[str]:
    """The steps that both have, and the medians."""
    time_factor = math.sqrt(median(new.times_s) / median(old.times_s))  # of widths, if both had the same time
    lines = [f"{'step':<8}{'before':>9}{'now':>9}{'ratio':>7}{'at equal time':>15}{'hold 1: before':>16}{'now':>9}"]
    ratios = {step: new.half_width(step) / old.half_width(step) for step in new.bounds if step in old.bounds}
    for step, ratio in ratios.items():
        widths = f"{old.half_width(step):>9.2%}{new.half_width(step):>9.2%}{ratio:>7.2f}{ratio * time_factor:>15.2f}"
        lines.append(f"{step:<8}{widths}{old.held(step):>16}{new.held(step):>9}")
    if short := [ratio for step, ratio in ratios.items() if step.startswith(QUERIES_AND_WRITES)]:
        middle = median(short)
        lines.append(f"queries and writes: median of ratios {middle:.2f}, {middle * time_factor:.2f} at equal time")
    times = (f"{tree.name} {median(tree.times_s):.0f} s" for tree in (old, new))
    return [*lines, f"median time of a run: {', '.join(times)}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--build", default="18.6-prebuilt")
    parser.add_argument("--runs", type=int, default=3)
    asked, more = parser.parse_known_args()  # what is none of these is for bench
    old, new = Tree("before", asked.before.resolve()), Tree("now", NEW)
    with tempfile.TemporaryDirectory(prefix="widths-") as folder:
        Path(folder).chmod(0o755)
        for number in range(1, asked.runs + 1):
            plan = ("--pg", asked.build, "--aa", *more, "--seed", str(number), "--plain")
            for tree in (new, old) if number % 2 else (old, new):
                found = tree.run(Path(folder) / f"{tree.name}-{number}", plan)
                print(f"round {number}, {tree.name}: {found}; load {os.getloadavg()[0]:.1f}", flush=True)
            print("\n".join(table(old, new)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
