"""Lines of a booting guest's cell are its own: no phase and no time of a cell before it is shown."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from engine.core.kernel import BOOT, GuestMachine, Kernel
from engine.journal.reader import JournalReader
from engine.journal.writer import JournalWriter
from engine.report import follow
from engine.view.player import Player
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS

UNDER = ("6.1-distro", "6.12-distro")
BOOTED: dict[str, Any] = {
    "kernels": tuple(Kernel(label, label, "distro", "/k", "/k/vmlinuz", "d") for label in UNDER),
    "guest": GuestMachine("tcg", 1, 1024, "image", 64, "qemu 7.2"),
}


def boots(journal: JournalWriter, cell: str, after: int, ago_s: int = 0) -> None:
    """Records of the engine before a guest is there."""
    journal.add_event(BOOT, time.monotonic_ns() - ago_s * SECOND_NS, {"cell": cell, "after": after})
    journal.commit()


def test_a_booting_guest_shows_from_the_first_moment(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", builds=("16.3",), under=UNDER, repeats=2, unfinished=range(4), **BOOTED)
    with JournalReader(run) as reader:
        first, second = (cell.id for cell in reader.manifest.cells[:2])
    with JournalWriter.open(run) as journal, Player(run) as player:
        boots(journal, first, 0, ago_s=27)
        assert follow.line(player.look()).startswith("cell 1/4  16.3 6.1-distro r1  booting its kernel: 27 s")

        now_ns = time.monotonic_ns()  # the guest's own clock is another one, which does not matter here
        attempt = journal.begin_attempt(first, now_ns, {})
        journal.add_event("progress", now_ns, {"text": "initialising the cluster (203 s)"}, attempt=attempt)
        journal.commit()
        line = "cell 1/4  16.3 6.1-distro r1  starting the server: initialising the cluster (203 s)"
        assert follow.line(player.look()) == line

        journal.end_attempt(attempt, now_ns, "failed", "qemu was ended by SIGKILL")
        assert follow.line(player.look()) == "cell 1/4  16.3 6.1-distro r1  the cell has failed"
        boots(journal, second, attempt)
        view = player.look()
        assert follow.line(view) == "cell 2/4  16.3 6.12-distro r1  booting its kernel: 0 s"
        assert (follow.record(view, ())["step"], follow.record(view, ())["doing"]) == ("booting its kernel", "0 s")

        journal.begin_attempt(second, time.monotonic_ns(), {})
        assert follow.line(player.look()) == "cell 2/4  16.3 6.12-distro r1  starting the server"


def test_a_retried_cell_has_no_phase_of_its_last_attempt(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", builds=("16.3",), under=UNDER, repeats=1, unfinished=range(2), **BOOTED)
    with JournalReader(run) as reader:
        first = reader.manifest.cells[0].id
    with JournalWriter.open(run) as journal, Player(run) as player:
        attempt = journal.begin_attempt(first, 0, {})
        step = journal.begin_step(attempt, 0, "init", "load", 0, {}, 1)
        journal.end_attempt(attempt, 2, "interrupted", "asked to stop")
        assert "after init" not in follow.line(player.look()) and step
        boots(journal, first, attempt)
        assert follow.line(player.look()) == "cell 1/2  16.3 6.1-distro r1  booting its kernel: 0 s"
