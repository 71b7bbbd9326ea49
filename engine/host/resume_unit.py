"""A systemd unit that continues a run at every boot, for as long as the run needs boots.

Root executes it unattended: so only root may be able to change its Python, modules and programs, or the run does not
start.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path

from engine.core.errors import UserError
from engine.core.record import parsed_toml
from engine.host.kexec import systemctl

ROOT = Path("/")
UNIT = "etc/systemd/system/pgbed-resume.service"
SCRIPT = "var/lib/pgbed/resume"
RUN = "var/lib/pgbed/resume.run"  # holds the run's folder
PASSED_ON = ("PATH", "HOME", "XDG_STATE_HOME", "LANG", "TZ")
PLACES = ("XDG_STATE_HOME", "PGBED_OUT", "PGBED_SOCKETS", "PGBED_CCACHE")  # nothing in them is executed
CODE = Path(__file__).parents[2]
STORE = Path("/nix/store")
MANAGED, LOCAL = (STORE, Path("/usr")), Path("/usr/local")  # filled by root's own packages
MOST_LINKS = 40


def _text() -> str:
    """The unit's text; on NixOS the module has the same (nix/module.nix)."""
    sections = parsed_toml(
        resources.files(__package__).joinpath("resume_unit.toml").read_text("utf-8"), "resume_unit.toml"
    )
    lines = (
        line
        for name, values in sections.items()
        for line in ("", f"[{name}]", *(f"{key}={value}" for key, value in values.items()))
    )
    return "\n".join(lines).lstrip() + "\n"


TEXT = _text()


def check_place(run: Path) -> None:
    """Raise UserError if any other user could change the run that every boot continues as root, unattended."""
    # The owner of / is root by whatever number: a build's sandbox shows it another one.
    place, trusted = run.resolve(), (0, os.geteuid(), Path("/").stat().st_uid)
    for folder in (place, *place.parents):
        status = folder.stat()
        sticky = folder != place and status.st_mode & stat.S_ISVTX
        if status.st_uid not in trusted or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            raise UserError(
                f"{folder}: another user can change its contents, and root would continue with them at every boot"
            )


def check_code() -> None:
    """Raise UserError if anybody but root could change the code that root would run at every boot."""
    exports = _exports()
    _check_roots(Path(sys.executable))
    asked = [sys.executable, "-c", "import sys; print(*sys.path, sep='\\n')"]
    done = subprocess.run(
        asked, env=exports, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise UserError(f"{sys.executable} does not start without this environment, so it could not start after a boot")
    for place in done.stdout.splitlines():
        _check_roots(Path(place), below=True)
    for name, value in exports.items():
        for part in value.split(":") if name not in PLACES else ():
            if part.startswith("/"):
                _check_roots(Path(part))
            elif name == "PATH":
                raise UserError(f"PATH holds {part or 'an empty part'}, which depends on the working folder")


def _check_roots(path: Path, *, below: bool = False) -> None:
    """Raise UserError unless only root can change what a path leads to and, with `below`, everything in it."""
    todo, seen, walked = [path], set[tuple[Path, bool]](), set[Path]()
    while todo:
        asked = todo.pop()
        way = list(_way(asked))
        for place in way:
            passed = place != way[-1]
            if (place, passed) in seen:
                continue
            seen.add((place, passed))
            status = place.lstat()
            link, sticky = stat.S_ISLNK(status.st_mode), status.st_mode & stat.S_ISVTX
            writable = not link and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            builders = place == STORE and writable == stat.S_IWGRP and sticky
            harmless = builders or (passed and sticky)  # nobody else can replace root's entries there
            code = link or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
            if code and (status.st_uid != 0 or (writable and not harmless)):
                raise UserError(
                    f"{place}: users other than root can change it, and root would run it at every boot: "
                    "use a pgbed and a PATH that only root can change, such as the Nix store or /usr"
                )
        managed = any(place.is_relative_to(each) and not place.is_relative_to(LOCAL) for each in MANAGED)
        if below and not managed and asked.is_dir() and place not in walked:
            walked.add(place)
            todo += [each for each in place.iterdir() if each.name != ".git"]


def _way(path: Path) -> Iterator[Path]:
    """Every path that decides where a path leads, from / through symlinks, up to the first missing part."""
    at, left, links = Path("/"), list(path.parts[1:]), 0
    yield at
    while left:
        part = left.pop(0)
        place = at.parent if part == ".." else at / part
        if place.is_symlink() and links < MOST_LINKS:
            yield place
            target, links = place.readlink(), links + 1
            at, left = Path("/") if target.is_absolute() else at, [*target.parts[target.is_absolute() :], *left]
        elif os.path.lexists(place):
            at = place
            yield at
        else:
            return


def check_free(run: Path, root: Path = ROOT) -> None:
    """Raise UserError if another run that still exists continues at the next boot."""
    going = run_of(root)
    if going is not None and going != run.resolve() and (going / "manifest.json").exists():
        name = str(going)
        raise UserError(
            f"the run {name} continues at the next boot, and only one run can: end it first: bench stop {name}"
        )


def install(run: Path, words: list[str], log: Path, root: Path = ROOT) -> None:
    """Have every boot run a command of pgbed's Python, with output to `log`.

    Raises UserError, also if another run continues at the next boot, or others could change what would be run. `remove`
    undoes it, even if it failed halfway.
    """
    check_free(run, root)
    if root == ROOT:
        check_code()
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in _exports().items())
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
        raise UserError(f"{error.filename}: {error.strerror}: the run could not continue after a boot") from None
    if root == ROOT and not unit.is_symlink():
        systemctl("daemon-reload")
        systemctl("enable", unit.name)


def _exports() -> dict[str, str]:
    """The command's environment, without the user's own search path for Python."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or (name.startswith("PGBED_") and name.isidentifier())
    }
    return kept | {"PYTHONPATH": str(CODE), "PYTHONSAFEPATH": "1"}


def remove(run: Path, root: Path = ROOT) -> None:
    """Stop boots from continuing this run. Another run's unit stays."""
    if run_of(root) != run.resolve():
        return
    unit = root / UNIT
    # The script first: without it the unit does nothing. The run's name last: it shows that there is more to remove.
    (root / SCRIPT).unlink(missing_ok=True)
    if unit.is_file() and not unit.is_symlink() and unit.read_text(errors="replace") == TEXT:
        if root == ROOT:
            with suppress(UserError):  # without systemd nothing is enabled
                systemctl("disable", unit.name)
        unit.unlink()
    (root / RUN).unlink(missing_ok=True)


def run_of(root: Path = ROOT) -> Path | None:
    try:
        return Path((root / RUN).read_text(errors="replace").strip())
    except OSError:
        return None
