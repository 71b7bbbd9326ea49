"""The probes that a run requests, and whether they are available here.

`--probes` is a list of names, `default` (tiers 0 and 1, as far as available) or `none`. A costly probe (tier 2) is
requested by name, `NAME:window` (10 s of every 60), or `NAME:stalls` (from a stall's detection until 5 s after it; at
most 20 times per step). Probes requested by name must be available.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.core.errors import UserError, unknown
from engine.core.kernel import Kernel, version_of
from engine.core.model import Build
from engine.guest.kernels import BTF
from engine.tracing import planstats
from probes import attach_points, elf, helper, requirements
from probes.errors import ProbeError
from probes.table import BY_ID, PROBES
from probes.tracer import direct_command, helper_command

DEFAULT = ("sched", "stacks")  # sched includes runq
ALWAYS = ("procsched",)  # sampled anyway: see role_second
NEWEST: requirements.Version = (999, 0)  # assumed for an unknown kernel
MODES = ("", "window", "stalls")


@dataclass(frozen=True, slots=True)
class Choice:
    """A requested probe. `mode` is one of MODES: all the time, in windows, where cheap, around stalls."""

    probe: str
    mode: str = ""

    @property
    def name(self) -> str:
        return f"{self.probe}:{self.mode}" if self.mode else self.probe


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested probes; `required` are those requested by name."""

    choices: tuple[Choice, ...]
    required: tuple[Choice, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(choice.name for choice in self.choices)


def choice_of(name: str) -> Choice:
    """Raises UserError for an unknown probe or mode."""
    probe, _, mode = name.partition(":")
    if probe not in BY_ID:
        raise unknown("probe", probe, (*BY_ID, "default", "none"))
    if mode not in MODES:
        raise unknown("probe mode", mode, MODES[1:])
    if mode and BY_ID[probe].tier < 2:
        raise UserError(f"--probes {name}: {probe} is cheap enough to be always on; give {probe}")
    return Choice(probe, mode)


def select(names: Sequence[str]) -> Selection:
    """The probes that `--probes` requests. Raises UserError for unknown names and contradictions."""
    if "none" in names and len(names) > 1:
        raise UserError("--probes none excludes all others; give either none or the others")
    required = tuple(
        choice_of(name) for name in dict.fromkeys(names) if name not in ("default", "none") and name not in ALWAYS
    )
    by_probe = {name: Choice(name) for name in (DEFAULT if "default" in names else ())}
    for choice in required:
        if choice.probe in by_probe and by_probe[choice.probe] != choice:
            raise UserError(f"--probes: {choice.probe} is given twice with different modes; give it once")
        by_probe[choice.probe] = choice
    if "sched" in by_probe and "runq" in by_probe:
        del by_probe["runq"]
    return Selection(tuple(by_probe.values()), required)


def facts() -> requirements.Facts:
    """The features that this machine offers to the helper, which may have more privileges than the engine."""
    return requirements.facts(sudo=by_sudo())


SUDO_TIMEOUT_S = 5.0  # it may query a server for its rules


def by_sudo() -> bool:
    """Whether the helper would be started by sudo without a password."""
    sudo = shutil.which("sudo")
    if sudo is None or helper_command()[0] != "sudo":
        return False
    # With arguments, as a rule ending in * requires some; the helper checks them.
    command = [sudo, "-n", "-l", *direct_command(), "runq"]
    try:
        asked = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=SUDO_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


def findings_of(facts: requirements.Facts) -> tuple[requirements.Finding, ...]:
    """The obstacles to probes here: the same for `bench doctor`, the list of probes and a run."""
    findings = requirements.check(facts)
    # For root the helper mounts it and reports that; for others it changes nothing.
    if facts.uid == 0:
        findings = tuple(finding for finding in findings if "is not mounted" not in finding.text)
    return tuple(findings)


def lacks(probes: Iterable[str], facts: requirements.Facts) -> dict[str, str]:
    """Probes not available here, each with a line that says why and what to do."""
    findings = findings_of(facts)
    first = {probe: finding.text for finding in reversed(findings) for probe in finding.off}
    return {probe: first[probe] for probe in probes if probe in first}


def attachments(
    probe: str, file: Path, major: int, *, allow_slow: bool
) -> dict[str, tuple[attach_points.Attachment, ...]]:
    """The attach points of a probe's events in a server's binary. Raises ProbeError, or OSError without a binary."""
    binary, kernel = elf.read(file), helper.kernel_version()
    return attach_points.resolve_all(binary, BY_ID[probe].events, major, kernel=kernel, allow_slow=allow_slow)


def unattachable(probe: str, build: Build, *, allow_slow: bool = False) -> str:
    """The reason why a probe cannot attach to a build, or ""."""
    if probe == planstats.PROBE:
        return planstats.unavailable(build)
    if not BY_ID[probe].events:
        return ""
    try:
        attachments(probe, (build.bin / "postgres").resolve(), build.major, allow_slow=allow_slow)
    except (ProbeError, OSError) as error:
        return str(error)
    return ""


def in_guest(kernel: Kernel | None = None) -> requirements.Facts:
    """The features of a guest with that kernel, where root runs bpftrace; without a kernel, all features."""
    return replace(
        facts(),
        kernel=version_of(kernel.release) if kernel else NEWEST,
        uid=0,
        sudo=False,
        tracefs=True,
        tracepoints=None,
        btf=kernel is None or kernel.options.get(BTF) != "n",
        uprobes=True,
        schedstat=True,
    )


def admit(
    selection: Selection,
    builds: Iterable[Build],
    machine: requirements.Facts | None = None,
    *,
    allow_slow: bool = False,
) -> tuple[str, ...]:
    """Lines for missing default probes. Raises UserError if one requested by name is not available."""
    if not selection.choices:
        return ()
    missing = lacks((choice.probe for choice in selection.choices), machine or facts())
    for choice in selection.required:
        line = missing.get(choice.probe, "")
        for build in () if line else builds:
            line = line or unattachable(choice.probe, build, allow_slow=allow_slow)
        if line:
            raise UserError(f"probe {choice.name} is not available: {line.removeprefix('probes: ')}")
    without = (f"going on without the probes {', '.join(missing)}",) if missing else ()
    return (*dict.fromkeys(missing.values()), *without)


def listing() -> list[dict[str, Any]]:
    missing = lacks((probe.id for probe in PROBES), facts())
    return [
        {
            "probe": probe.id,
            "tier": probe.tier,
            "question": probe.question,
            "cost": probe.cost,
            "needs": list(probe.needs),
            "state": missing.get(probe.id, "always on" if probe.id in ALWAYS else "ready"),
        }
        for probe in PROBES
    ]
