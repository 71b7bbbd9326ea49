"""A run whose cells have a boot each: what is decided, that it always ends, and the whole chain over a real server.

Only the machine is made up.
"""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.runs import delete
from engine.cli.start import _boots
from engine.core.errors import UserError
from engine.core.kernel import Kernel
from engine.core.model import Build
from engine.host import resume_unit
from engine.host.kexec import Running
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.journal.writer import JournalWriter, create_run
from engine.report.console import PlainConsole
from engine.run import reboot
from engine.run.engine import Outcome
from engine.run.reboot import TRIES, Boot, BootFor, Finished, Machine, PlannedCell, RunCell, State, decide, go_on
from engine.run.stop import STOPPED
from tests.support.benchcall import SMALL, Bench

PLAN = tuple(PlannedCell(f"{kernel}{number}", kernel, kernel, "#1") for number, kernel in enumerate("abba"))
AT_FIRST = Running("firmware", "#1", "boot 0", False)
NOTHING: frozenset[str] = frozenset()
BEFORE = State(PLAN, NOTHING, NOTHING, (), NOTHING, AT_FIRST)


def booted(release: str, number: int = 1, marked: bool = True) -> Running:
    return Running(release, "#1", f"boot {number}", marked)


def test_a_cell_runs_in_a_boot_of_its_own_that_was_made_for_it() -> None:
    asked = replace(BEFORE, boots=(Boot("a0", "boot 0"),))
    assert decide(BEFORE) == BootFor("a0")
    assert decide(replace(BEFORE, running=booted("a", 0))) == BootFor("a0"), "its kernel, but nobody booted it for it"
    assert decide(asked) == BootFor("a0"), "asked for, and the machine did not go down"
    assert decide(replace(asked, running=booted("a"))) == RunCell("a0")
    assert decide(replace(asked, running=booted("b"))) == BootFor("a0")
    assert decide(replace(asked, running=replace(booted("a"), version="#2"))) == BootFor("a0"), "another build of it"
    assert decide(replace(asked, running=booted("a", marked=False))) == BootFor("a0"), "the firmware booted it"
    begun = replace(asked, running=booted("a"), begun=frozenset({"a0"}), used=frozenset({"boot 1"}))
    assert decide(begun) == BootFor("b1")
    again = replace(begun, boots=(*begun.boots, Boot("b1", "boot 1")), begun=frozenset({"a0", "b1"}))
    assert decide(replace(again, running=booted("b", 2), used=frozenset({"boot 1", "boot 2"}))) == BootFor("b2"), (
        "the same kernel runs, but this boot has had its cell"
    )
    assert decide(replace(BEFORE, finished=frozenset(each.cell for each in PLAN))) == Finished()


@given(st.data())
def test_whatever_comes_up_the_chain_ends_and_no_cell_runs_under_another_kernel(data: st.DataObject) -> None:
    state, boots, ran = BEFORE, 0, []
    while not isinstance(found := decide(state), Finished):
        cell = next(each for each in PLAN if each.cell == found.cell)
        if isinstance(found, RunCell):
            assert cell.runs(state.running) and state.running.boot_id not in state.used
            ran.append(cell.cell)
            state = replace(
                state, begun=state.begun | {cell.cell}, used=state.used | {state.running.boot_id},
                finished=state.finished | ({cell.cell} if data.draw(st.booleans()) else set()),
            )  # fmt: skip
            if data.draw(st.booleans()):  # the power goes
                state = replace(state, running=replace(AT_FIRST, boot_id=f"power {len(ran)}"))
        else:
            boots += 1
            assert boots <= TRIES * len(PLAN)
            comes = data.draw(st.sampled_from((cell.kernel, "firmware", "b")))
            state = replace(state, boots=(*state.boots, Boot(cell.cell, state.running.boot_id)))
            state = replace(state, running=booted(comes, boots, comes != "firmware"))
    assert ran == sorted(set(ran), key=[each.cell for each in PLAN].index)
    assert {each.cell for each in PLAN} == set(ran) | {cell for cell, _ in found.lost}
    assert all("did not come up in 2 boots" in why for _, why in found.lost)


