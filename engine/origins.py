"""What must be alike for two results to be compared, and what is said when it is not.

Different workloads are refused outright. Whatever else differs and was not the subject (the machine, the binaries
behind a label, the settings behind a name, probes) leaves the numbers visible and withholds the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from engine.drift import drift
from engine.errors import UserError
from engine.model import RoleTotals, Subject, known_fields
from engine.results import CellResult, RunResult, StepResult
from workloads.insert.knobs import Knobs
from workloads.insert.steps import GENERATIONS, Step

# Parts of an environment that are told by gauges: they move all the time, so runs on different days are not held
# to them; the pairs within each run are.
PASSING = {"state": None, "cpu": ("mhz", "probe_us")}


def check_workloads(runs: Sequence[RunResult]) -> None:
    """Raises UserError when runs put on different loads: says what differs, and between which runs."""
    first = runs[0]
    for run in runs[1:]:
        for name, ours, theirs in _unlike(first.manifest["workload"], run.manifest["workload"]):
            raise UserError(
                f"{first.name} and {run.name} cannot be compared: {name} is {ours} in the one and {theirs} in the other"
            )


def run_reasons(runs: Sequence[RunResult], subject: Subject) -> list[str]:
    """Why cells of one subject from several runs are not of one kind: machine, binaries, settings."""
    own = [run for run in runs if any(_same(cell.cell.subject, subject) for cell in run.cells)]
    reasons: dict[str, None] = {}
    for run in own[1:]:
        first = own[0]
        for sentence in drift(_lasting(first.manifest["environment"]), _lasting(run.manifest["environment"])):
            reasons[f"between {first.name} and {run.name} {sentence}"] = None
        if _build(first, subject).get("digest") != _build(run, subject).get("digest"):
            reasons[f"{subject.build} is not the same binary in {first.name} and {run.name}"] = None
        if _settings(first, subject) != _settings(run, subject):
            reasons[f"config {subject.config} has other settings in {run.name} than in {first.name}"] = None
    return list(reasons)


def pair_reasons(base: CellResult, other: CellResult) -> list[str]:
    """What changed on the machine within a pair of cells, or while one of them ran."""
    moved: dict[str, None] = {}
    for cell in (base, other):
        if len(cell.environments) == 2:
            moved.update(dict.fromkeys(drift(*map(_own, cell.environments))))
    if base.environments and other.environments:
        before, after = _own(base.environments[0]), _own(other.environments[0])
        if base.cell.subject.kernel != other.cell.subject.kernel:  # then the kernel is what is compared
            before, after = ({**record, "kernel": None} for record in (before, after))
        if other.cell.ordinal < base.cell.ordinal:
            before, after = after, before
        moved.update(dict.fromkeys(drift(before, after)))
    return [f"pair {base.cell.repeat}: {sentence}" for sentence in moved]


def work_reasons(base: StepResult, other: StepResult, repeat: int) -> list[str]:
    """How the work of a pair differs: rows written, rows found per query, probes attached."""
    reasons: list[str] = []
    for role in ("insert", "delete", "index"):
        ours, theirs = (step.totals.roles.get(role) for step in (base, other))
        for what in ("rows", "rows_actual"):
            counts = [getattr(part, what) if part else 0 for part in (ours, theirs)]
            if abs(counts[0] - counts[1]) > _tolerated(max(counts), ours or theirs):
                done = "done" if what == "rows_actual" else "asked for"
                text = f"{role} rows {done} {counts[0]:,} against {counts[1]:,}"
                reasons.append(f"unequal work in pair {repeat}: {text}")
                break
    if base.totals.rows_indexed != other.totals.rows_indexed:
        counts_text = f"{base.totals.rows_indexed:,} against {other.totals.rows_indexed:,}"
        reasons.append(f"unequal work in pair {repeat}: rows indexed {counts_text}")
    found = [_rows_per_query(step) for step in (base, other)]
    if found[0] is not None and found[1] is not None and abs(found[0] - found[1]) > 0.01 * max(found[0], found[1]):
        reasons.append(f"unequal work in pair {repeat}: rows per query {found[0]:.2f} against {found[1]:.2f}")
    return reasons


def observer_reasons(base: StepResult, other: StepResult, repeat: int) -> list[str]:
    """Why two steps that were watched by different probes do not compare."""
    if set(base.totals.observers) == set(other.totals.observers):
        return []
    names = [", ".join(sorted(step.totals.observers)) or "none" for step in (base, other)]
    return [f"unlike observers in pair {repeat}: {names[0]} against {names[1]}"]


def _tolerated(rows: int, role: RoleTotals | None) -> float:
    """How many rows may be missing: where streams do not drain, each loses its queue of eight and one in flight."""
    per_statement = role.rows / role.statements if role and role.statements else 0.0
    return max(0.005 * rows, 10 * per_statement)


def by_kernel(runs: Sequence[RunResult]) -> bool:
    """Whether the runs were made under different kernels, all called `host`: then the release is the name."""
    releases = {release_of(run) for run in runs}
    return len(releases) > 1


def release_of(run: RunResult) -> str:
    """The kernel release that a run was made under."""
    return str((run.manifest.get("environment", {}).get("kernel") or {}).get("release") or "host")


def _unlike(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Differences of two workloads: (what, ours, theirs); keys that only one has (a newer minor) are passed over."""
    for key in ("name", "generation", "clients"):
        if key in ours and key in theirs and ours[key] != theirs[key]:
            yield key, str(ours[key]), str(theirs[key])
    knobs = [_resolved_knobs(part) for part in (ours, theirs)]
    for key in knobs[0]:
        if key in knobs[1] and knobs[0][key] != knobs[1][key]:
            yield key.replace("_", " "), str(knobs[0][key] or "default"), str(knobs[1][key] or "default")
    steps = ours.get("steps", []), theirs.get("steps", [])
    names = [[step["name"] for step in part] for part in steps]
    if names[0] != names[1]:
        yield "the list of steps", " ".join(names[0]), " ".join(names[1])
    for step, other in zip(*steps, strict=False):
        for key in step:
            if key in other and step[key] != other[key]:
                yield f"{key.replace('_', ' ')} of {step['name']}", str(step[key]), str(other[key])


