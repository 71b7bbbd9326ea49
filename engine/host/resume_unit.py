"""A unit of systemd that goes on with a run at every boot, for as long as the run needs boots."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

from engine.core.errors import UserError

ROOT = Path("/")
UNIT = "etc/systemd/system/pgbed-resume.service"
SCRIPT = "var/lib/pgbed/resume"
RUN = "var/lib/pgbed/resume.run"  # the folder of the run
PASSED_ON = ("PATH", "PYTHONPATH", "HOME", "LANG", "TZ")
# On NixOS the module has the same (nix/module.nix). It waits, so that what else starts with the machine is done.
TEXT = f"""[Unit]
Description=Go on with a run of pgbed that compares kernels
ConditionPathExists=/{SCRIPT}
After=multi-user.target

[Service]
Type=exec
ExecStartPre=/bin/sh -c "sleep 30"
ExecStart=/bin/sh /{SCRIPT}

[Install]
WantedBy=multi-user.target
"""


def check_place(run: Path) -> None:
    """Raises UserError where anybody else could change what every boot goes on with, by root, unasked."""
    place, trusted = run.resolve(), (0, os.geteuid())
    for folder in (place, *place.parents):
        found = folder.stat()
        sticky = folder != place and found.st_mode & stat.S_ISVTX
        if found.st_uid not in trusted or (found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            raise UserError(f"{folder}: another user can change what is in it, and root goes on with it at every boot")


def install(run: Path, words: list[str], log: Path, root: Path = ROOT) -> None:
    """From now on every boot runs a command of pgbed's Python, whose output goes to `log`. Raises UserError."""
    names = [name for name in os.environ if name in PASSED_ON or (name.startswith("PGBED_") and name.isidentifier())]
    exports = "".join(f"export {name}={shlex.quote(os.environ[name])}\n" for name in names)
    command = shlex.join([sys.executable, *words])
    script, unit = root / SCRIPT, root / UNIT
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.unlink(missing_ok=True)
        with os.fdopen(os.open(script, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "w") as file:
            file.write(f"#!/bin/sh\n{exports}cd /\nexec {command} >> {shlex.quote(str(log))} 2>&1\n")
        (root / RUN).write_text(f"{run}\n")
        if not unit.exists():
            unit.write_text(TEXT)
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}: the run could not go on after a boot") from None
    if root == ROOT and not unit.is_symlink():
        _systemctl("daemon-reload")
        _systemctl("enable", unit.name)


def remove(root: Path = ROOT) -> None:
    """Later boots go on with nothing."""
    unit = root / UNIT
    for name in (SCRIPT, RUN):
        (root / name).unlink(missing_ok=True)
    if unit.is_file() and not unit.is_symlink() and unit.read_text() == TEXT:
        if root == ROOT:
            _systemctl("disable", unit.name)
        unit.unlink()


def run_of(root: Path = ROOT) -> Path | None:
    """The run that the next boot goes on with."""
    try:
        return Path((root / RUN).read_text().strip())
    except OSError:
        return None


def _systemctl(*words: str) -> None:
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise UserError(f"systemctl {words[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise UserError(f"systemctl {words[0]}: {' '.join(done.stderr.split())[:300]}")
