"""Probe figures by role: frames summed over a step, and the figures derived from them. Pure.

A step's `probes` are {role: {probe: record}}. A record has the probe's fields (`probes.table`) summed over the step
(peaks: the largest), its histograms as pairs (power-of-two bucket of us, count), and how it was counted:

- `seconds`: time of the step that good frames cover, `frames`: their number, `mode`: see `probeset.MODES`;
- `frame_s`: length of all its frames. The first and the last reach beyond the step. There the step's own connections
  (and their clients) only connect, plan a statement or two and wait, and are counted in full; of roles that outlive
  the step, such as `server`, only the frame's part within the step counts.

`stacks` has `phases` {phase: samples}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from probes import buckets
from probes.table import BY_ID, PHASES
from probes.timing import PERIOD_NS

ProbeRecord = dict[str, Any]
# Sources of planning time, best first: probe, count, time, longest, histogram.
PLANNING = (
    ("planner", "n", "sum_us", "max_us", "plan_us"),
    ("endpoint", "plan_n", "plan_us", "", "plan_hist_us"),
    ("endpoint_proxy", "plan_n", "plan_us", "", "plan_hist_us"),
    ("phases", "plan_n", "plan_us", "", ""),
    ("planstats", "plans", "plan_us", "", ""),  # over all connections, as role `statements`
)
MOVES = ("wakeups", "migrations")  # fields of `sched`
SAMPLES_MIN = 50  # with fewer, each share would be off by a tenth or more
COVERED = 0.98  # a probe with this coverage counts as having covered the whole step
# A probe's count represents the whole step if it covered this much of it, or if the clock decided when it was attached,
# which favours no part of the step.
COVERAGE_MIN = 0.8
WINDOWS_APART_S = PERIOD_NS // 1_000_000_000  # a shorter step has one window, which may be untypical
FRAMES_MIN = 5  # with fewer, the edges weigh too much: see `frame_s`


def add(total: ProbeRecord, record: Mapping[str, Any], probe: str, share: float = 1.0) -> None:
    """Add a frame's record, or the `share` of it that belongs to the step; peaks are never scaled."""
    for field in BY_ID[probe].fields:
        value = record.get(field.name)
        if not value:
            continue
        if field.kind == "histogram":
            counts = {bucket: round(count * share) for bucket, count in value}
            merged = buckets.merge((dict(total.get(field.name, ())), {value: n for value, n in counts.items() if n}))
            total[field.name] = sorted(merged.items())
        elif field.kind == "peak":
            total[field.name] = max(total.get(field.name, 0), value)
        else:
            total[field.name] = total.get(field.name, 0) + round(value * share)
    if "phases" in record:
        total["phases"] = buckets.merge((total.get("phases", {}), record["phases"]))


def step_figures(
    probes: Mapping[str, Mapping[str, ProbeRecord]], roles: Iterable[str], ops: int, seconds: float
) -> ProbeRecord:
    """Figures of a step over the server processes of its roles; None, and no phases, if no probe counted.

    wakeups_per_op and migrations_per_op cover the connections' server processes and their clients. plan_us_per_op is
    all planning time per op of the step, plan_p99_us an upper bound (a power of two) of the 99th percentile of one
    planning. Both are None if the counts do not represent the step: `coverage` {probe: share of the step in good
    frames} and `probe_notes` say why. `phases` are shares of the statements' time (`phases_by` exact) or of their
    samples on a CPU (`sampled`); if both were counted, `phases_sampled` are the latter too.
    """
    roles = tuple(roles)
    records_of = [probes[role] for role in roles if role in probes]
    plans = [plan for record in records_of if (plan := planning(record, seconds)) is not None]
    statements = planning(probes.get("statements", {}), seconds)
    if statements is not None and (not plans or any(plan["withheld"] for plan in plans)):
        plans = [statements]
    withheld = next((plan["withheld"] for plan in plans if plan["withheld"]), "")
    figures: ProbeRecord = {"plan_us_per_op": None, "plan_p99_us": None, **phases(records_of, seconds)}
    figures |= _moves(probes, roles, ops, seconds)
    figures |= _coverage(probes, withheld, seconds)
    unshared = _unshared(records_of, seconds) if figures["phases"] is None else ""
    figures["probe_notes"] += [f"shares of phases are withheld: {unshared}"] if unshared else []
    if plans and not withheld:
        counted = buckets.merge(plan["histogram"] for plan in plans)
        longest = [plan["max_us"] for plan in plans]
        figures["plan_us_per_op"] = sum(plan["step_us"] for plan in plans) / ops if ops else None
        figures["plan_p99_us"] = _quantile(counted, 0.99, None if None in longest else max(longest))
    return figures


