"""The builds that a label can name: those that come with pgbed, and the user's own.

Environment:
    PGBED_CATALOG      the catalog, a JSON file; set by the `bench` wrapper
    PGBED_PACKAGE_SET  `nixpkgs` or `hostpkgs`; set by the wrapper
    PGBED_SERVERS      a folder of LABEL -> install prefix, searched first: inside a Nix check Nix cannot be called
    BENCH_TARBALLS     a folder of postgresql-VERSION.tar.bz2, for networks that do not reach postgresql.org
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.builds import nix, user_builds
from engine.builds.compile_variants import variant
from engine.builds.derivation import Change, recipe_of
from engine.builds.user_builds import OwnBuild
from engine.core.errors import UserError, unknown
from engine.core.record import converted, parsed
from engine.core.text import NAME, user_path

BUILTIN = "-builtin"
BUILTIN_ARGS = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")  # as in nix/postgres/default.nix
PREBUILT = "-prebuilt"


@dataclass(frozen=True, slots=True)
class Tarball:
    """A release's source: file `name`, `hash` as `sha256-BASE64`, and the store `path` it has once fetched."""

    name: str
    hash: str
    path: str

    @property
    def sha256(self) -> str:
        return b64decode(self.hash.removeprefix("sha256-")).hex()


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A catalog build: package `attr`, built by `drv` (empty without Nix) to `out`. Two labels may share one `drv`."""

    label: str
    version: str
    attr: str
    provenance: str
    initdb_args: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    tarball: Tarball | None = None
    drv: str = ""
    out: str = ""
    own: OwnBuild | None = None  # an entry of the user's own table

    @property
    def prebuilt_label(self) -> str:
        """The label of the same version prebuilt: `17.0-builtin` -> `17.0-prebuilt-builtin`."""
        base = self.label.removesuffix(BUILTIN)
        return base + PREBUILT + self.label[len(base) :]

    def recipe(self, words: Sequence[str] = ()) -> tuple[str, Change]:
        """The derivation this build starts from with some variants, and the change to it. Raises UserError."""
        elsewhere = any(variant(word).system for word in words)
        if self.own is None and not elsewhere:
            return self.drv, Change()
        if self.own is None and self.patches:
            raise UserError(f"build '{self.label}' has patches of its own: name its release and the patch with :meson")
        if self.own is None or not self.own.base:
            assert self.tarball is not None
            tarball = {"url": user_builds.tarball_url(self.version), "sha256": self.tarball.hash}
            drv = recipe_of(self.label, age(self.version)[0], words)
            return drv, Change(tarball=tarball | {"name": self.tarball.name})
        drv, change = next(entry for entry in catalog() if entry.label == self.own.base).recipe(words)
        return drv, replace(
            change,
            patches=(*change.patches, *(user_path(patch).resolve() for patch in self.own.patches)),
            cflags=(*change.cflags, *self.own.cflags),
            configure_flags=(*change.configure_flags, *self.own.configure_flags),
        )


def catalog() -> tuple[CatalogEntry, ...]:
    """All labelled builds, the user's included, oldest first; empty without the wrapper. Raises UserError."""
    path = os.environ.get("PGBED_CATALOG")
    if not path:
        return ()
    where = f"the list of builds in {path}"
    try:
        shipped = converted(parsed(Path(path).read_bytes(), where), tuple[CatalogEntry, ...], where)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
    entries = {entry.label: entry for entry in shipped}
    for label, own_build in user_builds.own_builds().items():
        if label not in entries:
            entries |= {entry.label: entry for entry in _own_entries(label, own_build, entries)}
        elif (pinned := entries[label].tarball) is None or pinned.hash != own_build.source:
            raise UserError(
                f"{user_builds.table_path()}: build '{label}' differs from pgbed's own build of that label: rename it"
            )
    if len(entries) == len(shipped):
        return shipped
    return tuple(sorted(entries.values(), key=lambda entry: age(entry.version)))


def _own_entries(label: str, own_build: OwnBuild, known: Mapping[str, CatalogEntry]) -> Iterator[CatalogEntry]:
    """The entry and, from 17 on, its twin with the builtin locale provider."""
    base = known.get(own_build.base)
    if own_build.base and (base is None or base.provenance != "source"):
        where = f"{user_builds.table_path()}: build '{label}'"
        raise UserError(f"{where}: '{own_build.base}' must be a build from source that is defined before it")
    check_name(label)
    entry = CatalogEntry(
        label=label,
        version=base.version if base else label,
        attr="postgresql-" + label.replace(".", "_"),
        provenance="source",
        patches=(*(base.patches if base else ()), *(Path(patch).name for patch in own_build.patches)),
        tarball=base.tarball if base else Tarball(f"postgresql-{label}.tar.bz2", own_build.source, ""),
        drv=base.drv if base else "",
        own=own_build,
    )
    yield entry
    if int(re.match(r"\d+", entry.version)[0]) >= 17 and not label.endswith(BUILTIN):  # type: ignore[index]
        yield replace(entry, label=label + BUILTIN, initdb_args=BUILTIN_ARGS)


