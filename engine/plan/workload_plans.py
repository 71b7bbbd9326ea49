"""The workload of a run: its plan, and its record in the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core import missing_steps
from engine.core.errors import UserError
from engine.plan import planfile
from engine.plan.request import Request
from engine.system.account import unprivileged
from workloads import workload
from workloads.api.base import Plan, Step, Surveying, Workload
from workloads.api.options import checked


@dataclass(frozen=True, slots=True)
class Load:
    """A workload and its plan."""

    workload: Workload
    plan: Plan

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.workload.steps(self.plan.record)


def load_of(request: Request, options: Mapping[str, Any]) -> Load:
    """Plan a request's workload with `options`. Raises UnknownName or ValueError, in one line."""
    chosen = workload(request.workload)
    return Load(chosen, chosen.plan(checked(chosen.options, options)))


def recorded(
    load: Load, programs: Mapping[str, Any], left_out: missing_steps.Lacking, labels: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Record a workload for the manifest, without the steps `left_out` by some builds (`labels`). Raises UserError.

    Its data may be put into `folder`, which the user that restores it may read.
    """
    record = load.plan.record
    if programs:
        record = {**record, "programs": dict(programs)}
    if left_out:
        record = _without(record, left_out, labels)
    try:
        if isinstance(load.workload, Surveying):
            record = load.workload.survey(record, str(folder))
            account = unprivileged()
            for place in (folder, *folder.iterdir()) if folder.is_dir() else ():
                account.chown(place)
        load.workload.check(record)
    except ValueError as error:
        raise planfile.refused(error) from None
    chosen = load.workload
    return {**record, "identity": chosen.identity(record), "non_default": list(chosen.non_default(record))}


def _without(record: dict[str, Any], left_out: missing_steps.Lacking, labels: Sequence[str]) -> dict[str, Any]:
    steps = [step for step in record["steps"] if not all(step["name"] in left_out.get(label, {}) for label in labels)]
    if not steps:
        raise UserError(f"nothing is left to do: {'; '.join(missing_steps.sentences(left_out))}")
    return {**record, "steps": steps, "lacking": {label: dict(why) for label, why in left_out.items()}}
