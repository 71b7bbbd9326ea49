"""The Nix commands that builds need, for Nix 2.8 and later: put a file into the store, realise a derivation.

Nothing is evaluated, so anything in the store already needs neither the network nor the flake.

Environment, set by the `bench` wrapper:
    PGBED_PACKAGE_SET       what derivations are made of: `nixpkgs`, or `hostpkgs` (the machine's own tools)
    PGBED_BPFTRACE          the derivation of the bpftrace that runs the probes
    PGBED_BPFTRACE_VERSION  its version, known before it is built
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from engine.builds.nix_log import FAILED_BUILD, FORMAT, NixLog, last_words
from engine.core.errors import UserError

Progress = Callable[[str], None]

STATE = Path("/nix/var/nix")
OUTPUT = re.compile(r'\("out","(/nix/store/[^"/]+)"')
STORE_NAME = re.compile(r"/nix/store/([a-z0-9]{32})-[^/]+")
# The machine's faults, not the source's: the same build may succeed later.
LACKING = re.compile(
    r"virtual memory exhausted|cc1\w*: out of memory|Cannot allocate memory|No space left on device"
    r"|fatal error: Killed signal|\] Killed$",
    re.M,
)
POLL_S = 0.5
SILENCE_S = 10.0  # until an unfinished action is reported again


class BuildFailed(UserError):
    """A builder failed: the source does not compile, a patch does not apply. `lines` are the end of its `log`."""

    def __init__(self, message: str, log: Path, lines: tuple[str, ...]) -> None:
        super().__init__(message)
        self.log = log
        self.lines = lines


def over_hostpkgs() -> bool:
    """Whether the package set is the machine's own tools, so that sources cannot be fetched."""
    return os.environ.get("PGBED_PACKAGE_SET") == "hostpkgs"


def store_hash(path: Path) -> str | None:
    match = STORE_NAME.fullmatch(str(path))
    return match[1] if match else None


def is_valid(store_path: str) -> bool:
    if _of_another_user():
        return _finished(Path(store_path))
    nix_store = shutil.which("nix-store")
    if nix_store is None:
        return False
    done = subprocess.run([nix_store, "--check-validity", store_path], capture_output=True, check=False)
    return done.returncode == 0


