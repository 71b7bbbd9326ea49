"""Steps left out of a plan because a build lacks what they need, as recorded in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.record import converted

Lacking = Mapping[str, Mapping[str, str]]  # reason by build and step


def sentences(left_out: Lacking) -> tuple[str, ...]:
    steps = dict.fromkeys(step for of_build in left_out.values() for step in of_build)
    return tuple(
        f"left out: step {step}: {sentence}"
        for step in steps
        for sentence in reasons({label: why[step] for label, why in left_out.items() if step in why})
    )


def recorded(workload: Mapping[str, Any]) -> Lacking:
    """Raises UserError if a manifest's entry is invalid."""
    return converted(workload.get("lacking", {}), dict[str, dict[str, str]], "manifest.json: workload: lacking")


def reasons(why: Mapping[str, str]) -> list[str]:
    """A sentence for each distinct reason, preceded by the builds that share it."""
    return [
        f"{', '.join(label for label, reason_of in why.items() if reason_of == reason)}: {reason}"
        for reason in dict.fromkeys(why.values())
    ]
