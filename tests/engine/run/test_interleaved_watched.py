"""A run whose cells are interleaved, watched and controlled while it runs: every build is told of, every cell meant."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from tests.support.benchcall import Bench, nothing_left, wait_for

SMALL = ("--rows", "2000", "--rows-written", "1000", "--set", "shared_buffers=32MB", "--interleave", "slices")


def test_every_build_is_told_of_and_a_mark_reaches_every_cell(
    bench: Bench, build: Callable[[int | str], Build]
) -> None:
    names = [build(14).label, build(16).label]
    options = ("--query-seconds", "60", "--steps", "l.i0,l.x,qr100", "--repeats", "1")
    bench.detached("--pg", ",".join(names), *SMALL, *options)

    def compared() -> dict[str, Any] | None:
        interleaved: dict[str, Any] | None = json.loads(bench("watch", "--once", "--json").stdout)["interleaved"]
        if interleaved is None or (side := interleaved["sides"][1])["low"] is None:
            return None
        # The ratio is of blocks, the rates are of all that was done: they come together with time.
        rates = side["rate_per_s"] / interleaved["sides"][0]["rate_per_s"]
        return interleaved if side["ratio"] == pytest.approx(rates, rel=0.2) else None

    ratios = wait_for(compared, "a ratio with its bounds")
    base, other = ratios["sides"]
    assert [base["subject"], other["subject"]] == names
    assert other["low"] < other["ratio"] < other["high"] and base["ratio"] is None
    assert (ratios["planned_s"], ratios["blocks"] >= 20) == (60, True)
    assert 0 < other["active_s"] < 60
    line = bench("watch", "--once").stdout
    assert line.startswith("cells 1+2 of 2  r1  qr100 ") and f"{names[1]} / {names[0]}: " in line and "] so far" in line
    assert bench("mark", "-1").stdout.strip() == "marked", "a mark may look like an option"
    assert "planner is not on" in bench("probes", "off", "planner").stderr
    with JournalReader(bench.run) as reader:
        marks = reader.events(kinds=("mark",))
        for mark in marks:
            assert any(data["bytes"] > 0 for *_, data in reader.samples(mark.step_id or 0, sources=("wal",)))
    assert [mark.step_id for mark in marks] == [side["step_id"] for side in ratios["sides"]]
    assert [mark.attempt_id for mark in marks] == [attempt.id for attempt in bench.attempts()]
    assert bench("stop").returncode == 0
    bench.await_end()
    nothing_left(bench)
