"""The cost of probes on this machine: the same cells with and without them, in pairs.

A build is compared with itself under probes, by the same cells, pairs and intervals as two builds are. The result is
kept per host, so that every later listing of a probe can show it.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.core.errors import UserError
from engine.core.model import PROBED
from engine.core.record import converted, parsed
from engine.results.comparison import Comparison
from engine.results.ratio import CPU, PRIMARY_METRICS, RATE, TIME
from engine.system.files import read_plain

METRICS = (*PRIMARY_METRICS, CPU)
FILE = "probe-cost.json"


@dataclass(frozen=True, slots=True)
class Cost:
    """One step's ratio of probed to bare cells, with its 95% interval (None: too few pairs)."""

    host: str
    probes: tuple[str, ...]
    build: str
    step: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    run: str


def costs(comparison: Comparison, probes: Sequence[str]) -> tuple[Cost, ...]:
    """The costs by a finished run of `with_probed_control`, a row per step and metric."""
    return tuple(
        Cost(
            platform.node(),
            tuple(probes),
            comparison.subject(ratio.subject).build,
            ratio.step,
            ratio.metric,
            ratio.ratio,
            ratio.low,
            ratio.high,
            ratio.pairs,
            comparison.runs[0],
        )
        for ratio in comparison.ratios
        if ratio.control == PROBED and ratio.metric in METRICS
    )


def keep(out: Path, costs: Sequence[Cost]) -> None:
    """Add costs to those known of this host; a newer figure for the same probes, build and step replaces the older."""
    fresh = {(cost.host, cost.probes, cost.build, cost.step, cost.metric): cost for cost in (*known(out), *costs)}
    part = out / f"{FILE}.part"
    part.write_text(json.dumps([asdict(cost) for cost in fresh.values()], indent=1) + "\n")
    part.rename(out / FILE)


def known(out: Path) -> tuple[Cost, ...]:
    """Costs measured on this host before; empty if the file is missing or damaged."""
    try:
        path = out / FILE
        costs = converted(parsed(read_plain(path), str(path)), tuple[Cost, ...], str(path))
    except (OSError, UserError):
        return ()
    return tuple(cost for cost in costs if cost.host == platform.node())


def lines(costs: Sequence[Cost]) -> list[str]:
    words = {RATE: "throughput", TIME: "time", CPU: "server CPU per operation"}
    lines_of = []
    for cost in costs:
        ratio = "no figure" if cost.ratio is None else f"{cost.ratio:.3f}"
        bounds = "" if cost.low is None or cost.high is None else f" [{cost.low:.3f}-{cost.high:.3f}]"
        lines_of.append(f"{cost.step:<8} {words[cost.metric]:<25} {ratio}{bounds}  {cost.pairs} pairs, {cost.build}")
    return lines_of
