"""Counts of probes, added up over a step and made into figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from engine.analysis.answer.compare import compare
from engine.analysis.statistics import metrics
from engine.core.errors import UserError
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.report.render import print_comparison, to_json
from engine.tracing import planstats, selection
from engine.tracing.selection import Choice
from engine.tracing.step_frames import LEAF_HZ, ProbedStep
from probes import figures
from probes.frames import Frame, Quality, Stack
from tests.support.journal import make_run

NO_FAULT = Quality()


def planner(n: int, us: int, *, seconds: float, bucket: int = 7, max_us: int = 100) -> dict[str, object]:
    """A planner's record of a step: so many plannings of one size."""
    return {"n": n, "sum_us": us, "max_us": max_us, "plan_us": [[bucket, n]], "seconds": seconds}


FRAMES = st.lists(
    st.tuples(
        st.integers(0, 1000),
        st.integers(0, 10**6),
        st.integers(0, 10**5),
        st.dictionaries(st.integers(0, 20), st.integers(1, 1000), max_size=5),
    ),
    max_size=8,
)


@given(FRAMES)
def test_a_step_is_the_sum_of_frames_and_the_largest_peak(frames: list[tuple[int, int, int, dict[int, int]]]) -> None:
    total: figures.ProbeRecord = {}
    for n, us, longest, histogram in frames:
        counts = {"processes": 1, "n": n, "sum_us": us, "max_us": longest, "plan_us": sorted(histogram.items())}
        figures.add(total, counts, "planner")
    assert total.get("n", 0) == sum(frame[0] for frame in frames)
    assert total.get("sum_us", 0) == sum(frame[1] for frame in frames)
    assert total.get("max_us", 0) == max((frame[2] for frame in frames), default=0)
    counted = sum(count for frame in frames for count in frame[3].values())
    assert sum(count for _, count in total.get("plan_us", ())) == counted


def test_planning_in_windows_is_scaled_to_the_whole_step() -> None:
    complete = {"delete": {"planner": planner(100, 5000, seconds=100.0)}}
    windowed = {"delete": {"planner": planner(20, 1000, seconds=20.0) | {"mode": "window"}}}
    for probes in (complete, windowed):
        assert figures.step_figures(probes, ("insert", "delete"), 1000, 100.0)["plan_us_per_op"] == pytest.approx(5.0)


def test_one_window_at_the_beginning_is_not_the_step() -> None:
    windowed = {"delete": {"planner": planner(20, 1000, seconds=9.0) | {"mode": "window"}}}
    totals = figures.step_figures(windowed, ("delete",), 1000, 50.0)
    assert totals["plan_us_per_op"] is None
    (note,) = totals["probe_notes"]
    assert note.endswith("planner saw only the beginning of the step, as its windows are 60 s apart")
    assert figures.step_figures(windowed, ("delete",), 1000, 10.0)["plan_us_per_op"] == pytest.approx(1 / 0.9)


@pytest.mark.parametrize(
    ("mode", "seconds", "said"),
    [
        ("", 7.0, "planner covered 70% of the step, and 80% are wanted"),
        ("", 8.5, ""),
        ("window", 0.0, "planner gave no good frame in the step"),
        ("stalls", 9.9, "planner was attached around stalls only"),
    ],
)
def test_partial_counts_are_withheld_with_the_reason(mode: str, seconds: float, said: str) -> None:
    record = planner(100, 5000, seconds=seconds) | {"mode": mode, "frames": 9}
    probes = {"insert": {"planner": record}, "delete": {"planner": record}}
    totals = figures.step_figures(probes, ("insert", "delete"), 1000, 10.0)
    assert (totals["plan_us_per_op"] is None, totals["plan_p99_us"] is None) == (bool(said), bool(said))
    assert totals["coverage"] == {"planner": seconds / 10}
    assert totals["probe_notes"] == ([f"planning per op is withheld: {said}"] if said else [])
    role = figures.role_figures(probes["insert"], 100, 10.0)
    assert (role["plan_n"], role.get("plan_withheld", "")) == (100, said)
    assert (role["plan_us_per_statement"] is None) == bool(said)


