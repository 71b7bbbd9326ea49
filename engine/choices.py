"""All that a plan can choose from, gathered for whoever lets a person choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine import catalogue
from workloads.insert.presets import PRESETS


def everything(out: Path) -> dict[str, Any]:
    """Rows of builds, configs, workloads, presets, kernels, probes, and of the runs in `out`."""
    presets = [
        {
            "preset": preset.name,
            "question": preset.question,
            "generation": preset.generation,
            "steps": [step.name for step in preset.steps],
            "probes": list(preset.probes),
        }
        for preset in PRESETS.values()
    ]
    listings = {
        "builds": catalogue.builds(),
        "configs": catalogue.configs(),
        "workloads": catalogue.workloads(),
        "kernels": catalogue.kernels(),
        "probes": catalogue.probes(out),
        "runs": catalogue.runs(out),
    }
    return {**{name: list(listing.rows) for name, listing in listings.items()}, "presets": presets}
