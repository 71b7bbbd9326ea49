"""The origins of a comparison's figures, as tables: builds, settings, machines, observers, commands to repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.analysis.causes import probe_cost
from engine.core.errors import UserError
from engine.core.model import Manifest
from engine.plan.command_line import command
from engine.plan.request import request_of
from engine.report.journals import Recorded
from engine.results.averages import middle
from engine.results.comparison import Comparison
from engine.results.section import WORDS, Column, Figure, Row, Section, columns, row
from workloads.api.names import UnknownName


@dataclass(frozen=True, slots=True)
class Origins:
    """Facts about runs besides figures."""

    sections: tuple[Section, ...]
    commands: tuple[str, ...]
    measured: tuple[str, ...]  # when, where and by which version, a line for each run


def origins(comparison: Comparison, manifests: Sequence[Manifest], recorded: Recorded) -> Origins:
    sections = (
        subjects(comparison),
        builds(comparison),
        machine(manifests),
        observers(comparison, recorded),
        probe_costs(comparison),
    )
    return Origins(
        tuple(section for section in sections if section.rows),
        tuple(dict.fromkeys(line for manifest in manifests for line in commands(manifest))),
        tuple(map(measured, manifests)),
    )


def subjects(comparison: Comparison) -> Section:
    rows = []
    for subject in comparison.subjects:
        cells = {(cell.run, cell.cell) for cell in comparison.cells if cell.subject == subject.name}
        against = "the base" if subject.name == comparison.base else comparison.baseline_of(subject.name)
        rows.append(
            row(subject.name, subject.build, subject.config, subject.kernel, against, len(cells), subject=subject.name)
        )
    words = (Column(name, WORDS) for name in ("build", "config", "kernel", "compared with"))
    return Section("subjects", "What was compared", columns("", *words, Column("cells", "count")), tuple(rows))


def comparability(comparison: Comparison) -> Section:
    rows = (
        row(subject.name if place == 0 else "", "ok" if check.ok else "!", check.what, check.text, subject=subject.name)
        for subject in comparison.others
        for place, check in enumerate(comparison.checks(subject.name))
    )
    headings = tuple(Column(name, WORDS) for name in ("", "", "check", "found"))
    return Section("comparability", "Are the cells comparable?", headings, tuple(rows))


def builds(comparison: Comparison) -> Section:
    known: dict[tuple[str, str], Row] = {}
    for build in comparison.measured.builds:
        initdb = f"; initdb {' '.join(build.initdb_args)}" if build.initdb_args else ""
        patches = ", ".join(build.patches) or "none"
        extensions = "; ".join(extension.title for extension in build.extensions) or "none"
        known.setdefault((build.label, build.digest), row(
            build.label, build.version, build.provenance + initdb, build.digest, build.compiler, build.flags, patches,
            extensions,
        ))  # fmt: skip
    headings = ("", "version", "origin", "digest", "compiler", "flags", "patches", "extensions")
    return Section("builds", "Builds", tuple(Column(name, WORDS) for name in headings), tuple(known.values()))


def machine(manifests: Sequence[Manifest]) -> Section:
    known = [dict(_flat(manifest.environment)) for manifest in manifests]
    names = dict.fromkeys(name for record in known for name in record)
    rows = (row(name, *(record.get(name, "-") for record in known)) for name in names)
    headings = (Column(name, WORDS) for name in ("", *(manifest.run for manifest in manifests)))
    return Section("environment", "Environment", tuple(headings), tuple(rows))


def measured(manifest: Manifest) -> str:
    """The date, the machine and the version of pgbed of a run."""
    known = dict(_flat(manifest.environment))
    in_guests = bool(manifest.boot.kernels)  # which have others
    kernel = f"Linux {known['kernel.release']}" if "kernel.release" in known and not in_guests else ""
    cpus = f"{known['cpu.threads']} CPUs" if "cpu.threads" in known else ""
    machine = ", ".join(filter(None, (known.get("host.name"), known.get("cpu.model"), cpus, kernel)))
    where = "with clients on" if manifest.external is not None else "on"
    day, engine = manifest.origin.created[:10], manifest.origin.engine
    return f"measured on {day} {where} {machine or 'an unknown machine'} by pgbed {engine}"


def _flat(record: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None and value != "":
            yield f"{before}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def probe_costs(comparison: Comparison) -> Section:
    rows = []
    used = {probe for cell in comparison.cells for probe in cell.observers}
    for folder in dict.fromkeys(Path(folder).parent for folder in comparison.measured.folders.values()):
        for cost in probe_cost.known(folder):
            if used and set(cost.probes) >= used and cost.build in {subject.build for subject in comparison.subjects}:
                ratio = "no figure" if cost.ratio is None else cost.ratio
                rows.append(
                    row(cost.step, f"{cost.metric} {cost.build}", Figure(ratio, cost.low, cost.high), cost.pairs)
                )
    headings = columns("step", Column("", WORDS), Column("ratio", "fixed", bounds="95%"), Column("pairs", "count"))
    return Section("probe costs", "Cost of these probes, as measured on this machine", headings, tuple(rows))


def observers(comparison: Comparison, recorded: Recorded) -> Section:
    """The observers of each step, and the cost of observers and clients."""
    rows = []
    for step in comparison.steps:
        for name in comparison.names:
            cells = comparison.of(name, step)
            if cells:
                probes = ", ".join(sorted({probe for cell in cells for probe in cell.observers})) or "none"
                client = middle(cell.client_cpu_us_per_op for cell in cells)
                server = middle(cell.server_cpu_us_per_op for cell in cells)
                share = client / server if client is not None and server else None
                of_engine = [
                    recording.totals.engine_cpu_ns / 1e9 / seconds
                    for cell in cells
                    if (recording := recorded.step(cell)) is not None and recording.totals is not None
                    and (seconds := recording.totals.wall_seconds or recording.totals.seconds) > 0
                ]  # fmt: skip
                rows.append(row(name, probes, client, share, middle(of_engine), step=step, subject=name))
    shares = (Column("client CPU\n/ server's", "share"), Column("engine\n% of a CPU", "share"))
    headings = columns("step and build", Column("probes", WORDS), "client CPU\nus/op", *shares)
    return Section("observers", "Observers", headings, tuple(rows))


def commands(manifest: Manifest) -> Iterable[str]:
    """The command line that repeats a run, and the parts that it cannot express."""
    origin = manifest.origin
    revision = f" (flake revision {origin.revision})" if origin.revision else ""
    engine = f"pgbed {origin.engine}{revision}"
    yield f"# run {manifest.run}, measured by {engine} on {origin.created}"
    try:
        request = request_of(manifest.request)
    except (UserError, UnknownName, ValueError) as error:
        yield f"# its request cannot be read: {error}"
        return
    yield command(request)
