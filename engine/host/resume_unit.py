"""A unit of systemd that goes on with a run at every boot, for as long as the run needs boots."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from contextlib import suppress
from importlib import resources
from pathlib import Path

from engine.core.errors import UserError
from engine.core.record import parsed_toml
from engine.core.text import visible
from engine.host.kexec import systemctl

ROOT = Path("/")
UNIT = "etc/systemd/system/pgbed-resume.service"
SCRIPT = "var/lib/pgbed/resume"
RUN = "var/lib/pgbed/resume.run"  # the folder of the run
PASSED_ON = ("PATH", "PYTHONPATH", "HOME", "LANG", "TZ")


def _text() -> str:
    """The unit as systemd reads it; on NixOS the module has the same (nix/module.nix)."""
    sections = parsed_toml(resources.files(__package__).joinpath("resume_unit.toml").read_text(), "resume_unit.toml")
    lines = (
        line
        for name, values in sections.items()
        for line in ("", f"[{name}]", *(f"{key}={value}" for key, value in values.items()))
    )
    return "\n".join(lines).lstrip() + "\n"


TEXT = _text()


def check_place(run: Path) -> None:
    """Raises UserError where anybody else could change what every boot goes on with, by root, unasked."""
    place, trusted = run.resolve(), (0, os.geteuid())
    for folder in (place, *place.parents):
        found = folder.stat()
        sticky = folder != place and found.st_mode & stat.S_ISVTX
        if found.st_uid not in trusted or (found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            raise UserError(f"{folder}: another user can change what is in it, and root goes on with it at every boot")


def check_free(run: Path, root: Path = ROOT) -> None:
    """Raises UserError where another run goes on with the next boot; one that is not there any more does not."""
    going = run_of(root)
    if going is not None and going != run.resolve() and (going / "manifest.json").exists():
        name = visible(str(going))
        raise UserError(f"the run {name} goes on with the next boot, and only one can: end it first, bench stop {name}")


def install(run: Path, words: list[str], log: Path, root: Path = ROOT) -> None:
    """From now on every boot runs a command of pgbed's Python, whose output goes to `log`.

    Raises UserError, also where another run goes on with the next boot. What was begun then, `remove` takes away.
    """
    check_free(run, root)
    names = [name for name in os.environ if name in PASSED_ON or (name.startswith("PGBED_") and name.isidentifier())]
    exports = "".join(f"export {name}={shlex.quote(os.environ[name])}\n" for name in names)
    command = shlex.join([sys.executable, *words])
    script, unit = root / SCRIPT, root / UNIT
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.unlink(missing_ok=True)
        (root / RUN).write_text(f"{run.resolve()}\n")
        with os.fdopen(os.open(script, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "w") as file:
            file.write(f"#!/bin/sh\n{exports}cd /\nexec {command} >> {shlex.quote(str(log))} 2>&1\n")
        if not unit.exists():
            unit.write_text(TEXT)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}: the run could not go on after a boot") from None
    if root == ROOT and not unit.is_symlink():
        systemctl("daemon-reload")
        systemctl("enable", unit.name)


def remove(run: Path, root: Path = ROOT) -> None:
    """Later boots do not go on with this run. That of another run stays."""
    if run_of(root) != run.resolve():
        return
    unit = root / UNIT
    # The script first: without it the unit does nothing. The run's name last: who finds it knows there is more.
    (root / SCRIPT).unlink(missing_ok=True)
    if unit.is_file() and not unit.is_symlink() and unit.read_text() == TEXT:
        if root == ROOT:
            with suppress(UserError):  # where systemd is away nothing is enabled
                systemctl("disable", unit.name)
        unit.unlink()
    (root / RUN).unlink(missing_ok=True)


def run_of(root: Path = ROOT) -> Path | None:
    """The run that the next boot goes on with."""
    try:
        return Path((root / RUN).read_text().strip())
    except OSError:
        return None
