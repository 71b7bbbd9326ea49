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
from engine.report.tables.section import Section, number, percent
from engine.results.averages import middle
from engine.results.comparison import Comparison
from workloads.api.names import UnknownName

DASH = "-"
ENVIRONMENT, OBSERVERS = "Environment", "Observers"


@dataclass(frozen=True, slots=True)
class Origins:
    """What is known of runs besides figures."""

    sections: tuple[Section, ...]
    commands: tuple[str, ...]
    measured: tuple[str, ...]  # when, where and by what, a line for each run


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
    section = Section("What was compared", ("", "build", "config", "kernel", "compared with", "cells"))
    for subject in comparison.subjects:
        cells = {(cell.run, cell.cell) for cell in comparison.cells if cell.subject == subject.name}
        base = comparison.baseline_of(subject.name)
        against = "the base" if subject.name == comparison.base else base
        section.add(subject.name, subject.build, subject.config, subject.kernel, against, str(len(cells)))
    return section


def comparability(comparison: Comparison) -> Section:
    section = Section("Are the cells comparable?", ("", "", "check", "found"))
    for subject in comparison.others:
        for place, check in enumerate(comparison.checks(subject.name)):
            section.add(subject.name if place == 0 else "", "ok" if check.ok else "!", check.what, check.text)
    return section


def builds(comparison: Comparison) -> Section:
    section = Section("Builds", ("", "version", "origin", "digest", "compiler", "flags", "patches", "extensions"))
    seen = set[tuple[str, str]]()
    for build in comparison.builds:
        if (build.label, build.digest) not in seen:
            seen.add((build.label, build.digest))
            initdb = f"; initdb {' '.join(build.initdb_args)}" if build.initdb_args else ""
            patches = ", ".join(build.patches) or "none"
            extensions = "; ".join(extension.title for extension in build.extensions) or "none"
            section.add(build.label, build.version, build.provenance + initdb, build.digest, build.compiler,
                        build.flags, patches, extensions)  # fmt: skip
    return section


def machine(manifests: Sequence[Manifest]) -> Section:
    known = [dict(_flat(manifest.environment)) for manifest in manifests]
    section = Section(ENVIRONMENT, ("", *(manifest.run for manifest in manifests)))
    for name in dict.fromkeys(name for own in known for name in own):
        section.add(name, *(own.get(name, DASH) for own in known))
    return section


def measured(manifest: Manifest) -> str:
    """The date, the machine and the version of pgbed of a run."""
    known = dict(_flat(manifest.environment))
    in_guests = bool(manifest.kernels)  # which have others
    kernel = f"Linux {known['kernel.release']}" if "kernel.release" in known and not in_guests else ""
    cpus = f"{known['cpu.threads']} CPUs" if "cpu.threads" in known else ""
    machine = ", ".join(filter(None, (known.get("host.name"), known.get("cpu.model"), cpus, kernel)))
    where = "with clients on" if manifest.external is not None else "on"
    return f"measured on {manifest.created[:10]} {where} {machine or 'an unknown machine'} by pgbed {manifest.engine}"


def _flat(record: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None and value != "":
            yield f"{before}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def probe_costs(comparison: Comparison) -> Section:
    section = Section("Cost of these probes, as measured on this machine", ("step", "", "ratio", "95%", "pairs"))
    used = {probe for cell in comparison.cells for probe in cell.observers}
    for folder in dict.fromkeys(Path(folder).parent for folder in comparison.folders.values()):
        for cost in probe_cost.known(folder):
            if used and set(cost.probes) >= used and cost.build in {subject.build for subject in comparison.subjects}:
                bounds = "" if cost.low is None or cost.high is None else f"{cost.low:.3f}-{cost.high:.3f}"
                ratio = "no figure" if cost.ratio is None else f"{cost.ratio:.3f}"
                section.add(cost.step, f"{cost.metric} {cost.build}", ratio, bounds, str(cost.pairs))
    return section


def observers(comparison: Comparison, recorded: Recorded) -> Section:
    """What watched the servers in each step, and the cost of that and of the servers' clients."""
    columns = ("probes", "client CPU\nus/op", "client CPU\n/ server's", "engine\n% of a CPU")
    section = Section(OBSERVERS, ("step and build", *columns))
    for step in comparison.steps:
        rows = []
        for name in comparison.names:
            cells = comparison.of(name, step)
            if cells:
                probes = ", ".join(sorted({probe for cell in cells for probe in cell.observers})) or "none"
                client = middle([cell.client_cpu_us_per_op for cell in cells if cell.client_cpu_us_per_op is not None])
                server = middle([cell.server_cpu_us_per_op for cell in cells if cell.server_cpu_us_per_op is not None])
                share = client / server if client is not None and server else None
                shares = [row.totals.engine_cpu_ns / 1e9 / seconds for cell in cells
                          if (row := recorded.step(cell)) is not None and row.totals is not None
                          and (seconds := row.totals.wall_seconds or row.totals.seconds) > 0]  # fmt: skip
                rows.append(((f"  {name}", probes, number(client), percent(share), percent(middle(shares))), ""))
        section.add_step(step, rows)
    return section


def commands(manifest: Manifest) -> Iterable[str]:
    """The command line that repeats a run, and what it cannot express."""
    revision = f" (flake revision {manifest.revision})" if manifest.revision else ""
    engine = f"pgbed {manifest.engine}{revision}"
    yield f"# run {manifest.run}, measured by {engine} on {manifest.created}"
    try:
        request = request_of(manifest.request)
    except (UserError, UnknownName, ValueError) as error:
        yield f"# its request cannot be read: {error}"
        return
    yield command(request)
