"""Every figure of the published line against its formula, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.features.published import figures
from engine.features.published.figures import Second
from tests.engine.analysis.statistics.test_metrics import LOAD, QUERY
from tests.support.totals import SECOND_NS, made_role, made_totals


def seconds(role: str, rates: list[int], client: int = 1) -> list[Second]:
    return [Second(client, role, place * SECOND_NS, SECOND_NS, rate) for place, rate in enumerate(rates)]


def test_the_published_line_of_a_load_step() -> None:
    line = figures.published("load", LOAD, seconds("insert", list(range(1, 101))))
    assert line == pytest.approx(
        {
            "ips": 100_000,
            "qps": 0,
            "rps": 100,
            "rmbps": 800 / 1024,
            "wps": 200,
            "wmbps": 3200 / 1024,
            "rpq": 0.001,
            "rkbpq": 0.008,
            "wpi": 0.002,
            "wkbpi": 0.032,
            "csps": 2000,
            "cpups": 25.0,  # 10 s busy of 40 s
            "cspq": 0.02,
            "cpupq": 5.0,  # 10 s / 2M rows
            "ccpupq": 0.7,
            "dbgb1": 180 / 1024,
            "dbgb2": 1.0,
            "rss": 0.25,
            "maxop": 0.003,
            "p50": 51,
            "p99": 2,
            "minlk": None,
            "minlkms": None,
            "shortd": None,
        }
    )
    assert list(line) == [*figures.PUBLISHED, *figures.UNPUBLISHED]


def test_the_published_line_divides_by_queries_or_inserts() -> None:
    line = figures.published("query", QUERY)
    queries, inserts = 488_000, 6_000
    assert line["qps"] == pytest.approx(8_000)
    assert line["ips"] == pytest.approx(inserts / 61)
    assert line["rpq"] == pytest.approx(2000 / queries)
    assert line["cspq"] == pytest.approx(40_000 / queries)
    assert line["wpi"] == pytest.approx(4000 / inserts)
    assert line["wkbpi"] == pytest.approx(64_000 / inserts)
    assert line["p50"] is None


def test_rate_percentiles_take_the_reference_clients_element() -> None:
    """Descending order, element round(x / 100 x count): of 100 down to 1 the 50th is 51 and the 99th is 2."""
    rates = seconds("query", list(range(1, 101)))
    assert figures.rate_percentiles("query", rates, (50, 99)) == [51, 2]
    assert figures.rate_percentiles("load", rates, (50, 99)) == [None, None]
    assert figures.rate_percentiles("query", rates[:9], (50,)) == [None]


def test_rates_of_clients_are_added_up_second_by_second() -> None:
    both = seconds("query", [10] * 20) + seconds("query", [5] * 20, client=2)
    assert figures.rate_percentiles("query", both, (50,)) == [15]
    assert figures.published("query", QUERY, both)["p50"] == 10  # as published: the first client only


def test_a_sliver_at_the_end_belongs_to_the_second_before_it() -> None:
    """The step ended 4 ms after a tick: an interval of its own would be a rate of 0, and so the 99th percentile."""
    full = seconds("query", [100] * 11)
    sliver = Second(1, "query", full[-1].t_ns + 4_000_000, 4_000_000, 0)
    assert figures.rate_percentiles("query", [*full, sliver], (99,)) == [pytest.approx(100 / 1.004)]
    half = replace(sliver, dt_ns=500_000_000, count=30)
    assert figures.rate_percentiles("query", [*full, half], (99,)) == [60]


def test_lookups_and_short_deletes_stand_beside_the_line() -> None:
    roles = {
        "insert": made_role(100, 5000, min_lookups=4, min_lookup_ns=6_000_000),
        "delete": made_role(100, 5000, short_deletes=7),
    }
    line = figures.published("write", replace(QUERY, roles=roles))
    assert (line["minlk"], line["minlkms"], line["shortd"]) == (4, 1.5, 7)


def test_index_steps_count_rows_indexed_once() -> None:
    line = figures.published("index", made_totals("l.x", "index", 400_000.0))
    assert line["ips"] == pytest.approx(400_000)


def test_a_sliced_step_has_no_figures_of_the_machine() -> None:
    line = figures.published("query", replace(QUERY, wall_seconds=2 * QUERY.seconds))
    plain = figures.published("query", QUERY)
    of_machine = {"rps", "rmbps", "wps", "wmbps", "rpq", "rkbpq", "wpi", "wkbpi", "csps", "cpups", "cspq", "cpupq"}
    assert {name for name in of_machine if line[name] is None} == of_machine
    rest = plain.keys() - of_machine
    assert {name: line[name] for name in rest} == {name: plain[name] for name in rest}


def test_every_query_worker_counts() -> None:
    """Two workers are the roles query and query2."""
    rates = seconds("query", [10] * 20) + seconds("query2", [5] * 20)
    assert figures.rate_percentiles("query", rates, (50,)) == [15]


def test_figures_without_counts_are_none() -> None:
    bare = replace(LOAD, host={}, device={}, wal_bytes=None, roles={}, database_bytes=0)
    line = figures.published("load", bare)
    assert {line[name] for name in ("rps", "wpi", "csps", "cpups", "cpupq", "dbgb1", "rpq")} == {None}
