"""The bpftrace that runs: fixed where the helper is installed, never by its caller.

An installation may pin one (see nix/package.nix and nix/module.nix). Without a pin, or if the pinned one is missing, it
is the first of SYSTEM_PATHS that only root can change.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from probes.errors import ProbeError, visible

SYSTEM_PATHS = ("/usr/bin/bpftrace", "/usr/local/bin/bpftrace", "/run/current-system/sw/bin/bpftrace")
NIX_STORE = Path("/nix/store")  # sticky: others may add to it, but not change its contents
LINKS_MAX = 40
OUTPUT_BYTES = 64 * 1024
TIMEOUT_S = 20.0


def find(pinned: str = "") -> Path:
    """Find the bpftrace to run. Raises ProbeError if no known place has one that only root can change."""
    places = list(dict.fromkeys(place for place in (pinned, *SYSTEM_PATHS) if place))
    refused = ""
    for place in map(Path, places):
        try:
            loose = changeable(place)
        except OSError:
            continue
        if loose is not None:
            refused = refused or f"probes: {place} is not used: others than root could change {loose}; "
        elif place.is_file() and os.access(place, os.X_OK):
            return place.resolve()
    if refused:
        raise ProbeError(refused + "install bpftrace >= 0.17 where only root may write")
    raise ProbeError(f"probes: bpftrace not found (looked for {', '.join(places)}); install bpftrace >= 0.17")


def changeable(path: Path, *, sticky: bool = False) -> Path | None:
    """The first file, folder or link on the way to `path` that users other than root could change or replace, if any.

    With `sticky`, sticky folders such as /tmp pass: no other user can replace root's files there. Raises OSError if
    `path` does not exist.
    """
    at, links = Path("/"), 0
    left = list(reversed(path.absolute().parts))
    while left:
        step = left.pop()
        here = at.parent if step == ".." else at / step
        status = here.lstat()
        if status.st_uid != 0:
            return here
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            left += reversed(here.readlink().parts)
            continue
        loose = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if loose and not (status.st_mode & stat.S_ISVTX and (sticky or here == NIX_STORE)):
            return here
        at = here
    return None


@cache
def version(program: Path) -> str:
    """The output of `bpftrace --version` without the v. Raises ProbeError if it does not run."""
    try:
        # The helper asks, too: nothing of the caller's environment may reach a privileged program.
        answer = output([str(program), "--version"], {"LC_ALL": "C"})
    except OSError as error:
        raise ProbeError(f"probes: {program} does not run ({error.strerror}); install bpftrace >= 0.17") from None
    match = re.search(r"v?(\d+\.\d+\S*)", answer)
    if match is None:
        raise ProbeError(f"probes: {program} --version prints no version; install bpftrace >= 0.17")
    return visible(match[1], 100)


def parse_version(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version such as `v0.23.2` or `6.18.44-generic`."""
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def output(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, timeout_s: float = TIMEOUT_S
) -> str:
    """A program's output with errors, cut off (and the program ended) at 64 KiB or `timeout_s`. Raises OSError."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdout is not None
    fd, data, until_s = process.stdout.fileno(), b"", time.monotonic() + timeout_s
    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLHUP)
    try:
        while len(data) < OUTPUT_BYTES and poller.poll(max(0.0, until_s - time.monotonic()) * 1000):
            part = os.read(fd, OUTPUT_BYTES)
            if not part:
                break
            data += part
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
    return data[:OUTPUT_BYTES].decode(errors="replace")
