"""Resolution of the labels that a user types to servers on this machine: checked, then built or fetched if missing.

A source that does not compile raises `nix.BuildFailed`; any other failure is a plain UserError.

Environment:
    PGBED_BUILDS  a file of builds that were made on another machine, by their labels: set within a farm's block
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.builds import compile_cache, derivation, extensions, nix, source_tree, typed_release
from engine.builds.catalog import (
    BUILTIN,
    BUILTIN_ARGS,
    CatalogEntry,
    age,
    catalog,
    check_name,
    sha256,
    unknown_label,
    usable_entry,
)
from engine.builds.compile_variants import LAYOUT, unknown_variant, variant
from engine.builds.derivation import Change
from engine.builds.label import Label, parsed, shown
from engine.builds.nix import Progress
from engine.builds.source_tree import Source
from engine.core.errors import UserError
from engine.core.model import Build
from engine.core.record import converted
from engine.core.record import parsed as parsed_json
from engine.core.text import user_path
from engine.system import packages, subprocesses
from engine.system.account import unprivileged
from engine.system.files import read_plain

VERSION = re.compile(r"\(PostgreSQL\) (\d[A-Za-z0-9.+~_-]{0,40})(?!\S)")
# Of a patch: a hunk of a unified, context or normal difference, or what git says of a file as a whole.
CHANGE = re.compile(r"^(@@ -\d|\*{15}|\d+(,\d+)?[acd]\d+|(rename|copy) from |(new|deleted) file mode |old mode )", re.M)
MESON, FIRST_WITH_MESON = "meson", 16
LINK = "built-"
PATCH_MAX_BYTES = 64 << 20


def resolve(
    texts: Sequence[str], on_progress: Progress, roots: Path | None = None, *, exact: bool = False
) -> tuple[Build, ...]:
    return realise(check(texts), on_progress, roots, exact=exact)


def check(texts: Sequence[str]) -> tuple[Label, ...]:
    """Parse and look up labels; builds nothing. Raises UserError if one is unknown or a build's name occurs twice."""
    entries = {entry.label: entry for entry in catalog()}
    labels: dict[str, Label] = {}
    for text in texts:
        if text in labels:
            raise UserError(f"build given twice: {shown(text)}; use --aa to compare the base with itself")
        labels[text] = _checked(text, entries)
    _refuse_twins([(text, label.name) for text, label in labels.items()])
    return tuple(labels.values())


def realise(
    labels: Sequence[Label], on_progress: Progress, roots: Path | None = None, *, exact: bool = False
) -> tuple[Build, ...]:
    """The server of each label, in order; missing ones are built or fetched.

    Links in the folder `roots` protect store paths from garbage collection. Over hostpkgs an unavailable source is
    replaced by the same version prebuilt, and labelled so, unless `exact`. Raises UserError before anything is built if
    one is unavailable.
    """
    usable = [_usable(label, exact) for label in labels]
    builds = [
        _realised(label, entry_and_prefix, on_progress, roots)
        for label, entry_and_prefix in zip(labels, usable, strict=True)
    ]
    _refuse_twins([(label.name, build.label) for label, build in zip(labels, builds, strict=True)])
    return tuple(builds)


def _refuse_twins(names: Sequence[tuple[str, str]]) -> None:
    first: dict[str, str] = {}
    for text, name in names:
        if name in first:
            both = f"{shown(first[name])} and {shown(text)}"
            raise UserError(f"{both} would both be called {name}; give one another name: NAME=…")
        first[name] = text


def _checked(text: str, entries: dict[str, CatalogEntry]) -> Label:
    try:
        return _looked_up(text, entries)
    except UserError:
        _, named, place = text.rpartition("=")
        if hint := typed_release.hint(place, list(entries.values())):
            raise UserError(f"{text}: {hint}" if named else hint) from None
        raise


