"""Whether a run can count events of the hardware, and with which perf: looked at before the first cell."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from engine.builds import nix
from engine.builds.nix import Progress
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.perf_events import EVENTS
from engine.host import perf
from engine.host.account import Account
from engine.host.subprocesses import ask
from engine.observe.step_counters import kernel_only, lacking
from engine.plan.request import Request

KERNEL_ONLY = "what the kernel counts anyway"


@dataclass(frozen=True, slots=True)
class Perf:
    """The perf of a run: `path` and `version` for its manifest, and what is to be said of it before it begins."""

    record: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def prepare(request: Request, progress: Progress, roots: Path) -> Perf:
    """Finds perf where it is asked for, and tries it on this machine; a guest's kernel is tried by its steps.

    Raises UserError where hardware counters are asked for and cannot be had. Else a lack is a notice.
    """
    if request.counters == "off":
        return Perf()
    strict = request.counters == "hardware"
    if strict and (request.external or request.in_guests):
        where = "of servers that are running already" if request.external else "with --kernel"
        raise UserError(f"--counters hardware: not {where}, whose counters cannot be tried first; use auto")
    if request.external:
        return Perf(notices=("no counters: the processes of servers that are running already cannot be seen",))
    try:
        program = find(progress, roots)
        own = Account(str(os.geteuid()), os.geteuid(), os.getegid(), switch=False)
        record = {"path": program, "version": ask([program, "--version"], own).shown}
        lack = lacking(program) if HOST in request.kernels or request.rebooting else ""
    except UserError as error:
        record, lack = {}, str(error)
    if strict and lack:
        raise UserError(f"--counters hardware: {lack}; use auto")
    return Perf(record, (kernel_only(lack),) if lack else ())


def here() -> tuple[str, str, str]:
    """What can be counted here; where that is not all, why, and what to do. Nothing is fetched to find out."""
    fetched = os.environ.get(perf.VARIABLE, "").endswith(".drv")
    program = perf.find()
    if not program and fetched:
        return "not looked at: the first run with --counters fetches perf", "", ""
    if not program:
        return KERNEL_ONLY, "there is no perf", "install it (Debian: linux-perf), or set perf in config.toml"
    own = Account(str(os.geteuid()), os.geteuid(), os.getegid(), switch=False)
    try:
        there = perf.trial(program, own)
    except UserError as error:
        return KERNEL_ONLY, str(error), "run bench as root, or set kernel.perf_event_paranoid to 1 or less"
    names = [event.name for event in EVENTS if event.hardware and event.name in there]
    if not names:
        reason = "this machine shows no PMU, as most virtual machines: instructions cannot be counted"
        return KERNEL_ONLY, reason, "measure on bare metal, or let the guest have a PMU"
    return ", ".join(names), "", ""


def find(progress: Progress, roots: Path) -> str:
    """The perf of this machine. Raises UserError where there is none."""
    pinned = os.environ.get(perf.VARIABLE, "")
    if pinned.endswith(".drv"):
        return str(nix.realise("perf", pinned, progress, roots / "perf") / "bin" / "perf")
    found = perf.find()
    if not found:
        raise UserError("no perf on PATH: install it (Debian: linux-perf), or set perf in config.toml")
    return found
