"""Servers of source trees, revisions, patches and other flags, built by Nix with the recipe of all others.

    build_revision(Path("~/src/postgres"), "REL_17_STABLE~3", print)     -> Build, its `prefix` the install
    build_tree("mine", Path("~/src/postgres"), print)                    -> the same with uncommitted changes

Both take what is in the store already at once: the same files give the same build, whatever it is called. A source
that does not compile raises `nix.BuildFailed` (with `lines`, the log's end, and `log`); everything else that is wrong
(no repository, no such revision, no Nix) is a plain UserError. `roots` is a folder for a link that keeps the build
from garbage collection: `<out>/.builds` for builds of runs there; without it the next collection may take it.
"""

from __future__ import annotations

import grp
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from engine.builds import derivation, nix, source_tree
from engine.builds.derivation import Change
from engine.builds.label import variant
from engine.builds.nix import Progress
from engine.builds.source_tree import Source
from engine.core.errors import UserError
from engine.core.model import Build
from engine.core.record import converted, parsed
from engine.core.text import visible

SYSTEM_CCACHE = Path("/var/cache/ccache")  # where NixOS's programs.ccache keeps it
BUILDERS = "nixbld"
LINK = "built-"
BUILTIN_ARGS = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")  # as in nix/postgres/default.nix


class Recipe(msgspec.Struct, frozen=True):
    """A derivation that lacks its source, for servers of a major version and later ones."""

    major: str
    drv: str


def build_revision(
    repository: Path,
    revision: str,
    on_progress: Progress,
    roots: Path | None = None,
    *,
    label: str = "",
    variants: Sequence[str] = (),
) -> Build:
    """The server of a commit, called `label`, else by the commit's first digits. Errors as the module says.

    `revision` is any name that git has for it. Of a repository only what is committed counts.
    """
    found = source_tree.revision_of(label or revision, repository, revision)
    return build_source(label or found.commit[: source_tree.SHOWN_HEX], found, on_progress, roots, variants=variants)


def build_tree(
    label: str, path: Path, on_progress: Progress, roots: Path | None = None, *, variants: Sequence[str] = ()
) -> Build:
    """The server of a source tree as it lies on the disk, with its uncommitted changes."""
    return build_source(label, source_tree.tree_at(label, path.expanduser()), on_progress, roots, variants=variants)


def build_source(
    label: str, found: Source, on_progress: Progress, roots: Path | None = None, *, variants: Sequence[str] = ()
) -> Build:
    """The server of what `engine.builds.source_tree` has found."""
    with source_tree.files_of(found) as folder:
        recipe = recipe_of(label, found.major)
        change = varied(
            Change(
                name=f"postgresql-{found.version}-tree",
                folder=folder,
                record={"label": f"{found.version}-tree", "version": found.version},
                ccache=ccache_folder(),
            ),
            variants,
        )
        derived = derivation.derive(recipe.drv, change)
    title = found.title if found.commit else f"{found.title}, files {nix.store_hash(Path(derived.source))}"
    return replace(make(label, found.version, derived, on_progress, roots, change.ccache), source=title)


def changed(
    label: str, title: str, version: str, drv: str, change: Change, on_progress: Progress, roots: Path | None
) -> Build:
    """The server of a known derivation, changed; its own record has the `title`, whatever it is called here."""
    record = {"label": title, "version": version}
    derived = derivation.derive(drv, replace(change, name=f"postgresql-{title}", record=record))
    return make(label, version, derived, on_progress, roots)


def make(
    label: str,
    version: str,
    derived: derivation.Derived,
    on_progress: Progress,
    roots: Path | None,
    ccache: Path | None = None,
) -> Build:
    """Realises a derivation, unless it is there, and asks the build what it is."""
    link = roots / f"{LINK}{nix.store_hash(Path(derived.out))}" if roots is not None else None
    prefix = nix.realise(label, derived.drv, on_progress, link, visible_to_build=ccache)
    return recorded(Build(label, version, str(prefix), nix.store_hash(prefix) or "", "source"))


