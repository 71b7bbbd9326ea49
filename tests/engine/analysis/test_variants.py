"""Workloads compared with each other: what is held against what, what is said of it, and whose figures are whose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis import metrics
from engine.analysis.compare import compare
from engine.core.errors import UserError
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.report import render
from engine.view.run_summary import read_run
from tests.support.journal import keep, make_run
from tests.support.totals import made_role, made_totals
from tui.compare.comparison_table import USUAL, name_of, rows
from workloads.base import PrimaryMetric

VARIANTS = ("insert", "insert+pgbench-select")
READER = "pgbench-select"


def added(*figures: int | None) -> int:
    """The sum of figures that are all known here."""
    return sum(figure for figure in figures if figure is not None)


def read_beside(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """A reader beside l.i1 and qr100 of the workload that has one; slower with 17.0 in qr100."""
    if step not in ("l.i1", "qr100") or cell.subject.workload == "insert":
        return totals
    per_s = 1000.0 * (0.8 if cell.subject.build == "17.0" and step == "qr100" else 1.0) * (1 + 0.0005 * cell.repeat)
    reader = made_role(round(per_s * totals.seconds), 0)
    return replace(
        totals,
        roles={**totals.roles, READER: reader},
        background={READER: "tx/s"},
        server_cpu_ns=added(totals.server_cpu_ns, reader.backend_cpu_ns),
        client_cpu_ns=totals.client_cpu_ns + reader.client_cpu_ns,
        server_switches=added(totals.server_switches, reader.backend_switches),
    )


def test_a_workload_is_held_against_the_first_in_a_sentence(tmp_path: Path) -> None:
    effects = {(VARIANTS[1], "l.i1"): 0.8, (VARIANTS[1], "qr100"): 0.9}
    run = make_run(
        tmp_path / "r",
        builds=("16.3",),
        variants=VARIANTS,
        effects=effects,
        noise=0.0005,
        repeats=4,
        change=read_beside,
    )
    found = compare([run])
    assert found.base == "insert" and found.names == VARIANTS
    (answer,) = found.answer
    assert answer.subject == VARIANTS[1]
    assert answer.text.startswith(
        "insert is slower with pgbench-select in the background in 2 of 4 steps: l.i1 -20.0 % [-20."
    )
    assert "; the same within 2 % in 2." in answer.text
    # The reader's own work is in no figure of the inserts.
    cpu = found.ratio(VARIANTS[1], "l.i1", "server_cpu_us_per_op")
    assert cpu is not None and cpu.verdict == "same" and cpu.ratio == pytest.approx(1.0)
    assert found.ratio(VARIANTS[1], "l.i1", f"{READER}.rate_per_s") is None  # there is nothing to hold it against
    told = render.to_markdown(found)
    assert "Background workloads" in told and "pgbench-select tx/s | 1,00" in told
    assert "backends and clients of pgbench-select are left out" in told
    assert "insert,insert+pgbench-select" not in told and render.to_csv(found).splitlines()[0].endswith(",workload")
    swapped = compare([run], base=VARIANTS[1]).answer[0].text
    assert swapped.startswith("insert is faster without pgbench-select in the background in 2 of 4 steps: l.i1 +25")
    assert read_run(run).workload == ", ".join(VARIANTS)


def test_each_build_is_held_against_itself_and_the_base(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "r", variants=VARIANTS, effects={(VARIANTS[1], "l.i1"): 0.8}, repeats=4, change=read_beside
    )
    found = compare([run])
    assert found.base == "16.3/insert"
    baselines = {name: found.baseline_of(name) for name in found.names}
    assert baselines == {
        "16.3/insert": "16.3/insert", "16.3/insert+pgbench-select": "16.3/insert",
        "17.0/insert": "16.3/insert", "17.0/insert+pgbench-select": "17.0/insert",
    }  # fmt: skip
    told = {answer.subject: answer.text for answer in found.answer}
    assert told["17.0/insert"].startswith("17.0/insert is the same as 16.3/insert within 2 %")
    for build in ("16.3", "17.0"):
        begin = f"insert on {build} is slower with pgbench-select in the background in 1 of 4 steps: l.i1 -"
        assert told[f"{build}/{VARIANTS[1]}"].startswith(begin)
    assert f"each build with {VARIANTS[1]} is compared with itself with insert" in render.header(found)
    # Another base: the builds under both loads.
    under = compare([run], base=f"16.3/{VARIANTS[1]}")
    assert under.baseline_of(f"17.0/{VARIANTS[1]}") == f"16.3/{VARIANTS[1]}"


def test_a_further_load_has_verdicts_of_its_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", noise=0.0005, repeats=4, change=read_beside)
    found = compare([run])
    rates = {step: found.ratio("17.0", step, f"{READER}.rate_per_s") for step in ("l.i1", "qr100")}
    assert {step: rate.verdict for step, rate in rates.items() if rate} == {"l.i1": "same", "qr100": "slower"}
    p99 = found.ratio("17.0", "qr100", f"{READER}.p99_us")
    assert p99 is not None and p99.verdict == "same"
    assert (
        "In the background, pgbench-select is slower than with 16.3 in 1 of 2 steps: qr100 -20.0 %"
        in found.answer[0].text
    )
    shown = [(row.step, name_of(found, row)) for row in rows(found, USUAL, "steps", "") if "." in row.metric]
    assert shown == [("l.i1", "select tx/s"), ("l.i1", "select p99"), ("qr100", "select tx/s"), ("qr100", "select p99")]


def test_rates_of_all_loads_are_one_family(tmp_path: Path) -> None:
    """Holm's levels for a rate become stricter where there are more rates beside it."""
    levels = []
    for name, change in (("alone", keep), ("both", read_beside)):
        run = make_run(tmp_path / name, noise=0.02, repeats=4, change=change)
        found = compare([run])
        ratio = found.ratio("17.0", "l.i0", "rate_per_s")
        assert ratio is not None and ratio.visible_effect is not None
        levels.append(ratio.visible_effect)
    assert levels[1] > levels[0]


