"""sched_ext schedulers of Linux 6.12 and later: programs named scx_…, active for as long as they run.

The kernel falls back to its own scheduler whenever the program ends, and kills the program along with the engine, so
nothing needs restoring.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from engine.core.clock import patient
from engine.core.errors import UserError
from engine.host.account import bound_to_engine

SINCE = (6, 12)
TUNABLE = "ext"  # --sched ext=scx_rusty
OPTION = "SCHED_CLASS_EXT"
PLACE = Path("/sys/kernel/sched_ext")
NAME = re.compile(r"scx_[a-z0-9_]{1,40}")
START_TIMEOUT_S, END_TIMEOUT_S, POLL_S = patient(20.0), patient(10.0), 0.1


def loaded(place: Path = PLACE) -> str | None:
    """Name of the running scheduler; empty without one, None if the kernel has no sched_ext."""
    try:
        state = (place / "state").read_text(errors="replace").strip()
        return (place / "root" / "ops").read_text(errors="replace").strip() if state != "disabled" else ""
    except FileNotFoundError:
        return "" if (place / "state").exists() else None
    except OSError:
        return None


def program(name: str) -> Path:
    """Raises UserError if the scheduler's program is missing."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if path is None:
        raise UserError(f"--sched {TUNABLE}={name}: program {name} is missing: nix shell nixpkgs#scx.full has it")
    return Path(path)


def check_here(name: str, place: Path = PLACE) -> None:
    """Raise UserError if this kernel cannot load that scheduler, or has one loaded."""
    here = loaded(place)
    if here is None:
        raise UserError(f"--sched {TUNABLE}: Linux {os.uname().release} here has no sched_ext (CONFIG_{OPTION})")
    if here:
        raise UserError(f"--sched {TUNABLE}={name}: the scheduler {here} is running; stop it first")
    if os.geteuid() != 0:
        raise UserError(f"--sched {TUNABLE}={name}: only root can load a scheduler; start bench as root")
    program(name)


@contextmanager
def running(name: str, place: Path = PLACE) -> Iterator[None]:
    """Run that scheduler within the block. Raises UserError if it does not start."""
    check_here(name, place)
    with TemporaryFile() as lines:
        process = subprocess.Popen(
            [program(name)],
            stdin=subprocess.DEVNULL,
            stdout=lines,
            stderr=lines,
            start_new_session=True,
            preexec_fn=bound_to_engine(signal.SIGKILL),
        )
        try:
            until_s = time.monotonic() + START_TIMEOUT_S
            # It reports a name such as rusty_1.0.9_x86_64.
            while not (loaded(place) or "").startswith(name.removeprefix("scx_")):
                if process.poll() is not None or time.monotonic() > until_s:
                    lines.seek(0)
                    last = lines.read()[-300:].decode(errors="replace").split()
                    raise UserError(
                        f"--sched {TUNABLE}={name}: it does not start: {' '.join(last) or 'without a message'}"
                    )
                time.sleep(POLL_S)
            yield
        finally:
            process.terminate()
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
