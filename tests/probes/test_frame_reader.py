"""bpftrace's lines to frames: recorded streams of three versions, and streams made up to be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import buckets, frames
from probes.frame_reader import Reader, parse_stack_key

STREAMS = Path(__file__).parent / "streams"
VERSIONS = ("0.17", "0.23", "0.27")
S = 1_000_000_000


def line(kind: str, data: Any) -> str:
    return json.dumps({"type": kind, "data": data}) + "\n"


def burst(second: float, maps: dict[str, Any], hists: dict[str, Any] | None = None, *, tock: bool = True) -> str:
    t_ns = round(second * S)
    text = line("printf", f"tick {t_ns}\n")
    text += "".join(line("map", {name: value}) for name, value in maps.items())
    text += "".join(line("hist", {name: value}) for name, value in (hists or {}).items())
    return text + (line("printf", f"tock {t_ns + 20_000}\n") if tock else "")


def ready(points: int = 8) -> str:
    return line("attached_probes", {"probes": points}) + line("printf", f"ready {100 * S}\n")


def total(seen: tuple[frames.Frame, ...], field: str) -> int:
    return sum(record.get(field, 0) for frame in seen for record in frame.records.values())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ("planner", {"n": 30}),
        ("phases", {"parse_n": 30, "analyze_n": 30, "plan_n": 30, "execute_n": 30}),
        ("endpoint", {"plan_n": 36, "ep_n": 10, "leaf_pages": 10}),
        ("endpoint_proxy", {"plan_n": 30, "buffers": 4, "tid": 1, "slot": 1}),
    ],
)
def test_recorded_streams_of_every_version_hold_what_was_sent(
    probe: str, expected: dict[str, int], version: str
) -> None:
    read = Reader(probe).feed((STREAMS / f"{probe}.{version}.jsonl").read_bytes())
    assert {field: total(read, field) for field in expected} == expected
    assert all(0.9 * S < frame.dt_ns < 1.1 * S for frame in read)
    histogram = "plan_hist_us" if probe.startswith("endpoint") else "plan_us"
    if probe != "phases":
        counts = buckets.merge(of for frame in read for of in frame.histograms.get(histogram, {}).values())
        assert sum(counts.values()) == expected.get("n", expected.get("plan_n"))


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_scheduler_times_add_up_to_wall_time(version: str) -> None:
    read = Reader("sched").feed((STREAMS / f"sched.{version}.jsonl").read_bytes())
    lived = read[0].records.keys() & read[-1].records.keys()
    assert lived
    for frame in read[1:]:
        for pid in lived:
            record = frame.records[pid]
            accounted = sum(value for name, value in record.items() if name.endswith("_us") and name != "max_us")
            assert accounted == pytest.approx(frame.dt_ns / 1000, rel=0.05)


@pytest.mark.parametrize("version", VERSIONS)
def test_run_queue_waits_agree_in_histogram_and_count(version: str) -> None:
    read = Reader("runq").feed((STREAMS / f"runq.{version}.jsonl").read_bytes())
    counts = buckets.merge(of for frame in read for of in frame.histograms.get("runq_us", {}).values())
    assert sum(counts.values()) == total(read, "n") > 0


def test_function_samples_are_kept_apart_from_stacks() -> None:
    """A sample in the kernel has the user's frame, too; the keys of 0.23 have a backslash and an n."""
    leaves = {"7,\n    0x10\n,\n": 3, "7,\\n    0x20\\n,\\n    do_sys_poll+19\\n": 2}
    first = burst(1, {"@group": {"7": 1}})
    stacks = {"7,\n    0x10\n    0x30\n,\n": 1}
    second = burst(2, {"@group": {"7": 1}, "@samples": {"7": 1}, "@stacks": stacks, "@leaves": leaves})
    (frame,) = Reader("stacks").feed((ready() + first + second).encode())
    assert [(leaf.user, leaf.kernel, leaf.count) for leaf in frame.leaves] == [
        ((0x10,), (), 3),
        ((0x20,), ("do_sys_poll",), 2),
    ]
    assert [(stack.user, stack.count) for stack in frame.stacks] == [((0x10, 0x30), 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_stacks_have_addresses_and_kernel_names(version: str) -> None:
    read = Reader("stacks").feed((STREAMS / f"stacks.{version}.jsonl").read_bytes())
    stacks = [stack for frame in read for stack in frame.stacks]
    assert sum(stack.count for stack in stacks) > 0
    assert any(len(stack.user) > 5 for stack in stacks)
    assert all(address > 4096 for stack in stacks for address in stack.user[:1])
    assert not any("+" in name or "\\" in name for stack in stacks for name in stack.kernel)


@pytest.mark.parametrize(
    "key",
    [
        "42,\n    0x561029934bb0\n    0x4acb70\n,\n    mas_walk+63\n    do_syscall_64+113\n",
        "42,\\n    0x561029934bb0\\n    0x4acb70\\n,\\n    mas_walk+63\\n    do_syscall_64+113\\n",
        "42,\n0x561029934bb0\n0x4acb70\n,\nmas_walk+63\ndo_syscall_64+113\n",
        "42,\n561029934bb0\n4acb70\n,\nmas_walk+63\ndo_syscall_64+113",
    ],
)
def test_stack_keys_of_every_version_are_read_alike(key: str) -> None:
    assert parse_stack_key(key) == (42, (0x561029934BB0, 0x4ACB70), ("mas_walk", "do_syscall_64"))


def test_a_stack_may_have_no_kernel_part_or_no_user_part() -> None:
    assert parse_stack_key("7,\n    0x10\n,") == (7, (0x10,), ())
    assert parse_stack_key("7,,\n    schedule+1\n") == (7, (), ("schedule",))


@given(st.data())
def test_any_cut_of_a_cumulative_stream_sums_to_its_last_value(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(0, 10**9), min_size=1, max_size=12))
    kept = data.draw(st.lists(st.booleans(), min_size=len(steps), max_size=len(steps)))
    text, cumulative = ready() + burst(101, {}), 0
    for second, (step, complete) in enumerate(zip(steps, [*kept[:-1], True], strict=True), 102):
        cumulative += step
        low = [{"min": 4, "max": 7, "count": cumulative}]
        maps = {"@n": {"5": cumulative}, "@plan_ns": {"5": cumulative}}
        text += burst(second, maps, {"@plan_us": {"5": low}}, tock=complete)
    stream, reader = text.encode(), Reader("planner")
    read: list[Any] = []
    while stream:
        cut = data.draw(st.integers(1, 400))
        read += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert total(tuple(read), "n") == cumulative
    assert total(tuple(read), "sum_us") == cumulative // 1000
    assert sum(of_pid[5].get(3, 0) for frame in read for of_pid in frame.histograms.values()) == cumulative
    assert sum(frame.dt_ns for frame in read) == len(steps) * S


def test_the_first_burst_is_only_a_baseline() -> None:
    reader = Reader("planner")
    assert reader.feed((ready() + burst(101, {"@n": {"5": 70}})).encode()) == ()
    assert reader.baseline_ns is not None
    (frame,) = reader.feed(burst(102, {"@n": {"5": 75}}).encode())
    assert frame.records == {5: {"n": 5}}


def test_an_endless_burst_is_dropped_and_its_counts_kept() -> None:
    text = ready() + burst(101, {"@n": {"5": 1}}) + burst(102, {"@n": {"5": 4}}, tock=False)
    (frame,) = Reader("planner").feed((text + burst(103, {"@n": {"5": 9}})).encode())
    assert (frame.records[5]["n"], frame.dt_ns) == (8, 2 * S)
    assert frame.quality.missed_frames == 1


def test_lost_events_and_errors_belong_to_their_frame() -> None:
    text = ready() + burst(101, {}) + line("lost_events", {"events": 12})
    text += json.dumps({"type": "helper_error", "msg": "no", "helper": "x", "retcode": -1}) + "\n"
    reader = Reader("planner")
    first, second = reader.feed((text + burst(102, {"@n": {"5": 1}}) + burst(103, {"@n": {"5": 2}})).encode())
    assert (first.quality.lost_events, first.quality.helper_errors) == (12, 1)
    assert first.quality.warnings("planner") == ("probes: 12 events lost; raise BPFTRACE_PERF_RB_PAGES",)
    assert (second.quality.lost_events, second.quality.helper_errors) == (0, 0)


@pytest.mark.parametrize("broken", ["{", "null", "[]", "7", '{"type": "printf"}', "Attaching 8 probes...", "\x00\xff"])
def test_broken_lines_are_counted_and_cost_nothing_else(broken: str) -> None:
    text = ready() + burst(101, {"@n": {"5": 1}}) + broken + "\n" + burst(102, {"@n": {"5": 3}})
    (frame,) = Reader("planner").feed(text.encode())
    assert frame.records == {5: {"n": 2}}
    assert frame.quality.broken_lines == 1


@given(st.binary(max_size=300))
def test_no_bytes_whatever_stop_the_reader(noise: bytes) -> None:
    reader = Reader("sched")
    reader.feed(ready().encode() + noise + b"\n" + burst(101, {}).encode())
    reader.feed(noise + b"\n")


def test_counters_that_fall_start_a_new_series_without_figures() -> None:
    text = ready() + burst(101, {"@n": {"5": 9, "6": 1}}) + burst(102, {"@n": {"5": 2, "6": 4}})
    first, second = Reader("planner").feed((text + burst(103, {"@n": {"5": 7, "6": 4}})).encode())
    assert first.records == {6: {"n": 3}}
    assert first.quality.new_series == (5,)
    assert second.records == {5: {"n": 5}}


def test_who_is_no_longer_printed_is_forgotten() -> None:
    reader = Reader("planner")
    low = [{"min": 4, "max": 7, "count": 2}]
    text = ready() + burst(101, {"@group": {"5": 1, "6": 1}})
    text += burst(102, {"@group": {"5": 1, "6": 1}, "@n": {"5": 2, "6": 3}}, {"@plan_us": {"5": low, "6": low}})
    reader.feed(text.encode())
    assert len(reader.last) == 4
    (frame,) = reader.feed(burst(103, {"@group": {"5": 1}, "@n": {"5": 2}}, {"@plan_us": {"5": low}}).encode())
    assert len(reader.last) == 3 and reader.groups == frame.groups == {5: 1}  # with its buckets
    # The pid comes again: it begins with nothing.
    (frame,) = reader.feed(burst(104, {"@group": {"5": 1, "6": 1}, "@n": {"5": 2, "6": 1}}).encode())
    assert frame.records == {6: {"n": 1}} and frame.quality.new_series == ()


def test_a_burst_that_lost_its_list_of_processes_forgets_nobody() -> None:
    reader = Reader("planner")
    text = ready() + burst(101, {"@group": {"5": 1}}) + burst(102, {"@group": {"5": 1}, "@n": {"5": 2}})
    reader.feed(text.encode())
    reader.feed(burst(103, {"@n": {"5": 2}}).encode())
    lost = line("lost_events", {"events": 1}) + burst(104, {"@group": {"6": 1}, "@n": {"5": 2}})
    reader.feed(lost.encode())
    (frame,) = reader.feed(burst(105, {"@group": {"5": 1, "6": 1}, "@n": {"5": 3}}).encode())
    assert frame.records == {5: {"n": 1}}


def test_a_tick_that_bpftrace_came_to_late_is_a_longer_frame() -> None:
    """Output as of then: a thread that slept at the tick slept on, or has run since."""

    def at(tick: float, printed: float, n: int) -> str:
        text = burst(tick, {"@group": {"5": 1}, "@n": {"5": n}})
        first, rest = text.split("\n", 1)
        return first + "\n" + line("cat", f"{printed:.2f} 77.50\n") + rest

    text = ready() + at(101, 101, 1) + at(102, 102.04, 3) + at(103, 107.5, 10) + at(108, 108.01, 11)
    read = Reader("planner").feed(text.encode())
    assert [frame.dt_ns for frame in read] == [S, 55 * S // 10, S // 2]
    assert [frame.t_ns for frame in read] == [102 * S, 1075 * S // 10, 108 * S]
    assert [frame.records[5]["n"] for frame in read] == [2, 7, 1]
    assert [frame.quality.late_ms for frame in read] == [0, 4500, 0]
    torn = at(109, 109, 12).replace("109.00 77.50", "no number")
    assert len(Reader("planner").feed((ready() + at(108, 108, 11) + torn).encode())) == 1


def test_buckets_of_who_is_gone_are_counted_once() -> None:
    """A script cannot delete a thread's buckets alone: it forgets the thread, and prints these on."""

    def of(one: int, other: int) -> dict[str, Any]:
        return {"@plan_us": {str(tid): [{"min": 4, "max": 7, "count": n}] for tid, n in ((5, one), (6, other))}}

    text = ready() + burst(101, {"@group": {"5": 1, "6": 1}}, of(4, 1)) + burst(102, {"@group": {"6": 1}}, of(9, 2))
    text += burst(103, {"@group": {"6": 1}}, of(9, 3)) + burst(104, {"@group": {"5": 1, "6": 1}}, of(11, 3))
    read = Reader("planner").feed(text.encode())
    assert [frame.histograms.get("plan_us") for frame in read] == [{5: {3: 5}, 6: {3: 1}}, {6: {3: 1}}, {5: {3: 2}}]


def test_histograms_emptied_in_a_burst_count_from_zero() -> None:
    def low(count: int) -> dict[str, Any]:
        return {"@plan_us": {"5": [{"min": 4, "max": 7, "count": count}]}}

    torn = burst(102, {"@n": {"5": 9}}, low(9), tock=False) + line("printf", f"emptied {102 * S}\n")
    text = ready() + burst(101, {"@n": {"5": 4}}, low(4)) + torn + burst(103, {"@n": {"5": 15}}, low(6))
    (frame,) = Reader("planner").feed(text.encode())
    assert frame.histograms["plan_us"][5] == {3: 6} and frame.records[5]["n"] == 11
    assert not frame.quality.new_series and frame.quality.emptied == 1


def test_histograms_that_were_emptied_count_on_from_nothing() -> None:
    def low(count: int) -> dict[str, Any]:
        return {"@plan_us": {"5": [{"min": 4, "max": 7, "count": count}]}}

    emptied = line("printf", f"emptied {102 * S}\n") + line("printf", "tock")
    first = burst(102, {"@n": {"5": 9}}, low(9)).replace(line("printf", f"tock {102 * S + 20_000}\n"), "")
    text = ready() + burst(101, {"@n": {"5": 4}}, low(4)) + first + emptied.replace("tock", f"tock {102 * S + 1}")
    one, two = Reader("planner").feed((text + burst(103, {"@n": {"5": 12}}, low(3))).encode())
    assert [frame.histograms["plan_us"][5] for frame in (one, two)] == [{3: 5}, {3: 3}]
    assert [frame.records[5]["n"] for frame in (one, two)] == [5, 3]
    assert [frame.quality.emptied for frame in (one, two)] == [1, 0]


def test_a_reused_pid_starts_a_new_series() -> None:
    text = ready() + burst(101, {"@switches": {"5,1": 50}, "@on_ns": {"5": 90 * S}})
    text += burst(102, {"@switches": {"5,1": 2}, "@on_ns": {"5": 1 * S}})
    text += burst(103, {"@switches": {"5,1": 5}, "@on_ns": {"5": 2 * S}})
    first, second = Reader("sched").feed(text.encode())
    assert (first.records, first.quality.new_series) == ({}, (5,))
    assert second.records[5] == {"slept": 3, "oncpu_us": 1_000_000}


def test_after_a_restart_the_first_burst_is_a_baseline_again() -> None:
    reader = Reader("planner")
    reader.feed((ready() + burst(101, {"@n": {"5": 9}}) + burst(102, {"@n": {"5": 12}})).encode())
    reader.restart()
    assert reader.feed((ready() + burst(110, {"@n": {"5": 2}})).encode()) == ()
    (frame,) = reader.feed(burst(111, {"@n": {"5": 3}}).encode())
    assert frame.records == {5: {"n": 1}}
    assert frame.quality.new_series == ()


def test_the_dump_at_exit_is_passed_over() -> None:
    reader = Reader("planner")
    reader.feed((ready() + burst(101, {"@n": {"5": 9}})).encode())
    assert reader.feed(line("map", {"@n": {"5": 12}}).encode()) == ()


def test_a_nearly_full_map_is_reported() -> None:
    keys = {str(tid): 1 for tid in range(1, 15001)}
    (frame,) = Reader("planner").feed((ready() + burst(101, {}) + burst(102, {"@n": keys})).encode())
    assert frame.quality.map_keys_pct == 91
    assert "map @n is nearly full" in frame.quality.warnings("planner")[0]


def test_threads_are_added_up_to_their_process() -> None:
    reader = Reader("planner", process_of=lambda tid: 5 if tid < 10 else tid)
    (frame,) = reader.feed((ready() + burst(101, {}) + burst(102, {"@n": {"5": 1, "6": 2, "11": 3}})).encode())
    assert frame.records == {5: {"n": 3}, 11: {"n": 3}}


def test_times_are_on_the_journals_clock() -> None:
    reader = Reader("planner", offset_ns=30 * S)
    (frame,) = reader.feed((ready() + burst(101, {}) + burst(102, {"@n": {"5": 1}})).encode())
    assert frame.t_ns == 72 * S


def test_a_sleep_that_lasts_is_counted_while_it_lasts() -> None:
    text = ready() + burst(101, {"@off": {"5": 100 * S}, "@state": {"5": 4}})
    text += burst(102, {"@off": {"5": 100 * S}, "@state": {"5": 4}})
    text += burst(103, {"@off_ns": {"5,4": round(2.5 * S)}, "@on": {"5": round(102.5 * S)}, "@state": {"5": 4}})
    first, second = Reader("sched").feed(text.encode())
    assert first.records[5] == {"off_stopped_us": 1_000_000}
    assert second.records[5] == {"off_stopped_us": 500_000, "oncpu_us": 500_000}


def test_figures_are_summed_by_role_and_by_group() -> None:
    group = {"@group": {"5": 1, "6": 1, "7": 2, "8": 4}}
    low, high = [{"min": 1, "max": 1, "count": 2}], [{"min": 8, "max": 15, "count": 3}]
    maps = {**group, "@n": {"5": 2, "6": 3, "7": 4}, "@max_us": {"5": 3, "6": 9}}
    text = ready() + burst(101, group) + burst(102, maps, {"@runq_us": {"5": low, "6": high}})
    (frame,) = Reader("runq").feed(text.encode())
    roles = frames.by_role(frame, {5: "insert", 6: "insert"})
    assert roles["insert"] == {"processes": 2, "n": 5, "max_us": 9, "runq_us": [(1, 2), (4, 3)]}
    assert roles["client"] == {"processes": 1, "n": 4}
    assert set(frames.by_role(frame, {})) == {"server", "client"}


@given(st.integers(0, 2**40))
def test_a_value_lies_within_the_bounds_of_its_bucket(value: int) -> None:
    low, high = buckets.bounds(buckets.index(value))
    assert low <= value <= high


def test_quantiles_are_upper_bounds() -> None:
    histogram = {3: 98, 10: 2}
    assert (buckets.quantile(histogram, 0.5), buckets.quantile(histogram, 0.99)) == (7, 1023)
    assert buckets.quantile({}, 0.5) is None
