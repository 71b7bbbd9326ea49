"""From the labels a user types to servers on this machine. What is not there yet is built: see `engine.postgres.nix`.

Environment:
    PGBED_CATALOG      the catalog, a JSON file; set by the `bench` wrapper
    PGBED_PACKAGE_SET  `nixpkgs` or `hostpkgs`; set by the wrapper
    PGBED_SERVERS      a folder of LABEL -> install prefix, searched first: inside a Nix check Nix cannot be called
    BENCH_TARBALLS     a folder of postgresql-VERSION.tar.bz2, for networks that do not reach postgresql.org
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.core.errors import UserError, unknown
from engine.core.model import Build
from engine.core.record import converted, parsed
from engine.core.text import visible
from engine.host import programs
from engine.host.account import unprivileged
from engine.postgres import nix
from engine.postgres.nix import Progress

BUILTIN = "-builtin"
PREBUILT = "-prebuilt"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
VERSION = re.compile(r"\(PostgreSQL\) (\d[A-Za-z0-9.+~_-]{0,40})(?!\S)")


@dataclass(frozen=True, slots=True)
class Tarball:
    """A released source: file `name`, `hash` as `sha256-BASE64`, and the store `path` that it has once it is there."""

    name: str
    hash: str
    path: str

    @property
    def sha256(self) -> str:
        """The hash in hexadecimal, as `sha256sum` prints it."""
        return b64decode(self.hash.removeprefix("sha256-")).hex()


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A build that the flake knows: package `attr`, made by derivation `drv` at store path `out`.

    Two labels may share one and differ in `initdb_args`. `drv` is empty where Nix cannot be called.
    """

    label: str
    version: str
    attr: str
    provenance: str
    initdb_args: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    tarball: Tarball | None = None
    drv: str = ""
    out: str = ""

    @property
    def prebuilt_label(self) -> str:
        """The label that the same version has as a prebuilt server: `17.0-builtin` -> `17.0-prebuilt-builtin`."""
        base = self.label.removesuffix(BUILTIN)
        return base + PREBUILT + self.label[len(base) :]


def catalog() -> tuple[CatalogEntry, ...]:
    """Every build that can be named, oldest version first; none without the wrapper."""
    path = os.environ.get("PGBED_CATALOG")
    if not path:
        return ()
    where = f"the list of builds in {path}"
    try:
        return converted(parsed(Path(path).read_bytes(), where), tuple[CatalogEntry, ...], where)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error


def resolve(
    specs: Sequence[str], on_progress: Progress, roots: Path | None = None, *, exact: bool = False
) -> tuple[Build, ...]:
    """The servers for `specs`, each a catalog label or `NAME=PREFIX` for an install of the user's own.

    Builds what is missing; what it takes from the store is kept alive by links in the folder `roots`, if given.
    Over hostpkgs a source that is not available is replaced by the same version prebuilt, and labelled so, unless
    the build is to be `exact`; a label that two specs come down to is returned once. Raises UserError for what is not
    available.
    """
    builds: dict[str, Build] = {}
    for spec in specs:
        build = _resolve_one(spec, on_progress, roots, exact)
        builds.setdefault(build.label, build)
    return tuple(builds.values())


def _resolve_one(spec: str, on_progress: Progress, roots: Path | None, exact: bool) -> Build:
    name, is_local, prefix = spec.partition("=")
    known = {entry.label: entry for entry in catalog()}
    if is_local:
        if name in known:
            raise UserError(f"'{name}' is the label of another build: give {prefix} another name")
        return local_build(name, Path(prefix).expanduser())
    if spec not in known:
        raise unknown_label(spec)
    wanted = known[spec]
    prebuilt = known.get(wanted.prebuilt_label) if nix.over_hostpkgs() and not exact else None
    for entry in (wanted, prebuilt) if prebuilt else (wanted,):
        at_hand = _prefix_at_hand(entry)
        if at_hand is None and not _can_be_realised(entry):
            continue
        if entry.label != spec:
            on_progress(f"{spec}: its source tarball is not available (BENCH_TARBALLS); using {entry.label} instead")
        link = roots / entry.attr if roots is not None else None
        return _record_of(entry, at_hand or nix.realise(entry.label, entry.drv, on_progress, link))
    source = wanted.tarball.name if wanted.tarball else wanted.attr
    raise UserError(
        f"build '{spec}' is not available here: there is no prebuilt server of it, and its source cannot be "
        f"fetched with this package set; put {source} into a folder and set BENCH_TARBALLS to that folder"
    )


