"""The modules that start the clients of a run on their host."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.core.errors import UserError
from workloads.api.base import Place, Record, Workload


def launchers(workload: Workload, record: Record) -> tuple[str, ...]:
    """The modules that start all steps' clients. Raises UserError if one is not part of pgbed."""
    steps = workload.steps(record)
    if any(step.makes_files or step.apart for step in steps):
        raise UserError("--client-host: clients of this plan write files for the server and must run on its machine")
    launches = [workload.launch(record, step, Place("", 0, 0, 1, "", "")) for step in steps if step.roles]
    if not launches:
        raise UserError("--client-host: no step of this plan has clients")
    return tuple(dict.fromkeys(_launcher_of(launch.command) for launch in launches))


def _launcher_of(command: Sequence[str]) -> str:
    """The module of a launcher. Raises UserError for clients that cannot run on another host."""
    if len(command) != 3 or command[:2] != (sys.executable, "-m") or not command[2].startswith("workloads."):
        raise UserError("--client-host: clients of your own workload can run on this machine only")
    return command[2]
