"""The journal: one writer, any number of readers, and nothing lost when the writer dies."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.host.disk import DiskFull
from engine.journal.database import readable
from engine.journal.reader import JournalReader
from engine.journal.rows import ProbeFrame, RoleSecond, SliceRow, WaitSecond
from engine.journal.run_lock import is_locked
from engine.journal.totals import RoleTotals, StepTotals
from engine.journal.writer import JournalWriter, create_run

MANIFEST: dict[str, Any] = {"schema": "1.0", "run": "r"}
TOTALS = StepTotals(
    seconds=1.5,
    roles={"insert": RoleTotals(1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, histogram=((300, 2),))},
    server_cpu_ns=1,
    server_runq_ns=2,
    server_switches=3,
    server_read_bytes=4,
    server_write_bytes=5,
    client_cpu_ns=6,
    engine_cpu_ns=7,
    wal_bytes=8,
)


def written(run: Path) -> JournalWriter:
    """A journal with one step of one finished cell, and one of a cell that still runs."""
    create_run(run, MANIFEST)
    journal = JournalWriter.open(run)
    attempt = journal.begin_attempt("001-a", 10, {"x": 1})
    step = journal.begin_step(attempt, 0, "l.i0", "load", 100, {"name": "l.i0"}, 11)
    role = journal.add_role(step, 1, "insert", 4711, 4712)
    journal.add_role_seconds([RoleSecond(role, 20, 9, 5, 500, 0, 300, b"abcdefgh")])
    journal.add_sample(step, 20, 9, "host", {"user_ns": 3})
    journal.add_event("stall", 15, {"depth": 0}, attempt=attempt, step=step, role="insert")
    journal.add_differences(step, {"wal": {"": {"wal_bytes": 7}}})
    journal.add_sizes(step, [("pi1", "heap", 8192)])
    journal.add_settings(attempt, [("fsync", "on", "default")])
    journal.end_step(step, 30, TOTALS)
    journal.end_attempt(attempt, 31, "finished")
    second = journal.begin_attempt("002-b", 40, {})
    journal.begin_step(second, 0, "l.i0", "load", 100, {}, 41)
    journal.commit()
    return journal


def test_what_was_written_is_read(tmp_path: Path) -> None:
    with written(tmp_path / "run"), JournalReader(tmp_path / "run") as reader:
        first, second = reader.attempts()
        assert (first.cell, first.state, first.origin, second.state) == ("001-a", "finished", {"x": 1}, "running")
        (step,) = reader.steps(first.id)
        assert (step.name, step.totals, step.work) == ("l.i0", TOTALS, 100)
        (role,) = reader.roles(step.id)
        assert reader.role_seconds(role.id) == [RoleSecond(role.id, 20, 9, 5, 500, 0, 300, b"abcdefgh")]
        assert reader.samples(step.id) == [(20, 9, "host", {"user_ns": 3})]
        (event,) = reader.events(step.id)
        assert (event.kind, event.role, event.ended_ns, event.data) == ("stall", "insert", 31, {"depth": 0})
        assert reader.differences(step.id) == {"wal": {"": {"wal_bytes": 7}}}
        assert reader.sizes(step.id) == [("pi1", "heap", 8192)]
        assert reader.settings(first.id) == [("fsync", "on", "default")]


def test_a_reader_sees_a_run_in_progress_and_a_live_engine(tmp_path: Path) -> None:
    with written(tmp_path / "run"), JournalReader(tmp_path / "run") as reader:
        assert is_locked(tmp_path / "run")
        assert reader.steps(reader.attempts()[1].id)[0].state == "running"
    assert not is_locked(tmp_path / "run")


def test_two_engines_cannot_open_one_journal(tmp_path: Path) -> None:
    with written(tmp_path / "run"), pytest.raises(UserError, match=rf"another engine \(pid {os.getpid()}\)"):
        JournalWriter.open(tmp_path / "run")


def test_a_run_directory_is_never_overwritten(tmp_path: Path) -> None:
    create_run(tmp_path / "run", MANIFEST)
    with pytest.raises(UserError, match="this run exists"):
        create_run(tmp_path / "run", MANIFEST)


def test_a_run_directory_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write the run's folder: Not a directory"):
        create_run(tmp_path / "file" / "run", MANIFEST)


WRITE_FOR_EVER = """
import sys, time
from pathlib import Path
from engine.journal.writer import JournalWriter, create_run
create_run(Path(sys.argv[1]), {"schema": "1.0"})
with JournalWriter.open(Path(sys.argv[1])) as journal:
    done = journal.begin_attempt("done", 1, {})
    journal.end_attempt(done, 2, "finished")
    attempt = journal.begin_attempt("under way", 3, {})
    print("ready", flush=True)
    while True:
        step = journal.begin_step(attempt, 0, "l.i0", "load", 1, {"text": "x" * 5000}, 4)
        journal.add_event("stall", 5, {}, step=step, attempt=attempt)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_a_usable_journal(tmp_path: Path) -> None:
    run = tmp_path / "run"
    writer = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(run)], stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert not is_locked(run)
    with JournalWriter.open(run) as journal:
        assert journal.close_orphans() == ["under way"]
    with JournalReader(run) as reader:
        states = {attempt.cell: attempt.state for attempt in reader.attempts()}
        assert states == {"done": "finished", "under way": "interrupted"}
        assert len(reader.sessions()) == 2
    check = sqlite3.connect(run / "journal.db").execute("PRAGMA integrity_check").fetchone()
    assert check == ("ok",)