def unknown_label(spec: str) -> UserError:
    """The error for a label that is not in the catalogue."""
    known = [entry.label for entry in catalog()]
    return unknown("build", spec, known) if known else nix.no_catalogue()


# -- what is already here ------------------------------------------------------------------------------------------


def local_build(name: str, prefix: Path) -> Build:
    """A PostgreSQL that the user built or installed; its version is asked of the binary, its digest is the binary's."""
    if not NAME.fullmatch(name):
        raise UserError(f"'{visible(name)}' is not a valid build name: use up to 61 letters, digits, '.', '_' and '-'")
    prefix = prefix.absolute()  # it is run from another folder
    server = prefix / "bin" / "postgres"
    for program in (server, server.with_name("initdb")):
        if not (os.access(program, os.X_OK) and program.is_file()):
            raise UserError(f"build '{name}': {program} is not an executable file")
    return Build(
        label=name,
        version=_ask_version(name, server),
        prefix=str(prefix.resolve()),
        digest=_sha256(server),
        provenance="local",
    )


def _ask_version(name: str, server: Path) -> str:
    """What `postgres --version` says, asked as the account that will run the server: never as root."""
    answer = programs.ask((str(server), "--version"), unprivileged())
    if answer.code != 0:
        raise UserError(f"build '{name}': {server} --version ended with status {answer.code}: {answer.shown}")
    match = VERSION.search(answer.output)
    if match is None:
        raise UserError(f"build '{name}': {server} says '{answer.shown}', not a PostgreSQL version")
    return match.group(1)


def _prefix_at_hand(entry: CatalogEntry) -> Path | None:
    """The build in PGBED_SERVERS; a `-builtin` label shares the binaries of the label without it."""
    folder = os.environ.get("PGBED_SERVERS")
    if not folder:
        return None
    candidates = (Path(folder) / label for label in (entry.label, entry.label.removesuffix(BUILTIN)))
    return next((path.resolve() for path in candidates if (path / "bin" / "postgres").exists()), None)


def _record_of(entry: CatalogEntry, prefix: Path) -> Build:
    """The Build, with what the package itself says of its compiler and flags."""
    own: dict[str, Any] = {}
    record = prefix / "share" / "pgbed" / "build.json"
    if record.exists():
        own = json.loads(record.read_text())
    build = Build(
        label=entry.label,
        version=entry.version,
        prefix=str(prefix),
        digest=nix.store_hash(prefix) or _sha256(prefix / "bin" / "postgres"),
        provenance=entry.provenance,
        patches=entry.patches,
        initdb_args=entry.initdb_args,
    )
    return replace(build, compiler=own.get("compiler", build.compiler), flags=own.get("flags", build.flags))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- sources -------------------------------------------------------------------------------------------------------


def _can_be_realised(entry: CatalogEntry) -> bool:
    """Whether Nix has a way to this build; puts its source into the store if the user has supplied it."""
    if entry.tarball is None or nix.is_valid(entry.out):
        return True
    supplied = _supplied(entry.tarball)
    if supplied is not None:
        if not nix.is_valid(entry.tarball.path):
            nix.add_fixed(supplied, entry.tarball.name)
        return True
    return not nix.over_hostpkgs() or nix.is_valid(entry.tarball.path)


def _supplied(tarball: Tarball) -> Path | None:
    """The user's file for `tarball`, checked; also under the name that Debian's source packages give it."""
    folder = os.environ.get("BENCH_TARBALLS")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise UserError(f"BENCH_TARBALLS names {folder}, which is not a folder")
    version = tarball.name.removeprefix("postgresql-").removesuffix(".tar.bz2")
    found = (Path(folder) / tarball.name, *sorted(Path(folder).glob(f"postgresql-*_{version}.orig.tar.bz2")))
    file = next((path for path in found if path.is_file()), None)
    if file is not None and (actual := _sha256(file)) != tarball.sha256:
        raise UserError(
            f"{file} refused: its sha256 is {actual}, that of the released {tarball.name} is {tarball.sha256}"
        )
    return file