def _moves(
    probes: Mapping[str, Mapping[str, ProbeRecord]], roles: Iterable[str], ops: int, seconds: float
) -> ProbeRecord:
    ends = [probes.get(name, {}) for role in roles for name in (role, f"client:{role}")]
    records = [end["sched"] for end in ends if "sched" in end]
    known = bool(records) and ops > 0 and not any(not_the_step("sched", one, seconds) for one in records)

    def per_op(name: str) -> float | None:
        # Older versions of the probe did not count wake-ups, and every step has some.
        counted = name != "wakeups" or any(name in one for one in records)
        return sum(one.get(name, 0) / covered(one, seconds) for one in records) / ops if known and counted else None

    return {f"{name}_per_op": per_op(name) for name in MOVES}


def _coverage(probes: Mapping[str, Mapping[str, ProbeRecord]], withheld: str, seconds: float) -> ProbeRecord:
    records = {probe: record for of_role in probes.values() for probe, record in of_role.items()}
    notes = [f"planning per op is withheld: {withheld}"] if withheld else []
    for probe, record in sorted(records.items()):
        frames = record.get("frames", FRAMES_MIN)
        if frames < FRAMES_MIN and record.get("mode", "") != "stalls":
            beyond_s = max(0.0, record.get("frame_s", 0.0) - record.get("seconds", 0.0))
            few = f"{frames} frame{'s' if frames != 1 else ''} only"
            notes.append(f"{probe}: {few}, which reach {beyond_s:.1f} s beyond the step")
    return {
        "coverage": {probe: round(coverage(record, seconds), 3) for probe, record in sorted(records.items())},
        "probe_notes": notes,
    }


def role_figures(record: Mapping[str, ProbeRecord], statements: int, seconds: float) -> ProbeRecord:
    figures: ProbeRecord = {}
    plan = planning(record, seconds)
    if plan is not None:
        figures |= {
            "plan_n": plan["n"],
            "plan_us": plan["us"],
            "plan_mean_us": plan["us"] / plan["n"] if plan["n"] else None,
            "plan_us_per_statement": plan["step_us"] / statements if statements and not plan["withheld"] else None,
            "plan_p50_us": _quantile(plan["histogram"], 0.5, plan["max_us"]),
            "plan_p99_us": _quantile(plan["histogram"], 0.99, plan["max_us"]),
            "plan_max_us": plan["max_us"],
        }
        if plan["withheld"]:
            figures["plan_withheld"] = plan["withheld"]
        if plan["frames"] < FRAMES_MIN:
            figures["plan_frames"] = plan["frames"]
    if any(name in record for name in ("phases", "stacks")):
        figures |= phases([record], seconds)
    figures |= _endpoint(record) | _run_queue(record, seconds)
    return figures


def planning(record: Mapping[str, ProbeRecord], seconds: float) -> ProbeRecord | None:
    """The number and time of a role's plannings, by the best probe that counted it and represents the whole step.

    `step_us` is for the whole step. If no probe represents it, the best one's figures stand for themselves, and
    `withheld` says why.
    """
    there = [source for source in PLANNING if source[0] in record]
    if not there:
        return None
    reasons = {source: not_the_step(source[0], record[source[0]], seconds) for source in there}
    probe, count, time, longest, histogram = chosen = next((one for one in there if not reasons[one]), there[0])
    one = record[probe]
    us = one.get(time, 0)
    return {
        "n": one.get(count, 0),
        "us": us,
        "step_us": us / covered(one, seconds),
        "max_us": one.get(longest) if longest else None,
        "histogram": dict(one.get(histogram, ())),
        "withheld": reasons[chosen],
        "frames": one.get("frames", FRAMES_MIN),
    }


def coverage(record: ProbeRecord, seconds: float) -> float:
    """The fraction of a step, 0 to 1, that the good frames of a probe's record cover."""
    return min(1.0, max(0.0, float(record.get("seconds", seconds)) / seconds)) if seconds > 0 else 1.0