class MadeUp:
    """A machine that boots what it is told, but for those boots that fall back to what its boot loader boots."""

    def __init__(self, falls_back: set[int]) -> None:
        self.now, self.boots, self.home, self._falls_back = AT_FIRST, 0, 0, falls_back

    def boot(self, kernel: Kernel) -> None:
        self.boots += 1
        self.now = booted(kernel.release, self.boots)
        if self.boots in self._falls_back:
            self.now = replace(AT_FIRST, boot_id=self.now.boot_id)

    def reboot(self) -> None:
        self.home += 1

    def calls(self) -> Machine:
        return Machine(lambda: self.now, self.boot, self.reboot)


@pytest.fixture(scope="module")
def planned(new_folder: Callable[[], Path], build: Callable[[int | str], Build]) -> dict[str, Any]:
    """The record of a plan of two kernels."""
    done = Bench(new_folder() / "runs")(
        "--pg", build(16).label, "--repeats", "1", "--steps", "l.i0", *SMALL, "--dry-run", "--json"
    )
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)["manifest"]
    (cell,) = record["cells"]
    record["kernels"] = [
        {"label": name, "release": name, "provenance": "host", "folder": "/", "image": "/none", "digest": name,
         "version": "#1", "initrd": "/none"} for name in "ab"
    ]  # fmt: skip
    record["cells"] = [
        {**cell, "id": f"{name}-r1", "ordinal": number, "subject": {**cell["subject"], "kernel": name}}
        for number, name in enumerate("ab")
    ]
    return record


def test_the_chain_boots_for_each_cell_and_ends_where_it_began(new_folder: Callable[[], Path], planned: Any) -> None:
    folder, root = new_folder(), new_folder()
    run, machine = folder / planned["run"], MadeUp(falls_back={2})
    create_run(run, planned)
    (root / resume_unit.UNIT).parent.mkdir(parents=True)
    assert read_manifest(run).rebooting
    go_on(run, booted=False, machine=machine.calls(), root=root)
    assert resume_unit.run_of(root) == run and "--booted" in (root / resume_unit.SCRIPT).read_text()
    while not machine.home:
        assert machine.boots <= 3 and (root / resume_unit.UNIT).read_text() == resume_unit.TEXT
        assert go_on(run, booted=True, machine=machine.calls(), root=root).failed == 0
    assert (machine.boots, machine.home, resume_unit.run_of(root)) == (3, 1, None)
    assert not (root / resume_unit.UNIT).exists() and not (root / resume_unit.SCRIPT).exists()
    with JournalReader(run) as reader:
        assert [(each.cell, each.state) for each in reader.attempts()] == [("a-r1", "finished"), ("b-r1", "finished")]
        boots = [event.data.get("cell") for event in reader.events(kinds=("boot",))]
        assert boots == [None, "a-r1", "b-r1", "b-r1"]
        boot = reader.attempts()[1].origin["boot"]
    assert (boot["label"], boot["provenance"], boot["by"]) == ("b", "host", "kexec")


def test_a_kernel_that_never_comes_up_fails_its_cells_and_the_machine_stays(
    new_folder: Callable[[], Path], planned: Any
) -> None:
    folder, root = new_folder(), new_folder()
    run, machine = folder / planned["run"], MadeUp(falls_back=set(range(9)))
    create_run(run, planned)
    (root / resume_unit.UNIT).parent.mkdir(parents=True)
    failed = [go_on(run, booted=number > 0, machine=machine.calls(), root=root).failed for number in range(5)]
    assert (failed, machine.boots, machine.home) == ([0, 0, 0, 0, 2], 4, 0)
    assert resume_unit.run_of(root) is None
    with JournalReader(run) as reader:
        reasons = [each.reason for each in reader.attempts()]
    assert reasons[0] == "kernel a (a) did not come up in 2 boots; at last firmware did, by the firmware"

    def refuses(_: Kernel) -> None:
        raise UserError("the kernel that runs does not take it")

    with pytest.raises(UserError, match="does not take it"):
        go_on(run, booted=False, machine=Machine(lambda: AT_FIRST, refuses, machine.reboot), root=root)
    assert resume_unit.run_of(root) is None, "or every boot would try it"
    run.chmod(0o777)
    with pytest.raises(UserError, match="another user can change its contents"):
        go_on(run, booted=True, machine=machine.calls(), root=root)
    assert machine.boots == 4


