"""Every figure of a step against its formula, worked out by hand."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.analysis.statistics import metrics
from engine.journal.totals import StepTotals, ops, rows, sla
from tests.support.totals import made_role, made_totals
from workloads.api.report import Report

LOAD = replace(made_totals("l.i0", "load", 100_000.0), seconds=20.0)  # 2M rows, 20 000 statements
QUERY = made_totals("qr100", "query", 8_000.0)  # 61 s, 488 000 queries, 6 000 rows inserted


def test_lookups_and_short_deletes_are_figures_of_their_roles() -> None:
    roles = {
        "insert": made_role(100, 5000, min_lookups=4, min_lookup_ns=6_000_000, connect_ns=3_000_000),
        "delete": made_role(100, 5000, short_deletes=7),
    }
    totals = replace(QUERY, roles=roles)
    figures = metrics.role_figures("write", totals, "insert")
    assert (figures["min_lookups"], figures["min_lookup_ms"], figures["connect_ms"]) == (4, 1.5, 3.0)
    assert metrics.role_figures("write", totals, "delete")["short_deletes"] == 7


def test_index_steps_count_rows_indexed_once() -> None:
    totals = made_totals("l.x", "index", 400_000.0)
    assert ops("index", totals) == rows("index", totals) == 100_100
    assert metrics.step_figures("index", totals)["rate_per_s"] == pytest.approx(400_000)


def test_figures_per_operation() -> None:
    figures = metrics.step_figures("load", LOAD)
    expected = {
        "rate_per_s": 100_000,
        "server_cpu_us_per_op": 5.0,
        "client_cpu_us_per_op": 0.7,
        "ctx_switches_per_op": 0.1,
        "runq_us_per_op": 0.5,
        "wal_bytes_per_op": 220,
        "read_kb_per_op": 1.0,
        "written_kb_per_op": 0.5,
        "device_written_kb_per_op": 64_000 / 2e6,
        "heap_bytes": 80 * 2**20,
        "index_bytes": 90 * 2**20,
        "max_s": 0.003,
        "plan_us_per_op": None,
        "plan_p99_us": None,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_machine_counters_are_left_out_of_a_sliced_step() -> None:
    sliced = replace(QUERY, wall_seconds=2 * QUERY.seconds)
    assert metrics.step_figures("query", QUERY)["device_written_kb_per_op"] is not None
    assert metrics.step_figures("query", sliced)["device_written_kb_per_op"] is None


def test_probe_coverage_is_by_the_machines_clock() -> None:
    """Frames are by the machine's clock, a step's own seconds without its pauses."""
    record = {"n": 10, "sum_us": 100, "seconds": QUERY.seconds, "mode": "window", "frames": 60}
    probed = replace(QUERY, probes={"query": {"planner": record}}, wall_seconds=2 * QUERY.seconds)
    figures = metrics.summary("query", probed)
    assert figures["coverage"] == {"planner": 0.5}
    assert figures["plan_us_per_op"] == pytest.approx(2 * 100 / 488_000)
    assert figures["probes"]["query"]["plan_us_per_statement"] == pytest.approx(2 * 100 / 488_000)


def test_role_figures_and_quantiles() -> None:
    role = metrics.role_figures("query", QUERY, "delete")
    assert role["cpu_s"] == pytest.approx(120 * 0.0002)
    assert role["cpu_us_per_statement"] == pytest.approx(200)
    assert role["cpu_us_per_op"] == pytest.approx(120 * 200 / 488_000)
    assert (role["service_p50_us"], role["service_p999_us"]) == (301, 3007)
    assert "response_p50_us" not in role
    limited = replace(QUERY, roles={"insert": made_role(100, 5000, response=((10, 100),))})
    assert metrics.role_figures("query", limited, "insert")["response_p99_us"] == 10


@pytest.mark.parametrize(
    ("elapsed_s", "reference", "passed"),
    [(1800.0, True, True), (1894.0, True, True), (1894.8, False, True), (1895.5, False, False), (2400.0, False, False)],
)
def test_sla_is_the_reference_rule_by_exact_time(elapsed_s: float, reference: bool, passed: bool) -> None:
    totals = query_step(100.0, 180_000, elapsed_s)
    agreement = sla("query", totals)
    assert agreement is not None
    assert (agreement.required_per_s, agreement.reference_passed, agreement.passed) == (95, reference, passed)


@pytest.mark.parametrize(("elapsed_s", "passed"), [(10.05, True), (10.6, True), (10.7, False), (11.0, False)])
def test_sla_of_a_short_step_forgives_the_rounding_but_no_second(elapsed_s: float, passed: bool) -> None:
    """The last of 10 s of rounds is made when 10 s have passed, by either limiter: 11 s are 909/s for 1000/s."""
    agreement = sla("query", query_step(1000.0, 10_000, elapsed_s))
    assert agreement is not None
    assert (agreement.reference_passed, agreement.passed) == (False, passed)


def test_sla_forgives_inserts_cut_off_by_the_deletes_end() -> None:
    """The first stream to end in g24a ends the other: of 120 rounds in 12 s the insert stream then makes 113."""
    cut = query_step(500.0, 113 * 50, 12.0)
    ended = replace(cut, roles=cut.roles | {"delete": made_role(120, 6000)})
    agreement, without = sla("query", ended), sla("query", cut)
    assert agreement is not None and without is not None
    assert (agreement.passed, agreement.achieved_per_s, agreement.reference_passed) == (True, 500, False)
    assert (without.passed, without.achieved_per_s) == (False, pytest.approx(470.8, abs=0.1))


def test_sla_counts_all_clients_against_the_target_of_all() -> None:
    agreement = sla("query", query_step(4 * 500.0, 4 * 500 * 60, 61.0))
    assert agreement is not None
    assert (agreement.required_per_s, agreement.passed) == (1900, True)


def test_steps_without_a_target_have_no_sla() -> None:
    assert sla("load", LOAD) is None
    assert sla("query", replace(QUERY, rate_target_per_s=0.0)) is None


def query_step(target_per_s: float, rows: int, elapsed_s: float) -> StepTotals:
    roles = {"insert": made_role(rows // 50, rows)}
    return replace(QUERY, seconds=elapsed_s, roles=roles, rate_target_per_s=target_per_s)


def test_every_query_worker_counts() -> None:
    """Two workers are the roles query and query2."""
    roles = {**QUERY.roles, "query2": made_role(1000, 10_000, max_ns=9_000_000)}
    both = replace(QUERY, roles=roles)
    assert ops("query", both) == ops("query", QUERY) + 1000
    assert metrics.max_op_s(both) == 0.009


def test_what_is_missing_is_none() -> None:
    bare = replace(LOAD, host={}, device={}, wal_bytes=None, roles={}, database_bytes=0)
    assert metrics.step_figures("load", bare)["wal_bytes_per_op"] is None
    assert metrics.step_figures("pause", replace(bare, seconds=60.0, primary_metric=None))["rate_per_s"] is None


def test_buckets_print_as_the_reference_prints_them() -> None:
    percent = metrics.bucket_percent((0, 999_999, 1, 0, 0, 0, 0, 0, 0, 0))
    assert list(percent) == ["256us", "1ms", "4ms", "16ms", "64ms", "256ms", "1s", "4s", "16s", "gt"]
    assert [metrics.bucket_text(value) for value in percent.values()][:3] == ["", "100.000", "nonzero"]
    assert metrics.bucket_percent((0,) * 10) == {}


@given(st.lists(st.integers(0, 10**9), min_size=10, max_size=10))
def test_bucket_percentages_add_up(counts: list[int]) -> None:
    assert sum(metrics.bucket_percent(counts).values()) == pytest.approx(100 if any(counts) else 0)


def test_a_saturated_client_is_named() -> None:
    roles = {"insert": made_role(10, 1000, saturated=True), "delete": made_role(10, 1000)}
    assert metrics.saturated(replace(LOAD, roles=roles)) == ("insert",)


def test_an_execution_has_explain_and_mean_of_statements() -> None:
    plan = {"statement": "a", "shape": "0", "tree": {"kind": "Result"}, "execution_ms": 3.0, "rows": 1.0, "hit": 7}
    counted = {"plans": 10, "plan_us": 500, "calls": 20, "exec_us": 9000, "rows": 40, "hit": 60, "read": 0,
               "wal_bytes": 100}  # fmt: skip
    totals = replace(LOAD, probes={"statements": {"planstats": counted}})
    one, every = metrics.summary("load", totals, msgspec.convert({"plans": [plan]}, Report))["executions"]
    assert (one.by, one.execution_ms, one.planning_ms, one.hit) == ("EXPLAIN", 3.0, None, 7)
    assert (every.by, every.planning_ms, every.execution_ms) == ("pg_stat_statements", 0.05, 0.45)
    assert (every.rows, every.hit, every.read, every.wal_bytes) == (2, 3, 0, 5)
    assert len(metrics.summary("load", totals, msgspec.convert({"plans": [plan] * 2}, Report))["executions"]) == 2
