"""Extensions that a label adds to a server: of contrib, of nixpkgs' sources, or of a source tree with a PGXS Makefile.

What contrib has every server has. Others are built against one server, by nix/postgres/extension.nix: the result is
that server's files once more, with the extension among them.

Environment:
    PGBED_EXTENSIONS   the sources that nixpkgs has, and the recipe; a JSON file, set by the `bench` wrapper
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.builds import derivation, nix, source_tree
from engine.builds.contrib import CONTRIB, lacks
from engine.builds.derivation import Change, Derived, Folder
from engine.core.errors import UserError, unknown
from engine.core.model import Extension
from engine.core.record import converted, parsed
from engine.core.text import user_path
from engine.system import subprocesses
from engine.system.account import unprivileged
from engine.system.files import read_text

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # in make's order
CONTROLS = ("*.control", "*/*.control", "*.control.in", "*/*.control.in")
VERSION = re.compile(r"^\s*default_version\s*=\s*'([\w.+-]{1,40})'", re.M)


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of an extension that nixpkgs has: `drv` fetches it to `path`; `control` is its name in SQL."""

    name: str
    control: str
    version: str
    drv: str
    path: str


@dataclass(frozen=True, slots=True)
class _ExtensionTable:
    """`names` are known wherever this is read; over hostpkgs `sources` is empty."""

    names: tuple[str, ...]
    sources: tuple[_Source, ...]
    drv: str


def check(build: str, word: str, major: int, compiled: bool) -> None:
    """Check an extension as a label names it (NAME, or NAME=PATH of a tree). Raises UserError; builds nothing.

    `build` is for messages; `compiled`: the server is compiled here, and its build inputs are kept for extensions.
    """
    name, is_tree, path = word.partition("=")
    if not is_tree and name in CONTRIB:
        if why := lacks(name, major):
            raise UserError(f"build '{build}': {why}, and this is {major}")
        return
    if is_tree:
        _tree(build, name, path)
    else:
        _known(build, name)
    if not compiled:
        raise UserError(
            f"build '{build}': extension {name} cannot be built, because this server came without headers; servers "
            "that are compiled here have them"
        )


def of_contrib(build: str, name: str, prefix: Path) -> Extension:
    """An extension of contrib in a server that is there. Raises UserError if it came without."""
    has_control = has(prefix, name)
    if not has_control and not any((prefix / "lib").rglob(f"{name}.so")):
        raise UserError(f"build '{build}': the server in {prefix} came without the extension {name}")
    return Extension(name if has_control else "", f"{name} of contrib")


def has(prefix: Path, name: str) -> bool:
    """Whether a server has an extension."""
    return any(file.name == f"{name}.control" for file in _share(prefix).rglob("*.control"))


def _share(prefix: Path) -> Path:
    """The folder of a server's own files: on Debian not below its prefix, but its pg_config knows."""
    share, program = prefix / "share", prefix / "bin" / "pg_config"
    if share.is_dir() or not program.exists():
        return share
    answer = subprocesses.ask((str(program), "--sharedir"), unprivileged())
    return share if answer.code else Path(answer.output.strip())


def is_contrib(word: str) -> bool:
    return word in CONTRIB


def added(
    build: str, words: Sequence[str], server: Derived, compiled: Derived, title: str
) -> tuple[Derived, tuple[Extension, ...]]:
    """The server with its extensions outside contrib, still to be built, and those extensions.

    `compiled` is the server that was compiled, of which `server` may be a layout; `title` names the derivation.
    Raises UserError.
    """
    with_all, extensions = server, list[Extension]()
    for word in words:
        if is_contrib(word):
            continue
        name, is_tree, path = word.partition("=")
        change = Change(
            name=f"postgresql-{title}",
            env={"server": with_all.out, "headers": compiled.dev},
            inputs=((with_all.drv, "out"), (compiled.drv, "dev")),
            native=compiled.native,  # its flags are what the extension is compiled with
        )
        if is_tree:
            with_all, extension = _of_tree(build, name, path, change)
        else:
            source = _known(build, name)
            env, inputs = {**change.env, "src": source.path}, (*change.inputs, (source.drv, "out"))
            with_all = derivation.derive(_table().drv, replace(change, env=env, inputs=inputs))
            title = f"{name} {source.version}, nixpkgs' source {nix.store_hash(Path(source.path))}"
            extension = Extension(source.control, title)
        extensions.append(extension)
    return with_all, tuple(extensions)


def _of_tree(build: str, name: str, path: str, change: Change) -> tuple[Derived, Extension]:
    folder, control, version = _tree(build, name, path)
    state = source_tree.state_of(build, folder)
    files = Folder(folder, tuple(source_tree.files_in(folder)))
    derived = derivation.derive(_table().drv, replace(change, folder=files))
    title = " ".join(filter(None, (name, version)))
    of = f"{title}, {source_tree.title(*state)}, files {nix.store_hash(Path(derived.source))}"
    return derived, Extension(control, of)


def _tree(build: str, name: str, place: str) -> tuple[Path, str, str]:
    """The folder of a source tree, its extension's name, and the version that its control file states, if any."""
    folder = user_path(place).resolve()
    where = f"build '{build}': extension {name}: {folder}"
    if not folder.is_dir():
        raise UserError(f"{where} is not a folder")
    makefile = next((folder / name for name in MAKEFILES if (folder / name).is_file()), None)
    if makefile is None or "PGXS" not in read_text(makefile, "makefile", errors="replace"):
        raise UserError(f"{where} has no Makefile that uses PGXS, PostgreSQL's build system for extensions")
    controls = [file for pattern in CONTROLS for file in sorted(folder.glob(pattern))]
    if not controls:
        raise UserError(f"{where} has no control file ({name}.control), so CREATE EXTENSION would not find it")
    control = next((file for file in controls if _stem(file) == name), controls[0])
    version = VERSION.search(read_text(control, "control file", errors="replace"))
    return folder, _stem(control), version[1] if version else ""


def _stem(control: Path) -> str:
    return control.name.partition(".control")[0]


def _known(build: str, name: str) -> _Source:
    table = _table()
    source = next((entry for entry in table.sources if entry.name == name), None)
    if source is not None:
        return source
    how = f"the source of another is named as +{name}=PATH, a patch with its ending or its folder"
    if name in table.names:
        raise UserError(
            f"build '{build}': the source of extension {name} comes with nixpkgs, and this package set is the "
            f"machine's own tools: name it as +{name}=PATH"
        )
    raise UserError(f"build '{build}': {unknown('extension', name, (*CONTRIB, *table.names))}; {how}")


def _table() -> _ExtensionTable:
    path = os.environ.get("PGBED_EXTENSIONS")
    if not path:
        return _ExtensionTable((), (), "")
    where = f"the list of extensions in {path}"
    try:
        return converted(parsed(Path(path).read_bytes(), where), _ExtensionTable, where)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
