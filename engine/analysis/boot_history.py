"""Earlier A/A runs of the same machine in other boots: which of them say something of a comparison, and what.

They lie in the folder of the compared runs, began before the last of these, and were made alike: machine and its
settings, kernel, interleaving, route, probes, options of the workload, settings of the config. Those of their steps
count that were planned alike, and a run without any does not hide an older one of its boot. What is read is what others
may have written: a damaged run says nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from engine.analysis import alpha_spending, boots, comparability, measured_ratios
from engine.analysis.boots import BetweenBoots, Component, Control, EarlierControl
from engine.analysis.cells import ComparedCells
from engine.analysis.measured_ratios import MeasuredRatio
from engine.analysis.run_results import RunResult, load
from engine.core.errors import UserError
from engine.core.model import Config, Manifest, Subject, subject_names
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.runs import runs_in
from engine.results.comparison import PRIMARY_METRICS, RATE, Ratio

# Each run that is read takes as long as the compared one, so that of a boot only the newest is. To look whether a run
# is of another boot takes a hundredth of that.
MOST_BOOTS, MOST_RUNS = 8, 60
LEAST_TOLD = 0.0005  # a smaller component is 0.0 % to a reader
# OSError: someone deleted it meanwhile.
DAMAGE = (UserError, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


def earlier(runs: Sequence[RunResult]) -> tuple[EarlierControl, ...]:
    """The controls of each boot's newest A/A run that was made like these and has a step of theirs; none of too few."""
    if len({run.machine for run in runs}) > 1 or not all(map(_is_of_a_boot, runs)):
        return ()
    last = max(runs, key=lambda run: run.manifest.created)
    names = {run.name for run in runs}
    found: dict[str, list[Path]] = {}  # by boot
    for folder in (folder for out in dict.fromkeys(run.path.parent for run in runs) for folder in runs_in(out)):
        if len(found) == MOST_BOOTS or sum(map(len, found.values())) == MOST_RUNS:
            break
        try:
            manifest = read_manifest(folder)
            alike = manifest.run not in names and _earlier_alike(RunResult(folder, manifest, ()), last)
            if alike and any(_tells_of(manifest, run.manifest) for run in runs):
                found.setdefault(_boot(folder), []).append(folder)
        except DAMAGE:
            continue
    if len(found) < boots.LEAST_BOOTS:
        return ()
    return tuple(control for own in found.values() for control in next(filter(None, map(_read, own)), ()))


def of_pairs(cells: ComparedCells, measured: Iterable[MeasuredRatio]) -> list[MeasuredRatio]:
    """The ratios with what boots add to their errors, as far as it is known."""
    components = {cells.names[subject]: _components(cells, subject) for subject in cells.others}
    return [_widened(each, components[each.blank.subject]) for each in measured]


def _widened(measured: MeasuredRatio, components: Mapping[Component, BetweenBoots]) -> MeasuredRatio:
    component = components.get((measured.blank.step, measured.blank.metric))
    of = [(base.boot, other.boot) for base, other in measured.pairs]
    if component is None or len(of) < 2 or measured.blank.machines or not all(all(both) for both in of):
        return measured
    blank = replace(measured.blank, boot_sd=component.sd, boots=component.boots)
    plain = measured.unadjusted and boots.widened(measured.unadjusted, component, of)
    return replace(measured, blank=blank, pooled=boots.widened(measured.estimate, component, of), unadjusted=plain)


def _components(cells: ComparedCells, subject: Subject) -> dict[Component, BetweenBoots]:
    """What boots add to each ratio of a subject: primary metrics are pooled, each other metric is alone."""
    base = cells.baseline_of(subject)
    manifest = next((run.manifest for run in cells.runs if base in run.manifest.subjects), None)
    if manifest is None or not cells.earlier:
        return {}
    config, workload = manifest.config(base), manifest.workload_of(base)
    pooled: dict[str, dict[Component, list[Control]]] = {}
    for other in cells.earlier:
        if not alike_settings(other.config, config):
            continue
        steps = comparability.alike_steps(other.workload, workload)
        for (step, metric), control in other.ratios.items():
            if step in steps:
                among = RATE if metric in PRIMARY_METRICS else metric
                pooled.setdefault(among, {}).setdefault((step, metric), []).append(control)
    return {key: found for own in pooled.values() for key, found in boots.between_boots(own).items()}


