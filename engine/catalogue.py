"""What there is to choose from: builds, configs, kernels, workloads, probes, runs. Rows for a table or for JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from engine import configs as config_tables
from engine import probecost, probeset
from engine.builds import catalog
from engine.errors import UserError
from engine.folders import runs_in
from engine.journal import JournalReader, is_locked, read_manifest, read_tags
from workloads.insert.sizes import OWN_SIZES, SCALES
from workloads.insert.steps import GENERATIONS, plan_steps

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of what there is. A table shows the `columns`, of which `whole` are never folded, and `notes` below it."""

    rows: Sequence[Row]
    columns: tuple[str, ...]
    whole: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def builds() -> Listing:
    """One row per build that `--pg` can name."""
    rows = [asdict(entry) for entry in catalog()]
    return Listing(rows, ("label", "version", "provenance", "patches"), ("label", "version", "provenance"))


def configs() -> Listing:
    """One row per config that `--config` can name."""
    rows = [{"name": spec.name, "description": spec.description} for spec in config_tables.catalogue()]
    return Listing(rows, ("name", "description"), ("name",))


def kernels() -> Listing:
    """One row per kernel that servers can run under; `host` is the one that runs here now."""
    rows = [{"kernel": "host", "release": platform.release(), "state": "running"}]
    return Listing(rows, ("kernel", "release", "state"), ("kernel",))


def workloads() -> Listing:
    """One row per generation and scale, with its steps; rows are per client."""
    rows: list[Row] = []
    for generation in GENERATIONS:
        for scale in SCALES:
            steps = plan_steps(generation, scale)
            rows.append(
                {
                    "workload": "insert",
                    "generation": generation,
                    "scale": scale,
                    "rows": next(step.rows_per_client for step in steps if step.kind == "load"),
                    "rows_written": sum(step.rows_per_client for step in steps if step.kind == "write"),
                    "query_s": next(step.seconds for step in steps if step.kind == "query"),
                    "steps": " ".join(step.name for step in steps),
                    "note": OWN_SIZES.get((scale, generation), ""),
                }
            )
    columns = ("workload", "generation", "scale", "rows", "rows_written", "query_s")
    steps_of = {str(row["generation"]): str(row["steps"]) for row in rows}
    notes = [f"{name}: {steps}" for name, steps in steps_of.items()]
    own: dict[str, list[str]] = {}
    for row in rows:
        if row["note"]:
            own.setdefault(f"{row['scale']}: {row['note']}", []).append(row["generation"])
    notes += [f"{', '.join(names)} {note}" for note, names in own.items()]
    return Listing(rows, columns, columns, tuple(notes))


def probes(out: Path) -> Listing:
    """One row per probe, with its state on this machine, and what it was measured to cost here (`probecost.Cost`)."""
    measured = probecost.known(out)
    rows = [
        {**row, "measured": [asdict(cost) for cost in measured if row["probe"] in cost.probes]}
        for row in probeset.listing()
    ]
    return Listing(rows, ("probe", "tier", "question", "cost", "state"), ("probe", "tier"))


def runs(out: Path) -> Listing:
    """One row per run below a folder, newest first; a run that cannot be read says so in `state`."""
    rows = [_run(folder) for folder in runs_in(out)]
    columns = ("run", "state", "cells", "builds", "scale", *(("tags",) if any(row["tags"] for row in rows) else ()))
    return Listing(rows, columns, ("run", "cells"))


NOTHING: Row = {
    "cells": "", "builds": "", "scale": "", "created": None, "host": None, "kernel": None, "workload": None,
    "configs": [], "steps": [], "clients": None, "repeats": None, "probes": [], "cells_done": 0, "cells_planned": 0,
    "cells_failed": 0,
}  # fmt: skip


def _run(folder: Path) -> Row:
    """A run's row: what the table shows, and what else is worth to be searched for.

    `created` is ISO 8601; `kernel` the host's release, where kernels are compared their names.
    """
    row = {"run": folder.name, **NOTHING, "tags": list(read_tags(folder))}
    try:
        manifest = read_manifest(folder)
        row |= _planned(manifest)
        if not (folder / "journal.db").exists():
            return row | {"state": "not started", "cells": ""}
        with JournalReader(folder) as reader:
            attempts = reader.attempts(origins=False)
    except UserError as error:
        return row | {"state": str(error)}
    except (KeyError, TypeError, AttributeError) as error:
        return row | {"state": f"{folder / 'manifest.json'}: damaged ({type(error).__name__}: {error})"}
    finished = {attempt.cell for attempt in attempts if attempt.state == "finished"}
    failed = {attempt.cell for attempt in attempts if attempt.state == "failed"} - finished
    if is_locked(folder):
        state = "running"
    elif finished == {cell["id"] for cell in manifest["cells"]}:
        state = "finished"
    else:
        state = f"{len(failed)} failed" if failed else "unfinished"
    done = {"cells_done": len(finished), "cells_failed": len(failed)}
    return row | {"state": state, "cells": f"{len(finished)}/{row['cells_planned']}", **done}


def _planned(manifest: dict[str, Any]) -> Row:
    workload, environment = manifest["workload"], manifest.get("environment") or {}
    kernels = sorted({cell["subject"].get("kernel", "host") for cell in manifest["cells"]} - {"host"})
    return {
        "builds": " ".join(build["label"] for build in manifest["builds"]),
        "scale": f"{workload['generation']} {workload['scale']}",
        "created": manifest.get("created"),
        "host": (environment.get("host") or {}).get("name"),
        "kernel": " ".join(kernels) or (environment.get("kernel") or {}).get("release"),
        "workload": workload["name"],
        "configs": sorted({cell["subject"]["config"] for cell in manifest["cells"]}),
        "steps": [step["name"] for step in workload["steps"]],
        "clients": workload["clients"],
        "repeats": manifest.get("repeats"),
        "probes": list(manifest.get("observers", ())),
        "cells_planned": len(manifest["cells"]),
    }


def show(listing: Listing, as_json: bool) -> None:
    """Prints a listing as a table that can be read in 80 columns, or all there is of its rows as JSON."""
    if as_json:
        click.echo(json.dumps(listing.rows, indent=1))
        return
    if not listing.rows:
        click.echo("none", err=True)
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in listing.columns:
        figures = all(isinstance(row[name], (int, float)) for row in listing.rows)
        table.add_column(
            name.replace("_", " "),
            justify="right" if figures else "left",
            no_wrap=name in listing.whole,
            overflow="ignore" if name in listing.whole else "fold",
        )
    for row in listing.rows:
        table.add_row(*(_cell(row[name]) for name in listing.columns))
    console = Console(highlight=False, markup=False)
    console.print(table)
    for note in listing.notes:
        console.print(note)


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(str(part) for part in value)
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