def _looked_up(text: str, entries: dict[str, CatalogEntry]) -> Label:
    label = parsed(text)
    if (build := _handed_over(text)) is not None:
        return replace(label, origin=build, extensions=())  # what it has is in its record
    if label.name in entries and not (label.kind == "label" and label.place == label.name and label.plain):
        how = f"give {shown(text)} another name" if label.named else f"name it: NAME={text}"
        raise UserError(f"'{label.name}' is the label of another build: {how}")
    check_name(label.name)
    for word in label.variants:
        variant(word)
    _refuse_repeated(label)
    origin = _origin(label, text, entries)
    if MESON in label.variants and origin is not None and age(origin.version)[0] < FIRST_WITH_MESON:
        raise UserError(f"{text}: PostgreSQL {age(origin.version)[0]} cannot be built by Meson: 16 and later can")
    _check_extensions(label, origin)
    return replace(label, origin=origin)


def _refuse_repeated(label: Label) -> None:
    kinds = ["layout" if LAYOUT.fullmatch(word) else word for word in label.variants]
    if twice := next((word for at, word in enumerate(label.variants) if kinds[at] in kinds[:at]), None):
        raise UserError(f"build '{label.name}': :{twice} is a second variant of one kind; leave one out")


def _check_extensions(label: Label, origin: CatalogEntry | Source | Build | None) -> None:
    names = [word.partition("=")[0] for word in label.extensions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"build '{label.name}': extension {twice} given twice")
    if origin is not None:
        major = age(origin.version)[0]
        compiled = isinstance(origin, Source) or origin.provenance == "source"
        for word in label.extensions:
            extensions.check(label.name, word, major, compiled)


def _origin(label: Label, text: str, entries: dict[str, CatalogEntry]) -> CatalogEntry | Source | Build | None:
    if label.kind == "server":
        return None
    if label.kind == "label":
        return _entry(label, text, entries)
    if label.kind == "revision":
        return source_tree.revision_of(label.name, label.path, label.revision)
    if source_tree.is_install(label.path):
        if label.variants:
            raise UserError(f"{text}: an install is compiled already; variants are for builds that are compiled here")
        return local_build(label.name, label.path)
    if source_tree.is_tree(label.path):
        return source_tree.tree_at(label.name, label.path)
    if not label.path.exists() and ":" in label.place:
        head, _, word = label.place.rpartition(":")
        if user_path(head).exists():
            raise unknown_variant(word)
    place = str(label.path)
    if not label.path.is_dir():
        raise UserError(f"build '{label.name}': there is no folder {place}")
    raise UserError(
        f"build '{label.name}': {place} is neither an install (bin/postgres) nor a source tree of PostgreSQL "
        "(configure or meson.build, and src/backend)"
    )


def _entry(label: Label, text: str, entries: dict[str, CatalogEntry]) -> CatalogEntry:
    if label.place not in entries:
        raise unknown_label(label.place)
    entry = entries[label.place]
    for patch in label.patches:
        check_patch(label.name, patch)
    if (label.patches or label.variants) and entry.provenance != "source":
        raise UserError(f"{text}: {entry.label} is prebuilt; only builds that are compiled here can be changed")
    return entry


