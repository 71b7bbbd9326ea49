"""The settings outside the command line: environment variables, and the keys of config.toml.

`bench --help-all` prints both tables. A key reaches the rest of the program, and the processes that it starts, as the
variable PGBED_ and its name in capitals. All other variables of that form are internal: the Nix wrapper sets them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

import msgspec

from engine.core.errors import UserError, unknown
from engine.core.record import parsed_toml
from engine.core.text import visible
from engine.system.files import read_text
from workloads.api.names import UnknownName
from workloads.api.options import about, checked, given

ENVIRONMENT = (
    ("PGBED_OUT", "Folder that holds the runs, instead of --out."),
    ("PGBED_USER", "User that runs servers and clients if bench is started as root."),
    ("PGBED_SOCKETS", "Folder in which each server has its private socket folder; a short path."),
    ("PGBED_PROBE_HELPER", "Program that attaches probes with privilege; the NixOS module sets it."),
    ("PGBED_FEATURES", "Features of your own: Python modules with a FEATURE, separated by commas."),
    ("PGBED_PACKAGE_SET", "Packages that ./bench builds from: nixpkgs, or hostpkgs for this machine's own tools."),
    ("BENCH_TARBALLS", "Folder of PostgreSQL's source tarballs, for machines without network access."),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of config.toml."""

    theme: Annotated[str | None, about("Theme of the terminal interface.", metavar="NAME")] = None
    glyphs: Annotated[
        str | None, about("Characters of charts, as --glyphs: braille, block or ascii.", metavar="NAME")
    ] = None
    workloads: Annotated[
        tuple[str, ...], about("Workloads of your own: Python modules with a WORKLOAD.", metavar="NAME=MODULE")
    ] = ()
    ccache: Annotated[
        str | None, about("Folder that keeps compiled files for the next build of a tree; empty: none.", metavar="DIR")
    ] = None
    releases: Annotated[str | None, about("Mirror of postgresql.org's pub/source.", metavar="URL")] = None
    pgbench: Annotated[str | None, about("The pgbench that loads all servers.", metavar="FILE")] = None
    pg_dump: Annotated[str | None, about("The pg_dump that dumps all servers.", metavar="FILE")] = None
    pg_restore: Annotated[str | None, about("The pg_restore that fills all servers.", metavar="FILE")] = None
    psql: Annotated[str | None, about("The psql that fills all servers, from 18.", metavar="FILE")] = None
    hyperfine: Annotated[str | None, about("The hyperfine that times commands.", metavar="FILE")] = None
    perf: Annotated[str | None, about("The perf that counts events.", metavar="FILE")] = None
    ssh: Annotated[str | None, about("The ssh that reaches --client-host.", metavar="FILE")] = None


def settings_path() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pgbed" / "config.toml"


def apply() -> None:
    """Pass the file's keys to this process and its children. Raises UserError for an invalid file."""
    path = settings_path()
    try:
        status = path.stat()
    except OSError:
        return
    shown = visible(str(path))
    text = read_text(path, "settings")  # first, as it refuses anything but a regular file
    if status.st_mode & stat.S_IWOTH:  # it names programs to run
        raise UserError(f"{shown}: anybody can change it, so it is not read: chmod o-w")
    if status.st_uid not in (0, os.geteuid()):
        raise UserError(f"{shown} belongs to another user, so it is not read: set HOME or XDG_CONFIG_HOME")
    entries = parsed_toml(text, shown)
    try:
        settings = given(checked(Settings, entries))
    except UnknownName as error:
        raise UserError(f"{shown}: {unknown('setting', error.name, error.choices)}") from None
    except ValueError as error:
        raise UserError(f"{shown}: {visible(str(error))}") from None
    for name, value in settings.items():
        text = ",".join(value) if isinstance(value, list) else os.path.expanduser(value)  # noqa: PTH111
        if "\0" in text:
            raise UserError(f"{shown}: {name} must not contain a null byte")
        os.environ[f"PGBED_{name.upper()}"] = text
