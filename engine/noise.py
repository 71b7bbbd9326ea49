"""How small an effect a number of pairs can show on this machine, by the scatter of its last A/A run."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import UserError
from engine.journal import read_manifest

MIN_PAIRS = 3  # of A/A: the scatter of fewer says next to nothing; and of a plan: fewer bear no verdict


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

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def smallest_effects(out: Path, pairs: int, steps: Collection[str]) -> Noise | None:
    """From the newest A/A run of this host below `out`; None where there is none, or `pairs` bear no verdict.

    Only of `steps`, unless the A/A run had none of them. The statistics are loaded only where such a run exists.
    """
    if pairs < MIN_PAIRS or not out.is_dir():
        return None
    for folder in sorted(out.iterdir(), key=lambda folder: folder.name, reverse=True):
        try:
            if _is_ours(folder) and (found := _of_run(folder, pairs, steps)) is not None:
                return found
        except (UserError, KeyError, TypeError, AttributeError):  # a run that cannot be read says nothing of noise
            continue
    return None


def said(noise: Noise | None, pairs: int) -> str:
    """One line for people."""
    if pairs < MIN_PAIRS:
        return f"{pairs} repeat{'s bear' if pairs > 1 else ' bears'} no verdict: {MIN_PAIRS} pairs are the least"
    if noise is None:
        return f"how small an effect {pairs} pairs can show is unknown: no A/A run of this host is here yet (--aa)"
    by_size = sorted(noise.steps.items(), key=lambda step: step[1])
    (least, small), (most, large) = by_size[0], by_size[-1]
    span = f"{small:.1%} ({least})" + (f" to {large:.1%} ({most})" if most != least else "")
    return (
        f"{pairs} pairs can show effects from {span} up, by the last A/A run of this host: {noise.run}, {noise.scale}"
    )


def _is_ours(folder: Path) -> bool:
    if not (folder / "manifest.json").exists() or not (folder / "journal.db").exists():
        return False
    manifest = read_manifest(folder)
    environment = manifest.get("environment") or {}
    host, cpu = environment.get("host") or {}, environment.get("cpu") or {}
    return bool(manifest.get("aa")) and (host.get("name"), cpu.get("threads")) == (platform.node(), os.cpu_count())


def _of_run(folder: Path, pairs: int, steps: Collection[str]) -> Noise | None:
    from engine import statistics  # loads scipy
    from engine.comparison import pairs as pairs_of
    from engine.metrics import step_figures
    from engine.results import load

    run = load(folder)
    finished = [cell for cell in run.cells if cell.state == "finished"]
    ratios: dict[tuple[str, str], list[float]] = {}  # by step and config: each has a scatter of its own
    for double in dict.fromkeys(cell.cell.subject for cell in run.cells if cell.cell.subject.arm == "aa"):
        twin = next(
            cell.cell.subject
            for cell in run.cells
            if not cell.cell.subject.arm
            and (cell.cell.subject.build, cell.cell.subject.config) == (double.build, double.config)
        )
        for mates in pairs_of(finished, twin, double):
            for step in mates[0].steps.keys() & mates[1].steps.keys():
                rates = [step_figures(cell.steps[step].kind, cell.steps[step].totals)["rate_per_s"] for cell in mates]
                if rates[0] and rates[1]:
                    ratios.setdefault((step, double.config), []).append(rates[1] / rates[0])
    known = {key: values for key, values in ratios.items() if len(values) >= MIN_PAIRS}
    wanted = {key: values for key, values in known.items() if key[0] in steps} or known
    effects: dict[str, float] = {}
    for step in run.manifest["workload"]["steps"]:
        found = [
            statistics.smallest_visible_effect(values, pairs)
            for (name, _), values in wanted.items()
            if name == step["name"]
        ]
        if found:
            effects[step["name"]] = max(effect or 0.0 for effect in found)
    if not effects:
        return None
    workload = run.manifest["workload"]
    scale = f"{workload['generation']} {workload['scale']}"
    return Noise(run.name, scale, min(map(len, wanted.values())), pairs, effects)
