"""The accelerator of a guest's instructions: KVM where it works, else emulation.

An openable /dev/kvm proves nothing: some hosts' KVM runs only specially built guests. So a guest is booted, once per
boot of the host.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

from engine.builds.nix import Progress, cache_folder
from engine.core.errors import UserError
from engine.core.kernel import Accelerator, GuestMachine, Kernel
from engine.guest.machine import KVM, Guest, Job
from engine.guest.tools import Tools

Wanted = Literal["auto", "kvm", "tcg"]
PROBE_TIMEOUT_S = 20.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
RUNS = "a guest runs"


def choose(wanted: Wanted, kernel: Kernel, tools: Tools, progress: Progress) -> tuple[Accelerator, str]:
    """The accelerator and, for emulation, the reason. Raises UserError if KVM is required but runs no guest."""
    if wanted == "tcg":
        return "tcg", "asked for"
    state = _known(kernel, tools, progress)
    if state == RUNS:
        return "kvm", ""
    if wanted == "kvm":
        raise UserError(f"--accelerator kvm: {state}; use --accelerator auto")
    return "tcg", state


def _known(kernel: Kernel, tools: Tools, progress: Progress) -> str:
    """RUNS, or why KVM does not; remembered until the host is booted again."""
    if not KVM.exists():
        return f"there is no {KVM}"
    if not os.access(KVM, os.R_OK | os.W_OK):
        return f"{KVM} may not be opened by this user"
    record = cache_folder() / f"kvm-{BOOT_ID.read_text(errors='replace').strip()}"
    if not record.exists():
        for old in record.parent.glob("kvm-*"):
            old.unlink(missing_ok=True)
        progress("trying whether KVM runs a guest here")
        record.write_text(_tried(kernel, tools))
    return record.read_text(errors="replace")


def _tried(kernel: Kernel, tools: Tools) -> str:
    machine = GuestMachine("kvm", 1, 512, "tmpfs", 0, tools.version)
    until_s = time.monotonic() + PROBE_TIMEOUT_S
    with Guest(kernel, machine, tools, Job("", (), {}, "none"), Path(os.devnull)) as guest:
        while time.monotonic() < until_s and not guest.over:
            if any(line.startswith(b'{"booted"') for line in guest.lines(0.2)):
                return RUNS
        if not guest.over:
            return f"{KVM} is there, but a guest did not come up within {PROBE_TIMEOUT_S:.0f} s"
        return f"{KVM} is there, but runs no guest ({guest.ending(None)})"
