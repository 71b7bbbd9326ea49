"""Foreign load of a machine: its CPU time less that of all that the run itself started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.checks.foreign_load import CpuInterval, MachineInterval, machine, mean
from engine.core.errors import UserError
from engine.journal.reader import JournalReader
from engine.journal.rows import RoleSecond
from engine.journal.writer import JournalWriter
from tests.support.journal import make_run
from tests.support.totals import planned_as

SECOND_NS = 1_000_000_000


def test_an_interval_is_even_and_counts_as_far_as_it_overlaps() -> None:
    used = CpuInterval(1000, 3000, 500.0)
    assert used.within(0, 4000) == 500
    assert used.within(2000, 9000) == used.within(1500, 2500) == 250
    assert used.within(3000, 9000) == used.within(0, 1000) == 0
    assert CpuInterval(5, 5, 1.0).within(0, 9) == 0


def test_the_mean_weighs_by_overlap_and_nothing_known_is_none() -> None:
    seconds = [MachineInterval(0, 10, 2, 1.0, 0.5), MachineInterval(10, 20, 2, 2.0, 0.0)]
    assert mean(seconds, 5, 20) == pytest.approx((5 / 3, 1 / 6))
    assert mean(seconds, 20, 30) is None and mean([], 0, 10) is None


@pytest.fixture
def interleaved(tmp_path: Path) -> tuple[Path, list[int]]:
    """A run to which a second of two servers side by side is added: of 2 CPUs 1.5 busy, 0.9 by the run itself."""
    path = make_run(tmp_path / "r", repeats=1, unfinished=(0, 1))
    steps = []
    with JournalWriter.open(path) as journal:
        for cell in ("001-16.3-auto-r1", "002-17.0-auto-r1"):
            attempt = journal.begin_attempt(cell, 0, {})
            step = journal.begin_step(attempt, 0, "qr100", "query", 0, planned_as("query"), 0)
            steps.append(step)
            host: dict[str, int] = {"user_ns": 1_400_000_000, "system_ns": 100_000_000, "idle_ns": 500_000_000}
            host |= {"steal_ns": 250_000_000}
            for source, data in (
                ("host", host), ("server", {"cpu_ns": 250_000_000}), ("monitor", {"cpu_ns": 10_000_000}),
                ("engine", {"cpu_ns": 40_000_000}), ("process:checkpointer", {"cpu_ns": 200_000_000}),
            ):  # fmt: skip
                journal.add_sample(step, SECOND_NS, SECOND_NS, source, data)
            late = {name: 3 * value for name, value in host.items()}  # read long after the end of the sliver
            journal.add_sample(step, SECOND_NS + 10_000_000, 10_000_000, "host", late)
            role = journal.add_role(step, 1, "query", 1, 2)
            # It was driven for half of the second: that is its length, but not when its time was used.
            for t_ns in (SECOND_NS, 2 * SECOND_NS):
                journal.add_role_seconds(
                    [RoleSecond(role, t_ns, SECOND_NS // 2, 1, 1, 0, 0, b"", client_cpu_ns=170_000_000)]
                )
    return path, steps


def test_foreign_load_excludes_all_interleaved_cells(interleaved: tuple[Path, list[int]]) -> None:
    path, steps = interleaved
    with JournalReader(path) as reader:
        (second,) = machine(reader, steps[0], steps)
        assert (second.busy, second.stolen) == (1.5, 0.25)
        assert second.others == pytest.approx(1.5 - 2 * (0.25 + 0.01 + 0.17) - 0.04)
        (alone,) = machine(reader, steps[0], steps[:1])
        assert alone.others == pytest.approx(second.others + 0.43)


@pytest.mark.parametrize("data", [{"cpu_ns": "much"}, {"cpu_ns": None}, {"cpu_ns": [1]}])
def test_what_are_no_counters_is_one_clear_line(interleaved: tuple[Path, list[int]], data: dict[str, Any]) -> None:
    path, steps = interleaved
    import sqlite3

    with sqlite3.connect(path / "journal.db") as journal:
        journal.execute("UPDATE sample SET data = ? WHERE source = 'server'", (json.dumps(data),))
    journal.close()
    with JournalReader(path) as reader, pytest.raises(UserError, match="table sample: data"):
        machine(reader, steps[0], steps)