def test_a_saturated_client_withholds_the_rate_of_its_own_load(tmp_path: Path) -> None:
    def saturated(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        totals = read_beside(cell, step, totals)
        if READER not in totals.roles:
            return totals
        return replace(totals, roles={**totals.roles, READER: replace(totals.roles[READER], saturated=True)})

    found = compare([make_run(tmp_path / "r", noise=0.0005, repeats=4, change=saturated)])
    main, beside = (found.ratio("17.0", "l.i1", metric) for metric in ("rate_per_s", f"{READER}.rate_per_s"))
    assert main is not None and main.verdict == "same"
    assert beside is not None and beside.verdict == "withheld" and "CPU-bound" in beside.reasons[0]


def test_what_cannot_be_parted_is_the_first_loads() -> None:
    alone = replace(made_totals("l.i1", "write", 20_000.0), primary_metric=PrimaryMetric("insert", "rows/s"))
    reader = made_role(10_000, 0, backend_runq_ns=5_000_000, backend_read_bytes=1 << 20)
    both = replace(
        alone,
        roles={**alone.roles, READER: reader},
        background={READER: "tx/s"},
        server_cpu_ns=added(alone.server_cpu_ns, reader.backend_cpu_ns) + 400_000 * 1000,
        server_runq_ns=added(alone.server_runq_ns, reader.backend_runq_ns),
        server_read_bytes=added(alone.server_read_bytes, reader.backend_read_bytes),
    )
    before, after = (metrics.step_figures("write", totals) for totals in (alone, both))
    assert before["rate_per_s"] == after["rate_per_s"] and before["runq_us_per_op"] == after["runq_us_per_op"]
    assert before["read_kb_per_op"] == after["read_kb_per_op"]
    # 0.4 s of a checkpointer or WAL writer that served both, over 400,000 rows.
    assert after["server_cpu_us_per_op"] == pytest.approx(before["server_cpu_us_per_op"] + 1.0)
    figures = after["background"][READER]
    assert figures["rate_per_s"] == 10_000 / both.seconds and 250 < figures["p99_us"] < 4000
    assert figures["backend_cpu_us"] == 200.0
    assert metrics.role_figures("write", both, READER)["cpu_us_per_op"] == 200.0


def test_runs_of_other_workloads_are_not_compared(tmp_path: Path) -> None:
    paths = [
        make_run(tmp_path / name, builds=("16.3",), variants=variants)
        for name, variants in (("a", VARIANTS), ("b", ("insert", "insert+pgbench-tpcb")))
    ]
    with pytest.raises(UserError, match="the one compares insert, insert\\+pgbench-select, the other insert, insert"):
        compare(paths)


def test_a_cell_of_a_workload_that_is_not_planned_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", builds=("16.3",), variants=VARIANTS, repeats=1)
    manifest = run / "manifest.json"
    record = json.loads(manifest.read_text())
    record["cells"][1]["subject"]["workload"] = "insert+other"
    manifest.write_text(json.dumps(record))
    with pytest.raises(UserError, match="names a workload that is not in it"):
        compare([run])
    record["variants"][VARIANTS[0]] = {"name": 1}
    manifest.write_text(json.dumps(record))
    with pytest.raises(UserError, match="variants: insert is invalid"):
        compare([run])
