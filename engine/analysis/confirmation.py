"""Whether a second run confirms what a first one named: the same steps of the same builds, measured once more.

The second run is judged alone, and only in these steps: their verdicts are corrected for as many as there are. It
confirms a difference that it finds, too, in the same direction; one that it does not know is not confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.model import Manifest
from engine.results.comparison import CHANGED, PRIMARY_METRICS, Comparison, Ratio
from engine.results.confirmation import ConfirmedStep


def named(comparison: Comparison) -> tuple[Ratio, ...]:
    """The rates or times that differ, except from an A/A control."""
    return tuple(
        ratio
        for ratio in comparison.ratios
        if ratio.metric in PRIMARY_METRICS and ratio.verdict in CHANGED and not ratio.control
    )


def confirmed(first: Sequence[Ratio], second: Comparison) -> tuple[ConfirmedStep, ...]:
    steps = []
    for ratio in first:
        again = second.ratio(ratio.subject, ratio.step, ratio.metric) if ratio.subject in second.names else None
        agrees = again is not None and again.verdict == ratio.verdict
        steps.append(ConfirmedStep(ratio.subject, ratio.step, agrees, ratio, again))
    return tuple(steps)


def differences(first: Manifest, second: Manifest) -> tuple[str, ...]:
    """Builds of one name that are not one binary."""
    before = {build.label: build.digest for build in first.builds}
    return tuple(
        f"{build.label} is not the binary that {first.run} measured"
        for build in second.builds
        if build.label in before and build.digest != before[build.label]
    )