def made_here(build: Build, roots: Path) -> bool:
    """Whether a run's record names what was built here, and is kept by a link for runs in this folder."""
    kept = os.path.realpath(roots / f"{LINK}{build.digest}")
    if "/" in build.digest or kept != build.prefix or nix.store_hash(Path(kept)) != build.digest:
        return False
    return nix.is_valid(kept) and build.initdb_args in {(), BUILTIN_ARGS}


def made_elsewhere(label: str) -> Build | None:
    """The build of this label that another machine has made and handed over, with its record; None for any other."""
    listed = os.environ.get("PGBED_BUILDS")
    if not listed:
        return None
    where = f"the builds in {listed}"
    try:
        found = converted(parsed(Path(listed).read_bytes(), where), dict[str, Build], where).get(label)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
    return recorded(found) if found is not None else None


def recorded(build: Build) -> Build:
    """The build with what the package itself says of its compiler, flags and patches."""
    path = Path(build.prefix) / "share" / "pgbed" / "build.json"
    if not path.exists():
        return build
    own = json.loads(path.read_text())
    return replace(
        build,
        compiler=own.get("compiler", build.compiler),
        flags=own.get("flags", build.flags),
        patches=tuple(own.get("patches", build.patches)),
    )


def recipe_of(label: str, major: int) -> Recipe:
    """The recipe for a major version. Raises UserError for one that is too old, and without the wrapper."""
    listed = os.environ.get("PGBED_RECIPES")
    if not listed:
        raise nix.no_catalogue()
    where = f"the recipes in {listed}"
    try:
        recipes = converted(parsed(Path(listed).read_bytes(), where), tuple[Recipe, ...], where)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
    fitting = [recipe for recipe in recipes if int(recipe.major) <= major]
    if not fitting:
        raise UserError(f"build '{label}': PostgreSQL {major} is older than what can be built here")
    return max(fitting, key=lambda recipe: int(recipe.major))


def ccache_folder() -> Path | None:
    """A folder that whoever builds may write compiled files to, for the next build of a tree; None without one.

    $PGBED_CCACHE names it; an empty one means none. A user without a Nix daemon builds himself, and root's builds are
    run by Nix's build users, for whom a folder is made. Everybody else's are, too, and an administrator must have made
    it. Where a build finds that it may not write there, it goes without.
    """
    named = os.environ.get("PGBED_CCACHE")
    if named is not None:
        if named and not Path(named).is_dir():
            raise UserError(f"PGBED_CCACHE names {visible(named)}, which is not a folder")
        return Path(named).absolute() if named else None
    if os.geteuid() != 0 and os.access("/nix/store", os.W_OK):
        return _made(nix.cache_folder() / "ccache")
    if SYSTEM_CCACHE.is_dir():
        return SYSTEM_CCACHE
    return _for_build_users(Path("/var/cache/pgbed-ccache")) if os.geteuid() == 0 else None


def _for_build_users(folder: Path) -> Path:
    _made(folder)
    try:
        os.chown(folder, 0, grp.getgrnam(BUILDERS).gr_gid)
        folder.chmod(0o2770)
    except (KeyError, OSError):
        pass  # without such users builds of root's are run by root
    return folder


def prune(roots: Path, wanted: set[str], age_s: float = 86_400) -> int:
    """Lets garbage collection have the builds that no run names; `wanted` are digests. Returns how many.

    Young ones stay: the run that they are for may not have begun.
    """
    gone = 0
    for link in roots.glob(f"{LINK}*"):
        digest = link.name.removeprefix(LINK)
        if link.is_symlink() and digest not in wanted and time.time() - link.lstat().st_mtime > age_s:
            link.unlink()
            gone += 1
    return gone


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def varied(change: Change, words: Sequence[str]) -> Change:
    """The change with variants on top of it."""
    for word in words:
        found = variant(word)
        change = replace(
            change,
            cflags=(*change.cflags, *found.cflags),
            configure_flags=(*change.configure_flags, *found.configure_flags),
        )
    return change
