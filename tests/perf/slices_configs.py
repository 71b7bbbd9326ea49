"""How wide intervals of configs are beside those of builds, in slices: in one run of both, on the same machine.

    python -m tests.perf.slices_configs BASE,OTHER [--set-each jit=on,off] [--goal 1.2] [BENCH OPTIONS]

Four servers are up side by side: two builds, each under two configs. Of each step that is sliced, the half-width of the
rate's 95 % interval of the base's build under the other config, and that of the other build under the base's config,
both against the same base in the same blocks. Their ratio, as a geometric mean over the steps, should not exceed the
goal. Exit code 1 where it does.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from engine.analysis.compare import compare
from engine.results.comparison import RATE, Comparison, Ratio


def half_width(ratio: Ratio | None) -> float | None:
    """Of the logarithm."""
    if ratio is None or ratio.low is None or ratio.high is None or not ratio.low < ratio.high:
        return None
    return math.log(ratio.high / ratio.low) / 2


def widths(found: Comparison) -> dict[str, tuple[float, float]]:
    """By sliced step: the half-width between configs, and between builds."""
    base, *others = found.subjects
    config = next(each for each in others if each.build == base.build and each.config != base.config)
    build = next(each for each in others if each.build != base.build and each.config == base.config)
    by_step = {}
    for step in (step for step in found.steps if found.sliced(base.name, step)):
        both = [half_width(found.ratio(each.name, step, RATE)) for each in (config, build)]
        if both[0] is not None and both[1] is not None:
            by_step[step] = (both[0], both[1])
    return by_step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("builds")
    parser.add_argument("--set-each", default="jit=on,off")
    parser.add_argument("--goal", type=float, default=1.2)
    asked, more = parser.parse_known_args()  # what is none of these is for bench
    with tempfile.TemporaryDirectory(prefix="slices-configs-") as folder:
        Path(folder).chmod(0o755)
        words = ("--pg", asked.builds, "--set-each", asked.set_each, "--interleave", "slices", "--plain", *more)
        subprocess.run(
            (sys.executable, "-m", "engine", "run", *words, "--out", folder), check=True, stdout=subprocess.DEVNULL
        )
        (run,) = (path.parent for path in Path(folder).glob("*/manifest.json"))
        found = widths(compare([run]))
    for step, (configs, builds) in found.items():
        print(
            f"{step:<10} configs ±{math.expm1(configs):6.2%}  builds ±{math.expm1(builds):6.2%}  {configs / builds:.2f}"
        )
    mean = math.exp(fmean(math.log(configs / builds) for configs, builds in found.values()))
    print(f"{len(found)} steps: {mean:.2f} times as wide (goal: at most {asked.goal:g}); load {os.getloadavg()[0]:.1f}")
    return int(mean > asked.goal)


if __name__ == "__main__":
    sys.exit(main())
