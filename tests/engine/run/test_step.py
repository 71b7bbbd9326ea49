"""The order in which a cell does its steps."""

from __future__ import annotations

from engine.run.cell_steps import in_order, with_lengths
from engine.run.step_totals import reads_of, timed
from workloads.api.base import PrimaryMetric, Step


def test_interchangeable_neighbours_swap_in_alternate_repeats() -> None:
    steps = [Step(name, "", {}, interchangeable=name.startswith("c")) for name in ("init", "c1", "c2", "c3", "end")]
    names = [" ".join(step.name for step in in_order(steps, repeat)) for repeat in (1, 2, 3)]
    assert names == ["init c1 c2 c3 end", "init c3 c2 c1 end", "init c1 c2 c3 end"]


def test_steps_last_as_decided_and_those_of_0_s_are_left_out() -> None:
    steps = [Step(name, "query", {"seconds": 10}, work=100, sliced="time") for name in ("a", "b", "c")]
    decided = with_lengths(steps, {"a": 25, "b": 0})
    assert [(step.name, step.record["seconds"], step.work) for step in decided] == [("a", 25, 250), ("c", 10, 100)]


def test_pages_count_alike_for_single_and_combined_reads() -> None:
    one = {"client backend/relation/normal": {"reads": 64, "read_bytes": 64 * 8192, "read_ms": 3.0}}
    many = {
        "client backend/relation/normal": {"reads": 3, "read_bytes": 48 * 8192, "read_ms": 2.0},
        "io worker/relation/normal": {"reads": 1, "read_bytes": 16 * 8192, "read_ms": 1.0},
    }
    pages = {"pages_read": 64, "read_ms": 3.0}
    assert reads_of({"io": one}, 17) == {"reads": None, **pages} and reads_of({"io": many}, 18) == {"reads": 4, **pages}
    untimed = {"client backend/relation/normal": {"read_bytes": 8192, "read_ms": 0}}
    assert reads_of({"io": untimed}, 16)["read_ms"] is None
    assert reads_of({"wal": {}}, 14) == {}


def test_an_index_build_is_as_long_as_its_statements() -> None:
    """A report of a step by time need not have all statements."""
    report = {"timing": {"times_s": [2.0, 3.0]}}
    index = Step("l.x", "index", {}, PrimaryMetric("index", "rows/s"), sliced="whole")
    assert timed(index, report) == {"seconds": 5.0}
    assert timed(index, {}) == {}
    assert timed(Step("q", "statement", {}, PrimaryMetric("statement", "executions/s"), sliced="time"), report) == {}
    assert timed(Step("index", "task", {}, PrimaryMetric("task", "s", by="time"), sliced="whole"), report) == {}
