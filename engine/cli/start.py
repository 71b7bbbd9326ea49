"""Starting, stopping and following the engine, which runs headless in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.table import Table
from rich.text import Text

from engine.analysis.answer import noise
from engine.cli import interface, standard_streams
from engine.core.errors import UserError
from engine.core.format import size, span
from engine.core.model import Config, workload_title
from engine.host import disk
from engine.host.disk import DiskFull
from engine.host.procfs import processes_in
from engine.journal.database import database_path
from engine.journal.housekeeping import data_kept, keep_data
from engine.journal.reader import JournalReader
from engine.journal.run_lock import holder, is_locked
from engine.journal.runs import planned, reference
from engine.journal.writer import create_run
from engine.plan import resumption
from engine.plan.prepare import Prospect, prepare
from engine.plan.request import Request
from engine.postgres import external_cell, setting_kinds
from engine.report import follow
from engine.report.console import PlainConsole, echo
from engine.run import control
from engine.run.stop import END_S, NO_ROOM, STOPPED
from engine.system import host_lock
from engine.system.account import make_passable, own_folder, unprivileged
from engine.system.server_folders import check_places, socket_base

PATIENCE_S = 2.0  # between two messages while something ends
ANSWER_S = 3.0  # of an engine that is to stop; then it gets a signal
KILL_AFTER_S = END_S + 5.0  # an engine whose servers still run
CLEARING_TIMEOUT_S = 30.0


def prepare_shown(request: Request, out: Path, console: PlainConsole) -> Prospect:
    try:
        if not console.is_terminal:
            return prepare(request, out, lambda text: echo(text, err=True))
        with console.status("preparing") as status:
            return prepare(request, out, lambda text: status.update(Text(text)))
    except KeyboardInterrupt:
        echo("stopped before the run started; the same command starts it, and reuses what has been built", err=True)
        raise


def print_prospect(prospect: Prospect, out: Path, console: PlainConsole) -> None:
    manifest, design = prospect.manifest, prospect.manifest.design
    workload = manifest.workload
    steps = " ".join(step["name"] for step in workload["steps"])
    clients = f"{workload['clients']} client{'s' if workload['clients'] != 1 else ''}"
    console.say(f"{workload['name']} {workload_title(workload)}, {clients}: {steps}")
    if manifest.route.tcp:
        console.say(f"clients connect over {manifest.route.words}")
    if design.interleave_reason:
        console.say(f"{design.interleave}: {design.interleave_reason}")
    if design.sliced:
        configs = {subject.config for subject in manifest.subjects}
        of_all = f"; config {configs.pop()}" if len(configs) == 1 else ""
        console.say(f"side by side: {', '.join(manifest.names.values())}{of_all}")
    else:
        kernels = ("kernel",) if manifest.boot.kernels else ()
        table = Table("cell", "build", "config", *kernels, "repeat", box=None, pad_edge=False, show_edge=False)
        for cell in manifest.cells[: prospect.estimate.cells]:
            subject = cell.subject
            kernel = (subject.kernel,) if manifest.boot.kernels else ()
            table.add_row(str(cell.ordinal + 1), subject.name, subject.config, *kernel, str(cell.repeat))
        console.print(table)
    for line in _left_out(manifest.configs):
        console.say(line)
    if manifest.observation.observers:
        console.say(f"probes: {', '.join(manifest.observation.observers)}")
    for line in prospect.notices:
        console.say(line)
    where = f"in {out}" if manifest.external is None else "on each server"
    console.say(f"{_amount(prospect)}; {size(prospect.estimate.needed_bytes)} of disk {where}")
    subjects = len({cell.subject for cell in manifest.cells})
    if subjects > 1 and manifest.external is None:
        pairs = prospect.estimate.cells // subjects
        console.say(noise.summary(prospect.estimate.noise, pairs, design.interleave))
        for error in prospect.estimate.unread[:1]:
            more = f" (and {count} more)" if (count := len(prospect.estimate.unread) - 1) else ""
            console.say(f"not used for that: {error}{more}")


def _left_out(configs: Mapping[str, Config]) -> Iterator[str]:
    """A line for each reason why settings of configs are left out, with the servers for which the same are."""
    servers = defaultdict[tuple[str, tuple[str, ...]], list[str]](list)
    for key, config in configs.items():
        names = defaultdict[str, list[str]](list)
        for name in config.dropped:
            names[setting_kinds.why_dropped(name)].append(name)
        for why, those in names.items():
            servers[why, tuple(those)].append(key)
    for (why, dropped), keys in servers.items():
        yield f"{', '.join(keys)}: settings {why}, left out: {', '.join(dropped)}"


def _amount(prospect: Prospect) -> str:
    manifest, expected = prospect.manifest, prospect.estimate
    design = manifest.design
    servers = len({cell.subject for cell in manifest.cells})
    in_all = f"about {span(expected.cell_s * expected.cells)} in all (rough estimate)"
    if design.minutes:
        in_all += f", {design.minutes:g} minutes at most: pgbed decides after each pair"
        in_all += ", and gives the time of decided steps to undecided ones" if design.adaptive else ""
    if not design.sliced:
        return f"{expected.cells} cells of about {span(expected.cell_s)} each, {in_all}"
    pairs = expected.cells // servers
    first = design.interim_analyses[0].pairs if design.adaptive else pairs
    least = f"{first} to " if pairs > first else ""
    ends = ", ends once every step is decided" if design.adaptive else ""
    query = f" ({expected.query_step_s:.0f} s per timed step)" if expected.query_step_s else ""
    of_each = f"{pairs} pair{'s' if pairs != 1 else ''} of about {span(expected.cell_s * servers)} each{query}"
    return f"{least}{of_each}, {in_all}{ends}"


def start(prospect: Prospect, out: Path, console: PlainConsole, *, detach: bool, glyphs: str = "auto") -> int:
    """Create the run folder and start the engine on it; return the exit code.

    On a terminal the interface opens, with `glyphs`; otherwise lines are printed.
    Raises UserError if there is too little space, or the folder cannot be written.
    """
    run = out / prospect.manifest.run
    with data_kept(run):
        database_path(run)  # before anything is written: SQLite cannot handle every file system's paths
        account = unprivileged()
        for build in prospect.manifest.builds:
            check_places(build, account, run, socket_base(account))
        try:
            make_passable(out)
        except OSError as error:
            raise UserError(f"{out}: cannot be made: {error.strerror}; choose another folder with --out") from error
        own_folder(out)  # again, now that it exists
        if prospect.manifest.external is None:
            disk.check(out, prospect.estimate.needed_bytes)
        # Checked before anything is written; the engine takes the lock for good.
        with host_lock.exclusive_run(concurrent=prospect.manifest.allow_concurrent):
            pass
        create_run(run, prospect.manifest.record())
        keep_data(run)
    connections = prospect.connections
    return _spawn(run, console, detach=detach, notices=prospect.notices, glyphs=glyphs, connections=connections)


def resume(run: Path, console: PlainConsole, *, detach: bool, glyphs: str = "auto") -> int:
    """Continue a run that this user began on this machine; return the exit code."""
    run = own_folder(run)
    own_folder(run.parent)  # which has the links to builds
    manifest = planned(run, signed=True)
    until_s = time.monotonic() + CLEARING_TIMEOUT_S
    while is_locked(run):
        pid = holder(run)
        if pid is None or Path(f"/proc/{pid}").exists() or time.monotonic() > until_s:
            raise _taken(run)
        time.sleep(0.05)  # the remains of a killed engine are being cleaned up
    connections = resumption.check(run, manifest, lambda text: echo(text, err=True))
    for folder, databases in external_cell.left_in(run).items():
        if databases.build in connections and (dropped := external_cell.clear(folder, connections[databases.build])):
            console.say(f"dropped leftovers of cell {folder.name}: {dropped}")
    if resumption.complete(run, manifest):
        console.say(f"nothing to do: every cell has finished; to see the results: bench compare {reference(run)}")
        return 0
    return _spawn(run, console, detach=detach, glyphs=glyphs, connections=connections)


def stop(run: Path, console: PlainConsole) -> None:
    """Ask a run's engine to stop, as Ctrl-C does, and wait. Raises UserError if none runs, or it is another user's."""
    if not is_locked(run):
        raise UserError(f"{run}: no engine is running; `bench list runs` shows the state of each run")
    engine, patience_s = holder(run), KILL_AFTER_S
    try:
        control.ask(run, {"stop": True}, ANSWER_S)
    except control.Silent:
        _signal(run, engine, signal.SIGTERM)
        _signal(run, engine, signal.SIGCONT)  # it may have been stopped
        patience_s = END_S - 2 * ANSWER_S
    await_end(run, engine, lambda: not is_locked(run), console, patience_s)
    console.say(f"stopped; to continue: bench resume {reference(run)}")


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(signal.SIGINT, None)


def _spawn(
    run: Path,
    console: PlainConsole,
    *,
    detach: bool,
    notices: tuple[str, ...] = (),
    glyphs: str = "auto",
    connections: Mapping[str, str],
) -> int:
    process: subprocess.Popen[bytes] | None = None
    for line in host_lock.others():
        console.say(f"? {line}")
    console.say("starting the engine")
    try:
        with (run / "engine.log").open("ab") as log, _interrupts_deferred():
            process = subprocess.Popen(
                [sys.executable, "-m", "engine", "engine", str(run.resolve())],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=interface.own_modules(),
                start_new_session=True,  # the terminal's Ctrl-C and hangup must not reach the engine
            )
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as pipe:
                pipe.write(json.dumps(connections).encode() if connections else b"")
        if not _wait_open(run, process):
            return _died(run, process.returncode)
        if detach:
            _say_how_to_return(console, f"running detached: {run}", run)
            return 0
        if interface.wanted(console):
            console.say(f"{run.name} has begun; the interface opens with the CPU time that it leaves")
            interface.show(run.parent, run, glyphs=glyphs)
            if is_locked(run):
                _say_how_to_return(console, f"the run continues: {run}", run)
                return 0
        else:
            console.say(f"run {run}")
            try:
                follow.follow(run, console, notices)
            except OSError as error:
                if error.filename != standard_streams.OUTPUT:
                    raise
                ending = f"the run continues: bench watch {reference(run)}"
                raise UserError(f"{error.filename}: {error.strerror}; {ending}") from None
        code = process.wait()
    except KeyboardInterrupt:
        console.say("stopping: the running cell is discarded, finished cells are kept")
        if process is not None:
            process.send_signal(signal.SIGINT)
            await_end(run, process.pid, lambda: process.poll() is not None, console)
        code = STOPPED  # also if it was stopped before it could report that itself
    return conclude(run, code, console)


def await_end(
    run: Path, engine: int | None, ended: Callable[[], bool], console: PlainConsole, patience_s: float = KILL_AFTER_S
) -> None:
    """Wait until the engine has ended after a stop. One that leaves its servers running is killed, and they with it."""
    asked_s = reported_s = time.monotonic()
    asked_ns = time.monotonic_ns() - round(ANSWER_S * 1e9)  # the engine may have heard of it before
    while True:
        try:
            if ended():
                return
            now_s = time.monotonic()
            if now_s - reported_s > PATIENCE_S:
                reported_s = now_s
                console.say(f"still stopping: {_doing(run, asked_ns) or 'the server'}")
            if now_s - asked_s > patience_s and any(map(processes_in, run.glob("cells/*/data"))):
                _signal(run, engine, signal.SIGKILL)
            time.sleep(0.1)
        except KeyboardInterrupt:
            if time.monotonic() - asked_s > patience_s:  # an engine without servers here, which may never end
                raise


def _doing(run: Path, since_ns: int) -> str:
    """The latest report of the engine on its waiting."""
    with suppress(UserError), JournalReader(run) as reader:
        reports = [event for event in reader.events(kinds=("progress",)) if event.started_ns >= since_ns]
        return str(reports[-1].data.get("text")) if reports else ""
    return ""


def _signal(run: Path, engine: int | None, number: signal.Signals) -> None:
    """Send a signal to a run's engine; the file that names it may be another user's, and the process another one."""
    with suppress(OSError):
        words = Path(f"/proc/{engine}/cmdline").read_bytes().split(b"\0")
        if engine is not None and b"engine" in words and os.fsencode(run.resolve()) in words:
            os.kill(engine, number)


def _wait_open(run: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait until this engine, not another, holds the run and its journal; False if it failed first."""
    while process.poll() is None:
        if (run / "journal.db").exists() and is_locked(run) and holder(run) == process.pid:
            return True
        time.sleep(0.05)
    return process.returncode == 0