def test_a_stop_between_a_cell_and_the_boot_is_heard_or_told_to_come_too_late(
    new_folder: Callable[[], Path], planned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, root = new_folder(), new_folder()
    run, machine = folder / planned["run"], MadeUp(set())
    create_run(run, planned)
    (root / resume_unit.UNIT).parent.mkdir(parents=True)
    go_on(run, booted=False, machine=machine.calls(), root=root)
    assert "can no longer be prevented" in reboot.end(run, root, boot_id="boot 0"), "from there it was asked for"
    assert resume_unit.run_of(root) is None and machine.boots == 1
    with pytest.raises(UserError, match="is running it"), JournalWriter.open(run):
        reboot.end(run, root)

    def between(*_: object, **__: object) -> Outcome:  # the cell is over, and the engine has let the journal go
        with JournalWriter.open(run) as journal:
            cell = read_manifest(run).cells[0].id
            journal.end_attempt(journal.begin_attempt(cell, 1, {}), 2, "finished")
            journal.database.execute("UPDATE session SET boot_id = ? WHERE id = ?", ("boot 1", journal.session.id))
        ways[0]()
        return Outcome(0, False)

    def by_command() -> None:
        assert reboot.end(run, root, boot_id="boot 1") == "stopped"

    monkeypatch.setattr(reboot, "execute", between)
    ways: list[Callable[[], None]] = [by_command, lambda: os.kill(os.getpid(), signal.SIGTERM)]
    while ways:
        resume_unit.install(run, [], run / "engine.log", root)
        assert go_on(run, booted=True, machine=machine.calls(), root=root) == Outcome(0, True)
        assert machine.boots == 1 and resume_unit.run_of(root) is None
        with JournalWriter.open(run) as journal:
            journal.database.execute("DELETE FROM attempt")
        del ways[0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"after": "x"}, "after"),
        ({"after": None}, "after"),
        ({"cell": "a-r1"}, "boot_id"),
        ({}, "cell"),
        ({"cell": ["a-r1"], "boot_id": "1"}, "cell"),
        ({"cell": "\x1b[31m", "boot_id": "1"}, "is not in its plan"),
    ],
)
def test_a_boot_in_the_journal_that_is_none_is_one_line(
    new_folder: Callable[[], Path], planned: Any, data: dict[str, Any], said: str
) -> None:
    run = new_folder() / planned["run"]
    create_run(run, planned)
    with JournalWriter.open(run) as journal:
        journal.add_event("boot", 1, data, ended_ns=1)
    machine = MadeUp(set())
    with pytest.raises(UserError, match="event of kind boot") as raised:
        go_on(run, booted=True, machine=machine.calls(), root=run)
    assert said in str(raised.value) and str(raised.value).isprintable() and machine.boots == 0


def test_a_run_is_said_to_boot_once_it_does(new_folder: Callable[[], Path], planned: Any) -> None:
    folder, root = new_folder(), new_folder()
    out = io.StringIO()
    run, console = folder / planned["run"], PlainConsole(file=out)
    create_run(run, planned)
    (root / resume_unit.UNIT).parent.mkdir(parents=True)
    (run / "engine.log").write_text("booting kernel a\nbench: /none: the kernel has been removed\n")
    with pytest.raises(UserError, match=r"^/none: the kernel has been removed"):
        _boots(run, 2, console, root)
    assert _boots(run, STOPPED, console, root) == STOPPED
    assert "boots now" not in out.getvalue()
    go_on(run, booted=False, machine=MadeUp(set()).calls(), root=root)
    assert _boots(run, 0, console, root) == 0 and "boots now" in out.getvalue()


def test_a_run_that_goes_on_with_the_next_boot_is_not_deleted(
    new_folder: Callable[[], Path], planned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_folder() / planned["run"]
    create_run(run, planned)
    words = [str(run), "--yes", "--out", str(run.parent)]
    with monkeypatch.context() as between:
        between.setattr(resume_unit, "run_of", lambda: run)
        done = CliRunner().invoke(delete, words)
    assert "continues after the next boot: stop it first with bench stop" in str(done.exception) and run.exists()
    assert CliRunner().invoke(delete, words).exit_code == 0 and not run.exists()


def test_a_record_that_ends_by_looks_is_no_run_of_boots(tmp_path: Path, planned: Any) -> None:
    create_run(tmp_path / planned["run"], {**planned, "minutes": 5.0})
    with pytest.raises(UserError, match="whose cells have a boot each"):
        read_manifest(tmp_path / planned["run"])
