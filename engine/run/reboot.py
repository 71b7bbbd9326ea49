"""A run whose cells have a boot of this machine each: which cell runs now, and which kernel is booted next.

Each cell has its own boot, by kexec into its kernel, so that verdicts generalise over boots, as in guests. The journal
records attempts, an event of kind `boot` for each requested boot ({"cell", "kernel", "boot_id"}: the boot that
requested it), and one for the start ({"after": the last attempt until then}). So the run continues after a boot, a
crash or a power cut. A kernel that does not come up is tried `TRIES` times in a row; then its cells fail, and others
continue. So the run ends after at most `TRIES` boots per cell.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import UserError
from engine.core.kernel import Kernel
from engine.core.model import Manifest
from engine.core.record import converted
from engine.core.text import visible, write
from engine.host import kexec, resume_unit
from engine.host.host_lock import exclusive_run
from engine.host.kexec import Running
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.run_lock import held
from engine.journal.runs import planned
from engine.journal.writer import JournalWriter
from engine.run.engine import Outcome, execute, stop_on_signals
from engine.run.stop import Stop

TRIES = 2
EVENT = "boot"


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell and its kernel: label, release and version (uname -r and -v)."""

    cell: str
    kernel: str
    release: str
    version: str

    def runs(self, running: Running) -> bool:
        """Whether its kernel is running, booted in the same way as for all other cells."""
        return running.marked and (running.release, running.version) == (self.release, self.version)


@dataclass(frozen=True, slots=True)
class Boot:
    cell: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class _Begin:
    after: int


@dataclass(frozen=True, slots=True)
class State:
    """Input of `decide`: the plan in order, finished and begun cells, boots, and boots that have had a cell."""

    plan: tuple[PlannedCell, ...]
    finished: frozenset[str]
    begun: frozenset[str]
    boots: tuple[Boot, ...]
    used: frozenset[str]
    running: Running


@dataclass(frozen=True, slots=True)
class RunCell:
    cell: str