def test_a_failed_write_gives_up_its_second_and_no_more(tmp_path: Path) -> None:
    create_run(tmp_path / "run", MANIFEST)
    with JournalWriter.open(tmp_path / "run") as journal:
        attempt = journal.begin_attempt("001-a", 1, {})
        journal.add_event("mark", 2, {}, attempt=attempt)
        journal.recover()
        journal.end_attempt(attempt, 3, "failed", "disk full")
    with JournalReader(tmp_path / "run") as reader:
        assert [(row.state, row.reason) for row in reader.attempts()] == [("failed", "disk full")]
        assert reader.events() == []


@pytest.mark.parametrize("schema", ["0.9", "1.1", "2.0", ""])
def test_a_journal_of_another_schema_is_refused_in_one_line(tmp_path: Path, schema: str) -> None:
    run = tmp_path / "run"
    written(run).close()
    with sqlite3.connect(run / "journal.db") as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (schema,))
    for opened in (JournalReader, JournalWriter.open):
        with pytest.raises(UserError, match=r"this pgbed reads 1\.0; use the pgbed that made it"):
            opened(run)
    assert not is_locked(run)


def test_frames_waits_and_slices_are_read_as_they_were_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    frame = ProbeFrame(1, 20, 9, "planner", "delete", {"n": 3, "plan_us": [[5, 3]]}, {"attach": "usdt"})
    second = WaitSecond(1, "insert", 20, 9, 10, {"": 7, "IO:WALSync": 3})
    turn = SliceRow(1, 1, 0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
    with written(run) as journal:
        journal.add_probe_frame(frame)
        journal.add_wait_second(second)
        journal.add_slice(turn)
    with JournalReader(run) as reader:
        assert (reader.probe_frames(1), reader.probe_frames(1, after_ns=20)) == ([frame], [])
        assert (reader.wait_seconds(1), reader.wait_seconds(1, after_ns=20)) == ([second], [])
        assert (reader.slices(1), reader.slices(1, after_block=1)) == ([turn], [])


def test_intervals_lie_in_order_of_time(tmp_path: Path) -> None:
    """And two steps may have been at the same time by the clock, which begins anew when the machine does."""
    run = tmp_path / "run"
    with written(run) as journal:
        other = journal.add_role(2, 1, "insert", 1, 2)
        journal.add_role_seconds([RoleSecond(other, t_ns, 5, 1, 1, 0, 0, b"") for t_ns in (50, 45)])
        late = journal.add_role(1, 2, "insert", 3, 4)
        journal.add_role_seconds([RoleSecond(role, 30, 10, 2, 2, 0, 0, b"", client_cpu_ns=7) for role in (1, late)])
        journal.add_role_seconds([RoleSecond(other, 25, 5, 1, 1, 0, 0, b"")])

    def read() -> list[tuple[int, int]]:
        with JournalReader(run) as reader:
            assert [second.t_ns for second in reader.role_seconds(other)] == [45, 50], "not before its step began"
            assert reader.clients_cpu(1) == [(20, 0), (30, 14)]
            assert reader.seconds(1, 20, 30) == [second for second in reader.seconds(1, 0, 99) if second.t_ns == 30]
            return [(count.t_ns, count.role_id) for count in reader.counts(1)]

    assert read() == [(20, 1), (30, 1), (30, late)]


def listing(run: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in run.iterdir()}


def test_a_journal_watched_to_its_end_has_no_log_file(tmp_path: Path) -> None:
    run = tmp_path / "run"
    journal = written(run)
    with JournalReader(run) as reader:
        assert reader.attempts()
        journal.close()
        assert not list(run.glob("journal.db-*"))
        before = reader.version()
        with JournalWriter.open(run) as again:
            again.begin_attempt("003-c", 50, {})
            assert [attempt.cell for attempt in reader.attempts()][-1] == "003-c"
            assert reader.version() != before
    assert not list(run.glob("journal.db-*"))


def killed(run: Path) -> None:
    """A journal whose writer was killed, so that what it wrote last is in SQLite's log alone."""
    writer = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(run)], stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
    writer.kill()
    writer.wait()


