"""Foreign programs that clients are, such as pgbench: one for all servers, so that only these differ.

Environment, set by the `bench` wrapper:
    PGBED_PGBENCH   the pgbench to use: a program, or the derivation of a PostgreSQL that has it
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import UserError, unknown
from engine.core.model import Build
from engine.host.account import unprivileged
from engine.host.programs import ask
from engine.postgres import nix
from engine.postgres.nix import Progress

KNOWN = ("pgbench",)
DEBIAN = Path("/usr/lib/postgresql")  # where its packages of servers have theirs: VERSION/bin


def find(names: Sequence[str], found: Sequence[Build], progress: Progress, roots: Path) -> dict[str, dict[str, str]]:
    """The record of each program: `path`, `version` as it gives it, `digest` of the file.

    It is the one that the environment names, else the newest that a build of the run, the search path or the system's
    PostgreSQL has. Raises UserError where there is none.
    """
    for name in names:
        if name not in KNOWN:
            raise unknown("program", name, KNOWN)
    return {name: _record(_path(name, found, progress, roots)) for name in names}


def _path(name: str, found: Sequence[Build], progress: Progress, roots: Path) -> Path:
    pinned = os.environ.get(f"PGBED_{name.upper()}")
    if pinned and pinned.endswith(".drv"):
        return nix.realise(name, pinned, progress, roots / name) / "bin" / name
    if pinned:
        return Path(pinned)
    on_path = shutil.which(name)
    candidates = [
        *((build.version, build.bin / name) for build in found if not build.attached),
        *([(_version(Path(on_path)), Path(on_path))] if on_path else []),
        *((path.parts[-3], path) for path in DEBIAN.glob(f"*/bin/{name}")),
    ]
    there = [(_order(version), path) for version, path in candidates if path.is_file()]
    if there:
        return max(there, key=lambda candidate: candidate[0])[1]
    raise UserError(
        f"no {name} found, in none of the builds and not on PATH: start bench from its flake, add a build from source, "
        f"or name a {name} in PGBED_{name.upper()}"
    )


def _version(path: Path) -> str:
    """Its version: "18.6"; empty where it does not say one, and it is then the last to be taken."""
    try:
        told = re.search(r"\) (\d[\w.]*)", ask([str(path), "--version"], unprivileged()).output)
    except UserError:
        return ""
    return told.group(1) if told else ""


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _record(path: Path) -> dict[str, str]:
    account = unprivileged()
    if not path.is_file():
        raise UserError(f"{path}: no such program")
    if not account.may_execute(path):
        raise UserError(f"{path}: user {account.name}, who runs clients, cannot execute it")
    answer = ask([str(path), "--version"], account)
    if answer.code:
        raise UserError(f"{path} --version: {answer.shown}")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": str(path), "version": answer.output.strip(), "digest": digest}
