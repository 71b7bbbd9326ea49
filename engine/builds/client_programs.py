"""Programs that run as clients, such as pgbench: one for all servers, so that only the servers differ.

Environment, set by the `bench` wrapper:
    PGBED_PGBENCH, PGBED_PG_DUMP, PGBED_PG_RESTORE, PGBED_PSQL, PGBED_HYPERFINE
        the program to use, or the derivation that has it in its bin
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from engine.builds import nix
from engine.builds.nix import Progress
from engine.core.errors import UserError, unknown
from engine.core.model import Build
from engine.core.version import order_of
from engine.system.account import unprivileged
from engine.system.subprocesses import ask

# Whether it is part of PostgreSQL.
KNOWN = {"pgbench": True, "pg_dump": True, "pg_restore": True, "psql": True, "hyperfine": False}
DEBIAN = Path("/usr/lib/postgresql")  # Debian's servers are in VERSION/bin
VERSION = re.compile(r"\) (\d[\w.]*)|^hyperfine (\d[\w.]*)")


def find(names: Sequence[str], builds: Sequence[Build], progress: Progress, roots: Path) -> dict[str, dict[str, str]]:
    """Record each program's `path`, reported `version` and file `digest`; raises UserError if one is missing.

    Order of search: the environment's program, the newest build of the run, the search path, the system's PostgreSQL.
    """
    for name in names:
        if name not in KNOWN:
            raise unknown("program", name, KNOWN)
    return {name: _record(_path(name, builds, progress, roots)) for name in names}


def seek(
    names: Sequence[str], optional: Collection[str], builds: Sequence[Build], progress: Progress, roots: Path
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Like `find`, but for `optional` programs that are missing also return why."""
    records: dict[str, dict[str, str]] = {}
    absent: dict[str, str] = {}
    for name in names:
        try:
            records |= find((name,), builds, progress, roots)
        except UserError as error:
            if name not in optional:
                raise
            absent[name] = str(error)
    return records, absent


def place(name: str) -> str:
    """The place from which a program would come without a run's builds, or ""."""
    pinned = os.environ.get(variable(name))
    if pinned:
        return "fetched or built by Nix on demand" if pinned.endswith(".drv") else pinned
    candidates = [path for _, path in _candidates(name, ())]
    return str(candidates[0]) if candidates else ""


def variable(name: str) -> str:
    return f"PGBED_{name.upper()}"


def _path(name: str, builds: Sequence[Build], progress: Progress, roots: Path) -> Path:
    pinned = os.environ.get(variable(name))
    if pinned and pinned.endswith(".drv"):
        return nix.realise(name, pinned, progress, roots / name) / "bin" / name
    if pinned:
        return Path(pinned)
    candidates = [(order_of(version), path) for version, path in _candidates(name, builds)]
    if candidates:
        return max(candidates, key=lambda candidate: candidate[0])[1]
    searched, other = ("in none of the builds and not", ", add a build from source") if KNOWN[name] else ("not", "")
    raise UserError(
        f"no {name} found, {searched} on PATH: start bench from its flake{other}, or set {name} in config.toml"
    )


def _candidates(name: str, builds: Sequence[Build]) -> list[tuple[str, Path]]:
    on_path, of_postgres = shutil.which(name), KNOWN[name]
    candidates = [
        *((build.version, build.bin / name) for build in builds if of_postgres and build.prefix),
        *([(_version(Path(on_path)), Path(on_path))] if on_path else []),
        *((path.parts[-3], path) for path in DEBIAN.glob(f"*/bin/{name}") if of_postgres),
    ]
    return [(version, path) for version, path in candidates if path.is_file()]


def _version(path: Path) -> str:
    """The reported version, such as "18.6"; "" sorts last."""
    try:
        match = VERSION.search(ask([str(path), "--version"], unprivileged()).output)
    except UserError:
        return ""
    return (match.group(1) or match.group(2)) if match else ""


def _record(path: Path) -> dict[str, str]:
    account = unprivileged()
    if not path.is_file():
        raise UserError(f"{path}: no such program")
    if not account.may_execute(path):
        raise UserError(f"{path}: user {account.name}, which runs clients, cannot execute it")
    answer = ask([str(path), "--version"], account)
    if answer.code:
        raise UserError(f"{path} --version: {answer.shown}")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    lines = answer.output.strip().splitlines()  # other programs may print a licence, too
    return {"path": str(path), "version": lines[0] if lines else "", "digest": digest}