def _resolved_knobs(workload: dict[str, Any]) -> dict[str, Any]:
    """What was in effect: the same whether it was asked for or is the generation's own.

    Rows per statement are each step's: those of the steps that are there, in order.
    """
    form, knobs = GENERATIONS.get(str(workload.get("generation"))), workload.get("knobs", {})
    if form is None:  # another kind of workload, or a newer pgbed's
        return dict(knobs)
    known = Knobs.of(known_fields(Knobs, knobs))
    steps = [Step.of(known_fields(Step, step)) for step in workload.get("steps", [])]
    rows = " ".join(str(known.rows_per_statement_of(step)) for step in steps if step.kind != "pause")
    return known.resolved(form) | {"rows_per_statement": rows}


def departures(workload: dict[str, Any]) -> tuple[str, ...]:
    """What a run's workload does not do as its generation does: see `Knobs.departures`."""
    form = GENERATIONS.get(str(workload.get("generation")))
    return Knobs.of(known_fields(Knobs, workload.get("knobs", {}))).departures(form) if form else ()


def _same(subject: Subject, other: Subject) -> bool:
    return (subject.build, subject.config) == (other.build, other.config)


def _own(environment: dict[str, Any]) -> dict[str, Any]:
    """Without what others do on the machine: that is noise, which shows in the interval, and a finding of its own."""
    state = environment.get("state")
    if not isinstance(state, dict):
        return environment
    return {**environment, "state": {key: value for key, value in state.items() if key != "busy_share"}}


def _lasting(environment: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for section, record in environment.items():
        passing = PASSING.get(section, ())
        if passing is not None and isinstance(record, dict):
            kept[section] = {key: value for key, value in record.items() if key not in passing}
    return kept


def _build(run: RunResult, subject: Subject) -> dict[str, Any]:
    return next((build for build in run.manifest["builds"] if build["label"] == subject.build), {})


def _settings(run: RunResult, subject: Subject) -> Any:
    config = run.manifest.get("configs", {}).get(f"{subject.config}/{subject.build}", {})
    return config.get("settings")


def _rows_per_query(step: StepResult) -> float | None:
    roles = step.totals.of_kind("query")
    statements = sum(role.statements for role in roles)
    return sum(role.rows_actual for role in roles) / statements if statements >= 1000 else None
