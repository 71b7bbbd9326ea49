"""Features that a step needs and a build may lack: a locale provider, by its version or by how it was compiled."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.builds import extensions
from engine.core.errors import UserError
from engine.core.missing_steps import reasons
from engine.core.model import Build
from engine.system.account import unprivileged
from engine.system.files import open_plain
from engine.system.subprocesses import ask
from workloads.api.base import Step

ICU_SINCE, BUILTIN_SINCE = 15, 17
ICU_SYMBOL = b"ucol_open"  # imported by every server compiled with ICU


def _icu(build: Build) -> str:
    if build.major < ICU_SINCE:
        return f"clusters have ICU as their locale provider since PostgreSQL {ICU_SINCE}"
    return "" if _has_icu(build) else "it was compiled without ICU"


def _has_icu(build: Build) -> bool:
    program = (build.bin / "postgres").resolve()
    try:
        with (
            open(open_plain(program), "rb") as file,  # noqa: PTH123 (it is a descriptor)
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return data.find(ICU_SYMBOL) >= 0
    except (OSError, ValueError) as error:
        raise UserError(f"{program} cannot be read: {getattr(error, 'strerror', error)}") from None


def _builtin(build: Build) -> str:
    return "" if build.major >= BUILTIN_SINCE else f"the builtin locale provider came with PostgreSQL {BUILTIN_SINCE}"


FEATURES: dict[str, Callable[[Build], str]] = {"icu": _icu, "builtin": _builtin}  # why a build lacks it; empty: it has


def lacking(steps: Sequence[Step], builds: Sequence[Build], absent: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Steps left out by build, with reasons. Raises UserError if a step requested by name is possible nowhere."""
    left_out: dict[str, dict[str, str]] = {}
    for step in steps:
        why = {build.label: reason for build in builds if (reason := _reason(step, build, absent))}
        if step.named and len(why) == len(builds):
            raise UserError(f"step {step.name}: {'; '.join(reasons(why))}")
        for label, reason in why.items():
            left_out.setdefault(label, {})[step.name] = reason
    return left_out


def check_demands(demands: Sequence[str], builds: Sequence[Build]) -> None:
    """Raise UserError if a build lacks what a workload's data needs: see `workloads.api.base.Surveying`."""
    for demand in demands:
        what, _, name = demand.partition(" ")
        if what == "version" and (older := [build.label for build in builds if build.major < int(name)]):
            raise UserError(
                f"the data was dumped from PostgreSQL {name}, newer than {', '.join(older)}: an older server cannot "
                "take it; dump from the oldest version that you compare"
            )
    named = [name for what, _, name in (demand.partition(" ") for demand in demands) if what == "extension"]
    _check_collations(demands, builds)
    for build in builds:
        if lacks := [name for name in named if not extensions.has(Path(build.prefix), name)]:
            raise UserError(
                f"the data needs the extension{'s' if len(lacks) > 1 else ''} {', '.join(lacks)}, which {build.label} "
                "comes without: name builds that have them, or dump without them"
            )


def _check_collations(demands: Sequence[str], builds: Sequence[Build]) -> None:
    """Raise UserError for a collation of ICU that a build lacks, or of the C library that this machine lacks.

    initdb makes collations of the locales that `locale -a` lists, by these names and without their encodings.
    """
    for demand in demands:
        what, _, rest = demand.partition(" ")
        where, _, name = rest.rpartition(": ")
        if what == "icu" or (what == "collation" and name.endswith("-x-icu")):
            for build in builds:
                if not _has_icu(build):
                    raise UserError(
                        f'{where}: the collation "{name}" is of ICU, without which {build.label} was compiled: name '
                        "builds that have it, or dump without the collation"
                    )
        elif (what == "collation" and name not in _locales()) or (what == "locale" and not _is_locale(name)):
            raise UserError(
                f'{where}: the collation "{name}" is a locale that this machine does not have, so that no server here '
                "has it: install it (see locale -a; on Debian apt-get install locales-all), or dump without it"
            )


def _locales() -> frozenset[str]:
    """The names of collations that initdb makes of this machine's locales."""
    program = shutil.which("locale", path=os.environ.get("PGBED_SERVER_PATH", os.defpath))
    names = ask([program, "-a"], unprivileged()).output.split() if program else []
    return frozenset({*names, *(name.partition(".")[0] for name in names)})


def _is_locale(name: str) -> bool:
    """The C library takes its encoding in any case, and with hyphens or without."""
    return _normal(name) in set(map(_normal, _locales()))


def _normal(name: str) -> str:
    language, dot, encoding = name.partition(".")
    return language + dot + encoding.lower().replace("-", "")


def _reason(step: Step, build: Build, absent: Mapping[str, str]) -> str:
    for need in step.needs:
        if need in absent:
            return absent[need]
        if need in FEATURES and (reason := FEATURES[need](build)):
            return reason
    return ""