def fixed_path(sha256: str, name: str) -> str:
    command = ["nix-store", "--print-fixed-path", "sha256", sha256, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError as error:
        raise no_nix() from error
    if done.returncode != 0:
        raise UserError(f"{name}: Nix cannot print its store path: {last_words(done.stderr)}")
    return done.stdout.strip()


def add_fixed(file: Path, name: str) -> None:
    """Put `file` into the store as `name`; its path follows from name and hash, so Nix need not fetch it."""
    with TemporaryDirectory(dir=cache_folder()) as folder:
        named = Path(folder) / name
        shutil.copyfile(file, named)
        command = ["nix-store", "--add-fixed", "sha256", str(named)]
        try:
            added = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except FileNotFoundError as error:
            raise no_nix() from error
    if added.returncode != 0:
        raise UserError(f"{file} cannot be put into the Nix store: {last_words(added.stderr)}")


def realise(
    label: str, drv: str, on_progress: Progress, link: Path | None, *, visible_to_build: Path | None = None
) -> Path:
    """Build or fetch the output of `drv` unless it exists, and keep it by `link`; `label` is for messages.

    `visible_to_build` is a folder to show inside the sandbox, if this user may ask for it. Raises BuildFailed if a
    builder fails, UserError if the path is unavailable.
    """
    if _of_another_user():
        return _there(label, Path(drv))
    path = cache_folder() / f"build-{label}.log"
    started = time.monotonic()
    command = realise_command(drv, link)
    if visible_to_build is not None:
        command += ["--option", "extra-sandbox-paths", str(visible_to_build)]
    log = NixLog()
    code, output = _run_logged(command, log, path, lambda doing: on_progress(f"{label}: {doing}"))
    if code == 0:
        on_progress(f"{label}: ready after {time.monotonic() - started:.0f} s")
        return Path(output.strip()).resolve()
    if lacking := LACKING.search("\n".join(log.printed())):
        raise UserError(f"build '{label}' stopped because the machine ran short: {lacking[0]} (the log: {path})")
    message = f"{log.explanation(label, code)} (all of it: {path})"
    if code != FAILED_BUILD:
        raise UserError(message)
    printed = log.telling_lines()
    for line in printed:
        on_progress(f"{label} | {line}")
    raise BuildFailed(message, path, printed)


def _of_another_user() -> bool:
    """Whether the store is read-only for this user: it belongs to another, who runs no daemon."""
    return STATE.exists() and not os.access(STATE / "db", os.W_OK) and not (STATE / "daemon-socket" / "socket").exists()


def _finished(store_path: Path) -> bool:
    return store_path.exists() and not store_path.with_name(f"{store_path.name}.lock").exists()


def _there(label: str, drv: Path) -> Path:
    output = OUTPUT.search(drv.read_text(errors="replace")) if drv.is_file() else None
    if output is None or not _finished(Path(output[1])):
        if shutil.which("nix") is None:
            raise no_nix()
        raise UserError(
            f"'{label}' is not in the Nix store, to which {getpass.getuser()} may not write: let its owner, "
            f"{STATE.owner()}, run a plan with it once, or install Nix with its daemon"
        )
    return Path(output[1])


def realise_command(drv: str, link: Path | None) -> list[str]:
    command = ["nix-store", "--realise", f"{drv}!out", *FORMAT]
    if link is not None:
        command += ["--add-root", str(link)]
    if over_hostpkgs():
        # The machine's own tools are outside any sandbox, and an unreachable cache only costs time.
        command += ["--option", "sandbox", "false", "--option", "substituters", ""]
    return command


def fetch_bpftrace(on_progress: Progress, roots: Path) -> None:
    """Realise the wrapper's bpftrace. Failures are only reported, as the machine may have its own."""
    drv = os.environ.get("PGBED_BPFTRACE")
    if not drv:
        return
    try:
        realise("bpftrace", drv, on_progress, roots / "bpftrace")
    except UserError as error:
        on_progress(str(error))
    os.environ.pop("PGBED_BPFTRACE_VERSION", None)  # from now on the installed version counts


def _run_logged(command: list[str], log: NixLog, path: Path, on_doing: Progress) -> tuple[int, str]:
    """Run Nix and return exit code and stdout; `log` and `path` follow its output, `on_doing` each action."""
    report = os.memfd_create("nix")
    try:
        with (
            path.open("w") as text,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=report, text=True, errors="replace") as process,
        ):
            try:
                output = _followed(process, report, log, text, on_doing)
            except BaseException:
                # Leaving the block would wait for the build, even when interrupted.
                process.terminate()
                raise
    except FileNotFoundError as error:
        raise no_nix() from error
    finally:
        os.close(report)
    return process.returncode, output


def _followed(process: subprocess.Popen[str], report: int, log: NixLog, text: TextIO, on_doing: Progress) -> str:
    """Wait for Nix; report each new action at once, and again every few seconds while it lasts."""
    reported, reported_s, started, read = "", 0.0, time.monotonic(), 0
    while True:
        output = None
        with suppress(subprocess.TimeoutExpired):
            output = process.communicate(timeout=POLL_S)[0]
        new = os.pread(report, os.fstat(report).st_size - read, read)
        read += len(new)
        text.write(log.feed(new if output is None else new + b"\n"))
        if output is not None:
            return output
        now = time.monotonic()
        if log.doing and (log.doing != reported or now - reported_s > SILENCE_S):
            line = log.last_line
            on_doing(f"{log.doing} ({now - started:.0f} s){': ' if line else ''}{line}")
            reported, reported_s = log.doing, now


def no_catalogue() -> UserError:
    return UserError(
        "servers are built with Nix: start bench from its flake (`nix run .#bench`) or by ./bench, "
        "or name an install of your own: --pg NAME=/path/to/postgresql"
    )


def no_nix() -> UserError:
    return UserError("Nix is not installed: start with ./bench, which installs it")


def cache_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "pgbed"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {error.strerror}; name another folder in XDG_CACHE_HOME") from None
    return folder
