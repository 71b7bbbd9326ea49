"""Named settings overlays: the catalog, a user's files, scaling to this machine, fitting to a server version.

A config is resolved once per run (`resolve`) and applied once per build (`apply`); what came out is kept in
the manifest, so that a resumed run or a fuller disk never changes the settings between two cells.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from engine.core.errors import UserError, unknown
from engine.core.model import Build, Config
from engine.core.record import parsed_toml
from engine.core.text import user_path
from engine.features import knobs
from engine.host.environment import Machine
from engine.postgres import setting_kinds
from engine.system import subprocesses
from engine.system.account import unprivileged
from engine.system.files import is_name, read_text
from workloads.api.lists import comma_list

DEFAULT = "auto"
SCALED = "auto"  # stands for a value scaled to the machine
GIB = 1 << 30

_KEYS = {"description", "extends", "settings", "from", "until", "device"}
_SUFFIXES = (".conf", ".toml")

_NAME = r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)?"
_CONF_LINE = re.compile(rf"\s*({_NAME})(?:\s*=\s*|\s+)('(?:[^'\\]|\\.|'')*'|[^\s'#]+)\s*(?:#.*)?$")
_UNRECOGNIZED = re.compile(r'unrecognized configuration parameter "([^"]+)"')
_COMPLAINT = re.compile(r"(?:LOG|HINT|FATAL): +(?! |skipping missing|configuration file )(.+)")
_ESCAPE = re.compile(r"\\(.)|''")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


ALL = (0, 999)  # the first and the last major version


class Setting(NamedTuple):
    """A setting, and the first and the last major version that it is for."""

    name: str
    value: str
    first: int = ALL[0]
    last: int = ALL[1]


@dataclass(frozen=True, slots=True)
class ConfigSpec:
    """A config before it is applied to a version."""

    name: str
    description: str
    origin: str
    settings: tuple[Setting, ...]
    device: tuple[tuple[str, str], ...] = ()

    @property
    def values(self) -> dict[str, str]:
        return {setting.name: setting.value for setting in self.settings}

    def of(self, major: int) -> dict[str, str]:
        """Its settings for a major version."""
        return {setting.name: setting.value for setting in self.settings if setting.first <= major <= setting.last}


def catalog() -> tuple[ConfigSpec, ...]:
    """The built-in configs in the order of configs.toml; those that set a block device come last."""
    return tuple(_built_in().values())


def resolve(specs: Sequence[str]) -> tuple[ConfigSpec, ...]:
    """The configs or config files that the user names; a built-in name takes precedence over a file.

    Anything with a slash or ending in .conf or .toml is a file. Raises UserError for an unknown name, an unreadable
    file, an invalid line (file:line), or two configs of one name.
    """
    configs = tuple(map(_resolve_one, specs))
    for spec in configs:
        check_device(spec.device, f"{spec.origin}: config '{spec.name}'")
    names = [spec.name for spec in configs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"config '{name}' is given twice; rename one of the files or leave one out")
    return configs


def each_value(specs: Sequence[ConfigSpec], text: str | None) -> tuple[ConfigSpec, ...]:
    """Each config with each value of the setting in `NAME=V1,V2,…`. Raises UserError for an invalid text."""
    if text is None:
        return tuple(specs)
    name, _, values = text.partition("=")
    listed = comma_list(values)
    if len(listed) < 2:
        raise UserError(f"--set-each {text}: must be NAME=VALUE,VALUE,…, such as shared_buffers=1GB,4GB")
    for value in listed:
        if listed.count(value) > 1:
            raise UserError(f"--set-each {text}: {value} is given twice")
    variants = []
    for spec in specs:
        before = f"{spec.name} " if len(specs) > 1 else ""
        for value in listed:
            ((name, value),) = overrides([f"{name}={value}"], "--set-each")
            added = (*(setting for setting in spec.settings if setting.name != name), Setting(name, value))
            variants.append(
                replace(spec, name=f"{before}{name}={value}", settings=added, origin=f"{spec.origin}, {name}={value}")
            )
    return tuple(variants)


def overrides(texts: Iterable[str], option: str = "--set") -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().lower()
        if not equals or not re.fullmatch(_NAME, name):
            raise UserError(f"{option} {text}: must be NAME=VALUE, such as work_mem=64MB")
        if why := setting_kinds.refusal(name, value):
            raise UserError(f"{option} {text}: settings {why} are not taken; leave it out")
        if not _is_text(value):
            raise UserError(f"{option} {text}: the value is not UTF-8 text")
        pairs.append((name, value.strip()))
    return tuple(pairs)


def apply(
    spec: ConfigSpec,
    build: Build,
    machine: Machine,
    changes: Sequence[tuple[str, str]] = (),
    typed: Sequence[tuple[str, str]] = (),
) -> Config:
    """The config for `build`: `auto` scaled to `machine`, with `changes` on top, some of them as `typed` by the user.

    `Config.dropped` names the settings left out: see `setting_kinds.why_dropped`. Raises UserError for a value that the
    server refuses.
    """
    values: dict[str, str] = {}
    dropped: list[str] = []
    scaled = scale(machine)
    for name, value, first, last in (*spec.settings, *(Setting(*change) for change in changes)):
        if setting_kinds.refusal(name, value) or not first <= build.major <= last:
            dropped.append(name)
            continue
        if value == SCALED:  # also a value of the server's own, of plan_cache_mode and others
            value = scaled.get(name, value)
        values.pop(name, None)  # the last of a repeated name wins, in its later place
        values[name] = value
    for name in setting_kinds.without_library(values):
        del values[name]
        dropped.append(name)
    where = f"config '{spec.name}' on {build.label}"
    for name in _unknown_to(build.bin / "postgres", tuple(values.items()), where, tuple(dict(typed).items())):
        del values[name]
        dropped.append(name)
    origin = spec.origin
    if changes:
        origin += f", with {', '.join(f'{name}={value}' for name, value in changes)}"
    return Config(spec.name, tuple(values.items()), origin, tuple(dict.fromkeys(dropped)), spec.device)


def scale(machine: Machine) -> dict[str, str]:
    """The values of `auto` for a machine: shared_buffers, max_wal_size and min_wal_size.

    shared_buffers: 62% of memory from 16 GiB up (the reference's small servers), 25% at 4 GiB and below (a laptop
    with a desktop on it), linear in between. max_wal_size: twice that (the reference has 1.7 to 4 times), from 4 to 40
    GB, and at most a quarter of the free disk: this cell's data and a kept one's need the rest. min_wal_size: half of
    it, as in the reference. All are rounded down to coarse steps, so that the config does not change with a few files.
    """
    memory_gib = round(machine.memory_bytes / GIB * 2) / 2
    share = min(0.62, max(0.25, 0.25 + (memory_gib - 4) / (16 - 4) * (0.62 - 0.25)))
    buffers_mib = int(max(memory_gib, 0.5) * share * 1024)
    step_mib = 1024 if buffers_mib >= 2048 else 128
    buffers_mib = max(128, buffers_mib // step_mib * step_mib)
    wanted_gib = min(40.0, max(4.0, 2 * buffers_mib / 1024), machine.free_disk_bytes / 4 / GIB)
    wal_gib = max((step for step in (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40) if step <= wanted_gib), default=1)
    return {"shared_buffers": f"{buffers_mib}MB", "max_wal_size": f"{wal_gib}GB", "min_wal_size": f"{wal_gib * 512}MB"}


@functools.cache
def _built_in() -> dict[str, ConfigSpec]:
    data = tomllib.loads(resources.files("engine.postgres").joinpath("configs.toml").read_text("utf-8"))
    specs: dict[str, ConfigSpec] = {}
    for name, record in data.items():
        origin = "scaled to this machine" if name == DEFAULT else "built in"
        specs[name] = _from_record(name, record, origin, "engine/configs.toml", specs)
    return specs


def is_file(spec: str, folder: Path) -> bool:
    """Whether a spec names a file, relative to a folder, rather than a built-in config."""
    named = "/" in spec or Path(spec).suffix in _SUFFIXES
    return spec not in _built_in() and (named or os.path.isfile(folder / spec))  # noqa: PTH113 (false, however long)


def check_device(device: Iterable[tuple[str, str]], where: str) -> None:
    """Raise UserError for a setting of the machine that is unknown or makes no sense."""
    known = knobs()
    for name, value in device:
        if name not in known:
            raise UserError(f"{where}: [device] has '{name}'; known: {', '.join(known)}")
        if not known[name].accepts(value):
            raise UserError(f"{where}: {name} must be {known[name].values}")


def _resolve_one(spec: str) -> ConfigSpec:
    built_in = _built_in()
    if spec in built_in:
        return built_in[spec]
    path = user_path(spec)
    if not is_file(spec, Path()):
        raise unknown("config", spec, built_in)
    text = read_text(path, "config file")
    if not is_name(path.stem):
        raise UserError(f"config file {spec}: a config cannot have this name; rename it")
    if path.stem in built_in:
        raise UserError(f"config file {path} would be called '{path.stem}' like a built-in config; rename it")
    origin = str(path.resolve())
    if path.suffix != ".toml":
        return ConfigSpec(path.stem, f"from {path}", origin, _parse_conf(text, path))
    record = parsed_toml(text, f"config file {path}")
    return _from_record(path.stem, record, origin, str(path), built_in)


def _from_record(
    name: str, record: Mapping[str, Any], origin: str, where: str, known: Mapping[str, ConfigSpec]
) -> ConfigSpec:
    for key in record.keys() - _KEYS:
        raise UserError(f"{where}: unknown key '{key}' in config '{name}'; settings belong under [settings]")
    base = record.get("extends")
    if base is not None and not (isinstance(base, str) and base in known):
        raise UserError(f"{where}: extends: {unknown('config', str(base), known)}")
    settings = list(known[base].settings) if base is not None else []
    device = known[base].device if base is not None else ()
    sections: list[tuple[dict[str, int], Any]] = [({}, record.get("settings", {}))]
    for key, bound in (("from", "first"), ("until", "last")):
        tables = record.get(key, {})
        if not isinstance(tables, dict):
            raise UserError(f"{where}: [{key}] of config '{name}' must hold tables such as [{key}.13]")
        for major, table in tables.items():
            if not re.fullmatch(r"[0-9]{1,3}", major):
                raise UserError(f"{where}: [{key}.{major}] of config '{name}' must name a major version such as 13")
            sections.append(({bound: int(major)}, table))
    for bounds, table in sections:
        for setting, value in _flat(table, where, name):
            settings.append(Setting(setting, _text(value, setting, where), **bounds))
    description = str(record.get("description", f"from {where}"))
    if "device" in record:
        device = tuple((key, _text(value, key, where)) for key, value in _flat(record["device"], where, name))
    return ConfigSpec(name, description, origin, tuple(settings), device)


def _flat(table: Any, where: str, config: str) -> list[tuple[str, Any]]:
    """Settings of a TOML table; `pg_stat_statements.track = …` is parsed as a table within the table."""
    if not isinstance(table, dict):
        raise UserError(f"{where}: the settings of config '{config}' must be a table of name = value")
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        nested = value.items() if isinstance(value, dict) else None
        pairs += [(f"{key}.{inner}", item) for inner, item in nested] if nested is not None else [(key, value)]
    for key, _ in pairs:
        if not re.fullmatch(_NAME, key):
            raise UserError(f"{where}: '{key}' is not a valid name of a setting")
    return [(key.lower(), value) for key, value in pairs]


def _text(value: Any, name: str, where: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)) and _is_text(str(value)):
        return str(value)
    raise UserError(f"{where}: the value of '{name}' must be text, a number, true or false")


def _is_text(value: str) -> bool:
    """Whether a file for the server can hold it: all bytes of the command line are text, without null characters."""
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)


def _parse_conf(text: str, path: Path) -> tuple[Setting, ...]:
    """Parse a postgresql.conf fragment by the server's own grammar, without includes."""
    settings: list[Setting] = []
    for number, line in enumerate(text.split("\n"), 1):  # a form feed, too, may stand in a comment
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _CONF_LINE.match(line)
        if match is None:
            raise UserError(f"config file {path}:{number}: not a line of the form NAME = VALUE")
        name = match[1].lower()
        value = _unquoted(match[2])
        if name.startswith("include") and (files := _included(name, path.parent / value)):
            raise UserError(
                f"config file {path}:{number}: {name} is not supported; put the settings of {files} into it"
            )
        settings.append(Setting(name, value))
    return tuple(settings)


