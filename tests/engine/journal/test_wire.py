"""Rows from a guest: what a writer sends arrives as if it had been written here, and nothing else does."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.core.lines import decoded, encoded
from engine.journal import wire
from engine.journal.reader import JournalReader
from engine.journal.rows import RoleSecond
from engine.journal.wire import Receiver, Wire
from engine.journal.writer import JournalWriter, create_run
from tests.support.totals import made_totals

MANIFEST = {"schema": "1.0"}
CELL = "002-16.3-auto-linux_6.1-r1"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[JournalWriter]:
    """A journal with another cell's rows in it."""
    create_run(tmp_path / "run", MANIFEST)
    with JournalWriter.open(tmp_path / "run") as journal:
        attempt = journal.begin_attempt("001-16.3-auto-r1", 1, {})
        step = journal.begin_step(attempt, 0, "l.i0", "load", 1, {}, 2)
        journal.add_role(step, 1, "insert", 11, 12)
        journal.add_event("mark", 3, {"text": "mine"}, attempt=attempt)
        journal.end_attempt(attempt, 4, "finished")
        yield journal


def write_a_cell(journal: JournalWriter) -> int:
    """The rows that an engine writes of a cell."""
    attempt = journal.begin_attempt(CELL, 100, {})
    journal.update_origin(attempt, {"environment": {"kernel": {"release": "6.1.170"}}})
    journal.add_settings(attempt, [("work_mem", "4MB", "default")])
    step = journal.begin_step(attempt, 0, "l.i0", "load", 10, {"a": 1}, 110)
    role = journal.add_role(step, 1, "insert", 21, 22)
    stall = journal.add_event("stall", 120, {}, attempt=attempt, step=step, role="insert")
    journal.commit()
    journal.add_role_seconds([RoleSecond(role, 130, 10, 5, 50, 0, 7, b"\x00\xff", None, 1, 2, 3, 4, -5, 6, 7, 8, None)])
    journal.add_sample(step, 130, 10, "server", {"cpu_ns": 1})
    journal.update_event(stall, 131, {"depth": 1.0})
    journal.add_differences(step, {"wal": {"": {"wal_bytes": 5}}})
    journal.add_sizes(step, [("pi1", "heap", 8192)])
    journal.end_step(step, 140, None)
    journal.end_attempt(attempt, 150, "finished")
    return attempt


