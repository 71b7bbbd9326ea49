"""Finding runs and cells by name, and the output folder."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import socket
from pathlib import Path

from engine.core.errors import UserError, unknown
from engine.core.model import Manifest
from engine.journal.manifest import read_manifest
from engine.journal.run_lock import is_locked
from engine.system.files import is_name
from engine.system.host_lock import is_held

ELSEWHERE = "in another folder"
CONTROL = "control"  # socket of a running engine, in the run folder
_CLAIMS: dict[Path, socket.socket] = {}  # names of runs that this process has yet to make


def default_out() -> Path:
    """The folder of runs without --out: a place that the servers' user can reach."""
    if "PGBED_OUT" in os.environ:
        return Path(os.environ["PGBED_OUT"])
    if os.geteuid() == 0:
        return Path("/var/tmp/pgbed")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "pgbed"


def reference(run: Path) -> str:
    """The name of a run in a printed command line: its own if that finds it, else its folder."""
    return shlex.quote(run.name if run.parent == default_out() else str(run))


def runs_in(out: Path) -> list[Path]:
    """Runs below a folder, newest first; empty if it cannot be read."""
    try:
        with os.scandir(out) as entries:
            folders = [Path(entry.path) for entry in entries if entry.is_dir()]
    except OSError:
        return []
    return sorted(filter(is_run, folders), key=lambda folder: folder.name, reverse=True)


def measuring(out: Path) -> str:
    """Name of the run below a folder that is measuring now, `in another folder` for any other, or empty."""
    if not is_held():
        return ""
    return next((run.name for run in runs_in(out) if is_locked(run)), ELSEWHERE)


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run. False if it cannot be read."""
    try:
        return (folder / "manifest.json").is_file() and (folder / "cells").is_dir()
    except OSError:
        return False


def find_run(name: str | None, out: Path) -> Path:
    """A run by path, or by unique name, prefix or suffix below `out`; the newest for None. Raises UserError."""
    if name is not None and os.path.exists(Path(name) / "manifest.json"):  # noqa: PTH110 (false, however long)
        path = Path(name)
        return path.resolve() if path.name in ("", "..") else path.absolute()
    names = [folder.name for folder in runs_in(out)]
    if name is None:
        if not names:
            raise UserError(f"no runs in {out}; make one with bench --pg LABEL,… or name its folder")
        return out / names[0]
    matching = [run for run in names if run == name] or [
        run for run in names if run.startswith(name) or run.endswith(name)
    ]
    if len(matching) > 1:
        raise UserError(f"run '{name}' could be {', '.join(matching)}; name it in full")
    if not matching:
        raise unknown("run", name, names) if names else UserError(f"no run '{name}': there are no runs in {out}")
    return out / matching[0]


def planned(run: Path, *, signed: bool = False) -> Manifest:
    """The plan of a run about to be executed: cell ids and build labels become paths.

    Raises UserError if one is not a valid file name, or refers to something missing from the plan; `signed`: also if
    this user did not sign the plan.
    """
    where, manifest = run / "manifest.json", read_manifest(run, signed=signed)
    labels = [build.label for build in manifest.builds]
    ids = [cell.id for cell in manifest.cells]
    for kind, names in (("run", [manifest.run]), ("build", labels), ("cell", ids)):
        for name in names:
            if not is_name(name):
                raise UserError(f"{where}: '{name}' cannot be the name of a {kind}; nothing is done")
        if len(set(names)) < len(names):
            raise UserError(f"{where}: two {kind}s have one name; nothing is done")
    return manifest


def free_name(out: Path, wanted: str) -> str:
    """This name for a new run below a folder, or with a number behind it; until this process ends no other gets it."""
    number = 1
    while True:
        name = wanted if number == 1 else f"{wanted}-{number}"
        run = (out / name).absolute()
        if _claimed(run) and not os.path.lexists(run):  # in this order: who had claimed it may have made it since
            return name
        number += 1


def _claimed(run: Path) -> bool:
    """Whether this process has the name, which needs no file: a plan may come to nothing, and its folder not exist."""
    if run not in _CLAIMS:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0pgbed-run-{hashlib.sha256(os.fsencode(run)).hexdigest()}")
        except OSError as error:
            claim.close()
            return error.errno != errno.EADDRINUSE  # without such sockets, as in some sandboxes
        _CLAIMS[run] = claim
    return True


def find_cell(run: Path, name: str) -> str:
    """The id of a cell, from its id or its number in the run. Raises UserError for an unknown one."""
    cells = [cell.id for cell in read_manifest(run).cells]
    numbered = {str(number): cell for number, cell in enumerate(cells, 1)}
    if name in cells:
        return name
    if name not in numbered:
        raise unknown("cell", name, cells)
    return numbered[name]