def _included(name: str, place: Path) -> str:
    """The files that a line includes; empty for a folder without any, and for a file that need not be there."""
    if name == "include_dir":
        try:
            files = sorted(file.name for file in place.iterdir() if re.fullmatch(r"[^.].*\.conf", file.name))
        except FileNotFoundError:
            return ""
        except (OSError, ValueError):
            return str(place)
        return ", ".join(files)
    return "" if name == "include_if_exists" and not os.path.lexists(place) else str(place)


def _unquoted(value: str) -> str:
    if not value.startswith("'"):
        return value
    return _ESCAPE.sub(lambda m: "'" if m[1] is None else _ESCAPED.get(m[1], m[1]), value[1:-1])


def quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'"


@functools.cache
def known_to(postgres: Path) -> tuple[str, ...]:
    """Names of a server's settings, without developers' ones."""
    answer = subprocesses.ask((str(postgres), "--describe-config"), unprivileged())
    return tuple(line.partition("\t")[0] for line in answer.output.splitlines())


@functools.cache
def _unknown_to(
    postgres: Path, settings: tuple[tuple[str, str], ...], where: str, typed: tuple[tuple[str, str], ...]
) -> tuple[str, ...]:
    """The names that a server does not know, found by having it read the settings without starting.

    `postgres -C` reads the configuration as a start does and needs no cluster. (`--describe-config` omits developer
    settings and does not check values.) Raises UserError for a refused value.
    """
    account = unprivileged()
    with tempfile.TemporaryDirectory(prefix="pgbed-", dir="/tmp") as folder:
        conf = Path(folder, "postgresql.conf")
        conf.write_text("".join(f"{name} = {quoted(value)}\n" for name, value in settings), encoding="utf-8")
        account.chown(conf)  # before the folder, whose owner could replace it
        account.chown(Path(folder))
        answer = subprocesses.ask((str(postgres), "-D", folder, "-C", "port"), account)
    if answer.code == 0:
        return ()
    missing = tuple(match[1].lower() for match in _UNRECOGNIZED.finditer(answer.errors))
    if missing:  # the server checks values only if it knows all names
        left = tuple((name, value) for name, value in settings if name not in missing)
        return missing + _unknown_to(postgres, left, where, typed)
    complaint = " / ".join(_COMPLAINT.findall(answer.errors)) or answer.shown
    named = "".join(f"--set {name}={value}: " for name, value in typed if f'"{name}"' in complaint)
    raise UserError(f"{named}{where}: {complaint}")
