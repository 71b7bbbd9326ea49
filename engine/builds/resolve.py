"""From the labels a user types to servers on this machine. What is not there yet is built: see `engine.builds.nix`.

Environment:
    PGBED_CATALOG      the catalog, a JSON file; set by the `bench` wrapper
    PGBED_PACKAGE_SET  `nixpkgs` or `hostpkgs`; set by the wrapper
    PGBED_SERVERS      a folder of LABEL -> install prefix, searched first: inside a Nix check Nix cannot be called
    PGBED_BUILDS       a file of builds that were made on another machine, by their labels: set within a farm's block
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

from engine.builds import from_source, nix, source_tree, user_builds
from engine.builds.derivation import Change
from engine.builds.label import BuildSpec, parsed_build, unknown_variant, variant
from engine.builds.nix import Progress
from engine.builds.source_tree import Source
from engine.builds.user_builds import OwnBuild
from engine.core.errors import UserError, unknown
from engine.core.model import Build
from engine.core.record import converted, parsed
from engine.core.text import visible
from engine.host import subprocesses
from engine.host.account import unprivileged

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
    own: OwnBuild | None = None  # an entry of the user's own table

    @property
    def prebuilt_label(self) -> str:
        """The label that the same version has as a prebuilt server: `17.0-builtin` -> `17.0-prebuilt-builtin`."""
        base = self.label.removesuffix(BUILTIN)
        return base + PREBUILT + self.label[len(base) :]


def catalog() -> tuple[CatalogEntry, ...]:
    """Every build that can be named, oldest version first, the user's own among them; none without the wrapper.

    Raises UserError for a table that cannot be understood.
    """
    path = os.environ.get("PGBED_CATALOG")
    if not path:
        return ()
    where = f"the list of builds in {path}"
    try:
        shipped = converted(parsed(Path(path).read_bytes(), where), tuple[CatalogEntry, ...], where)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
    known = {entry.label: entry for entry in shipped}
    for label, own in user_builds.own_builds().items():
        if label not in known:
            known |= {entry.label: entry for entry in _own_entries(label, own, known)}
        elif (pinned := known[label].tarball) is None or pinned.hash != own.source:
            raise UserError(f"{user_builds.table_path()}: build '{label}' is another one of pgbed's own: rename it")
    return tuple(sorted(known.values(), key=lambda entry: age(entry.version))) if len(known) > len(shipped) else shipped


def _own_entries(label: str, own: OwnBuild, known: Mapping[str, CatalogEntry]) -> Iterator[CatalogEntry]:
    """The entry and, from 17 on, its twin with the builtin locale provider."""
    base = known.get(own.base)
    if own.base and (base is None or base.provenance != "source"):
        where = f"{user_builds.table_path()}: build '{label}'"
        raise UserError(f"{where}: '{visible(own.base)}' is no build from source that comes before it")
    check_name(label)
    tarball = base.tarball if base else Tarball(f"postgresql-{label}.tar.bz2", own.source, "")
    entry = CatalogEntry(
        label=label,
        version=base.version if base else label,
        attr="postgresql-" + label.replace(".", "_"),
        provenance="source",
        patches=(*(base.patches if base else ()), *(Path(patch).name for patch in own.patches)),
        tarball=tarball,
        drv=base.drv if base else "",
        own=own,
    )
    yield entry
    if int(re.match(r"\d+", entry.version)[0]) >= 17 and not label.endswith(BUILTIN):  # type: ignore[index]
        yield replace(entry, label=label + BUILTIN, initdb_args=from_source.BUILTIN_ARGS)


def age(version: str) -> tuple[int, int, str, int]:
    """A key that sorts versions as they were released: 17beta1, 17rc1, 17.0, 17.11."""
    found = re.match(r"(\d+)([a-z]*)(?:\.?(\d+))?", version)
    major, stage, number = (found[1], found[2], found[3]) if found else ("0", "", None)
    return int(major), not stage, stage, int(number or 0)


def resolve(
    specs: Sequence[str], on_progress: Progress, roots: Path | None = None, *, exact: bool = False
) -> tuple[Build, ...]:
    """The servers for `specs`, each as `engine.builds.label` has them.

    Builds what is missing; what it takes from the store is kept alive by links in the folder `roots`, if given.
    Over hostpkgs a source that is not available is replaced by the same version prebuilt, and labelled so, unless
    the build is to be `exact`; a label that two specs come down to is returned once. Raises UserError for what is not
    available.
    """
    builds: dict[str, Build] = {}
    for spec in specs:
        build = _resolve_one(check(spec), on_progress, roots, exact)
        builds.setdefault(build.label, build)
    return tuple(builds.values())


@dataclass(frozen=True, slots=True)
class Checked:
    """What can be had, as far as is known without building: `entry`, `source`, `made` elsewhere, or an install."""

    spec: BuildSpec
    entry: CatalogEntry | None = None
    source: Source | None = None
    made: Build | None = None

    @property
    def install(self) -> bool:
        """Whether it is there already, as the user's own install."""
        return self.entry is None and self.source is None and self.made is None