def dump(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All rows but those of sessions, which hold the time."""
    return {
        table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in wire.TABLES if table != "session"
    }


def test_what_is_sent_is_there_as_if_it_had_been_written_here(host: JournalWriter, tmp_path: Path) -> None:
    receiver = Receiver(host.database, CELL)
    sent: list[bytes] = []
    guest = JournalWriter(tmp_path / "guest", Wire(lambda record: sent.append(encoded(record)), receiver.first, {}))
    attempt = write_a_cell(guest)
    for message in sent:
        receiver.apply(json.loads(message)["rows"])
    received = dump(host.database)
    assert receiver.attempt == attempt == 2
    with JournalReader(host.run) as reader:  # another connection: it was committed
        assert reader.attempts()[-1].state == "finished" and len(reader.sessions()) == 2
    (tmp_path / "other").mkdir()
    create_run(tmp_path / "other" / "run", MANIFEST)
    with JournalWriter.open(tmp_path / "other" / "run") as direct:
        first = direct.begin_attempt("001-16.3-auto-r1", 1, {})
        step = direct.begin_step(first, 0, "l.i0", "load", 1, {}, 2)
        direct.add_role(step, 1, "insert", 11, 12)
        direct.add_event("mark", 3, {"text": "mine"}, attempt=first)
        direct.end_attempt(first, 4, "finished")
        direct.database.execute("INSERT INTO session (boot_id, monotonic_ns, wall_ns, pid) VALUES ('b', 1, 1, 1)")
        direct.session = guest.session
        write_a_cell(direct)
        assert dump(direct.database) == received
    assert len(received["role_second"]) == 1 and received["role_second"][0][7] == b"\x00\xff"


def test_what_is_rolled_back_is_never_sent_and_its_ids_are_free(host: JournalWriter, tmp_path: Path) -> None:
    receiver = Receiver(host.database, CELL)
    sent: list[Any] = []
    guest = JournalWriter(tmp_path, Wire(sent.append, receiver.first, {}))
    attempt = guest.begin_attempt(CELL, 1, {})
    lost = guest.begin_step(attempt, 0, "l.i0", "load", 1, {}, 2)
    guest.recover()
    kept = guest.begin_step(attempt, 0, "l.x", "index", 1, {}, 3)
    guest.commit()
    assert lost == kept == 2 and guest.found() == {}
    guest.end_step(kept, 4, replace(made_totals("l.x", "index", 10.0, 1), report={"found": {"rows": 7}}))
    assert guest.found() == {"rows": 7}
    for message in sent:
        receiver.apply(decoded(encoded(message))["rows"])
    assert host.found() == {"rows": 7}
    assert [row[3] for row in host.database.execute("SELECT * FROM step")] == ["l.i0", "l.x"]


SESSION = ["insert", "session", {"id": 2, "boot_id": "b", "monotonic_ns": 1, "wall_ns": 1, "pid": 1}]
BEGUN: dict[str, Any] = {"id": 2, "session_id": 2, "cell": CELL, "state": "running", "started_ns": 1}
EVENT = {"id": 2, "attempt_id": 2, "kind": "mark", "started_ns": 1, "data": "{}"}


@pytest.mark.parametrize(
    "row",
    [
        ["insert", "meta", {"key": "schema", "value": "9"}],
        ["insert", "slice", {}],
        ["insert", "event; DROP TABLE attempt", {}],
        ["insert", "event", {**EVENT, "id": 3}],
        ["insert", "event", {**EVENT, "id": 1}],
        ["insert", "event", {**EVENT, "attempt_id": 1}],
        ["insert", "event", {**EVENT, "started_ns": "soon"}],
        ["insert", "event", {**EVENT, "started_ns": True}],
        ["insert", "event", {**EVENT, "started_ns": 2**70}],
        ["insert", "event", {**EVENT, "data) VALUES (1); --": "x"}],
        ["insert", "event", {key: value for key, value in EVENT.items() if key != "data"}],
        ["insert", "attempt", {**BEGUN, "id": 3}],
        ["insert", "attempt", {**BEGUN, "id": 3, "cell": "001-16.3-auto-r1"}],
        ["insert", "sample", {"step_id": 1, "t_ns": 1, "dt_ns": 1, "source": "server", "data": "{}"}],
        ["insert", "role_second", {"role_id": {"b64": "AA=="}}],
        ["update", "attempt", {"state": "failed"}, {"id": 1}],
        ["update", "attempt", {"state": "failed"}, {"state": "finished"}],
        ["update", "attempt", {"state": "failed"}, {}],
        ["update", "attempt", {"cell": "x"}, {"id": 2}],
        ["update", "attempt", {"id": 9}, {"id": 2}],
        ["update", "step", {"state": "failed"}, {"attempt_id": 1}],
        ["update", "event", {"ended_ns": 9}, {"attempt_id": None}],
        ["update", "event", {}, {"attempt_id": 2}],
        ["delete", "attempt", {"id": 1}],
        ["insert", "event"],
        {"sql": "DELETE FROM attempt"},
    ],
    ids=lambda row: json.dumps(row)[:60],
)
def test_a_guest_touches_nothing_but_its_own_cell(host: JournalWriter, row: Any) -> None:
    receiver = Receiver(host.database, CELL)
    receiver.apply([SESSION, ["insert", "attempt", BEGUN]])
    before = dump(host.database)
    with pytest.raises(UserError, match="the guest sent rows that it may not") as caught:
        event = isinstance(row, list) and row[:2] == ["insert", "event"]
        receiver.apply([row] if event else [["insert", "event", EVENT], row])
    assert "\n" not in str(caught.value)
    assert dump(host.database) == before  # nothing of the line
    receiver.apply([["insert", "event", EVENT]])  # the ids go on
    with JournalReader(host.run) as reader:
        assert [event.kind for event in reader.events(attempt=2)] == ["mark"]
