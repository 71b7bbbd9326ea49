"""What probes counted, by role: frames added up over a step, and the figures made of them. Pure.

A step's `probes` are {role: {probe: record}}. A record has the probe's fields (`probes.table`) summed over the step
(the largest, of peaks), its histograms as pairs (power-of-two bucket of us, count), and `seconds`: how much of the step
it covers, which is less than the step for a probe in windows. Its frames last `frame_s`, as the first and the last one
reach beyond the step: roles that are there outside it, such as `server`, count that too. `stacks` has `phases`
{phase: samples}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from probes import buckets
from probes.frames import RoleFigures
from probes.table import BY_ID

Record = dict[str, Any]
PHASES = ("parse", "analyze", "plan", "execute")
# Where planning time is taken from, the best first: probe, count, time, longest, histogram.
PLANNING = (
    ("planner", "n", "sum_us", "max_us", "plan_us"),
    ("endpoint", "plan_n", "plan_us", "", "plan_hist_us"),
    ("endpoint_proxy", "plan_n", "plan_us", "", "plan_hist_us"),
    ("phases", "plan_n", "plan_us", "", ""),
    ("planstats", "plans", "plan_us", "", ""),  # of all connections together, as role `statements`
)
RUN_QUEUE = ("sched", "runq")
SAMPLES_MIN = 50  # of fewer no shares are made: each is then off by a tenth and more
COVERED = 0.98  # from here on a probe is taken to have covered the whole step


def frame_record(figures: RoleFigures) -> Record:
    """A frame of one role as it stands in the journal."""
    histograms = {name: sorted(found.items()) for name, found in figures.histograms.items()}
    return {"processes": figures.processes, **figures.record, **histograms}


def add(total: Record, record: Mapping[str, Any], probe: str) -> None:
    """Adds a frame's record to a step's."""
    for field in BY_ID[probe].fields:
        value = record.get(field.name)
        if not value:
            continue
        if field.kind == "histogram":
            total[field.name] = sorted(buckets.merge((dict(total.get(field.name, ())), dict(value))).items())
        elif field.kind == "peak":
            total[field.name] = max(total.get(field.name, 0), value)
        else:
            total[field.name] = total.get(field.name, 0) + value
    if "phases" in record:
        total["phases"] = _sum((total.get("phases", {}), record["phases"]))


def step_figures(probes: Mapping[str, Mapping[str, Record]], roles: Iterable[str], ops: int, seconds: float) -> Record:
    """A step's figures over the server processes of its roles; None, and no phases, where no probe counted.

    plan_us_per_op is what all plannings took, per op of the step; plan_p99_us an upper bound (a power of two) of the
    99th percentile of a planning. `phases` are shares of the statements' time (`phases_by` exact) or of their samples
    on a CPU (`sampled`); where both were counted, `phases_sampled` are the latter too.
    """
    own = [probes[role] for role in roles if role in probes]
    plans = [plan for record in own if (plan := planning(record, seconds)) is not None]
    if not plans and (statements := probes.get("statements")) is not None:
        plans = [plan for plan in (planning(statements, seconds),) if plan is not None]
    counted = buckets.merge(plan["histogram"] for plan in plans)
    longest = [plan["max_us"] for plan in plans]
    plan_us = sum(plan["step_us"] for plan in plans)
    return {
        "plan_us_per_op": plan_us / ops if plans and ops else None,
        "plan_p99_us": _quantile(counted, 0.99, None if None in longest else max(longest, default=None)),
        **phases(own),
    }


def role_figures(record: Mapping[str, Record], statements: int, seconds: float) -> Record:
    """One role's figures; those that no probe counted are left out. Times in us."""
    found: Record = {}
    plan = planning(record, seconds)
    if plan is not None:
        found |= {
            "plan_n": plan["n"],
            "plan_us": plan["us"],
            "plan_mean_us": plan["us"] / plan["n"] if plan["n"] else None,
            "plan_us_per_statement": plan["step_us"] / statements if statements else None,
            "plan_p50_us": _quantile(plan["histogram"], 0.5, plan["max_us"]),
            "plan_p99_us": _quantile(plan["histogram"], 0.99, plan["max_us"]),
            "plan_max_us": plan["max_us"],
        }
    if any(name in record for name in ("phases", "stacks")):
        found |= phases([record])
    found |= _endpoint(record) | _run_queue(record)
    return found


def planning(record: Mapping[str, Record], seconds: float) -> Record | None:
    """How often and how long a role planned, by the best probe that counted it; `step_us` is for the whole step."""
    for probe, count, time, longest, histogram in PLANNING:
        if probe in record:
            one = record[probe]
            us = one.get(time, 0)
            return {
                "n": one.get(count, 0),
                "us": us,
                "step_us": us / covered(one, seconds),
                "max_us": one.get(longest) if longest else None,
                "histogram": dict(one.get(histogram, ())),
            }
    return None


def covered(record: Record, seconds: float) -> float:
    """The part of a step that a probe's record covers, 1 for (nearly) all of it."""
    share = float(record.get("seconds", seconds)) / seconds if seconds > 0 else 1.0
    return share if 0 < share < COVERED else 1.0


def phases(records: Iterable[Mapping[str, Record]]) -> Record:
    """Shares of the phases of statements: exact ones, else those of samples enough, else nothing but None."""
    records = list(records)
    exact = _sum({phase: one["phases"].get(f"{phase}_us", 0) for phase in PHASES} for one in records if "phases" in one)
    sampled = _sum(one["stacks"].get("phases", {}) for one in records if "stacks" in one)
    found: Record = {"phases": None, "phases_by": None}
    if sum(exact.values()):
        found = {"phases": _shares(exact), "phases_by": "exact"}
        if sum(sampled.values()) >= SAMPLES_MIN:
            found["phases_sampled"] = _shares(sampled)
    elif sum(sampled.values()) >= SAMPLES_MIN:
        found = {"phases": _shares(sampled), "phases_by": "sampled"}
    return found


def _endpoint(record: Mapping[str, Record]) -> Record:
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


def _run_queue(record: Mapping[str, Record]) -> Record:
    for probe in RUN_QUEUE:
        if probe in record:
            one = record[probe]
            counts = dict(one.get("runq_us", ()))
            found: Record = {
                "runq_us": one.get("sum_us", 0),
                "runq_p50_us": _quantile(counts, 0.5, one.get("max_us")),
                "runq_p99_us": _quantile(counts, 0.99, one.get("max_us")),
                "runq_max_us": one.get("max_us"),
            }
            if probe == "sched":
                names = (field.name for field in BY_ID["sched"].fields if field.kind == "count")
                found["sched"] = {name: one.get(name, 0) for name in names if name != "sum_us"}
            return found
    return {}


def _quantile(histogram: Mapping[int, int], q: float, longest: int | None) -> int | None:
    """An upper bound of the quantile, which cannot be more than the longest."""
    bound = buckets.quantile(histogram, q)
    return bound if bound is None or longest is None else min(bound, longest)


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def _shares(parts: Mapping[str, int]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: value / total for name, value in parts.items()}
