"""The commands `bench list`: builds, configs, kernels, workloads, probes and runs to choose from."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import click
from rich.console import Console

import workloads as registry
from engine.builds import user_builds
from engine.builds.catalog import age, catalog
from engine.builds.nix import no_catalogue
from engine.cli.options import JSON, OUT
from engine.core.kernel import HOST, scheduler_of
from engine.core.text import visible
from engine.guest.kernels import catalog as known_kernels
from engine.host import scheduler
from engine.journal.manifest import slices_of
from engine.journal.runs import runs_in
from engine.plan.presets import rows as preset_rows
from engine.postgres import configs as config_tables
from engine.report.console import PlainConsole, echo, echo_json
from engine.view.run_summary import RunSummary, read_run
from workloads.api.options import options_of

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ListedRows:
    """Rows of a list. A table shows the `columns` that have values, and `notes` below it."""

    rows: Sequence[Row]
    columns: tuple[str, ...]
    notes: tuple[str, ...] = ()


def builds(ask: bool = False) -> ListedRows:
    """One row per build that `--pg` can name. With `ask`, postgresql.org says which minor releases exist."""
    entries = catalog()
    newest: dict[str, str] = {}
    for entry in sorted(entries, key=lambda entry: age(entry.version)):
        newest[_major(entry.version)] = entry.version
    released = user_builds.releases() if ask else ()
    missing = [one for one in released if one.supported and newest.get(one.major) != one.newest]
    newest |= {release.major: release.newest for release in released}
    rows = [{**asdict(entry), "newest": newest[_major(entry.version)]} for entry in entries]
    columns = ("label", "version", "newest", "provenance", "patches")
    if not rows:
        return ListedRows(rows, columns, (str(no_catalogue()),))
    notes = tuple(f"{release.newest} is released: bench pin {release.newest} adds it" for release in reversed(missing))
    if not ask:
        notes = ("newest: of those here; --newest asks postgresql.org",)
    return ListedRows(rows, columns, notes)


def _major(version: str) -> str:
    return re.split(r"\D", version, maxsplit=1)[0]


def configs() -> ListedRows:
    rows = [{"name": spec.name, "description": spec.description} for spec in config_tables.catalog()]
    return ListedRows(rows, ("name", "description"))


def kernels() -> ListedRows:
    """One row per kernel that servers can run under: `host` is the running one, others run in guests."""
    release = platform.release()
    rows = [{"kernel": HOST, "release": release, "scheduler": scheduler_of(release), "state": "running",
             "tunables": list(scheduler.known(release))}]  # fmt: skip
    rows += [
        {"kernel": entry.label, "release": entry.version, "scheduler": entry.scheduler, "state": entry.provenance,
         "tunables": list(scheduler.known(entry.version))}
        for entry in known_kernels()
    ]  # fmt: skip
    notes = () if len(rows) > 1 else ("no others are known here; --kernel NAME=/path/bzImage takes one of your own",)
    return ListedRows(rows, ("kernel", "release", "scheduler", "state"), notes)


def workloads() -> ListedRows:
    """One row per workload and named size, with its steps; row counts are per client."""
    listed = [known.sizes() for known in registry.workloads()]
    columns = tuple(dict.fromkeys(column for sizes in listed for column in sizes.columns)) or ("workload",)
    notes = tuple(note for sizes in listed for note in sizes.notes)
    notes += ("complete plans, and publications to compare with: bench list presets",)
    return ListedRows([row for sizes in listed for row in sizes.rows], columns, notes)


def choices(out: Path) -> dict[str, Sequence[Row]]:
    """Everything a plan can choose from (options as `workloads.api.options.Option`), and runs; without slow probes."""
    known = registry.workloads()
    return {
        "builds": builds().rows,
        "configs": configs().rows,
        "workloads": workloads().rows,
        "kernels": kernels().rows,
        "runs": runs(out).rows,
        "loads": [
            {"workload": workload.name, "description": workload.description, "steps": dict(workload.sizes().steps)}
            for workload in known
        ],
        "options": [
            {"workload": workload.name, **asdict(option)}
            for workload in known
            for option in options_of(workload.options)
        ],
        "presets": preset_rows(),
    }


def presets() -> ListedRows:
    return ListedRows(preset_rows(), ("preset", "workload", "question", "date"))


def probes(out: Path) -> ListedRows:
    """One row per probe, with its state and its measured cost on this machine (`probe_cost.Cost`)."""
    from engine.analysis.causes import probe_cost
    from engine.tracing import selection

    measured = probe_cost.known(out)
    rows = [
        {**row, "measured": [asdict(cost) for cost in measured if row["probe"] in cost.probes]}
        for row in selection.listing()
    ]
    notes = tuple(f"  {','.join(cost.probes):<18} {probe_cost.lines([cost])[0]}" for cost in measured)
    notes = ("measured here (bench probes cost), with probes against without:", *notes) if notes else ()
    return ListedRows(rows, ("probe", "tier", "question", "cost", "state"), notes)


def runs(out: Path) -> ListedRows:
    """One row per run below a folder, newest first; a run that cannot be read says so in `state`."""
    rows = [{**_row(read_run(folder)), "newest": place == 0} for place, folder in enumerate(runs_in(out))]
    load = "load" if any(row["slices"] for row in rows) else "scale"  # distinguishes different loads of one scale
    columns = ("run", "newest", "state", "cells", "builds", load, "tags")
    return ListedRows(rows, columns, ("*: the newest, which commands take by default",))


def _row(run: RunSummary) -> Row:
    slices = slices_of(run.folder)
    return {
        "run": run.name,
        "state": run.trouble if run.state == "unreadable" else run.state_words,
        "cells": "" if run.state in ("unreadable", "not started") else f"{run.done}/{run.planned}",
        "builds": " ".join(run.builds),
        "scale": run.load,
        "slices": slices,
        "load": f"{run.load}, slices {slices}" if slices else run.load,
        "created": run.created or None,
        "host": run.host or None,
        "kernel": run.kernel or None,
        "workload": run.workload or None,
        "configs": run.configs,
        "steps": run.steps,
        "clients": run.clients or None,
        "repeats": run.repeats or None,
        "probes": run.probes,
        "cells_done": run.done,
        "cells_planned": run.planned,
        "cells_failed": run.failed,
        "tags": run.tags,
    }


def show(listing: ListedRows, as_json: bool, console: Console | None = None) -> None:
    """Print a listing: as JSON in full, else a line for each row, which a terminal breaks between words."""
    if as_json:
        echo_json(listing.rows)
        return
    if not listing.rows:
        echo("none", err=True)
        return
    console = console or PlainConsole()
    names = [name for name in listing.columns if any(_is_value(row.get(name)) for row in listing.rows)]
    # Blank but in one row, a flag moves the fields after it, which programs count.
    names.sort(key=lambda name: not console.is_terminal and listing.rows[0].get(name) is True)
    columns = [_column(listing, name) for name in names]
    for line in zip(*columns, strict=True):
        text = "  ".join(line).rstrip()
        cells = console.width if console.is_terminal else len(text) + 1
        for row in wrap(text, cells, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False):
            echo(row)
    for note in listing.notes:
        console.print(note) if console.is_terminal else echo(note, err=True)


def _is_value(value: object) -> bool:
    return bool(value) or (value == 0 and value is not False)


def _column(listing: ListedRows, name: str) -> list[str]:
    values = [row.get(name, "") for row in listing.rows]
    if all(isinstance(value, bool) for value in values):
        return ["*" if value else " " for value in [False, *values]]
    figures = all(isinstance(value, (int, float)) for value in values)
    cells = [name.replace("_", " "), *(visible(_cell(value)) for value in values)]
    width = max(map(len, cells))
    return [cell.rjust(width) if figures else cell.ljust(width) for cell in cells]


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(str(part) for part in value)
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


@click.group(name="list")
def list_() -> None:
    """List builds, configs, workloads, presets, kernels, probes or runs."""


def _add(name: str, text: str, listing: Callable[[], ListedRows]) -> None:
    @list_.command(name=name, help=text)
    @JSON
    def _(as_json: bool) -> None:
        show(listing(), as_json)


@list_.command(name="builds", short_help="List the builds that --pg can name.")
@click.option("--newest", is_flag=True, help="Ask postgresql.org for the newest minor of each supported major.")
@JSON
def list_builds(newest: bool, as_json: bool) -> None:
    """List the builds for --pg, including your own of ~/.config/pgbed/builds.toml."""
    show(builds(ask=newest), as_json)


_add("configs", "List the configs (sets of settings) that --config can name.", configs)
_add("workloads", "List workloads with their generations, scales and steps.", workloads)
_add("presets", "List the plans that --preset can name.", presets)
_add("kernels", "List the kernels that servers can run under here.", kernels)


@list_.command(name="probes", short_help="List the probes that --probes can name.")
@OUT
@JSON
def list_probes(out: Path, as_json: bool) -> None:
    """List the probes that --probes can name: what each answers, costs and needs, and whether it can run here."""
    show(probes(out), as_json)


@list_.command(name="runs")
@OUT
@JSON
def list_runs(out: Path, as_json: bool) -> None:
    """List the runs in the output folder, newest first."""
    show(runs(out), as_json)


@list_.command(name="choices", hidden=True)
@OUT
@JSON
def list_choices(out: Path, as_json: bool) -> None:
    """Print everything but probes that a plan can choose from, and all runs, as one JSON object."""
    echo_json(choices(out))
