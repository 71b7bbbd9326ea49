"""What there is to choose from: builds, configs, workloads, runs. Rows for a table or for JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from engine import configs as config_tables
from engine.builds import catalog
from engine.errors import UserError, unknown
from engine.journal import JournalReader, is_locked
from workloads.insert.sizes import SCALES
from workloads.insert.steps import GENERATIONS, plan_steps

Row = dict[str, Any]


def builds() -> list[Row]:
    """One row per build that `--pg` can name."""
    return [asdict(entry) for entry in catalog()]


def configs() -> list[Row]:
    """One row per config that `--config` can name."""
    return [{"name": spec.name, "description": spec.description} for spec in config_tables.catalogue()]


def workloads() -> list[Row]:
    """One row per generation and scale, with its steps and the rows of each."""
    rows: list[Row] = []
    for generation in GENERATIONS:
        for scale in SCALES:
            steps = plan_steps(generation, scale)
            loaded = next(step.rows_per_client for step in steps if step.kind == "load")
            query_s = next(step.seconds for step in steps if step.kind == "query")
            names = " ".join(step.name for step in steps)
            rows.append(
                {
                    "workload": "insert",
                    "generation": generation,
                    "scale": scale,
                    "rows": loaded,
                    "query_s": query_s,
                    "steps": names,
                }
            )
    return rows


def runs(out: Path) -> list[Row]:
    """One row per run below a folder, newest first; a run that cannot be read says so in `state`."""
    folders = [path.parent for path in out.glob("*/manifest.json")] if out.is_dir() else []
    return [_run(folder) for folder in sorted(folders, key=lambda folder: folder.name, reverse=True)]


def _run(folder: Path) -> Row:
    try:
        if not (folder / "journal.db").exists():
            return {"run": folder.name, "state": "not started", "cells": "", "builds": "", "scale": ""}
        with JournalReader(folder) as reader:
            cells = {cell["id"] for cell in reader.manifest["cells"]}
            finished = {attempt.cell for attempt in reader.attempts() if attempt.state == "finished"}
            failed = {attempt.cell for attempt in reader.attempts() if attempt.state == "failed"} - finished
            workload = reader.manifest["workload"]
            labels = " ".join(build["label"] for build in reader.manifest["builds"])
    except UserError as error:
        return {"run": folder.name, "state": str(error), "cells": "", "builds": "", "scale": ""}
    if is_locked(folder):
        state = "running"
    elif finished == cells:
        state = "finished"
    else:
        state = f"{len(failed)} failed" if failed else "unfinished"
    scale = f"{workload['generation']} {workload['scale']}"
    return {
        "run": folder.name,
        "state": state,
        "cells": f"{len(finished)}/{len(cells)}",
        "builds": labels,
        "scale": scale,
    }


def find_run(name: str | None, out: Path) -> Path:
    """The folder of a run: a path, or a name (or the unambiguous start or end of one) below `out`; the newest for None.

    Raises UserError when there is none, or more than one.
    """
    if name is not None and (Path(name) / "manifest.json").exists():
        return Path(name)
    found = [str(row["run"]) for row in runs(out)]
    if name is None:
        if not found:
            raise UserError(f"no runs in {out}; make one with bench --pg LABEL,… or name its folder")
        return out / found[0]
    matching = [run for run in found if run == name] or [
        run for run in found if run.startswith(name) or run.endswith(name)
    ]
    if len(matching) > 1:
        raise UserError(f"run '{name}' could be {', '.join(matching)}; name it in full")
    if not matching:
        raise unknown("run", name, found) if found else UserError(f"no run '{name}': there are no runs in {out}")
    return out / matching[0]


def show(rows: Sequence[Row], as_json: bool) -> None:
    """Prints rows as a table, or as JSON."""
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        click.echo("none", err=True)
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in rows[0]:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console(highlight=False).print(table)


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(str(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