def covered(record: ProbeRecord, seconds: float) -> float:
    """Divisor that extrapolates to the whole step: 1 if (nearly) all of it is covered, or the coverage is unknown."""
    share = coverage(record, seconds)
    return share if 0 < share < COVERED else 1.0


def not_the_step(probe: str, record: ProbeRecord, seconds: float) -> str:
    """The reason why a probe's counts do not represent the whole step; empty if they do."""
    mode, share = record.get("mode", ""), coverage(record, seconds)
    if mode == "stalls":
        return f"{probe} was attached around stalls only"
    if share <= 0:
        return f"{probe} gave no good frame in the step"
    if mode == "window" and share < COVERAGE_MIN and seconds < WINDOWS_APART_S:
        return f"{probe} saw only the beginning of the step, as its windows are {WINDOWS_APART_S} s apart"
    if mode != "window" and share < COVERAGE_MIN:
        return f"{probe} covered {share:.0%} of the step, and {COVERAGE_MIN:.0%} are wanted"
    return ""


def phases(records: Iterable[Mapping[str, ProbeRecord]], seconds: float) -> ProbeRecord:
    """Shares of the phases of statements: exact, else from enough samples, else None; skips unrepresentative ones."""

    def standing(probe: str) -> list[ProbeRecord]:
        return [one[probe] for one in totals if probe in one and not not_the_step(probe, one[probe], seconds)]

    totals = list(records)
    exact = buckets.merge({phase: one.get(f"{phase}_us", 0) for phase in PHASES} for one in standing("phases"))
    sampled = buckets.merge(one.get("phases", {}) for one in standing("stacks"))
    enough = sum(sampled.values()) >= SAMPLES_MIN
    if sum(exact.values()):
        figures: ProbeRecord = {"phases": _shares(exact), "phases_by": "exact"}
        return figures | ({"phases_sampled": _shares(sampled)} if enough else {})
    return {"phases": _shares(sampled) if enough else None, "phases_by": "sampled" if enough else None}


def _unshared(records: Iterable[Mapping[str, ProbeRecord]], seconds: float) -> str:
    counted = [("phases", one["phases"]) for one in records if "phases" in one]
    counted += [("stacks", one["stacks"]) for one in records if one.get("stacks", {}).get("phases")]
    return next((reason for probe, one in counted if (reason := not_the_step(probe, one, seconds))), "")


def _endpoint(record: Mapping[str, ProbeRecord]) -> ProbeRecord:
    exact, proxy = record.get("endpoint"), record.get("endpoint_proxy")
    if exact is not None:
        plans, plan_us = exact.get("plan_n", 0), exact.get("plan_us", 0)
        return {
            "endpoint_n": exact.get("ep_n", 0),
            "endpoint_us": exact.get("ep_us", 0),
            "endpoint_share": exact.get("ep_us", 0) / plan_us if plan_us else None,
            "leaf_pages_per_plan": exact.get("leaf_pages", 0) / plans if plans else None,
        }
    if proxy is not None:
        plans = proxy.get("plan_n", 0)
        return {"plan_buffers_per_plan": proxy.get("buffers", 0) / plans if plans else None}
    return {}


def _run_queue(record: Mapping[str, ProbeRecord], seconds: float) -> ProbeRecord:
    one = record.get("sched", record.get("runq"))
    if one is None:
        return {}
    counts = dict(one.get("runq_us", ()))
    figures: ProbeRecord = {
        "runq_us": round(one.get("sum_us", 0) / covered(one, seconds)),
        "runq_p50_us": _quantile(counts, 0.5, one.get("max_us")),
        "runq_p99_us": _quantile(counts, 0.99, one.get("max_us")),
        "runq_max_us": one.get("max_us"),
    }
    if "sched" in record:
        names = (field.name for field in BY_ID["sched"].fields if field.kind == "count")
        figures["sched"] = {name: one.get(name, 0) for name in names if name != "sum_us"}
    return figures


def _quantile(histogram: Mapping[int, int], q: float, longest: int | None) -> int | None:
    bound = buckets.quantile(histogram, q)
    return bound if bound is None or longest is None else min(bound, longest)


def _shares(parts: Mapping[str, int]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: value / total for name, value in parts.items()}
