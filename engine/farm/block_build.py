"""The build of a block: it runs the plan over the servers that it was given; the run becomes its output.

Nix gives a build no home, no network, no root and no `nix`; of the environment it has what block.nix names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from engine.builds.nix import store_hash
from engine.core.errors import UserError
from engine.core.text import visible, write
from engine.farm.block_plan import check
from engine.host.environment import SANDBOX
from engine.journal.runs import runs_in
from engine.plan import planfile

REPEATS = 2  # per block, unless its plan says otherwise: A B, then B A
ENDED = "block ended with "  # and the exit code; a block whose builder was lost does not print it


def measure() -> int:
    """Run the block and move its run to `$out` if its exit code is 0; returns that code."""
    code = 2
    try:
        code = _measured()
    finally:
        if code:
            write(visible(f"{ENDED}{code}"), sys.stderr)
    return code


def _measured() -> int:
    try:
        block, plan, out, builds = (os.environ[name] for name in ("block", "plan", "out", "builds"))
        servers, programs = (json.loads(os.environ[name]) for name in ("servers", "programs"))
        folder = Path(os.environ["NIX_BUILD_TOP"])
    except (KeyError, ValueError):
        raise UserError("bench block is what the build of a block runs: see bench farm") from None
    places, runs = folder / "servers", folder / "runs"
    places.mkdir()
    for label, prefix in servers.items():
        (places / label).symlink_to(prefix)
    listed = folder / "builds.json"
    listed.write_text(builds)
    os.environ |= programs | {
        "PGBED_SERVERS": str(places),
        "PGBED_BUILDS": str(listed),
        SANDBOX: f"block{block}-{(store_hash(Path(out)) or '')[:8]}",
        "HOME": str(folder),
    }  # fmt: skip
    asked = planfile.request(planfile.read(Path(plan)).entries())
    check(asked)  # the flake's `run` takes any plan
    command = [sys.executable, "-m", "engine", "run", "--plan", plan, "--out", str(runs), "--plain", "--probes", "none"]
    if asked.repeats is None:
        command += ["--repeats", str(REPEATS)]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if code == 0:
        (run,) = runs_in(runs)
        shutil.copytree(run, out, ignore=_strange)
    return code


def _strange(folder: str, names: list[str]) -> set[str]:
    """Names that are neither files nor folders, and the lock of an engine that has ended."""
    paths = {name: Path(folder, name) for name in names}
    return {name for name, path in paths.items() if not (path.is_file() or path.is_dir()) or name == "engine.lock"}
