"""Objects that a run made on external servers, as its folder records them: nothing there is trusted."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.postgres.external_cell import MADE, RECORD, database_name, left_in
from engine.run.engine import _clear_attached
from engine.run.stop import Stop


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"build": "prod", "database": "postgres", "mark": "x"}, "postgres was not made by pgbed"),
        ({"build": "prod", "database": "pgbed_a; DROP", "mark": "x"}, "was not made by pgbed"),
        ({"build": "prod", "database": ["pgbed_1"], "mark": "x"}, "is invalid"),
        ({"database": "pgbed_1"}, "is invalid"),
        ("", "is invalid"),
    ],
)
def test_a_record_that_names_another_database_is_refused(tmp_path: Path, record: Any, why: str) -> None:
    cell = tmp_path / "cells" / "001-prod-as-is-r1"
    cell.mkdir(parents=True)
    (cell / RECORD).write_text(json.dumps(record))
    with pytest.raises(UserError, match=why):
        left_in(tmp_path)


def test_cells_have_different_valid_database_names() -> None:
    runs = ["20261122-174413-prod-new", "20261122-174413-prod-new2", "20261122-174413-" + 70 * "x"]
    names = [database_name(run, f"{cell:03d}-prod-as-is-r1") for run in runs for cell in (1, 100, 1000, 1001)]
    assert len(set(names)) == len(names) and all(MADE.fullmatch(name) and len(name) < 63 for name in names)


def test_a_link_in_place_of_the_record_is_not_followed(tmp_path: Path) -> None:
    cell = tmp_path / "cells" / "001-prod-as-is-r1"
    cell.mkdir(parents=True)
    (cell / RECORD).symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="cannot be read"):
        left_in(tmp_path)


@pytest.mark.timeout(120)
def test_a_stop_ends_the_wait_for_a_leftover_database(tmp_path: Path) -> None:
    record = tmp_path / "cells" / "001-prod-as-is-r1" / RECORD
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"build": "prod", "database": "pgbed_1", "mark": "x"}))
    stop = Stop()
    stop.poll_control = lambda: stop.ask("enough")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        conninfo = f"host=127.0.0.1 port={silent.getsockname()[1]} connect_timeout=0"
        _clear_attached(tmp_path, {"prod": conninfo}, stop)
    assert record.exists()