def check(text: str) -> Checked:
    """Looks up what a spec names, and builds nothing. Raises UserError for what there is not."""
    spec = parsed_build(text)
    if (made := from_source.made_elsewhere(text)) is not None:
        return Checked(spec, made=made)
    known = {entry.label: entry for entry in catalog()}
    if spec.label in known and not (spec.kind == "label" and spec.place == spec.label and spec.plain):
        which = f"give {visible(spec.place)} another name" if spec.named else f"name it: NAME={visible(text)}"
        raise UserError(f"'{spec.label}' is the label of another build: {which}")
    if spec.kind != "path" or not source_tree.is_install(spec.path):
        check_name(spec.label)
    for word in spec.variants:
        variant(word)
    if spec.kind == "label":
        if spec.place not in known:
            raise unknown_label(spec.place)
        entry = known[spec.place]
        for patch in spec.patches:
            if not Path(patch).expanduser().is_file():
                raise UserError(f"build '{spec.label}': there is no patch file {visible(patch)}")
        if not spec.plain and entry.provenance != "source":
            raise UserError(
                f"{visible(text)}: {entry.label} was built by others; only what is built here can be changed"
            )
        return Checked(spec, entry=entry)
    if spec.kind == "revision":
        return Checked(spec, source=source_tree.revision_of(spec.label, spec.path, spec.revision))
    if source_tree.is_tree(spec.path) and not source_tree.is_install(spec.path):
        return Checked(spec, source=source_tree.tree_at(spec.label, spec.path))
    if not spec.plain and source_tree.is_install(spec.path):
        raise UserError(f"{visible(text)}: an install is built already; variants are for what is built here")
    if not spec.path.exists() and ":" in spec.place:
        head, _, word = spec.place.rpartition(":")
        raise unknown_variant(word) if Path(head).expanduser().exists() else _no_build(spec)
    if not source_tree.is_install(spec.path):
        raise _no_build(spec)
    return Checked(spec)


def _no_build(spec: BuildSpec) -> UserError:
    place = visible(str(spec.path))
    if not spec.path.is_dir():
        return UserError(f"build '{spec.label}': there is no folder {place}")
    return UserError(
        f"build '{spec.label}': {place} is neither an install (bin/postgres) nor a source tree of PostgreSQL "
        "(configure or meson.build, and src/backend)"
    )


def _resolve_one(checked: Checked, on_progress: Progress, roots: Path | None, exact: bool) -> Build:
    spec, wanted = checked.spec, checked.entry
    if checked.made is not None:
        return checked.made
    if checked.source is not None:
        return from_source.build_source(spec.label, checked.source, on_progress, roots, variants=spec.variants)
    if wanted is None:
        return local_build(spec.label, spec.path)
    entry, at_hand = here(checked, exact)
    if at_hand is None and (entry.own or not spec.plain):
        return _made(spec, entry, on_progress, roots)
    if entry is not wanted:
        missing = "its source tarball is not available (BENCH_TARBALLS)"
        on_progress(f"{spec.label}: {missing}; using {entry.label} instead")
    digest = nix.store_hash(Path(entry.out)) if spec.named else None
    link = roots / (f"{from_source.LINK}{digest}" if digest else entry.attr) if roots is not None else None
    build = _record_of(entry, at_hand or nix.realise(entry.label, entry.drv, on_progress, link))
    return replace(build, label=spec.label) if spec.named else build


