"""Consequences of the kernels of cells: which of them compare, and how far their configurations differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.analysis.cells.run_results import RunResult
from engine.core.kernel import HOST, Kernel
from engine.core.model import Subject
from engine.features import conditions

NAMED = 8  # options of a configuration to list


def reasons(runs: Sequence[RunResult], base: Subject, subject: Subject) -> list[str]:
    """The reason why the kernels, or their guests, allow no verdict."""
    runs_of = [run for run in runs if any(cell.subject in (base, subject) for cell in run.manifest.cells)]
    reasons_of: dict[str, None] = {}
    guests = [bool(_kernels(runs_of, side)) for side in (base, subject)]
    if guests[0] != guests[1]:
        reasons_of["host against a guest: virtualisation would be compared; run the host's own image in a guest"] = None
    machines = {run.manifest.boot.guest for run in runs_of if run.manifest.boot.guest is not None}
    if any(guests) and any(machine.emulated for machine in machines):
        reasons_of["emulated guests (no KVM): their times are not a real machine's"] = None
    if all(guests) and len(machines) > 1:
        reasons_of["the guests of the runs are not alike"] = None
    both = [*_kernels(runs_of, base), *_kernels(runs_of, subject)]
    if len({kernel.provenance for kernel in both}) > 1:
        reasons_of[f"kernels of unlike provenance: {' and '.join(sorted({kernel.provenance for kernel in both}))}"] = (
            None
        )
    for label in dict.fromkeys(kernel.label for kernel in both):
        images = {
            (kernel.release, kernel.digest, kernel.config_digest, kernel.command_line)
            for kernel in both
            if kernel.label == label
        }
        if len(images) > 1:
            releases = " and ".join(sorted({f"{release} {words}".strip() for release, _, _, words in images}))
            reasons_of[f"kernel {label} is not the same in all runs: {releases}"] = None
    if len({conditions(run.manifest.parts) for run in runs_of}) > 1:
        reasons_of["settings of the kernel (--sched) are not the same in all runs"] = None
    return list(reasons_of)


def checks(runs: Sequence[RunResult], base: Subject, subject: Subject) -> Iterable[tuple[str, bool, str]]:
    """Checks of the guests: what, whether it is as it should be, in words; none without guests."""
    ours, theirs = (_kernels(runs, side) for side in (base, subject))
    if not ours and not theirs:
        return
    machines = dict.fromkeys(run.manifest.boot.guest for run in runs if run.manifest.boot.guest is not None)
    for machine in machines:
        cpus = f"{machine.cpus} CPU{'s' if machine.cpus > 1 else ''}"
        memory = f"{machine.memory_mb} MB{' of huge pages' if machine.huge_pages else ''}"
        how = f"{machine.accelerator}, {cpus}, {memory}, {machine.disk}, {machine.share}, {machine.emulator}"
        yield "guest", not machine.emulated and len(machines) == 1, how
    if pairs := dict.fromkeys(pair for run in runs for pair in conditions(run.manifest.parts)):
        yield "kernel settings", True, ", ".join(f"{name}={value}" for name, value in pairs)
    if ours and theirs and base.kernel != subject.kernel:
        yield "provenance", *_provenance(ours[0], theirs[0])
        yield "configuration", True, difference(ours[0], theirs[0])
        lines = [kernel.command_line or "nothing" for kernel in (ours[0], theirs[0])]
        if lines[0] != lines[1]:
            yield "command line", True, f"{lines[0]} vs {lines[1]}"


def difference(one: Kernel, other: Kernel) -> str:
    if not one.options or not other.options:
        return "not known of both"
    names = [name for name in one.options if one.options[name] != other.options.get(name, "n")]
    shown = [f"{name} {one.options[name]} vs {other.options.get(name, 'n')}" for name in names[:NAMED]]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (", ".join(shown) + more) or "the same in options of the scheduler"


def _provenance(one: Kernel, other: Kernel) -> tuple[bool, str]:
    same = one.provenance == other.provenance
    schedulers = " vs ".join(dict.fromkeys((one.scheduler, other.scheduler)))
    return same, f"{' vs '.join(dict.fromkeys((one.provenance, other.provenance)))}; {schedulers}"


def _kernels(runs: Sequence[RunResult], subject: Subject) -> list[Kernel]:
    if subject.kernel == HOST:
        return []
    return [kernel for run in runs if (kernel := run.manifest.kernel(subject.kernel)) is not None]
