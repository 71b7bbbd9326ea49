"""What the clients of a run need on the host that they run on: the modules that start them, and external programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from engine.core.errors import UserError
from workloads.base import Place, Record, Workload

Loads = Sequence[tuple[Workload, Record]]  # the workloads of a run, with their records


def launchers(loads: Loads) -> tuple[str, ...]:
    """The modules that start all steps' clients. Raises UserError if one is not part of pgbed."""
    steps = [(chosen, record, step) for chosen, record in loads for step in chosen.steps(record)]
    if any(step.makes_files or step.apart for _, _, step in steps):
        raise UserError("--client-host: clients of this plan write files for the server and must run on its machine")
    launches = [chosen.launch(record, step, Place("", 0, 0, 1, "", "")) for chosen, record, step in steps if step.roles]
    if not launches:
        raise UserError("--client-host: no step of this plan has clients")
    commands = [command for launch in launches for command in (launch.command, *launch.starts)]
    return tuple(dict.fromkeys(map(_launcher_of, commands)))


def programs(loads: Loads) -> Mapping[str, Mapping[str, str]]:
    return {name: program for _, record in loads for name, program in record.get("programs", {}).items()}


def _launcher_of(command: Sequence[str]) -> str:
    """The module of a launcher. Raises UserError for clients that cannot run on another host."""
    if len(command) != 3 or command[:2] != (sys.executable, "-m") or not command[2].startswith("workloads."):
        raise UserError("--client-host: clients of your own workload can run on this machine only")
    return command[2]