def test_a_complete_probe_stands_in_for_a_partial_one() -> None:
    few = planner(10, 700, seconds=1.0) | {"mode": "stalls"}
    endpoint = {"plan_n": 100, "plan_us": 4000, "seconds": 10.0, "mode": ""}
    totals = figures.role_figures({"planner": few, "endpoint": endpoint}, 100, 10.0)
    assert (totals["plan_n"], totals["plan_us_per_statement"]) == (100, 40.0)
    statements: dict[str, Any] = {"plans": 100, "plan_us": 5000, "calls": 100, "exec_us": 9000, "seconds": 10.0}
    probes: dict[str, dict[str, Any]] = {"insert": {"planner": few}, "statements": {"planstats": statements}}
    assert figures.step_figures(probes, ("insert",), 1000, 10.0)["plan_us_per_op"] == 5.0


def test_phases_around_stalls_only_make_no_shares() -> None:
    exact = {"parse_us": 10, "plan_us": 90, "seconds": 9.0, "mode": ""}
    sampled = {"phases": {"plan": 100}, "seconds": 9.0, "mode": ""}
    assert figures.phases([{"phases": exact, "stacks": sampled}], 10.0)["phases_by"] == "exact"
    for part in ({"mode": "stalls"}, {"seconds": 5.0}):
        assert figures.phases([{"phases": exact | part, "stacks": sampled}], 10.0)["phases_by"] == "sampled"
        nobodys = {"phases": exact | part, "stacks": sampled | part}
        assert figures.phases([nobodys], 10.0)["phases"] is None
        notes = figures.step_figures({"insert": nobodys}, ("insert",), 1, 10.0)["probe_notes"]
        assert [note for note in notes if note.startswith("shares of phases are withheld: phases ")]
    assert not figures.step_figures({"insert": {"phases": exact}}, ("insert",), 1, 10.0)["probe_notes"]


def test_partial_run_queue_waits_cover_the_whole_step() -> None:
    record = {"sched": {"sum_us": 900, "max_us": 5, "runq_us": [[2, 9]], "seconds": 9.0}}
    assert figures.role_figures(record, 1, 10.0)["runq_us"] == pytest.approx(1000)
    assert figures.role_figures(record, 1, 9.0)["runq_us"] == 900


def test_a_step_of_a_few_frames_says_so() -> None:
    record = planner(100, 5000, seconds=2.4) | {"mode": "", "frames": 3, "frame_s": 3.1}
    totals = figures.step_figures({"insert": {"planner": record}}, ("insert",), 1000, 2.5)
    assert totals["plan_us_per_op"] == pytest.approx(5.0 / 0.96)
    assert totals["probe_notes"] == ["planner: 3 frames only, which reach 0.7 s beyond the step"]


def frame(second: float, records: dict[int, dict[str, int]], quality: Quality = NO_FAULT) -> Frame:
    """A frame of `planner` of one second that ends then."""
    return Frame("planner", round(second * 1e9), 10**9, records, {}, quality=quality)


def test_frames_at_a_steps_edges_count_connections_whole() -> None:
    step = ProbedStep(1, 10**10, {7: "insert", 8: "monitor"}, (), busy=True)
    counts = {7: {"n": 100, "max_us": 5}, 8: {"n": 100}, 9: {"n": 100, "max_us": 5}}
    rows = [row for second in (10.0, 10.4, 11.4) for row in step.add(frame(second, counts), "", None)]
    step.ended_ns = 12 * 10**9
    rows += [row for second in (12.4, 13.4) for row in step.add(frame(second, counts), "", None)]
    step.conclude()
    assert len(rows) == 3 * 3 and {row.data["n"] for row in rows} == {100}
    totals = {role: probes["planner"] for role, probes in step.totals.items()}
    assert {role: total["n"] for role, total in totals.items()} == {"insert": 300, "monitor": 200, "server": 200}
    assert totals["server"]["max_us"] == 5
    assert (totals["insert"]["seconds"], totals["insert"]["frame_s"], totals["insert"]["frames"]) == (2.0, 3.0, 3)


def test_a_good_frame_covers_the_missed_one_before() -> None:
    lost, full = replace(NO_FAULT, lost_events=3), replace(NO_FAULT, map_keys_pct=100)

    def seconds(*frames: tuple[float, Quality]) -> float:
        step = ProbedStep(1, 0, {7: "insert"}, (), busy=True)
        for second, quality in frames:
            list(step.add(frame(second, {7: {"n": 1}}, quality), "", None))
        step.conclude()
        return float(step.totals["insert"]["planner"]["seconds"])

    assert seconds((1, NO_FAULT), (2, lost), (3, lost), (4, NO_FAULT)) == 4.0
    assert seconds((1, NO_FAULT), (2, lost)) == 1.0
    assert seconds((1, lost), (4, NO_FAULT)) == 1.0, "another bpftrace began, with empty maps"
    assert seconds((1, lost), (2, full), (3, NO_FAULT)) == 1.0, "a full map drops what is new"