@dataclass(frozen=True, slots=True)
class BootFor:
    cell: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do; `lost` are cells whose kernel does not come up, with the reasons."""

    lost: tuple[tuple[str, str], ...] = ()


def decide(state: State) -> RunCell | BootFor | Finished:
    """Choose the next action. A cell is begun at most once; repeating a failed one is up to the user."""
    left = [planned for planned in state.plan if planned.cell not in state.finished | state.begun]
    fresh = state.running.boot_id not in state.used
    if state.boots and fresh and state.boots[-1].boot_id != state.running.boot_id:
        for planned in left:
            if planned.cell == state.boots[-1].cell and planned.runs(state.running):
                return RunCell(planned.cell)
    dead = {kernel for kernel in {planned.kernel for planned in left} if _lost(state, kernel) >= TRIES}
    for planned in left:
        if planned.kernel not in dead:
            return BootFor(planned.cell)
    how = "" if state.running.marked else ", by the firmware"
    return Finished(
        tuple(
            (
                planned.cell,
                f"kernel {planned.kernel} ({planned.release}) did not come up in {TRIES} boots; at last "
                f"{state.running.release} did{how}",
            )
            for planned in left
        )
    )


def _lost(state: State, kernel: str) -> int:
    kernels = {planned.cell: planned.kernel for planned in state.plan}
    count = 0
    for boot in reversed(state.boots):
        if kernels.get(boot.cell) == kernel:
            if boot.cell in state.begun:
                break
            count += 1
    return count


def _boot(kernel: Kernel) -> None:
    kexec.load(Path(kernel.image), Path(kernel.initrd), kernel.command_line)
    kexec.boot()


@dataclass(frozen=True, slots=True)
class Machine:
    running: Callable[[], Running] = kexec.running
    boot: Callable[[Kernel], None] = _boot
    reboot: Callable[[], None] = kexec.reboot


HERE = Machine()


def go_on(run: Path, *, booted: bool, machine: Machine = HERE, root: Path = resume_unit.ROOT) -> Outcome:
    """Run the cell that this boot is for, then boot for the next; `booted` by the unit, else start over.

    At the end the machine boots its usual system, unless it was asked to stop or a kernel did not come up: then it
    stays as it is. Either way later boots continue nothing. Raises UserError if it cannot continue.
    """
    manifest, failed, unit_stays, tried = planned(run, signed=True), 0, False, set[str]()
    resume_unit.check_place(run)
    if not booted:
        resume_unit.check_free(run, root)
        _begin(run)
        if decide(_state(run, manifest, machine.running())) == Finished():
            return Outcome(0, False)
    with stop_on_signals() as stop:
        try:
            if not booted:
                words = ["-m", "engine", "engine", str(run), "--booted"]
                resume_unit.install(run, words, run / "engine.log", root)
            while not stop.reason:
                state = _state(run, manifest, machine.running())
                match decide(state):
                    case RunCell(cell) if cell in tried:
                        raise UserError(f"{cell}: it ought to have run, but there is no record of it")
                    case RunCell(cell):
                        tried.add(cell)
                        failed += execute(run, only=cell, stop=stop).failed
                    case BootFor(cell):
                        kernel = next(planned.kernel for planned in state.plan if planned.cell == cell)
                        with exclusive_run(concurrent=manifest.allow_concurrent):
                            if not _ask_for(run, manifest, cell, kernel, state.running, stop, root):
                                return Outcome(failed, True)
                            machine.boot(_kernel(manifest, kernel))
                        unit_stays = True
                        return Outcome(failed, False)
                    case Finished(lost):
                        _fail(run, lost)
                        if not lost:
                            resume_unit.remove(run, root)
                            with exclusive_run(concurrent=manifest.allow_concurrent):
                                machine.reboot()
                        return Outcome(failed + len(lost), False)
            return Outcome(failed, True)
        finally:
            if not unit_stays:
                resume_unit.remove(run, root)


def end(run: Path, root: Path = resume_unit.ROOT, boot_id: str | None = None) -> str:
    """End a run: later boots do not continue it. Returns its state. Raises UserError if an engine has the run."""
    with held(run):  # no engine asks for a boot meanwhile
        manifest = planned(run)
        boots = _boots(run, manifest)
        resume_unit.remove(run, root)
    if boots and boots[-1].boot_id == (boot_id or kexec.running().boot_id):
        return "the requested boot can no longer be prevented, but the run does not continue after it"
    return "stopped"


def _say(text: str) -> None:
    write(visible(text), sys.stderr)


def _begin(run: Path) -> None:
    with JournalWriter.open(run) as journal:
        journal.close_orphans()
        _note(journal, {"after": journal.last_attempt()})


def _kernel(manifest: Manifest, label: str) -> Kernel:
    kernel = manifest.kernel(label)
    assert kernel is not None  # as the manifest's reader sees to
    return kernel


def _ask_for(run: Path, manifest: Manifest, cell: str, label: str, running: Running, stop: Stop, root: Path) -> bool:
    """Record a boot that follows at once, or return False if the run was asked to stop before.

    `end` holds the run's lock, too: either it sees this record, or this sees that the unit is gone.
    """
    kernel = _kernel(manifest, label)
    with JournalWriter.open(run) as journal:
        if stop.reason or resume_unit.run_of(root) != run.resolve():
            return False
        _note(journal, {"cell": cell, "kernel": label, "boot_id": running.boot_id})
        journal.rows.harden()
    _say(f"booting kernel {label} ({kernel.release}) for {cell}")
    return True


def _fail(run: Path, lost: Sequence[tuple[str, str]]) -> None:
    with JournalWriter.open(run) as journal:
        for cell, why in lost:
            t_ns = time.monotonic_ns()
            journal.end_attempt(journal.begin_attempt(cell, t_ns, {}), t_ns, "failed", why)
            _say(f"{cell}: {why}")


def _note(journal: JournalWriter, data: dict[str, str | int]) -> None:
    t_ns = time.monotonic_ns()
    journal.add_event(EVENT, t_ns, data, ended_ns=t_ns)
    journal.commit()


def _state(run: Path, manifest: Manifest, running: Running) -> State:
    with JournalReader(run) as reader:
        attempts = reader.attempts(origins=False)
        boot_ids = {start.id: start.boot_id for start in reader.sessions()}
        after, boots = _recorded(reader, manifest)
    unknown = [attempt.id for attempt in attempts if attempt.session_id not in boot_ids]
    if unknown:
        raise UserError(f"{run / 'journal.db'}: attempt {unknown[0]} belongs to no known start of the engine")
    own = [attempt for attempt in attempts if attempt.id > after]
    cells = ((cell.id, _kernel(manifest, cell.subject.kernel)) for cell in manifest.cells)
    return State(
        plan=tuple(PlannedCell(cell, kernel.label, kernel.release, kernel.version) for cell, kernel in cells),
        finished=frozenset(outcome.finished(manifest, attempts)),
        begun=frozenset(attempt.cell for attempt in own),
        boots=boots,
        used=frozenset(boot_ids[attempt.session_id] for attempt in attempts),
        running=running,
    )


def _boots(run: Path, manifest: Manifest) -> tuple[Boot, ...]:
    with JournalReader(run) as reader:
        return _recorded(reader, manifest)[1]


def _recorded(reader: JournalReader, manifest: Manifest) -> tuple[int, tuple[Boot, ...]]:
    """The last attempt before the latest start, and the boots since. Raises UserError for invalid events."""
    where, cells = f"{reader.run / 'journal.db'}: event of kind {EVENT}", {cell.id for cell in manifest.cells}
    after, boots = 0, list[Boot]()
    for event in reader.events(kinds=(EVENT,)):
        if "after" in event.data:
            after, boots = converted(event.data, _Begin, where).after, []
            continue
        boots.append(converted(event.data, Boot, where))
        if boots[-1].cell not in cells:
            raise UserError(f"{where}: cell {boots[-1].cell!r} is not in its plan")
    return after, tuple(boots)
