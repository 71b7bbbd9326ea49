"""Where runs are: the output folder, the runs in it, a run and a cell of it by their names."""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import UserError, unknown
from engine.journal import read_manifest


def default_out() -> Path:
    """Where runs are kept unless --out says otherwise: a place that the servers' user can reach."""
    if "PGBED_OUT" in os.environ:
        return Path(os.environ["PGBED_OUT"])
    if os.geteuid() == 0:
        return Path("/var/tmp/pgbed")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "pgbed"


def runs_in(out: Path) -> list[Path]:
    """The runs below a folder, newest first."""
    # An exported run has a manifest too, but no cells.
    folders = [path.parent for path in out.glob("*/manifest.json") if (path.parent / "cells").is_dir()]
    return sorted(folders, key=lambda folder: folder.name, reverse=True)


def find_run(name: str | None, out: Path) -> Path:
    """The folder of a run: a path, or a name (or the unambiguous start or end of one) below `out`; the newest for None.

    Raises UserError when there is none, or more than one.
    """
    if name is not None and (Path(name) / "manifest.json").exists():
        return Path(name)
    found = [folder.name for folder in runs_in(out)]
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


def find_cell(run: Path, name: str) -> str:
    """The id of a run's cell: named by it, or by its number in the run. Raises UserError when there is none."""
    cells = [str(cell["id"]) for cell in read_manifest(run)["cells"]]
    numbered = {str(number): cell for number, cell in enumerate(cells, 1)}
    if name in cells:
        return name
    if name not in numbered:
        raise unknown("cell", name, cells)
    return numbered[name]