def age(version: str) -> tuple[int, int, str, int]:
    """Sort key in order of release: 17beta1, 17rc1, 17.0, 17.11."""
    match = re.match(r"(\d+)([a-z]*)(?:\.?(\d+))?", version)
    major, stage, number = (match[1], match[2], match[3]) if match else ("0", "", None)
    return int(major), not stage, stage, int(number or 0)


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f"'{name}' is not a valid build name: use up to 61 letters, digits, '.', '_' and '-'")


def unknown_label(label: str) -> UserError:
    labels = [entry.label for entry in catalog()]
    if not labels:
        return nix.no_catalogue()
    return unknown("build", label, labels)


# -- builds available on this machine -------------------------------------------------------------------------------


def available(label: str) -> str | None:
    """The label of a build that this machine can have: its own or, over hostpkgs, the prebuilt one's."""
    entries = [entry for entry in catalog() if entry.label == label]
    return next((usable[0].label for entry in entries if (usable := usable_entry(entry))), None)


def newest(majors: int) -> tuple[str, ...]:
    """Labels of the newest available release, or release candidate, of each of the newest majors, oldest first."""
    labels = {age(release)[0]: label for release in _releases() if (label := available(release))}
    return tuple(labels[major] for major in sorted(labels)[-majors:])


def newest_of(major: int) -> str | None:
    """The label of the newest release of a major version, or of its release candidate; an available one if there is."""
    releases = [release for release in _releases() if age(release)[0] == major]
    return next(filter(available, reversed(releases)), releases[-1] if releases else None)


def _releases() -> list[str]:
    """Labels of all releases and release candidates, the oldest first."""
    return [
        entry.label
        for entry in catalog()
        if re.fullmatch(r"\d+(\.|rc)\d+", entry.version) and entry.label == entry.version
    ]


def usable_entry(
    entry: CatalogEntry, *, substitute: bool = True, at_hand: bool = True
) -> tuple[CatalogEntry, Path | None] | None:
    """The entry or, over hostpkgs, its prebuilt substitute, with its prefix if present; None if unavailable."""
    entries = [entry]
    if substitute and nix.over_hostpkgs():
        entries += [other for other in catalog() if other.label == entry.prebuilt_label]
    for candidate in entries:
        prefix = _prefix_at_hand(candidate) if at_hand else None
        if prefix is not None or _can_be_realised(candidate):
            return candidate, prefix
    return None


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _prefix_at_hand(entry: CatalogEntry) -> Path | None:
    """The build in PGBED_SERVERS; a `-builtin` label shares the binaries of the plain one."""
    folder = os.environ.get("PGBED_SERVERS")
    if not folder:
        return None
    candidates = (Path(folder) / label for label in (entry.label, entry.label.removesuffix(BUILTIN)))
    return next((path.resolve() for path in candidates if (path / "bin" / "postgres").exists()), None)


def _can_be_realised(entry: CatalogEntry) -> bool:
    """Whether Nix can make this build; adds the user's tarball, if any, to the store."""
    if entry.tarball is None or (entry.out and nix.is_valid(entry.out)):
        return True
    path = entry.tarball.path or nix.fixed_path(entry.tarball.sha256, entry.tarball.name)
    supplied = _supplied(entry.tarball)
    if supplied is not None:
        if not nix.is_valid(path):
            nix.add_fixed(supplied, entry.tarball.name)
        return True
    return not nix.over_hostpkgs() or nix.is_valid(path)


def _supplied(tarball: Tarball) -> Path | None:
    """The user's file for `tarball`, verified; Debian's name for it is accepted, too."""
    folder = os.environ.get("BENCH_TARBALLS")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise UserError(f"BENCH_TARBALLS names {folder}, which is not a folder")
    version = tarball.name.removeprefix("postgresql-").removesuffix(".tar.bz2")
    candidates = (Path(folder) / tarball.name, *sorted(Path(folder).glob(f"postgresql-*_{version}.orig.tar.bz2")))
    file = next((path for path in candidates if path.is_file()), None)
    if file is not None and (actual := sha256(file)) != tarball.sha256:
        raise UserError(f"{file} refused: its sha256 is {actual}; the released {tarball.name} has {tarball.sha256}")
    return file