def _refuse_full(run: Path, code: int) -> None:
    if code == NO_ROOM:
        then = f"then: bench resume {reference(run)}"
        raise DiskFull(f"{run}: the run has ended, as {disk.full(run)}: free some space on it, {then}")


def _died(run: Path, code: int) -> int:
    _refuse_full(run, code)
    if is_locked(run):
        raise _taken(run)
    if code < 0:
        raise UserError(f"the engine {_ended(code)} during startup; to continue: bench resume {reference(run)}")
    lines = (run / "engine.log").read_text(errors="replace").strip().splitlines()
    raise UserError(lines[-1].removeprefix("bench: ") if lines else f"the engine {_ended(code)} during startup")


def _say_how_to_return(console: PlainConsole, what: str, run: Path) -> None:
    for line in (what, f"  bench watch {reference(run)}", f"  bench stop {reference(run)}"):
        console.say(line)


def _ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _taken(run: Path) -> UserError:
    return UserError(f"{run}: an engine is running it now; watch it with `bench watch {reference(run)}`")


def conclude(run: Path, code: int, console: PlainConsole) -> int:
    """Print the comparison of a run whose engine has ended; return its exit code. Raises UserError if it broke."""
    from engine.analysis.answer.compare import compare
    from engine.analysis.causes import probe_cost
    from engine.report import render  # here, because these load the statistics

    manifest = planned(run)
    if code == STOPPED:
        console.say(f"stopped; to continue: bench resume {reference(run)}")
        return code
    _refuse_full(run, code)
    if code not in (0, 1):
        then = f"to continue: bench resume {reference(run)}"
        raise UserError(f"the engine {_ended(code)}; see {run / 'engine.log'}; {then}")
    comparison = compare([run])
    render.print_comparison(comparison, console, rest=f"bench compare {reference(run)} --all")
    if manifest.observation.probes_in_control:
        probe_cost.keep(run.parent, probe_cost.costs(comparison, manifest.observation.observers))
    return code
