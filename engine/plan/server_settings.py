"""The settings of each build under each config: what a server does not know, refuses, or cannot start with.

Everything is found before any load: names and values by asking the server's program, the rest by starting it.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import Build, Config, config_key
from engine.host import io_uring
from engine.host.environment import Machine
from engine.plan.interleaving import Change
from engine.plan.request import Request
from engine.postgres import configs, setting_kinds
from engine.postgres.cluster import last_words
from engine.postgres.configs import ConfigSpec
from engine.postgres.server import Server
from engine.system.account import unprivileged
from engine.system.server_folders import ServerError

Values = Mapping[str, str]  # by the name of a setting
Key = tuple[str, str]  # of a config and a build


def applied(
    request: Request,
    changes: Mapping[ConfigSpec, Sequence[Change]],
    builds: Sequence[Build],
    machine: Machine,
    progress: Callable[[str], None],
) -> dict[str, Config]:
    """Fit each config to each build, by `config_key`. Raises UserError for settings that cannot run or be compared."""
    typed = configs.overrides(request.overrides)
    configs_of = {
        (spec.name, build.label): configs.apply(spec, build, machine, values, typed)
        for spec, values in changes.items()
        for build in builds
    }
    _check_overrides(request, configs_of, builds)
    for spec in changes:
        _check_names(spec, [configs_of[spec.name, build.label] for build in builds], builds)
    here = HOST in request.kernels
    for (name, label), config in configs_of.items():
        if here and dict(config.settings).get("io_method") == "io_uring" and (why := io_uring.refusal(unprivileged())):
            raise UserError(f"config '{name}' on {label}: io_method=io_uring: {why}")
    if len(changes) > 1 or any(spec.origin.startswith("/") for spec in changes):
        names = [spec.name for spec in changes]
        values: dict[Key, Values] = {key: dict(config.settings) for key, config in configs_of.items()}
        twins = _twins(names, builds, values, configs_of)
        for build in builds if here else ():
            progress(f"trying whether {build.label} starts under {', '.join(names)}")
            values |= {(name, build.label): _started(build, configs_of[name, build.label]) for name in names}
        for line in dict.fromkeys((*twins, *_twins(names, builds, values, configs_of))):
            progress(line)
    return {config_key(name, label): config for (name, label), config in configs_of.items()}


def _check_overrides(request: Request, configs_of: Mapping[Key, Config], builds: Sequence[Build]) -> None:
    """Raise UserError for a setting that the user gave by hand and that a build would be without."""
    chosen = [(f"--set {name}={value}", name) for name, value in configs.overrides(request.overrides)]
    if request.set_each:
        chosen.append((f"--set-each {request.set_each}", request.set_each.partition("=")[0].strip().lower()))
    for text, name in chosen:
        lacking = [label for (_, label), config in configs_of.items() if name not in dict(config.settings)]
        if not lacking:
            continue
        if library := setting_kinds.library_of(name):
            raise UserError(f"{text}: its library is not preloaded; add --set shared_preload_libraries={library}")
        labels = ", ".join(dict.fromkeys(lacking))
        if len(set(lacking)) < len(builds):
            raise UserError(f"{text}: unknown to {labels}; put it under [from.N] or [until.N] of a .toml file")
        raise UserError(f"{text}: unknown to {labels}{_nearest(name, builds)}; check the setting's name")


def _check_names(spec: ConfigSpec, configs_of: Sequence[Config], builds: Sequence[Build]) -> None:
    """Raise UserError for a setting that no build knows, if it looks like a mistyped one."""
    bounded = {setting.name for setting in spec.settings if (setting.first, setting.last) != configs.ALL}
    for name in configs_of[0].dropped:
        nowhere = all(name in config.dropped for config in configs_of)
        if nowhere and name not in bounded and setting_kinds.is_unknown(name) and (near := _nearest(name, builds)):
            raise UserError(
                f"config '{spec.name}': unknown setting '{name}'{near}; if other versions have it, put it under "
                "[from.N] or [until.N] of a .toml file"
            )


def _nearest(name: str, builds: Sequence[Build]) -> str:
    """`: did you mean …?`, or nothing if no build has a setting of a similar name."""
    known = sorted({name for build in builds for name in configs.known_to(build.bin / "postgres")})
    near = get_close_matches(name, known, n=2, cutoff=0.75)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _twins(
    names: Sequence[str], builds: Sequence[Build], values: Mapping[Key, Values], configs_of: Mapping[Key, Config]
) -> list[str]:
    """A line for each build that is the same server under two configs. Raises UserError if all builds are."""
    lines = []
    for one, other in itertools.combinations(names, 2):
        alike = []
        for label in (build.label for build in builds):
            ours, theirs = configs_of[one, label], configs_of[other, label]
            if values[one, label] == values[other, label] and ours.device == theirs.device:
                left_out = ", ".join(dict.fromkeys((*ours.dropped, *theirs.dropped)))
                without = f" (without {left_out})" if left_out else ""
                alike.append(f"configs '{one}' and '{other}' are the same on {label}{without}")
        if len(alike) == len(builds):
            raise UserError(f"{alike[0]}: leave one out (--aa compares a server with itself)")
        lines += [f"{line}: how its two servers differ is chance" for line in alike]
    return lines


def _started(build: Build, config: Config) -> Values:
    """Start a server over an empty cluster and return its settings. Raises UserError with its words if it does not."""
    with tempfile.TemporaryDirectory(prefix="pgbed-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # the server's account goes through it
        server = Server(build, replace(config, device=()), Path(folder))  # which is set for cells only
        try:
            with server, server.connect("postgres") as connection:
                rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)",
                                          ([name for name, _ in config.settings],)).fetchall()  # fmt: skip
                return dict(rows)
        except ServerError:
            if not server.log_path.exists():  # the machine is at fault, not the config
                raise
            words = last_words(server.log_path)
        raise UserError(f"config '{config.name}' on {build.label}: the server does not start: {words}")
