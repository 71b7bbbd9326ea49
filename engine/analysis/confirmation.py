"""Whether a second run confirms what a first one named: the same rates and response times, measured once more.

The second run is judged alone, and only in what was named: verdicts are corrected for as many rates as there are, and
for as many response times. It confirms a difference that it finds, too, in the same direction; one that it does not
know is not confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.analysis import comparability
from engine.analysis.compare import compare
from engine.analysis.run_results import RunResult
from engine.core.model import Manifest
from engine.journal.manifest import read_manifest
from engine.results.comparison import CHANGED, LATENCIES, PRIMARY_METRICS, Comparison, Ratio
from engine.results.confirmation import ConfirmedStep


def named(comparison: Comparison) -> tuple[Ratio, ...]:
    """The rates (or times) and response times that differ, except from an A/A control."""
    return tuple(
        ratio
        for ratio in comparison.ratios
        if ratio.metric in (*PRIMARY_METRICS, *LATENCIES) and ratio.verdict in CHANGED and not ratio.control
    )


def again(run: Path, base: str, first: Sequence[Ratio]) -> Comparison:
    """The comparison of a second run, of nothing but what was named."""
    return compare([run], base, only={(ratio.subject, ratio.step, ratio.metric) for ratio in first})


def confirmed(first: Sequence[Ratio], second: Comparison) -> tuple[ConfirmedStep, ...]:
    steps = []
    for ratio in first:
        found = second.ratio(ratio.subject, ratio.step, ratio.metric)
        agrees = found is not None and found.verdict == ratio.verdict
        steps.append(ConfirmedStep(ratio.subject, ratio.step, agrees, ratio, found))
    return tuple(steps)


def check_workloads(first: Path, second: Path) -> None:
    """Raise UserError if the workloads differ in more than which steps there are."""
    manifests = [read_manifest(run) for run in (first, second)]
    names = [{step["name"] for load in manifest.workloads for step in load["steps"]} for manifest in manifests]

    def shared(load: dict[str, Any]) -> dict[str, Any]:
        return {**load, "steps": [step for step in load["steps"] if step["name"] in names[0] & names[1]]}

    alike = []
    for run, each in zip((first, second), manifests, strict=True):
        variants = {name: shared(load) for name, load in each.variants.items()}
        alike.append(RunResult(run, replace(each, workload=shared(each.workload), variants=variants), ()))
    comparability.check_workloads(alike)


def differences(first: Manifest, second: Manifest) -> tuple[str, ...]:
    """Builds of one name that are not one binary, and configs of one name with other settings."""
    before = {build.label: build.digest for build in first.builds}
    binaries = [
        f"{build.label} is not the binary that {first.run} measured"
        for build in second.builds
        if build.label in before and build.digest != before[build.label]
    ]
    settings = []
    for key in sorted(first.configs.keys() & second.configs.keys()):
        ours, theirs = (dict(each.configs[key].settings) for each in (first, second))
        unlike = ", ".join(
            f"{name} {theirs.get(name, 'unset')} instead of {ours.get(name, 'unset')}"
            for name in sorted({*ours, *theirs})
            if ours.get(name) != theirs.get(name)
        )
        if unlike:
            settings.append(f"config {key} has other settings than in {first.run}: {unlike}")
    return (*binaries, *settings)
