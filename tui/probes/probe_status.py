"""The status of each probe: off, on, always on, or why it is not available and how to fix that."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.format import short
from engine.journal.rows import EventRow, ProbeFrame
from engine.journal.totals import StepTotals
from engine.view.probe_frames import SAMPLED
from engine.view.step_series import SECOND_NS

AT_START = "planstats"  # part of the server's settings: cannot be switched
HEALTHY = ("ready", "always on")
COUNTS = ("n", "samples", "switches", "preempted", "slept")  # fields that say how often a probe fired

# Short reasons, by words in the full one.
REASONS: tuple[tuple[str, str], ...] = (
    (r"bpftrace not found|bpftrace is not", "no bpftrace"),
    (r"only runs as root|CAP_|sudo|not permitted|privilege", "no root"),
    (r"no BTF", "no BTF"),
    (r"kernel .* is older|kernel .* too old", "kernel too old"),
    (r"bpftrace .* too old", "bpftrace too old"),
    (r"tracing file system", "no tracefs"),
    (r"without uprobes", "no uprobes"),
    (r"tracepoint", "no tracepoint"),
    (r"symbol|stripped|no place|not in the binary|finds no", "no symbol"),
    (r"schedstat", "no schedstat"),
    (r"need Linux", "needs Linux"),
)


# By mode: the words for a probe that is attached, or that will be.
ON_IN = {"window": "on, in windows", "stalls": "on, a stall"}
OFF_TILL = {"window": "off until window", "stalls": "off until stall"}


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One probe in the table. `remarks` are whole lines, each with a remedy."""

    probe: str
    needs: tuple[str, ...]
    state: str
    on: bool
    mark: str
    cost: str
    events_per_s: float | None
    question: str
    remarks: tuple[str, ...]


def reason(text: str) -> str:
    """Two words that sum up why a probe is not available."""
    return next((words for pattern, words in REASONS if re.search(pattern, text)), "not here")


def probe_rows(
    listed: Sequence[Mapping[str, Any]],
    observers: Iterable[str],
    fresh: Sequence[ProbeFrame],
    events: Sequence[EventRow],
    totals: StepTotals | None,
) -> list[ProbeRow]:
    """The table of probes at a moment.

    `listed` are the rows of `bench list probes --json`, `fresh` the frames just before the moment, `events` those of
    the cell so far. `totals`, given at the end of a step, count a probe as on if it was on in any part.
    """
    modes = {
        name.partition(":")[0]: name.partition(":")[2] for name in (*observers, *(totals.observers if totals else ()))
    }
    return [
        _row(one, modes, [frame for frame in fresh if frame.probe == one["probe"]], events, totals) for one in listed
    ]


def _row(
    listed: Mapping[str, Any],
    modes: Mapping[str, str],
    fresh: Sequence[ProbeFrame],
    events: Sequence[EventRow],
    totals: StepTotals | None,
) -> ProbeRow:
    probe = str(listed["probe"])
    fresh_ns = max((frame.t_ns for frame in fresh), default=0)
    newest = [frame for frame in fresh if frame.t_ns > fresh_ns - SECOND_NS // 2]
    lost = max((int(frame.quality.get("lost_events", 0)) for frame in newest), default=0)
    reports = [event for event in events if event.data.get("probe") == probe]
    remarks = [_remark(event) for event in reports]
    refusal = "" if listed["state"] in HEALTHY else str(listed["state"])
    was = {name.partition(":")[0] for name in totals.observers} if totals is not None else set()
    on = probe != SAMPLED and (bool(fresh) or probe in was)
    if on:
        mode = str(newest[0].quality.get("mode", "")) if newest else modes.get(probe, "")
        state, mark = ON_IN.get(mode, "on"), "chosen"
        if lost:
            state, mark = f"lost {short(lost)} events", "warning"
            remarks.append(f"probes: {lost} events lost in a second; raise BPFTRACE_PERF_RB_PAGES")
    elif refusal:
        state, mark = reason(refusal), "warning"
        remarks.append(refusal)
    elif probe == SAMPLED:
        state, mark = "always", ""
    elif probe in modes and probe == AT_START:
        state, mark = "on, at step end", "chosen"
    elif modes.get(probe):
        state, mark = OFF_TILL.get(modes[probe], "off"), "dim"
    elif probe in modes and reports and reports[-1].kind == "probe":
        state, mark = reason(str(reports[-1].data.get("text", ""))), "warning"
    else:
        state, mark = "off", "dim"
    return ProbeRow(
        probe=probe,
        needs=tuple(listed.get("needs", ())),
        state=state,
        on=on,
        mark=mark,
        cost=cost_words(listed),
        events_per_s=sum(map(_counted, newest)) if newest else None,
        question=str(listed.get("question", "")),
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _remark(event: EventRow) -> str:
    text = str(event.data.get("text", ""))
    if event.kind != "probe_gap":
        return text
    seconds = ((event.ended_ns or event.started_ns) - event.started_ns) / 1e9
    return f"{event.data.get('probe')}: no figures for {seconds:.0f} s: {text}"


def cost_words(listed: Mapping[str, Any]) -> str:
    """The cost of a probe: server CPU per operation as measured here, with its interval, or else a known estimate."""
    measured = [
        one for one in listed.get("measured") or () if one.get("metric") == "server_cpu_us_per_op" and one["ratio"]
    ]
    if not measured:
        return str(listed.get("cost", ""))
    least = min(measured, key=lambda one: len(one["probes"]))  # alone rather than with others
    words = f"{100 * (least['ratio'] - 1):+.1f}%"
    if least.get("low") is not None and least.get("high") is not None:
        words += f" ({100 * (least['low'] - 1):+.0f}..{100 * (least['high'] - 1):+.0f})"
    return words + (" here" if len(least["probes"]) == 1 else f" with {len(least['probes']) - 1} more")


def _counted(frame: Any) -> float:
    """Firings of a probe per second for a frame's role, as far as its counts tell."""
    data, seconds = frame.data, frame.dt_ns / 1e9
    counts = [sum(count for _, count in value) for value in data.values() if isinstance(value, list)]
    counts += [
        value for name, value in data.items() if isinstance(value, int) and (name in COUNTS or name.endswith("_n"))
    ]
    return max(counts, default=0) / seconds if seconds > 0 else 0.0