def test_only_good_frames_cover_a_step_and_a_row_says_its_mode() -> None:
    step = ProbedStep(1, 0, {7: "insert"}, (), busy=True)
    lost = replace(NO_FAULT, lost_events=3)
    rows = [
        *step.add(frame(1, {7: {"n": 1}}), "stalls", None),
        *step.add(frame(2, {7: {"n": 1}}, lost), "stalls", None),
    ]
    assert [row.quality for row in rows] == [{"mode": "stalls"}, {"mode": "stalls", "lost_events": 3}]
    step.conclude()
    record = step.totals["insert"]["planner"]
    assert (record["seconds"], record["frames"], record["mode"]) == (1.0, 2, "stalls")
    list(step.add(frame(3, {7: {"n": 1}}), "", None))
    step.conclude()
    assert record["mode"] == ""


def test_a_row_has_the_sampled_functions_of_its_role() -> None:
    step = ProbedStep(1, 0, {7: "query", 8: "monitor"}, (), busy=True)
    counts = ((7, "a", 2), (9, "b", 3), (8, "c", 1))
    leaves = tuple(Stack(pid, (16,), (name,), count) for pid, name, count in counts)
    one = Frame("stacks", 10**9, 10**9, {7: {"samples": 1}}, {}, leaves=leaves)
    rows = {row.role: row for row in step.add(one, "", None)}
    assert {role: row.data["functions"] for role, row in rows.items()} == {
        "query": {"a_[k]": 2},
        "server": {"b_[k]": 3},
        "monitor": {"c_[k]": 1},
    }
    assert {row.quality["leaf_hz"] for row in rows.values()} == {LEAF_HZ}
    step.conclude()
    assert "functions" not in step.totals["query"]["stacks"], "a step's totals would grow by hundreds of names"


def test_a_bound_of_a_quantile_is_never_above_the_longest() -> None:
    totals = figures.role_figures({"planner": planner(100, 5000, seconds=1.0)}, 100, 1.0)
    assert (totals["plan_p99_us"], totals["plan_mean_us"], totals["plan_us_per_statement"]) == (100, 50.0, 50.0)


def test_exact_phases_are_preferred_to_sampled_ones() -> None:
    exact = {"parse_us": 10, "analyze_us": 10, "plan_us": 60, "execute_us": 20, "seconds": 1.0}
    sampled = {"samples": 100, "phases": {"plan": 50, "other": 50}, "seconds": 1.0}
    both = figures.phases([{"phases": exact, "stacks": sampled}], 1.0)
    assert (both["phases_by"], both["phases"]["plan"], both["phases_sampled"]["other"]) == ("exact", 0.6, 0.5)
    assert figures.phases([{"stacks": sampled}], 1.0)["phases_by"] == "sampled"
    few = {"samples": 2, "phases": {"plan": 2}, "seconds": 1.0}
    assert figures.phases([{"stacks": few}], 1.0) == {"phases": None, "phases_by": None}
    assert figures.phases([{"sched": {}}], 1.0) == {"phases": None, "phases_by": None}


def with_sched(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """Each insert wakes its backend once and its client once; in the second build both move to another CPU, too."""
    if "insert" not in totals.roles:
        return totals
    count = totals.roles["insert"].rows
    moved = 0 if cell.subject.build == "16.3" else count
    slower = totals.seconds * (1 if cell.subject.build == "16.3" else 2)
    one = {"sched": {"wakeups": count, "migrations": moved, "seconds": slower}}
    insert = replace(totals.roles["insert"], backend_runq_ns=int(slower * 9e8) if moved else 0)
    return changed(
        totals, probes={"insert": one, "client:insert": one}, observers=("sched",), seconds=slower,
        wall_seconds=totals.seconds, roles={**totals.roles, "insert": insert},
    )  # fmt: skip


def test_scheduler_figures_stand_beside_the_rate(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "run", change=with_sched)])
    assert comparison.figure("17.0", "l.i1", "wakeups_per_op") == pytest.approx(2, rel=0.01)
    assert comparison.values("16.3", "l.i1", "migrations_per_op") == [0, 0, 0]
    (said,) = [finding for finding in comparison.remarks.findings if finding.startswith("l.i1: against 16.3")]
    assert "is longer CPU wait" in said and said.endswith("wake-ups per op 2 to 2, migrations per op 0 to 2")
    console = Console(width=80, record=True, force_terminal=False)
    print_comparison(comparison, console)
    lines = console.export_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Scheduling per operation"))
    rows = [line.split() for line in lines[start:] if line.split()[:1] in (["16.3"], ["17.0"])]
    assert rows[1][0] == "17.0" and rows[1][-2:] == ["2.00", "2.00"] and max(map(len, lines[start:])) <= 80
    before = figures.step_figures({"insert": {"sched": {"migrations": 5}}}, ("insert",), 10, 1.0)
    assert (before["wakeups_per_op"], before["migrations_per_op"]) == (None, 0.5)