@pytest.mark.slow
def test_reading_a_killed_engines_journal_changes_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    killed(run)
    before = listing(run)
    assert before["journal.db-wal"][0] > 0
    with JournalReader(run) as reader:
        assert [attempt.cell for attempt in reader.attempts()] == ["done", "under way"]
        assert listing(run) == before
        with JournalWriter.open(run) as journal:
            journal.close_orphans()
            assert reader.attempts()[1].state == "interrupted"


READ = """
import os, sys
from pathlib import Path
from engine.core.errors import UserError
from engine.journal.reader import JournalReader
os.setuid(65534)
try:
    with JournalReader(Path(sys.argv[1])) as reader:
        print([attempt.cell for attempt in reader.attempts()])
except UserError as error:
    print(error)
"""


@pytest.mark.outside  # only root can become another user
@pytest.mark.parametrize("ended", ["closed", "killed", "at work"])
def test_another_user_reads_a_run_that_he_may_not_write(new_folder: Callable[[], Path], ended: str) -> None:
    run = new_folder() / "run"
    with ExitStack() as open_journals:
        if ended == "killed":
            killed(run)
        else:
            journal = written(run)
            open_journals.callback(journal.close)
            if ended == "closed":
                open_journals.close()

        def read() -> str:
            return subprocess.run([sys.executable, "-c", READ, str(run)], capture_output=True, text=True).stdout

        cells = "['done', 'under way']" if ended == "killed" else "['001-a', '002-b']"
        assert read().strip() == cells
        (run / "journal.db").chmod(0o600)
        assert "journal.db: not permitted (" in read()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE])
def test_a_disk_that_is_full_as_the_journal_is_opened_is_named(tmp_path: Path, code: int) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    with pytest.raises(DiskFull, match=r"the disk mounted at .* is full"), readable(tmp_path):
        raise error


def test_a_path_that_sqlite_cannot_take_is_called_too_long(tmp_path: Path) -> None:
    deep = tmp_path
    while len(str(deep)) < 1000:
        deep /= "d" * 100
    create_run(deep, MANIFEST)
    for use in (JournalWriter.open, JournalReader):
        with pytest.raises(UserError, match=r"path of \d+ bytes, and SQLite takes at most 503"):
            use(deep)


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b", "ü ñ", os.fsdecode(b"\xff\xfe")])
def test_a_run_may_have_any_name(tmp_path: Path, name: str) -> None:
    written(tmp_path / name).close()
    with JournalReader(tmp_path / name) as reader:
        assert len(reader.attempts()) == 2


def test_the_writer_knows_what_it_recorded_of_an_attempt(tmp_path: Path) -> None:
    with written(tmp_path / "run") as journal:
        assert journal.last_attempt() == 2
        assert journal.ending(1) == ("finished", 31, None)
        assert journal.ending(2) == ("running", None, None)
        assert [journal.last_ns(attempt) for attempt in (1, 2)] == [30, 41]
        journal.extend_origin(1, {"y": 2})
        journal.database.execute("UPDATE attempt SET origin = '[' WHERE id = 2")
        journal.extend_origin(2, {"y": 2})  # left alone
        origins = journal.database.execute("SELECT origin FROM attempt ORDER BY id").fetchall()
        assert origins == [('{"x": 1, "y": 2}',), ("[",)]


def test_a_journal_that_was_read_to_its_end_is_whole_in_one_file(tmp_path: Path) -> None:
    journal = written(tmp_path / "run")
    with JournalReader(tmp_path / "run") as reader:
        assert reader.attempts()
        journal.close()
        (tmp_path / "copy").mkdir()
        for name in ("manifest.json", "journal.db"):
            (tmp_path / "copy" / name).write_bytes((tmp_path / "run" / name).read_bytes())
        with JournalReader(tmp_path / "copy") as copied:
            assert copied.attempts() == reader.attempts()
