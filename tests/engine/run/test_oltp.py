"""The OLTP tests in slices, from the command line to the comparison, on real servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.model import Build
from engine.journal.reader import JournalReader
from tests.support.benchcall import Bench, nothing_left

SMALL = ("--rows", "2000", "--seconds", "1", "--repeats", "1", "--set", "shared_buffers=32MB", "--plain")


@pytest.mark.parametrize("tests", ["hot-points,read-write.10,delete"])
def test_tests_of_two_builds_are_interleaved_over_the_same_rows(
    bench: Bench, build: Callable[[int | str], Build], tests: str
) -> None:
    pair = f"{build(14).label},{build(16).label}"
    done = bench("run", "--pg", pair, "--workload", "oltp", "--tests", tests, *SMALL)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "slices: 2 servers fit side by side, 3 of 6 steps can be sliced" in done.stdout
    with JournalReader(bench.run) as reader:
        steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
        sliced = [step.name for step in steps if reader.slices(step.id)]
    assert sorted(sliced) == sorted(tests.split(",") * 2)
    loads = [step.totals.report["load"] for step in steps if step.name == "load" and step.totals is not None]
    assert len(loads) == 2 and loads[0] == loads[1] and loads[0]["rows"] == 2000
    rates = {ratio["step"]: ratio["ratio"] for ratio in bench.ratios() if ratio["metric"] == "rate_per_s"}
    assert set(rates) == set(tests.split(",")) and all(rates.values())
    nothing_left(bench)