def check_patch(name: str, patch: str) -> None:
    """Raise UserError if a build's patch file cannot be read, or holds no patch."""
    try:
        text = read_plain(user_path(patch), PATCH_MAX_BYTES, follow=True).decode(errors="replace")
    except FileNotFoundError:
        raise UserError(f"build '{name}': there is no patch file {patch}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"build '{name}': patch {patch} cannot be read: {getattr(error, 'strerror', error)}") from None
    if not CHANGE.search(text):
        raise UserError(f"build '{name}': patch {patch} touches nothing: it holds no change to a file")


def _usable(label: Label, exact: bool) -> tuple[CatalogEntry, Path | None] | None:
    """The catalog entry that a label resolves to here, and its prefix if present."""
    entry = label.origin
    if not isinstance(entry, CatalogEntry):
        return None
    usable = usable_entry(entry, substitute=label.plain and not exact, at_hand=label.plain)
    if usable is None:
        name = entry.tarball.name if entry.tarball else entry.attr
        raise UserError(
            f"build '{label.name}' is not available here: it has no prebuilt server, and its source cannot be "
            f"fetched with this package set; put {name} into a folder and set BENCH_TARBALLS to that folder"
        )
    return usable


def _realised(
    label: Label, usable: tuple[CatalogEntry, Path | None] | None, on_progress: Progress, roots: Path | None
) -> Build:
    if isinstance(label.origin, Build):
        return _with_contrib(label.origin, label)
    if isinstance(label.origin, Source):
        return _compiled_source(label, label.origin, on_progress, roots)
    assert usable is not None
    entry, at_hand = usable
    if at_hand is None and (entry.own or not label.plain):
        return _compiled_entry(label, entry, on_progress, roots)
    if entry is not label.origin:
        on_progress(
            f"{label.name}: its source cannot be fetched here; using {entry.label}, compiled elsewhere (BENCH_TARBALLS "
            "names a folder of sources)"
        )
    digest = nix.store_hash(Path(entry.out)) if label.named else None
    link = roots / (f"{LINK}{digest}" if digest else entry.attr) if roots is not None else None
    prefix = at_hand or nix.realise(entry.label, entry.drv, on_progress, link)
    build = _described(
        Build(
            label=label.name if label.named else replace(label, place=entry.label).title,
            version=entry.version,
            prefix=str(prefix),
            digest=nix.store_hash(prefix) or sha256(prefix / "bin" / "postgres"),
            provenance=entry.provenance,
            patches=entry.patches,
            initdb_args=entry.initdb_args,
        )
    )
    return _with_contrib(build, label)


def _with_contrib(build: Build, label: Label) -> Build:
    if not label.extensions:
        return build
    of_contrib = (extensions.of_contrib(label.name, word, Path(build.prefix)) for word in label.extensions)
    return replace(build, extensions=tuple(of_contrib))


# -- servers that are compiled here --------------------------------------------------------------------------------


def _compiled_entry(label: Label, entry: CatalogEntry, on_progress: Progress, roots: Path | None) -> Build:
    """Build an entry of the user's table, or one that is patched, compiled differently or extended."""
    place = label.place.removesuffix(BUILTIN) if entry.initdb_args else label.place
    bare = replace(label, place=place, variants=_compiling(label), extensions=())
    drv, change = entry.recipe(bare.variants)
    if entry.own or not bare.plain:
        patches = tuple(user_path(patch).resolve() for patch in label.patches)
        change = replace(
            change.varied(bare.variants),
            patches=(*change.patches, *patches),
            name=f"postgresql-{bare.title}",
            record={"label": bare.title, "version": entry.version},  # the build's own, whatever its name here
        )
        server = derivation.derive(drv, change)
    else:
        server = derivation.known(drv)
    build = _compiled(replace(label, place=place), entry.version, server, on_progress, roots)
    return replace(build, initdb_args=entry.initdb_args)


def _compiled_source(label: Label, source: Source, on_progress: Progress, roots: Path | None) -> Build:
    if not source.revision:  # the tree may have changed since it was checked
        source = source_tree.tree_at(label.name, source.path)
    if not source.configure and MESON not in label.variants:
        label = replace(label, variants=(MESON, *label.variants))
    place = f"{source.version}-tree"
    with source_tree.files_of(source) as folder:
        change = Change(
            name=f"postgresql-{place}",
            folder=folder,
            record={"label": place, "version": source.version},
            ccache=compile_cache.folder(),
        )
        drv = derivation.recipe_of(label.name, source.major, _compiling(label))
        server = derivation.derive(drv, change.varied(_compiling(label)))
    title = source.title if source.commit else f"{source.title}, files {nix.store_hash(Path(server.source))}"
    build = _compiled(replace(label, place=place), source.version, server, on_progress, roots, change.ccache)
    return replace(build, source=title)


def _compiling(label: Label) -> tuple[str, ...]:
    """The variants that are compiled; layouts are only linked."""
    return tuple(word for word in label.variants if not LAYOUT.fullmatch(word))


def _compiled(
    label: Label,
    version: str,
    server: derivation.Derived,
    on_progress: Progress,
    roots: Path | None,
    ccache: Path | None = None,
) -> Build:
    """Build a server, its layout and its extensions."""
    laid_out = derivation.laid_out(server, replace(label, extensions=()).title, label.variants)
    derived, added = extensions.added(label.name, label.extensions, laid_out, server, label.title)
    wanted = [pair for word in label.variants for pair in variant(word).packages.items()]
    packages.install(dict(wanted), on_progress)
    link = roots / f"{LINK}{nix.store_hash(Path(derived.out))}" if roots is not None else None
    prefix = nix.realise(label.name, derived.drv, on_progress, link, visible_to_build=ccache)
    build = _described(Build(label.name, version, str(prefix), nix.store_hash(prefix) or "", "source"))
    contrib = filter(extensions.is_contrib, label.extensions)
    of_contrib = (extensions.of_contrib(label.name, word, prefix) for word in contrib)
    return replace(build, extensions=(*of_contrib, *added))


def _described(build: Build) -> Build:
    path = Path(build.prefix) / "share" / "pgbed" / "build.json"
    if not path.exists():
        return build
    record = json.loads(path.read_text(errors="replace"))
    return replace(
        build,
        compiler=record.get("compiler", build.compiler),
        flags=record.get("flags", build.flags),
        patches=tuple(record.get("patches", build.patches)),
    )


# -- builds that exist already -------------------------------------------------------------------------------------


def local_build(name: str, prefix: Path) -> Build:
    """A PostgreSQL that the user installed; version as reported, digest of the binary."""
    prefix = prefix.absolute()  # it is run from another folder
    server = prefix / "bin" / "postgres"
    for program in (server, server.with_name("initdb")):
        if not (os.access(program, os.X_OK) and program.is_file()):
            raise UserError(f"build '{name}': {program} is not an executable file")
    return Build(
        label=name,
        version=_reported_version(name, server),
        prefix=str(prefix.resolve()),
        digest=sha256(server),
        provenance="local",
    )


def _reported_version(name: str, server: Path) -> str:
    """The output of `postgres --version`, run as the server's account: never as root."""
    answer = subprocesses.ask((str(server), "--version"), unprivileged())
    if answer.code != 0:
        raise UserError(f"build '{name}': {server} --version ended with status {answer.code}: {answer.shown}")
    match = VERSION.search(answer.output)
    if match is None:
        raise UserError(f"build '{name}': {server} --version prints '{answer.shown}', not a PostgreSQL version")
    return match.group(1)


def _handed_over(text: str) -> Build | None:
    """The build of this label that another machine made and handed over, if any."""
    path = os.environ.get("PGBED_BUILDS")
    if not path:
        return None
    where = f"the builds in {path}"
    try:
        build = converted(parsed_json(Path(path).read_bytes(), where), dict[str, Build], where).get(text)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
    return _described(build) if build is not None else None


def made_here(build: Build, roots: Path) -> bool:
    """Whether a recorded build was compiled here and is kept by a link in `roots`."""
    kept = os.path.realpath(roots / f"{LINK}{build.digest}")
    if "/" in build.digest or kept != build.prefix or nix.store_hash(Path(kept)) != build.digest:
        return False
    return nix.is_valid(kept) and build.initdb_args in {(), BUILTIN_ARGS}


def prune(roots: Path, wanted: set[str], age_s: float = 86_400) -> int:
    """Remove links without a run (`wanted`: the runs' digests) older than `age_s`: younger runs may yet begin."""
    removed = 0
    for link in roots.glob(f"{LINK}*") if not roots.is_symlink() else ():
        digest = link.name.removeprefix(LINK)
        if link.is_symlink() and digest not in wanted and time.time() - link.lstat().st_mtime > age_s:
            link.unlink()
            removed += 1
    return removed
