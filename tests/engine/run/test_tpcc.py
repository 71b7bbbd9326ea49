"""The TPC-C-like workload of two builds, at a share of the base's capacity, on real servers."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.model import Build
from engine.journal.reader import JournalReader
from tests.support.benchcall import Bench, nothing_left


def test_both_servers_are_loaded_alike_and_checked(bench: Bench, build: Callable[[int | str], Build]) -> None:
    pair = f"{build(14).label},{build(16).label}"
    words = ("--warehouses", "1", "--clients", "2", "--seconds", "1", "--load", "50%", "--repeats", "1")
    done = bench("run", "--pg", pair, "--workload", "tpcc-like", *words, "--set", "shared_buffers=32MB", "--plain")
    assert done.returncode == 0, done.stderr + done.stdout
    with JournalReader(bench.run) as reader:
        steps = [step for attempt in reader.attempts() for step in reader.steps(attempt.id)]
    assert [step.name for step in steps].count("check") == 2 and {step.state for step in steps} == {"finished"}
    loads = [step.totals for step in steps if step.name == "load50" and step.totals is not None]
    names = {script["name"] for totals in loads for script in totals.report["scripts"]}
    assert len(loads) == 2 and {"new_order.sql", "payment.sql"} <= names
    table = bench("compare", "--all").stdout
    assert "Response time by script (ms, median of cells)" in table and "new_order" in table and "(not TPC-C)" in table
    nothing_left(bench)
