"""A build derived from another: the same recipe, compiler and libraries with another source or other flags.

The wrapper's catalog names derivations that are in the store with all their inputs. One is read, changed and given back
to Nix (derivation.nix): no flake is evaluated and no nixpkgs is needed, with Nix 2.8 and later, over any package set.
Without a change the result is the same derivation.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.builds import nix
from engine.builds.compile_variants import LAYOUT, NATIVE, variant
from engine.builds.nix_log import last_words
from engine.core.errors import UserError
from engine.core.record import converted, parsed

EXPRESSION = Path(__file__).with_name("derivation.nix")
HEAD = "Derive("
ENFORCED = "NIX_ENFORCE_NO_NATIVE"  # unless it is 0, nixpkgs' compiler drops -march=native
MAKE = "make"  # the usual system of recipes


@dataclass(frozen=True, slots=True)
class Derivation:
    """A .drv file: `inputs` are the derivations with the outputs used, `sources` other store paths."""

    outputs: Mapping[str, str]
    inputs: Mapping[str, tuple[str, ...]]
    sources: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Folder:
    """A source tree: all of it, or the `files` and folders given by relative paths."""

    path: Path
    files: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Changes to a derivation: `tarball` holds builtins.fetchurl's arguments, `record` is merged into build.json.

    `env` is added to the environment, behind a variable's value; `inputs` are the derivations, with an output each,
    that it leads to; `native`: it compiles for this machine only, as it does with flags that say so.
    """

    name: str = ""
    folder: Folder | None = None
    tarball: Mapping[str, str] | None = None
    patches: tuple[Path, ...] = ()
    cflags: tuple[str, ...] = ()
    configure_flags: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    ccache: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[tuple[str, str], ...] = ()
    native: bool = False

    def varied(self, words: Sequence[str]) -> Change:
        """Raises UserError for a variant whose tools are not known here."""
        added = [variant(word) for word in words]
        tools = [_jit() for change in added if change.tools]
        return replace(
            self,
            env={**self.env, **{name: value for change in tools for name, value in change.env.items()}},
            inputs=(*self.inputs, *((given.drv, given.output) for tool in tools for given in tool.inputs)),
            cflags=(*self.cflags, *(flag for change in added for flag in change.cflags)),
            configure_flags=(*self.configure_flags, *(flag for change in added for flag in change.configure_flags)),
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """A derivation that is in the store: its output, that for building extensions ("" without), and its source.

    `native`: it is compiled for this machine only.
    """

    drv: str
    out: str
    dev: str
    source: str
    native: bool = False


@dataclass(frozen=True, slots=True)
class _Input:
    drv: str
    output: str


@dataclass(frozen=True, slots=True)
class _Tools:
    env: Mapping[str, str]
    inputs: tuple[_Input, ...]


@dataclass(frozen=True, slots=True)
class _Variants:
    """Requirements of variants besides the recipe: see nix/postgres/default.nix."""

    jit: _Tools | None  # the package set may have no LLVM that every server knows
    layout: str


def read_derivation(drv: Path) -> Derivation:
    try:
        text = drv.read_text(errors="replace")
        if not text.startswith(HEAD):
            raise ValueError(f"does not begin with {HEAD}")
        # Lists, pairs and strings, with Python's escapes; no string spans lines.
        outputs, inputs, sources, _system, _builder, args, env = ast.literal_eval(text.removeprefix("Derive"))
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError(f"{drv}: the recipe of the servers cannot be read: {error}") from None
    return Derivation(
        {name: path for name, path, *_ in outputs},
        {path: tuple(names) for path, names in inputs},
        tuple(sources),
        tuple(args),
        dict(env),
    )


def recipe_of(name: str, major: int, words: Sequence[str] = ()) -> str:
    """The source-less derivation for a major version and variants; `name` is for messages. Raises UserError."""
    listed = os.environ.get("PGBED_RECIPES")
    if not listed:
        raise nix.no_catalogue()
    where = f"the recipes in {listed}"
    try:
        rows = converted(parsed(Path(listed).read_bytes(), where), list[dict[str, str]], where)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error
    system = next(filter(None, (variant(word).system for word in words)), MAKE)
    fitting = {
        int(row["major"]): row["drv"]
        for row in rows
        if int(row["major"]) <= major and row.get("system", MAKE) == system
    }
    if not fitting:
        raise UserError(f"build '{name}': PostgreSQL {major} is older than what can be built here")
    return fitting[max(fitting)]


def derive(drv: str, change: Change) -> Derived:
    """Apply the change and put the derivation and its source into the store. Raises UserError with Nix's reason."""
    with TemporaryDirectory(dir=nix.cache_folder()) as folder:
        request, link = Path(folder) / "request.json", Path(folder) / "derivation"
        request.write_text(json.dumps(arguments(read_derivation(Path(drv)), change)))
        command = ["nix-instantiate", str(EXPRESSION), "--argstr", "request", str(request), "--add-root", str(link)]
        if nix.over_hostpkgs():
            command += ["--option", "substituters", ""]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except FileNotFoundError as error:
            raise nix.no_nix() from error
        if done.returncode != 0:
            raise UserError(f"Nix cannot take the source of {change.name or drv}: {last_words(done.stderr)}")
        path = str(link.readlink())
    return known(path)


def known(drv: str) -> Derived:
    """A derivation of the store as it is. Raises UserError."""
    derivation = read_derivation(Path(drv))
    env, outputs = derivation.env, derivation.outputs
    return Derived(drv, outputs["out"], outputs.get("dev", ""), env.get("src", ""), env.get(ENFORCED) == "0")


def laid_out(server: Derived, title: str, words: Sequence[str]) -> Derived:
    """The server linked once more if one of its variants says so; `title` names the derivation."""
    numbers = [word.removeprefix("layout") for word in words if LAYOUT.fullmatch(word)]
    if not numbers:
        return server
    if any(variant(word).system for word in words):
        raise UserError(f"{title}: a layout is linked of what make has compiled; leave out :layoutN, or :meson")
    env = {"server": server.out, "headers": server.dev, "layout": " ".join(numbers)}
    change = Change(
        name=f"postgresql-{title}", env=env, inputs=((server.drv, "out"), (server.drv, "dev")), native=server.native
    )
    return derive(_variants().layout, change)


def _jit() -> _Tools:
    if (tools := _variants().jit) is None:
        raise UserError("variant 'jit': these packages have no LLVM 18: leave it out, or take pgbed's own nixpkgs")
    return tools


def _variants() -> _Variants:
    listed = os.environ.get("PGBED_VARIANTS")
    if not listed:
        raise nix.no_catalogue()
    where = f"the tools of variants in {listed}"
    try:
        return converted(parsed(Path(listed).read_bytes(), where), _Variants, where)
    except OSError as error:
        raise UserError(f"{where} cannot be read: {error.strerror}") from error


def arguments(base: Derivation, change: Change) -> dict[str, Any]:
    """The arguments of derivation.nix for a changed derivation."""
    env: dict[str, Any] = {name: _forced(name, value) for name, value in base.env.items() if name not in base.outputs}
    if change.name:
        env["name"] = change.name
    for name, added in (("CFLAGS", change.cflags), ("configureFlags", change.configure_flags)):
        if added:
            env[name] = " ".join((env.get(name, ""), *added)).strip()
    for name, value in change.env.items():
        env[name] = f"{env.get(name, '')} {value}".strip()
    record = json.loads(env.get("buildRecord", '{"patches": []}'))
    if change.cflags or change.configure_flags:
        record["flags"] = f"CFLAGS='{env['CFLAGS']}' {env['configureFlags']}"
    record["patches"] += [_name(patch) for patch in change.patches]
    if change.record or change.cflags or change.configure_flags or change.patches:
        env["buildRecord"] = json.dumps(record | change.record)
        env["quiet"] = ""
    if change.native or any(NATIVE.fullmatch(flag) for flag in change.cflags):
        env |= {ENFORCED: "0", "preferLocalBuild": True, "allowSubstitutes": False}
    if change.ccache:
        env["ccacheFolder"] = str(change.ccache)
    return {
        "env": env,
        "args": base.args,
        "context": {
            **{path: {"outputs": outputs} for path, outputs in base.inputs.items()},
            **{path: {"path": True} for path in base.sources},
            **{drv: {"outputs": [out for other, out in change.inputs if other == drv]} for drv, _ in change.inputs},
        },
        "folder": None
        if change.folder is None
        else {"path": str(change.folder.path), "files": _with_parents(change.folder.files)},
        "tarball": change.tarball,
        "patches": [{"path": str(patch), "name": _name(patch)} for patch in change.patches],
    }


def _forced(name: str, value: str) -> str | bool | list[str]:
    """Convert what Nix writes and reads differently: the list of outputs, and switches, written as "1" or ""."""
    if name == "outputs":
        return value.split()
    return bool(value) if name.startswith("__") and value in ("", "1") else value


def _name(patch: Path) -> str:
    return re.sub(r"[^A-Za-z0-9+._?=-]", "-", patch.name).lstrip(".")[:80] or "patch"


def _with_parents(files: tuple[str, ...] | None) -> dict[str, bool] | None:
    if files is None:
        return None
    paths = dict.fromkeys(files, True)
    for file in files:
        at = file.rfind("/")
        while at > 0 and file[:at] not in paths:
            paths[file[:at]] = True
            at = file.rfind("/", 0, at)
    return paths
