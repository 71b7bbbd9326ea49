"""Settings that a server takes from a config, by setting_kinds.toml; the others are left out with a line."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from workloads.api.lists import comma_list

PRELOADS = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")
_OWN_LIBRARY = re.compile(r"(\$libdir/)?[^/]*")
# Names of settings that this table does not know, such as a later version's, but that look as if they reached out.
_REACHING = re.compile(r"[^.]*(command|conninfo|librar|passphrase|director|_file$|_path$)[^.]*")
_UNKNOWN, _NOT_PRELOADED = "unknown to this version", "of extensions that are not preloaded"


@dataclass(frozen=True, slots=True)
class SettingKinds:
    reasons: Mapping[str, str]  # of the settings that are left out
    reaching: str
    taken: frozenset[str]
    preloaded: Mapping[str, str]


@functools.cache
def read_kinds() -> SettingKinds:
    """Read the table of settings, once in a process."""
    data = tomllib.loads(resources.files("engine.postgres").joinpath("setting_kinds.toml").read_text("utf-8"))
    kinds = data["left_out"]
    reasons = {name: kind["reason"] for kind in kinds.values() for name in kind["names"].split()}
    return SettingKinds(
        reasons, kinds["programs"]["reason"], frozenset(data["taken"]["names"].split()), data["preloaded"]
    )


def refusal(name: str, value: str) -> str:
    """The reason why a setting is not taken from a config, as words that follow `settings`; empty if it is."""
    table = read_kinds()
    if name in PRELOADS and not all(map(_OWN_LIBRARY.fullmatch, comma_list(value))):
        return table.reaching
    return table.reasons.get(name) or (table.reaching if name not in table.taken and _REACHING.fullmatch(name) else "")


def without_library(values: Mapping[str, str]) -> tuple[str, ...]:
    """The settings that would have no effect, because the library that has them is not preloaded."""
    loaded = {Path(library).stem for name in PRELOADS for library in comma_list(values.get(name, ""))}
    return tuple(name for name in values if (library := library_of(name)) and library not in loaded)


def library_of(name: str) -> str:
    """The library that must be preloaded for a setting; empty if none must."""
    return read_kinds().preloaded.get(name.partition(".")[0], "") if "." in name else ""


def is_unknown(name: str) -> bool:
    """Whether a setting was dropped because the server does not know it."""
    return why_dropped(name) == _UNKNOWN


def why_dropped(name: str) -> str:
    """The reason why a config that was applied to a server lacks a setting, as words that follow `settings`."""
    if why := read_kinds().reaching if name in PRELOADS else refusal(name, ""):
        return why
    return _NOT_PRELOADED if "." in name else _UNKNOWN
