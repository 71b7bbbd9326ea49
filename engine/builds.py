"""From the labels a user types to servers on this machine. What is not at hand is built: see `engine.nix`.

Environment:
    PGBED_CATALOG      the catalogue, a JSON file; set by the `bench` wrapper
    PGBED_PACKAGE_SET  `nixpkgs` or `hostpkgs`; set by the wrapper
    PGBED_SERVERS      a folder of LABEL -> install prefix, looked at first: inside a Nix check Nix cannot be called
    BENCH_TARBALLS     a folder of postgresql-VERSION.tar.bz2, for networks that do not reach postgresql.org
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine import nix
from engine.errors import UserError, unknown
from engine.model import Build
from engine.nix import Progress

BUILTIN = "-builtin"
PREBUILT = "-prebuilt"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
    """A build that the flake knows. `attr` is its package; two labels may share one and differ in `initdb_args`."""

    label: str
    version: str
    attr: str
    provenance: str
    initdb_args: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    tarball: Tarball | None = None

    @classmethod
    def of(cls, record: dict[str, Any]) -> CatalogEntry:
        tarball = record.get("tarball")
        return cls(
            label=record["label"],
            version=record["version"],
            attr=record["attr"],
            provenance=record["provenance"],
            initdb_args=tuple(record.get("initdb_args", ())),
            patches=tuple(record.get("patches", ())),
            tarball=Tarball(**tarball) if tarball else None,
        )

    @property
    def prebuilt_label(self) -> str:
        """The label that the same version has as a prebuilt server: `17.0-builtin` -> `17.0-prebuilt-builtin`."""
        base = self.label.removesuffix(BUILTIN)
        return base + PREBUILT + self.label[len(base) :]


def catalog() -> tuple[CatalogEntry, ...]:
    """Every build that can be named, oldest version first."""
    path = os.environ.get("PGBED_CATALOG")
    if not path:
        raise nix.not_wrapped("PGBED_CATALOG")
    try:
        return tuple(CatalogEntry.of(record) for record in json.loads(Path(path).read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"the list of builds in {path} cannot be read: {error}") from error


def resolve(specs: Sequence[str], on_progress: Progress, roots: Path | None = None) -> tuple[Build, ...]:
    """The servers for `specs`, each a catalogue label or `NAME=PREFIX` for an install of the user's own.

    Builds what is missing; what it takes from the store is kept alive by links in the folder `roots`, if given.
    Over hostpkgs a source that is not at hand is replaced by the same version prebuilt, and labelled so; a label
    that two specs come down to is returned once. Raises UserError for what cannot be had.
    """
    builds: dict[str, Build] = {}
    for spec in specs:
        build = _resolve_one(spec, on_progress, roots)
        builds.setdefault(build.label, build)
    return tuple(builds.values())


def _resolve_one(spec: str, on_progress: Progress, roots: Path | None) -> Build:
    name, is_local, prefix = spec.partition("=")
    known = {entry.label: entry for entry in catalog()}
    if is_local:
        if name in known:
            raise UserError(f"'{name}' is the label of another build: give {prefix} a name of its own")
        return local_build(name, Path(prefix).expanduser())
    if spec not in known:
        raise unknown("build", spec, known)
    for entry in _attempts(known[spec], known):
        prefix_at_hand = _prefix_at_hand(entry)
        if prefix_at_hand is not None:
            _tell_replaced(spec, entry, on_progress)
            return _record_of(entry, prefix_at_hand)
        if _can_be_realised(entry):
            _tell_replaced(spec, entry, on_progress)
            return _record_of(entry, nix.realise(entry.label, entry.attr, on_progress, roots))
    raise _not_here(known[spec])


def _attempts(entry: CatalogEntry, known: dict[str, CatalogEntry]) -> Iterator[CatalogEntry]:
    yield entry
    twin = known.get(entry.prebuilt_label)
    if twin is not None and nix.over_hostpkgs():
        yield twin


def _tell_replaced(spec: str, entry: CatalogEntry, on_progress: Progress) -> None:
    if entry.label != spec:
        on_progress(f"{spec}: its source is not at hand (BENCH_TARBALLS); taking {entry.label}")


def _not_here(entry: CatalogEntry) -> UserError:
    name = entry.tarball.name if entry.tarball else entry.attr
    return UserError(
        f"build '{entry.label}' cannot be had here: nobody ships it prebuilt and its source cannot be fetched with "
        f"this package set; put {name} into a folder and name the folder in BENCH_TARBALLS"
    )


# -- what is already here ------------------------------------------------------------------------------------------


def local_build(name: str, prefix: Path) -> Build:
    """A PostgreSQL that the user built or installed; its version is asked of the binary, its digest is the binary's."""
    if not NAME.fullmatch(name):
        raise UserError(f"'{name}' cannot name a build: use letters, digits, '.', '_' and '-'")
    server = prefix / "bin" / "postgres"
    for program in (server, server.with_name("initdb")):
        if not os.access(program, os.X_OK):
            raise UserError(f"build '{name}': {program} is not an executable file")
    return Build(
        label=name,
        version=_ask_version(name, server),
        prefix=str(prefix.resolve()),
        digest=_sha256(server),
        provenance="local",
    )


def _ask_version(name: str, server: Path) -> str:
    try:
        answer = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"build '{name}': {server} does not start: {error}") from error
    match = re.search(r"\(PostgreSQL\) (\S+)", answer)
    if match is None:
        raise UserError(f"build '{name}': {server} says {answer.strip()!r}, not a PostgreSQL version")
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
    said: dict[str, Any] = {}
    record = prefix / "share" / "pgbed" / "build.json"
    if record.exists():
        said = json.loads(record.read_text())
    build = Build(
        label=entry.label,
        version=entry.version,
        prefix=str(prefix),
        digest=_digest(prefix),
        provenance=entry.provenance,
        patches=entry.patches,
        initdb_args=entry.initdb_args,
    )
    return replace(build, compiler=said.get("compiler", build.compiler), flags=said.get("flags", build.flags))


def _digest(prefix: Path) -> str:
    return nix.store_hash(prefix) or _sha256(prefix / "bin" / "postgres")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- sources -------------------------------------------------------------------------------------------------------


def _can_be_realised(entry: CatalogEntry) -> bool:
    """Whether Nix has a way to this build; puts its source into the store if the user has supplied it."""
    if entry.tarball is None:
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
