"""How small an effect a number of pairs can show on this machine, by the scatter of its last A/A run."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from engine.core.comparison import MIN_PAIRS
from engine.core.errors import UserError
from engine.core.model import workload_title
from engine.journal.manifest import read_manifest
from engine.journal.runs import runs_in


@dataclass(frozen=True, slots=True)
class Noise:
    """The smallest visible effect of each step's rate as a fraction, for so many `pairs`: seen in four of five runs.

    `run` is the A/A run whose scatter it rests on, `aa_pairs` the fewest pairs that a step had there, `scale` its load.
    """

    run: str
    scale: str
    aa_pairs: int
    pairs: int
    steps: dict[str, float]

    @property
    def effect(self) -> float:
        """What shows in every step: the largest of the steps'."""
        return max(self.steps.values())


def smallest_effects(out: Path, pairs: int, steps: Collection[str], subjects: int = 2) -> Noise | None:
    """From the newest A/A run of this host below `out`; None where there is none, or `pairs` give no verdict.

    Only of `steps`, unless the A/A run had none of them; their verdicts will be one family with those of all
    `subjects`. The statistics are loaded only where such a run exists.
    """
    for folder in runs_in(out) if pairs >= MIN_PAIRS else ():
        try:
            if _is_ours(folder) and (found := _of_run(folder, pairs, steps, max(1, subjects - 1))) is not None:
                return found
        except (UserError, LookupError, TypeError, ValueError, AttributeError):  # a damaged run says nothing
            continue
    return None


def summary(noise: Noise | None, pairs: int) -> str:
    """One line for people."""
    if pairs < MIN_PAIRS:
        return f"{pairs} repeat{'s give' if pairs > 1 else ' gives'} no verdict: at least {MIN_PAIRS} pairs are needed"
    if noise is None:
        return f"the smallest effect that {pairs} pairs can detect is unknown: no A/A run of this host yet (--aa)"
    by_size = sorted(noise.steps.items(), key=lambda step: step[1])
    (least, small), (most, large) = by_size[0], by_size[-1]
    span = f"{small:.1%} ({least})" + (f" to {large:.1%} ({most})" if most != least else "")
    return (
        f"{pairs} pairs can detect effects from {span} up, by the last A/A run of this host: {noise.run}, {noise.scale}"
    )


def _is_ours(folder: Path) -> bool:
    manifest = read_manifest(folder)
    environment = manifest.environment
    host, cpu = environment.get("host") or {}, environment.get("cpu") or {}
    return manifest.aa and (host.get("name"), cpu.get("threads")) == (platform.node(), os.cpu_count())


def _of_run(folder: Path, pairs: int, steps: Collection[str], compared: int) -> Noise | None:
    from engine.analysis import statistics  # loads scipy
    from engine.analysis.cells import pairs as pairs_of
    from engine.analysis.comparability import pair_drift
    from engine.analysis.results import load

    run = load(folder)
    finished = [cell for cell in run.cells if cell.state == "finished"]
    ratios: dict[tuple[str, str], list[float]] = {}  # by step and config: each has a scatter of its own
    for double in dict.fromkeys(cell.cell.subject for cell in run.cells if cell.cell.subject.arm == "aa"):
        for base, other in pairs_of(finished, replace(double, arm=""), double):
            if pair_drift(base, other):
                continue  # such a pair is part of no comparison
            for step in (step for step in base.steps if step in other.steps):
                rates = [cell.steps[step].figures["rate_per_s"] for cell in (base, other)]
                if rates[0] and rates[1]:
                    ratios.setdefault((step, double.config), []).append(rates[1] / rates[0])
    known = {key: values for key, values in ratios.items() if len(values) >= MIN_PAIRS}
    wanted = {key: values for key, values in known.items() if key[0] in steps} or known
    effects: dict[str, float] = {}
    for (step, _), values in wanted.items():
        effect = statistics.smallest_visible_effect(values, pairs, statistics.ALPHA / (len(steps) * compared))
        effects[step] = max(effects.get(step, 0.0), effect or 0.0)
    if not effects:
        return None
    return Noise(run.name, workload_title(run.manifest.workload), min(map(len, wanted.values())), pairs, effects)
