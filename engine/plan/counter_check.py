"""Whether a run can count hardware events, and with which perf: checked before the first cell."""

from __future__ import annotations

import os
from pathlib import Path

from engine.builds import nix
from engine.builds.nix import Progress
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.perf_events import EVENTS
from engine.host import perf
from engine.observe.step_counters import NO_PMU, lacking, not_here
from engine.plan.request import Request
from engine.system.account import Account
from engine.system.subprocesses import ask


def prepare(request: Request, progress: Progress, roots: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Find and try perf if the request counts events; return its path and version, and notices on what it lacks.

    Raises UserError if the request requires counters that are unavailable.
    """
    if request.counters == "off":
        return {}, ()
    strict = request.counters == "hardware"
    if strict and (request.external or request.in_guests):
        where = "for external servers" if request.external else "with --kernel"
        raise UserError(f"--counters hardware: not {where}, whose counters cannot be tried first; use auto")
    if request.external:
        return {}, ("no counters: the processes of external servers are not visible",)
    try:
        program = find(progress, roots)
        user = Account(str(os.geteuid()), os.geteuid(), os.getegid(), switch=False)
        record = {"path": program, "version": ask([program, "--version"], user).shown}
        lack = lacking(program) if HOST in request.kernels else ""
    except UserError as error:
        record, lack = {}, str(error)
    if strict and lack:
        raise UserError(f"--counters hardware: {lack}; use auto")
    return record, (not_here(lack),) if lack else ()


def here() -> tuple[str, str, str]:
    """Countable events on this machine, why others are not, and the remedy. Fetches nothing."""
    fetched = os.environ.get(perf.VARIABLE, "").endswith(".drv")
    program = perf.find()
    if not program and fetched:
        return "not checked: the first run with --counters fetches perf", "", ""
    if not program:
        return "none", "there is no perf", "install it (Debian: linux-perf), or set perf in config.toml"
    user = Account(str(os.geteuid()), os.geteuid(), os.getegid(), switch=False)
    try:
        countable = perf.trial(program, user)
    except UserError as error:
        return "none", str(error), "run bench as root, or set kernel.perf_event_paranoid to 1 or less"
    names = [event.name for event in EVENTS if event.hardware and event.name in countable]
    if not names:
        return "none", NO_PMU, "measure on bare metal, or let the guest have a PMU"
    return ", ".join(names), "", ""


def find(progress: Progress, roots: Path) -> str:
    pinned = os.environ.get(perf.VARIABLE, "")
    if pinned.endswith(".drv"):
        return str(nix.realise("perf", pinned, progress, roots / "perf") / "bin" / "perf")
    program = perf.find()
    if not program:
        raise UserError("no perf on PATH: install it (Debian: linux-perf), or set perf in config.toml")
    return program