def here(checked: Checked, exact: bool = False) -> tuple[CatalogEntry, Path | None]:
    """The entry that a build comes down to here, and where it is if it is at hand. Raises UserError for none."""
    spec, wanted = checked.spec, checked.entry
    assert wanted is not None
    for entry in _candidates(wanted, exact or not spec.plain):
        at_hand = _prefix_at_hand(entry) if spec.plain else None
        if at_hand is not None or _can_be_realised(entry):
            return entry, at_hand
    name = wanted.tarball.name if wanted.tarball else wanted.attr
    raise UserError(
        f"build '{spec.label}' is not available here: there is no prebuilt server of it, and its source cannot be "
        f"fetched with this package set; put {name} into a folder and set BENCH_TARBALLS to that folder"
    )


def _made(spec: BuildSpec, entry: CatalogEntry, on_progress: Progress, roots: Path | None) -> Build:
    """A build of the user's own table, or one that is patched or compiled in another way."""
    drv, change = _beginning(entry)
    patches = tuple(Path(patch).expanduser().resolve() for patch in spec.patches)
    change = from_source.varied(replace(change, patches=(*change.patches, *patches)), spec.variants)
    title = spec.title.replace(BUILTIN, "", 1) if entry.initdb_args else spec.title
    build = from_source.changed(spec.label, title, entry.version, drv, change, on_progress, roots)
    return replace(build, initdb_args=entry.initdb_args)


def _beginning(entry: CatalogEntry) -> tuple[str, Change]:
    """The derivation that an entry is made of, and what is changed of it."""
    if entry.own is None:
        return entry.drv, Change()
    if not entry.own.base:
        assert entry.tarball is not None
        tarball = {"url": user_builds.tarball_url(entry.version), "sha256": entry.tarball.hash}
        return from_source.recipe_of(entry.label, int(entry.version.partition(".")[0])).drv, Change(
            tarball=tarball | {"name": entry.tarball.name}
        )
    drv, change = _beginning(next(each for each in catalog() if each.label == entry.own.base))
    own = entry.own
    return drv, replace(
        change,
        patches=(*change.patches, *(Path(patch).expanduser().resolve() for patch in own.patches)),
        cflags=(*change.cflags, *own.cflags),
        configure_flags=(*change.configure_flags, *own.configure_flags),
    )


def available(label: str) -> str | None:
    """The label under which a build can be had here: its own, over hostpkgs also the prebuilt one's; None for none."""
    candidates = [each for entry in catalog() if entry.label == label for each in _candidates(entry, False)]
    return next((each.label for each in candidates if _prefix_at_hand(each) or _can_be_realised(each)), None)


def newest(majors: int) -> tuple[str, ...]:
    """The newest release of each of the newest majors that can be had here, the oldest first."""
    found: dict[int, str] = {}
    for entry in catalog():  # the oldest version first
        release = re.fullmatch(r"(\d+)\.\d+", entry.version)
        plain = not entry.initdb_args and not entry.patches and entry.provenance == "source"
        if release and plain and (label := available(entry.label)):
            found[int(release[1])] = label
    return tuple(found[major] for major in sorted(found)[-majors:])


def _candidates(wanted: CatalogEntry, exact: bool) -> list[CatalogEntry]:
    """The build, and the same version prebuilt where a source may be replaced by it."""
    return [wanted, *(e for e in catalog() if nix.over_hostpkgs() and not exact and e.label == wanted.prebuilt_label)]


def unknown_label(spec: str) -> UserError:
    """The error for a label that is not in the catalogue."""
    known = [entry.label for entry in catalog()]
    return unknown("build", spec, known) if known else nix.no_catalogue()


def check_name(name: str) -> None:
    """Raises UserError for a name that no folder could have everywhere."""
    if not NAME.fullmatch(name):
        raise UserError(f"'{visible(name)}' is not a valid build name: use up to 61 letters, digits, '.', '_' and '-'")


# -- what is already here ------------------------------------------------------------------------------------------


def local_build(name: str, prefix: Path) -> Build:
    """A PostgreSQL that the user built or installed; its version is asked of the binary, its digest is the binary's."""
    check_name(name)
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
    answer = subprocesses.ask((str(server), "--version"), unprivileged())
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
    return from_source.recorded(
        Build(
            label=entry.label,
            version=entry.version,
            prefix=str(prefix),
            digest=nix.store_hash(prefix) or _sha256(prefix / "bin" / "postgres"),
            provenance=entry.provenance,
            patches=entry.patches,
            initdb_args=entry.initdb_args,
        )
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _can_be_realised(entry: CatalogEntry) -> bool:
    """Whether Nix has a way to this build; puts its source into the store if the user has supplied it."""
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
