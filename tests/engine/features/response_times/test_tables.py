"""Tables of response times, and of transactions that are timed one by one."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from engine.analysis.answer.compare import compare
from engine.core.model import Cell
from engine.features.response_times.tables import BUCKETS_ACROSS, _joined
from engine.journal.totals import StepTotals
from engine.report import render
from engine.results.ratio import CHANGED, LATENCIES
from tests.support.journal import make_run
from workloads.client import histogram
from workloads.client.histogram import REFERENCE_BUCKETS

LENGTHS_MS = {"16.3": [100.0, 150.0, 100.0, 100.0], "17.0": [200.0, 300.0]}


def timed(listed: object = None) -> Callable[[Cell, str, StepTotals], StepTotals]:
    """Gives index builds the times of "transactions": those of their build, or the ones that are given."""

    def change(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        times = LENGTHS_MS[cell.subject.build] if listed is None else listed
        return replace(totals, report={"times_ms": times}) if step == "l.x" else totals

    return change


def test_times_of_transactions_are_a_table_json_and_a_view(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", repeats=2, change=timed())
    comparison = compare([run])
    times = comparison.of("16.3", "l.x")[0].transactions
    assert times is not None
    assert (times.count, times.mean_ms, times.median_ms, times.min_ms, times.max_ms) == (4, 112.5, 100, 100, 150)
    assert (times.total_s, times.stddev_ms) == (0.45, 25.0)
    console = Console(width=80, record=True, force_terminal=False)
    render.print_comparison(comparison, console)
    lines = console.export_text().splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("Time of each transaction (ms"))
    rows = {line.split()[0]: line.split()[1:9] for line in lines[start + 3 : start + 5]}
    assert rows["16.3"] == ["8", "(1)", "0.900", "112.5", "100.0", "100.0", "150.0", "23.1"]
    assert rows["17.0"] == ["4", "(1)", "1.00", "250.0", "250.0", "200.0", "300.0", "57.7"]
    assert lines[start + 5].startswith("(1) not timed: each client's first transaction")
    cells = json.loads(render.to_json(comparison))["cells"]
    assert next(cell["transactions"]["each_ms"] for cell in cells if cell["transactions"]) == LENGTHS_MS["16.3"]
    assert {cell["step"] for cell in cells if cell["transactions"]} == {"l.x"}
    with closing(sqlite3.connect(run / "journal.db")) as journal:
        written = journal.execute("SELECT step, ms FROM transactions_ms").fetchall()
    assert sorted(written) == [("l.x", ms) for ms in sorted(2 * [*LENGTHS_MS["16.3"], *LENGTHS_MS["17.0"]])]


@pytest.mark.parametrize("listed", ["x", [[1, 2]], [-1.0], [10**400], [None]])
def test_a_damaged_list_leaves_its_cell_out(tmp_path: Path, listed: object) -> None:
    run = make_run(tmp_path / "run", repeats=1, change=timed(listed))
    assert [left.state for left in compare([run]).remarks.left_out] == ["damaged", "damaged"]


def test_response_times_of_a_role_are_one_table() -> None:
    labels = [label for label, _ in REFERENCE_BUCKETS]
    fast = dict.fromkeys(labels, 0.0) | {"256us": 60.0, "1ms": 30.0, "4ms": 9.0, "16ms": 0.5, "64ms": 0.3, "1s": 0.2}
    slow = dict.fromkeys(labels, 0.0) | {"1ms": 20.0, "256ms": 70.0, "4s": 9.9, "gt": 0.1}
    columns = _joined([fast, slow])
    assert len(columns) == BUCKETS_ACROSS and list(columns)[-1] == "gt"
    assert columns["gt"] == ["gt"], "nothing that was shorter is called longer than all"
    assert sorted(part for parts in columns.values() for part in parts) == sorted(
        label for label in labels if fast[label] or slow[label]
    )
    for label, parts in columns.items():
        assert label == max(parts, key=labels.index), "each is called by the longest that it holds"
    for row in (fast, slow):
        assert sum(row[part] for parts in columns.values() for part in parts) == pytest.approx(100)
    assert columns["256us"] == ["256us"] and columns["256ms"] == ["256ms", "64ms", "16ms"]


class Latencies:
    """Gives each cell's queries log-normal times, of which the slowest 2% take `slower` times as long with 17.0."""

    def __init__(self, slower: float, seed: int) -> None:
        self.slower, self.chance = slower, random.Random(seed)

    def __call__(self, cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "qr100":
            return totals
        drift, tail = self.chance.gauss(0, 0.01), self.slower if cell.subject.build == "17.0" else 1.0
        times = sorted(300 * 2.718281828 ** (self.chance.gauss(0, 0.4) + drift) for _ in range(10_000))
        times[9_800:] = [time * tail for time in times[9_800:]]
        counts = Counter(histogram.index(round(time)) for time in times)
        query = replace(totals.roles["query"], histogram=tuple(sorted(counts.items())), max_ns=round(times[-1] * 1000))
        return replace(totals, roles={**totals.roles, "query": query})


def test_a_longer_tail_is_named_beside_a_rate_that_is_the_same(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", repeats=5, change=Latencies(1.1, seed=3), noise=0.0005)])
    verdicts = {name: ratio.verdict for name in LATENCIES if (ratio := comparison.ratio("17.0", "qr100", name))}
    assert verdicts["latency_p99_us"] == "slower" and "slower" not in (
        verdicts["latency_p50_us"],
        verdicts["latency_p95_us"],
    )
    assert "\nresponse times are longer: p99 of qr100 +" in comparison.answer[0].text
    table = render.to_markdown(comparison).partition("Response times of the measured statements")[2]
    assert "| step and build | p50 | p95 | p99 | longest |" in table
    # Few index builds have no quantiles.
    assert not [ratio for ratio in comparison.ratios if ratio.metric in LATENCIES and ratio.step == "l.x"]


@pytest.mark.slow
def test_equal_times_have_no_verdict_of_a_difference(tmp_path: Path) -> None:
    changed = []
    for seed in range(6):
        run = make_run(tmp_path / str(seed), repeats=5, change=Latencies(1.0, seed), seed=seed, noise=0.0005)
        changed += [ratio for ratio in compare([run]).ratios if ratio.metric in LATENCIES and ratio.verdict in CHANGED]
    assert len(changed) <= 1, "5 of 100 comparisons may name one"
