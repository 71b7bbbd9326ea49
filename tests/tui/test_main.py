"""The start of the interface: behind a run that is measured, and otherwise as quickly as it can."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.support.journal import growing, make_run
from tui import __main__ as main


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_the_interface_loads_at_low_priority_during_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, seen = niceness(), []
    monkeypatch.setattr(main, "_import", lambda: seen.append(niceness()))
    with growing(tmp_path) as live:
        main.load(live.run)
    assert seen == [max(usual, main.NICENESS)] and niceness() == usual, "what is started later is as quick as ever"


@pytest.mark.parametrize("run", ["over", "missing", ""])
def test_without_a_run_that_is_measured_it_loads_as_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    usual, seen = niceness(), []
    monkeypatch.setattr(main, "_import", lambda: seen.append(niceness()))
    make_run(tmp_path / "over", repeats=1)
    main.load(tmp_path / run if run else None)
    assert seen == [usual]
