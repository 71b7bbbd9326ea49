"""Starting, stopping and following the engine, which runs headless in a process of its own."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import engine
from engine import interface, live, noise, space
from engine.account import make_passable, unprivileged
from engine.errors import UserError
from engine.hostlock import alone_on_the_host
from engine.journal import is_locked, read_manifest
from engine.model import Manifest
from engine.prepare import Prospect, Request, prepare
from engine.server import check_places, socket_base
from engine.writer import create_run

STOPPED = 130  # the exit code of an engine that was asked to stop
_HOW_TO_RETURN = "\n  bench watch {0}\n  bench stop {0}"
PATIENCE_S = 5.0  # between two words while something ends


def prepare_shown(request: Request, out: Path, console: Console) -> Prospect:
    """`prepare` with its progress shown: a spinner on a terminal, lines elsewhere."""
    if not console.is_terminal:
        return prepare(request, out, lambda text: print(text, file=sys.stderr))
    with console.status("preparing") as status:
        return prepare(request, out, lambda text: status.update(text))


def print_prospect(prospect: Prospect, out: Path, console: Console) -> None:
    """What will be run, in which order, and about how long and how much space it takes."""
    manifest = prospect.manifest
    workload = manifest.workload
    steps = " ".join(step["name"] for step in workload["steps"])
    clients = f"{workload['clients']} client{'s' if workload['clients'] != 1 else ''}"
    console.print(f"{workload['name']} {workload['generation']}, scale {workload['scale']}, {clients}: {steps}")
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("cell", "build", "config", "repeat"):
        table.add_column(heading)
    for cell in manifest.cells:
        table.add_row(str(cell.ordinal + 1), cell.subject.name, cell.subject.config, str(cell.repeat))
    console.print(table)
    for key, config in manifest.configs.items():
        if config.dropped:
            console.print(f"{key}: left out, unknown to this version: {', '.join(config.dropped)}", soft_wrap=True)
    if manifest.observers:
        console.print(f"probes: {', '.join(manifest.observers)}", soft_wrap=True)
    for line in prospect.notices:
        console.print(line, soft_wrap=True, markup=False)
    console.print(
        f"{len(manifest.cells)} cells of about {live.duration(prospect.cell_s)} each, "
        f"about {live.duration(prospect.total_s)} in all (a rough guess); "
        f"{space.readable(prospect.needed_bytes)} of disk in {out}",
        soft_wrap=True,
    )
    if len({cell.subject for cell in manifest.cells}) > 1:
        console.print(noise.said(prospect.noise, manifest.repeats), soft_wrap=True, markup=False)


def start(prospect: Prospect, out: Path, console: Console, *, detach: bool, glyphs: str = "auto") -> int:
    """Makes the run directory and starts the engine on it; returns the exit code.

    On a terminal the interface is shown, with `glyphs`; elsewhere lines.
    Raises UserError when there is not space enough, or the folder cannot be written.
    """
    run = out / prospect.manifest.run
    account = unprivileged()
    for build in prospect.manifest.builds:
        check_places(build, account, run, socket_base(account))
    try:
        make_passable(out)
    except OSError as error:
        raise UserError(f"{out}: cannot be made: {error.strerror}; choose another folder with --out") from error
    if out.parent.stat().st_mode & stat.S_ISVTX and out.stat().st_uid != os.geteuid():
        # In a folder like /var/tmp anybody could have made it, and would own what is written there.
        raise UserError(f"{out} was made by another user; choose another folder with --out")
    space.check(out, prospect.needed_bytes)
    with alone_on_the_host(prospect.manifest.beside):  # before anything is written; the engine takes it for good
        pass
    create_run(run, prospect.manifest.record())
    return _spawn(run, console, detach=detach, told=prospect.notices, glyphs=glyphs)


def resume(run: Path, console: Console, *, detach: bool, glyphs: str = "auto") -> int:
    """Starts the engine on a run that is there; returns the exit code."""
    read_manifest(run)
    if is_locked(run):
        raise UserError(f"{run}: an engine is running it now; watch it with `bench watch {run.name}`")
    return _spawn(run, console, detach=detach, glyphs=glyphs)


def stop(run: Path, console: Console) -> None:
    """Asks the engine of a run to stop, as Ctrl-C does, and waits until it has.

    Raises UserError when there is no engine.
    """
    if not is_locked(run):
        raise UserError(f"{run}: no engine is running it")
    os.kill(int((run / "engine.lock").read_text()), signal.SIGINT)
    told = time.monotonic()
    while is_locked(run):
        time.sleep(0.1)
        if time.monotonic() - told > PATIENCE_S:
            told = time.monotonic()
            console.print("still stopping the server and removing its cluster", soft_wrap=True)
    console.print(f"stopped; go on with: bench resume {run.name}", soft_wrap=True)


def _spawn(run: Path, console: Console, *, detach: bool, told: tuple[str, ...] = (), glyphs: str = "auto") -> int:
    home = str(Path(engine.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    with (run / "engine.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "engine", "engine", str(run)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # the terminal's Ctrl-C and its end are not the engine's
        )
    try:
        if not _wait_open(run, process):
            return _died(run, process.returncode)
        if detach:
            console.print(f"running detached: {run}{_HOW_TO_RETURN.format(run.name)}", soft_wrap=True)
            return 0
        if interface.wanted(console):
            interface.show(run.parent, run, glyphs=glyphs)
            if is_locked(run):
                console.print(f"the run goes on: {run}{_HOW_TO_RETURN.format(run.name)}", soft_wrap=True)
                return 0
        else:
            console.print(f"run {run}", soft_wrap=True)
            live.follow(run, console, told)
        code = process.wait()
    except KeyboardInterrupt:
        console.print("stopping: the running cell is given up, finished ones stay", soft_wrap=True)
        process.send_signal(signal.SIGINT)
        _await_end(process, console)
        code = STOPPED  # also where it was stopped before it could say so itself
    return _conclude(run, code, console)


def _await_end(process: subprocess.Popen[bytes], console: Console) -> None:
    """Waits for an engine that was asked to stop; more Ctrl-C does not hurry it."""
    while True:
        try:
            process.wait(PATIENCE_S)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            console.print("still stopping the server and removing its cluster", soft_wrap=True)


def _wait_open(run: Path, process: subprocess.Popen[bytes]) -> bool:
    """Waits until the engine has opened its journal; False when it died before."""
    while process.poll() is None:
        if (run / "journal.db").exists() and is_locked(run):
            return True
        time.sleep(0.05)
    return process.returncode == 0


def _died(run: Path, code: int) -> int:
    lines = (run / "engine.log").read_text(errors="replace").strip().splitlines()
    raise UserError(lines[-1].removeprefix("bench: ") if lines else f"the engine ended at once, with exit code {code}")


def _conclude(run: Path, code: int, console: Console) -> int:
    from engine import probecost, report  # here, because these load the statistics
    from engine.compare import compare

    manifest = Manifest.of(read_manifest(run))
    if code == STOPPED:
        console.print(f"stopped; go on with: bench resume {manifest.run}", soft_wrap=True)
        return code
    if code not in (0, 1):
        console.print(f"the engine died (exit code {code}); see {run / 'engine.log'}", soft_wrap=True)
        console.print(f"go on with: bench resume {manifest.run}", soft_wrap=True)
        return 1
    comparison = compare([run])
    report.print_comparison(comparison, console, brief=True)
    if manifest.probes_in_arm:
        probecost.keep(run.parent, probecost.costs(comparison, manifest.observers))
    console.print(f"every cell, response times, stalls and sizes: bench compare {manifest.run}", soft_wrap=True)
    return code
