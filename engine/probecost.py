"""What the probes cost here: the same cells with and without them, in pairs, on this very machine.

A build is compared with its own probed double, by the same cells, pairs and intervals as two builds are. What came
out is kept per host, so that every later look at a probe can show it.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.comparison import Comparison
from engine.errors import UserError
from engine.model import PROBED_ARM
from engine.plan import interleave
from engine.planstats import PROBE as PLANSTATS
from engine.prepare import Prospect

METRICS = ("rate_per_s", "dbms_cpu_us_per_op")
FILE = "probe-cost.json"


@dataclass(frozen=True, slots=True)
class Cost:
    """One step's ratio of probed to bare cells, with its 95 % interval (None: too few pairs)."""

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


def with_double(prospect: Prospect, pairs: int) -> Prospect:
    """The plan of a run made one of bare and probed cells in turn. It has one build and one config.

    Raises UserError when the probes are none that can be left out of a cell.
    """
    manifest = prospect.manifest
    if PLANSTATS in manifest.observers:
        raise UserError(f"{PLANSTATS} is part of the server's settings, so no cell can go without; name other probes")
    if not manifest.observers:
        raise UserError("nothing to attach: name probes that can be had here (bench probes list)")
    bare = manifest.cells[0].subject
    cells = interleave((bare, replace(bare, arm=PROBED_ARM)), pairs)
    return replace(prospect, manifest=replace(manifest, cells=cells, repeats=pairs, probes_in_arm=True))


def costs(comparison: Comparison, probes: Sequence[str]) -> tuple[Cost, ...]:
    """What a finished run of `with_double` says, a row per step and metric."""
    return tuple(
        Cost(
            platform.node(),
            tuple(probes),
            ratio.subject.build,
            ratio.step,
            ratio.metric,
            ratio.ratio,
            ratio.low,
            ratio.high,
            ratio.pairs,
            comparison.runs[0].name,
        )
        for ratio in comparison.ratios
        if ratio.subject.arm == PROBED_ARM and ratio.metric in METRICS
    )


def keep(out: Path, found: Sequence[Cost]) -> None:
    """Adds costs to those known of this host; a newer figure for the same probes, build and step replaces the older."""
    fresh = {_key(cost): cost for cost in (*known(out), *found)}
    part = out / f"{FILE}.part"
    part.write_text(json.dumps([asdict(cost) for cost in fresh.values()], indent=1) + "\n")
    part.rename(out / FILE)


def known(out: Path) -> tuple[Cost, ...]:
    """What was measured on this host before; nothing where the file is missing or damaged."""
    try:
        records = json.loads((out / FILE).read_text())
        found = [Cost(**{**record, "probes": tuple(record["probes"])}) for record in records]
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    return tuple(cost for cost in found if cost.host == platform.node())


def said(costs: Sequence[Cost]) -> list[str]:
    """Lines for a person, one per step and metric."""
    words = {"rate_per_s": "throughput", "dbms_cpu_us_per_op": "server CPU per operation"}
    lines = []
    for cost in costs:
        ratio = "no figure" if cost.ratio is None else f"{cost.ratio:.3f}"
        bounds = "" if cost.low is None or cost.high is None else f" [{cost.low:.3f}-{cost.high:.3f}]"
        lines.append(f"{cost.step:<8} {words[cost.metric]:<25} {ratio}{bounds}  {cost.pairs} pairs, {cost.build}")
    return lines


def _key(cost: Cost) -> tuple[Any, ...]:
    return (cost.host, cost.probes, cost.build, cost.step, cost.metric)
