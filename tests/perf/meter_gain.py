"""What the interference meter is worth: errors of ratios whose truth is 1, in recorded runs, with and without it.

    python -m tests.perf.meter_gain RUN...

The runs should be in slices, of a build against itself (tests/perf/slices_aa.py keeps them with --out). Of every step
and pair of servers: the root mean square of what blocks move the ratio of a server's outer to its inner slices, in
percent, and the same as multiples of it with stolen time taken out of the counted time, adjusted by others' tasks, and
both. Then the same of the ratios between the servers themselves, if their truth is 1, too; the means of the covariates;
and what the engine would use.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.analysis import interference, slice_verdicts
from engine.analysis.compare import compared_cells
from engine.analysis.interference import STOLEN, TASKS
from engine.analysis.slice_estimates import Slices
from engine.results.comparison import RATE

Pairs = Sequence[tuple[Slices, Slices]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", nargs="+", type=Path)
    errors = ("stolen", "tasks", "both")
    heads = ("own", *errors, "between", *errors, "stolen", "tasks")
    print(f"{'step':<10}{'blocks':>7}" + "".join(f"{head:>8}" for head in heads) + "  used")
    for path in parser.parse_args().runs:
        cells = compared_cells([path])
        for subject in cells.others:
            for pairs, step in slice_verdicts.steps_of(cells, subject):
                sides = [found for pair in pairs if (found := slice_verdicts.sides_of(pair, step, RATE)) is not None]
                if sides:
                    print(f"{step:<10}{line(sides)}", flush=True)
    return 0


def line(pairs: Pairs) -> str:
    known = all({STOLEN, TASKS} <= side.covariates.keys() for pair in pairs for side in pair)
    found = interference.step_ratios(pairs)
    blocks = sum(len(base.numerators) for base, _ in pairs)
    if not known:
        return f"{blocks:>7}  not recorded: {', '.join(found.left_out) or 'no meter'}"
    shorter = [tuple(interference.shortened(side) for side in pair) for pair in pairs]
    own, between = [], []
    for each in (pairs, shorter):
        slope = interference.slope_of(each)  # type: ignore[arg-type]
        for used in (0.0, slope):
            own.append(interference.own_error(each, used))  # type: ignore[arg-type]
            between.append(error_between(each, used))  # type: ignore[arg-type]
    shares = [float(side.covariates[STOLEN].sum() / side.denominators.sum()) for pair in pairs for side in pair]
    tasks = [float(side.covariates[TASKS].mean()) / 2 for pair in pairs for side in pair]

    def times(errors: Sequence[float]) -> str:
        plain, by_tasks, by_stolen, both = errors
        return f"{plain:>8.2%}" + "".join(f"{each / plain:>8.2f}" for each in (by_stolen, by_tasks, both))

    return (
        f"{blocks:>7}{times(own)}{times(between)}{np.mean(shares):>8.2%}{np.mean(tasks):>8.2f}  "
        f"{', '.join(found.by) or '-'} ({'; '.join(found.left_out)})"
    )


def error_between(pairs: Pairs, slope: float) -> float:
    """The root mean square of what blocks move the ratios between servers."""
    residuals = np.concatenate([interference.residuals(interference.between(*pair), slope) for pair in pairs])
    return math.sqrt(float(np.mean(residuals**2)))


if __name__ == "__main__":
    sys.exit(main())