def with_planner(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """Planning of inserts that takes twice as long in the second build."""
    us = 50 if cell.subject.build == "16.3" else 100
    statements = totals.roles["insert"].statements if "insert" in totals.roles else 0
    record = planner(statements, us * statements, seconds=totals.seconds)
    return changed(totals, probes={"insert": {"planner": record}}, observers=("planner",))


def changed(totals: StepTotals, **changes: object) -> StepTotals:
    """`dataclasses.replace`, with the JSON round trip that a journal makes."""
    return msgspec.json.decode(msgspec.json.encode(replace(totals, **changes)), type=StepTotals)  # type: ignore[arg-type]


def test_planning_is_compared_and_has_a_table_of_its_own(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "run", change=with_planner)])
    (ratio,) = [ratio for ratio in comparison.ratios if (ratio.step, ratio.metric) == ("l.i1", "plan_us_per_op")]
    assert ratio.ratio == pytest.approx(2.0, rel=0.05)
    assert (ratio.verdict, ratio.flagged, ratio.sign) == ("none", True, "worse")
    console = Console(width=80, record=True, force_terminal=False)
    print_comparison(comparison, console)
    text = console.export_text()
    assert "Planner (" in text
    assert "17.0 insert" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "insert" in line)
    assert '"plan_p99_us": 100' in to_json(comparison)


def test_names_of_probes_are_checked() -> None:
    assert selection.select(("none",)).choices == ()
    assert [choice.name for choice in selection.select(("default", "planner:window")).choices] == [
        "sched", "stacks", "planner:window",
    ]  # fmt: skip
    assert selection.select(("default", "planner")).required == (Choice("planner"),)
    assert [choice.name for choice in selection.select(("runq", "sched")).choices] == ["sched"]
    for names, said in (
        (("plannr",), "unknown probe 'plannr' .nearest: planner"),
        (("planner:windows",), "nearest: window"),
        (("planner:stall",), "nearest: stalls"),
        (("stacks:stalls",), "cheap enough to be always on"),
        (("none", "sched"), "excludes"),
        (("sched:window",), "cheap enough to be always on"),
        (("planner", "planner:window"), "different modes"),
    ):
        with pytest.raises(UserError, match=said):
            selection.select(names)


def test_what_covers_nearly_all_of_a_step_covers_it() -> None:
    assert figures.covered({"seconds": 9.9}, 10.0) == 1.0
    assert figures.covered({"seconds": 2.0}, 10.0) == 0.2
    assert metrics.step_figures("pause", changed(TOTALS))["plan_us_per_op"] is None


TOTALS = StepTotals(1.0, {}, 0, 0, 0, 0, 0, 0, 0, None)


def test_planstats_settings_are_added_to_the_users_libraries() -> None:
    wanted = dict(planstats.settings((("work_mem", "4MB"), ("shared_preload_libraries", "auto_explain"))))
    assert wanted["shared_preload_libraries"] == "auto_explain,pg_stat_statements"
    assert (wanted["work_mem"], wanted["pg_stat_statements.track_planning"]) == ("4MB", "on")


def test_planstats_stand_for_planning_without_another_probe() -> None:
    statements: dict[str, Any] = {"plans": 10, "plan_us": 500, "calls": 12, "exec_us": 900, "seconds": 1.0}
    probes = {"statements": {"planstats": statements}}
    assert figures.step_figures(probes, ("insert",), 100, 1.0)["plan_us_per_op"] == 5.0
    both = probes | {"insert": {"planner": planner(10, 700, seconds=1.0)}}
    assert figures.step_figures(both, ("insert",), 100, 1.0)["plan_us_per_op"] == 7.0
