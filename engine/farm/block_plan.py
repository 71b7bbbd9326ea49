"""The blocks of a plan file: a plan for each, and the servers and programs that it needs.

A builder has nothing of the machine that asks. Servers, also of source trees, revisions and patches, are built or
fetched there, and Nix copies them to the builders. Plans that name other files, folders or servers of that machine are
refused, and so is whatever needs root, another kernel or another host. Probes are left out: a sandbox has none
(`engine.farm.block_build`).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from engine.builds import client_programs, nix, resolve
from engine.builds.catalog import PREBUILT, CatalogEntry, catalog
from engine.builds.compile_variants import NATIVE
from engine.builds.derivation import Change
from engine.builds.label import is_external, name_of, parsed, shown
from engine.builds.source_tree import is_install
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.plan import planfile
from engine.plan.request import Request
from engine.plan.workload_plans import load_of
from engine.postgres import configs
from workloads import workload
from workloads.api.names import UnknownName
from workloads.api.options import options_of

NOT_IN_A_BUILD = {
    "client_host": "clients on another host",
    "ssh_options": "clients on another host",
    "sched": "the kernel's tunables, which need root",
    "until_known": "an end once every step is decided: each block has the same size",
    "minutes": "time for the whole run: each block has the same size; give repeats",
    "keep": "clusters that are kept",
    "scratch_database": "external servers",
}


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """The part that all blocks of a plan share: store paths, and the text of a plan that names no other paths."""

    text: str
    servers: dict[str, str]
    programs: dict[str, str]
    builds: dict[str, dict[str, Any]]  # records of those servers that are not in pgbed's table
    notices: tuple[str, ...] = ()

    def record(self, bench: str) -> dict[str, Any]:
        return {
            "system": f"{platform.machine()}-linux",
            "bench": bench,
            "servers": self.servers,
            "builds": self.builds,
            "programs": {
                name: dict(zip(("folder", "file"), _split(path), strict=True)) for name, path in self.programs.items()
            },
            "plan": self.text,
        }


def block_plan(path: Path, roots: Path, progress: Callable[[str], None]) -> BlockPlan:
    """The plan for one block of a file; `roots` keeps its servers, built or fetched here. Raises UserError."""
    request = planfile.request(planfile.read(path).entries())
    try:
        check(request)
    except UserError as error:
        raise UserError(f"plan {path}: {error}") from None
    builds = resolve.resolve(request.builds, progress, roots)
    labels = {entry.label for entry in catalog() if entry.own is None}
    servers = {build.label: _stored(build.label, build.prefix) for build in builds}
    base = request.base
    if base is not None and base not in servers:
        base = next((label for label in servers if label.replace(PREBUILT, "", 1) == base), base)
    probed = any(probe != "none" for probe in request.probes)
    stored = msgspec.structs.replace(request, builds=tuple(build.label for build in builds), base=base)
    wanted = _programs(request)
    records = client_programs.find(wanted, builds, progress, roots) if wanted else {}
    return BlockPlan(
        tomli_w.dumps(stored.entries()),
        servers,
        {client_programs.variable(name): _stored(name, record["path"]) for name, record in records.items()},
        {
            build.label: asdict(build) | {"prefix": servers[build.label]}
            for build in builds
            if build.label not in labels
        },
        ("probes are left out: a build's sandbox has none",) if probed else (),
    )


def check(request: Request) -> None:
    """Raise UserError for features that only the local machine has, or that no builder can provide."""
    if not request.builds:
        raise UserError("name the plan's builds: builders do not choose any themselves")
    for build in request.builds:
        _check_build(build)
    for name, words in NOT_IN_A_BUILD.items():
        if name in request.entries():
            raise UserError(f"{name}: builders have no {words}")
    if request.kernels != (HOST,):
        raise UserError("kernels: a builder measures under its own kernel; leave them out")
    known = {config.name: config for config in configs.catalog()}
    for config in request.configs:
        if config not in known and config != "auto":
            raise _only_here(f"config {config}")
        if config in known and known[config].device:
            raise UserError(f"config {config} changes a device, which a builder may not: it is not root")
    for name, value in _files(request):
        raise _only_here(f"{name} {value}")


def _check_build(build: str) -> None:
    if is_external(build):
        raise _only_here(f"build {shown(build)}")
    label = parsed(build)
    if label.kind == "path" and is_install(label.path) and _store_path(label.path) is None:
        raise UserError(
            f"build {name_of(build)} is an install of this machine, which Nix cannot copy to builders: "
            "name the source tree that it was made of, or a label (bench list builds)"
        )
    (label,) = resolve.check([build])
    entry = label.origin if isinstance(label.origin, CatalogEntry) else None
    derived_from = entry.recipe()[1] if entry and entry.own and entry.own.base else Change()
    flags = derived_from.varied(label.variants).cflags
    if native := [flag for flag in flags if NATIVE.fullmatch(flag)]:
        raise UserError(
            f"build {name_of(build)}: {native[0]} compiles for this machine, not for the builders: "
            "name a processor that all of them have, as in :CFLAGS=-march=x86-64-v3"
        )


def _only_here(what: str) -> UserError:
    return UserError(
        f"{what} is of this machine, not on the builders: a farm measures builds and configs of pgbed's tables by "
        "their labels (bench list builds, bench list configs), and what is built of a source tree, revision or patch"
    )


def _files(request: Request) -> Iterable[tuple[str, str]]:
    if request.options.get("preset"):
        return
    for option in options_of(workload(request.workload).options):
        if "FILE" in (option.metavar or "") and (value := request.options.get(option.name)):
            yield option.name, value[0] if isinstance(value, tuple | list) else str(value)


def _programs(request: Request) -> tuple[str, ...]:
    try:
        return load_of(request, request.options).plan.programs
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None


def _stored(label: str, path: str) -> str:
    if (resolved := _store_path(Path(path))) is None:
        raise UserError(f"{label} is {path}, which is not in the Nix store: start bench from its flake, or by ./bench")
    return str(resolved)


def _store_path(path: Path) -> Path | None:
    resolved = path.resolve()
    return resolved if nix.store_hash(Path(*resolved.parts[:4])) is not None else None


def _split(path: str) -> tuple[str, str]:
    """The store path that holds a file, and the file's path within."""
    parts = Path(path).parts
    return str(Path(*parts[:4])), "/".join(parts[4:])
