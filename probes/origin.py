"""Where a probe's figures come from: program, kernel, binary, attach points. Kept with them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from probes.elf import Elf
from probes.errors import ProbeError
from probes.resolve import Attachment, keeps_frame_pointers
from probes.table import Probe


@dataclass(frozen=True, slots=True)
class Origin:
    """`attach` is usdt, function, both (`function+usdt`), tracepoint or timer. `points` are by event."""

    probe: str
    bpftrace: str
    kernel: str
    binary: str
    build_id: str
    attach: str
    slow_entry: bool
    frame_pointers: bool
    points: Mapping[str, tuple[str, ...]]

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


def origin(probe: Probe, program: Path, elf: Elf, attachments: Mapping[str, tuple[Attachment, ...]]) -> Origin:
    """The origin of a probe that is about to be started."""
    rare = {event.name for event in probe.events if event.rare}
    measured = [one for event, found in attachments.items() if event not in rare for one in found]
    kinds = "+".join(sorted({one.kind for one in measured}))
    return Origin(
        probe=probe.id,
        bpftrace=bpftrace_version(program),
        kernel=os.uname().release,
        binary=elf.path,
        build_id=elf.build_id,
        attach=kinds or ("timer" if probe.id == "stacks" else "tracepoint"),
        slow_entry=any(one.slow for one in measured),
        frame_pointers=keeps_frame_pointers(elf),
        points={event: tuple(one.point(elf.path) for one in found) for event, found in attachments.items()},
    )


@cache
def bpftrace_version(program: Path) -> str:
    """What `bpftrace --version` says, without the v. Raises ProbeError when it does not run."""
    try:
        # The helper asks, too: nothing of the caller's environment reaches a privileged program.
        done = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, timeout=20, env={"LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProbeError(f"probes: {program} does not run ({error}); install bpftrace >= 0.17") from None
    return done.stdout.strip().removeprefix("bpftrace").strip().removeprefix("v")


def parse_version(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version such as `v0.23.2` or `6.18.44-generic`."""
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def find_bpftrace() -> Path:
    """The bpftrace on PATH. Raises ProbeError when there is none."""
    path = shutil.which("bpftrace")
    if path is None:
        raise ProbeError(
            "probes: bpftrace not found on PATH. Enter the dev shell or install bpftrace >= 0.17. "
            "Continuing with procsched and planstats."
        )
    return Path(path)