def findings(judged: Sequence[Ratio]) -> list[str]:
    """How much boots add to intervals of rates, and from where it is known."""
    known = [
        (ratio.boot_sd, ratio.step, ratio.boots)
        for ratio in judged
        if ratio.metric in PRIMARY_METRICS and ratio.boot_sd is not None
    ]
    if not known:
        return []
    (least, step, _), (most, other, _) = min(known), max(known)
    if most < LEAST_TOLD:
        return []
    span = f"{least:.1%} ({step}) to {most:.1%} ({other})" if f"{least:.1%}" != f"{most:.1%}" else f"{most:.1%}"
    fewest, count = min(boots for *_, boots in known), max(boots for *_, boots in known)
    of = f"{count}" if fewest == count else f"{fewest} to {count}"  # by step
    return [f"intervals allow for {span} between boots of this machine, from A/A runs of {of} boots"]


def _is_of_a_boot(run: RunResult) -> bool:
    """Whether all its cells were measured under this machine's own kernel, and machine and workloads are known."""
    manifest = run.manifest
    known = run.machine and all(isinstance(workload.get("identity"), dict) for workload in manifest.workloads)
    return bool(known) and not (run.sandboxed or manifest.kernels or manifest.external or manifest.observed)


def _earlier_alike(one: RunResult, other: RunResult) -> bool:
    """Whether the one is earlier than the other, and of the same sort."""

    def besides(run: RunResult) -> Hashable:
        manifest = run.manifest
        probed = tuple(sorted(manifest.observers)), manifest.counters
        return run.machine, comparability.measured_in(run), manifest.route.words, probed, manifest.tunables

    began, later = (datetime.fromisoformat(run.manifest.created) for run in (one, other))
    alike = _is_of_a_boot(one) and besides(one) == besides(other) and not comparability.machine_changes(one, other)
    return alike and began < later


def _tells_of(manifest: Manifest, compared: Manifest) -> bool:
    """Whether it has a control with the settings, and at least one of the steps, of what is compared."""
    return any(
        alike_settings(manifest.config(base), compared.config(own))
        and comparability.alike_steps(manifest.workload_of(base), compared.workload_of(own))
        for base, _ in _controls(manifest)
        for own in compared.subjects
    )


def alike_settings(ours: Config, theirs: Config) -> bool:
    """Whether two configs set the same, apart from what a version does not know."""
    one, other = dict(ours.settings), dict(theirs.settings)
    unknown = {*ours.dropped, *theirs.dropped}
    return ours.device == theirs.device and all(
        one.get(name) == other.get(name) or (name in unknown and not (name in one and name in other))
        for name in {*one, *other}
    )


def _controls(manifest: Manifest) -> list[tuple[Subject, Subject]]:
    """Each base that is compared with itself: with its A/A control, or with the same binaries by another name."""
    first, builds = manifest.baseline, {build.label: build for build in manifest.builds}
    found = [(replace(one, control=""), one) for one in manifest.subjects if one.control == "aa"]
    for other in manifest.subjects if first else ():
        if first and other != first and replace(other, build=first.build) == first:
            ours, theirs = (replace(builds[one.build], label="", prefix="", source="") for one in (first, other))
            if ours == theirs and alike_settings(manifest.config(first), manifest.config(other)):
                found.append((first, other))
    return found


def _boot(folder: Path) -> str:
    """The boot in which a run began. Raises LookupError if none has."""
    with JournalReader(folder) as reader:
        return reader.sessions()[0].boot_id


def _read(folder: Path) -> list[EarlierControl]:
    """The controls of a run that have any ratio; none of a damaged one."""
    try:
        run = load(folder)
        return [found for both in _controls(run.manifest) if (found := _control(run, *both)).ratios]
    except DAMAGE:
        return []


def _control(run: RunResult, base: Subject, other: Subject) -> EarlierControl:
    finished = tuple(cell for cell in run.cells if cell.state == "finished" and cell.cell.subject in (base, other))
    steps = tuple(dict.fromkeys(step for cell in finished for step in cell.steps))
    levels = alpha_spending.levels([run])
    cells = ComparedCells((run,), base, subject_names([base, other]), steps, finished, run.manifest.margin, levels)
    judged = [metric for metric in cells.metrics if measured_ratios.family_of(metric)]
    ratios = {
        (each.blank.step, each.blank.metric): Control(each.estimate, boot)
        for each in measured_ratios.measured(cells, judged)
        if len(each.quotients) > 1 and not each.blank.reasons and (boot := _boot_of(each))
    }
    return EarlierControl(run.name, run.manifest.config(base), run.manifest.workload_of(base), ratios)


def _boot_of(measured: MeasuredRatio) -> str:
    """The boot of all pairs; empty if they are of several."""
    found = {cell.boot for pair in measured.pairs for cell in pair}
    return next(iter(found)) if len(found) == 1 else ""
