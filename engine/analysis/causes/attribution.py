"""The difference in time per operation, split by the activity of the connections.

A connection does one thing at a time, so its time per operation,

    E = connections x seconds / operations,

splits by where it was meanwhile: in its backend (on a CPU; ready, and waiting for one; waiting for something else), or
in its client. The kernel counts CPU time and run-queue wait of both (/proc/PID/schedstat). Wait events are
sampled: if n of N samples showed events of a class, the class took n / N of E (the usual estimate of a share from
samples at random moments; its error is part of the scatter between cells).

A backend has its event until it runs again, so times with an event hold some CPU time (reading from the page
cache has an event) and some run-queue wait (after it was woken). Both are parts already. Let w be the time with any
event and B = E - CPU time - run-queue wait R the time in which the backend was blocked. Then x = w - B is counted
twice, and at most R of it is run-queue wait and at least x - R is CPU time. As much of x as R allows is taken from the
waits for the client: each statement ends in one and is woken out of it, and their rest is the least certain part. The
remainder is taken from all events in which a backend may work, in proportion, and the last of it from those
for locks and LWLocks: who waits for a lock sleeps until another releases it, however full the machine is. These waits
keep the run-queue wait at their own ends, one for each, which is then missing between client and server; where clients
are waited for less than that, it is missing in these waits themselves.

The backend's CPU time is split by phases of statements in proportion to the samples of its stacks or, where only the
phases' times are known, to these. The time in which a client was waited for (ClientRead) is its CPU time, its run-queue
wait, its limiter's sleep and its waits for a partner; the rest lies between the two (network, other connections of the
same client). The rest of E is not accounted for; it can be negative if the client works ahead of its server.

In a step whose primary metric is its time, such as a timed command, waits of backends are not sampled: known are the
CPU time and run-queue wait of all processes of the server and the CPU time of the command. Parallel workers and the
like can add up to more than the time; then the remainder is negative, too.

The ratio of two times is decomposed as its logarithm, as everywhere here: with d the difference of a part between the
cells of a pair, the part makes

    x = d / L,  L = (E' - E) / ln(E' / E)

of ln(E' / E); the logarithmic mean L is the weight with which the x of all parts add up to it (B. W. Ang, Decomposition
analysis for policymaking in energy, Energy Policy 32, 2004, p. 1131). The share of a part is sum x / sum ln(E' / E)
over the pairs, a ratio estimator (`analysis.statistics.inference.share_interval`). A cell is one sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from engine.analysis.causes.time_parts import PHASE, TITLES, Attribution, Part
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.cells.run_results import StepResult
from engine.analysis.ratios import measured_ratios
from engine.analysis.statistics import inference
from engine.core.wait_kinds import by_kind, shares
from engine.journal.totals import RoleTotals, ops
from engine.results.ratio import CHANGED, PRIMARY_METRICS, TIME, Ratio
from engine.results.slice_ratio import ratio_of

Parts = dict[str, float]  # us per op, by the names of `TITLES`

WIDEST = 0.5  # a wider interval of a share, within -1 and 1, says too little
LEAST = 0.1  # share of the difference below which a part is not named
MOST_NAMED = 2
SHOWN = 0.005  # a smaller share is shown as 0%
WORKING = (
    "client",
    "io",
    "wal",
    "other",
    "unknown",
)  # kinds of events in which a backend may use CPU: not while it waits for a lock
LEAST_US, MOST_US = 1e-6, 1e15  # for an operation


def attributions(cells: ComparedCells, ratios: Iterable[Ratio]) -> tuple[Attribution, ...]:
    """The attribution of each step and subject whose rate or time differs from the baseline's, controls left out."""
    subjects = {name: subject for subject, name in cells.names.items()}
    differing = []
    for ratio in ratios:
        if ratio.metric not in PRIMARY_METRICS or ratio.control or ratio.verdict == "same" or ratio.ratio is None:
            continue
        pairs = measured_ratios.counted_pairs(cells, ratio.step, subjects[ratio.subject])
        results = [tuple(cell.steps[ratio.step] for cell in pair) for pair in pairs]
        if results and (one := attribution(ratio.step, ratio.subject, results, ratio)) is not None:  # type: ignore[arg-type]
            differing.append(one)
    return tuple(differing)


def attribution(
    step: str, subject: str, pairs: Sequence[tuple[StepResult, StepResult]], ratio: Ratio | None = None
) -> Attribution | None:
    """The parts of the difference between the cells of these pairs, the base's first; None if parts are not known.

    The `ratio` of rates or times, or else the pairs' own, decides whether there is a difference.
    """
    every = [result for pair in pairs for result in pair]
    primary = every[0].totals.primary_metric
    split = all(phases_of(result) for result in every)
    looked = all(role.waits for result in every for role in _roles(result))
    both = [tuple(parts_of(result, split=split, waits=looked) for result in pair) for pair in pairs]
    split_up = [(base, other) for base, other in both if base is not None and other is not None]
    if primary is None or len(split_up) < len(pairs) or not all(_adds_up(parts) for pair in split_up for parts in pair):
        return None
    names = _in_order(name for pair in split_up for parts in pair for name in parts)
    logs = [logs_of(pair, names) for pair in split_up]
    low, high = _times(ratio, logs)
    parts = _parts(names, split_up, logs, _grown(pairs))
    reason = ""
    if low is None or high is None:
        reason = "one pair"
    elif low <= 1 <= high:
        reason = "the difference is within its error"
    elif ratio is not None and ratio.verdict not in (*CHANGED, "withheld", "none"):
        reason = f"its verdict is {ratio.verdict}"
    sized = sorted((part for part in parts if part.name != "rest"), key=lambda part: -(part.share or 0.0))
    known = [part for part in sized if part.known]
    causes = [part for part in known if (part.share or 0.0) >= LEAST][:MOST_NAMED]
    further = [part for part in known if part not in causes and abs(part.share or 0.0) >= SHOWN]
    unclear = [part for part in sized if not part.known and (part.share or 0.0) >= LEAST][:MOST_NAMED]
    base_us, us = (fmean(sum(pair[place].values()) for pair in split_up) for place in (0, 1))
    return Attribution(
        step, subject, primary.role, base_us, us, low, high, len(both), parts,
        causes=() if reason else tuple(part.name for part in causes),
        unexplained=None if reason else 1.0 - sum(part.share or 0.0 for part in known),
        reason=reason,
        further=() if reason else tuple(part.name for part in further),
        undecided=() if reason else tuple(part.name for part in unclear),
    )  # fmt: skip


def parts_of(result: StepResult, *, split: bool = True, waits: bool = True) -> Parts | None:
    """A cell's time per operation of a connection, in us by part, or None if unknown.

    With `split` the server's CPU time is by phase, if phases are known; without `waits`, no part rests on samples.
    """
    totals, count = result.totals, ops(result.kind, result.totals)
    primary, roles = totals.primary_metric, _roles(result)
    if primary is not None and primary.by == "time":
        return _timed_parts(result)
    if primary is None or not roles or not count or totals.apart:
        return None

    def per_op(of: Iterable[int]) -> float:
        return sum(of) / 1000 / count

    total_us = totals.seconds * 1e6 * sum(role.connections for role in roles) / count
    if not 0 < total_us < math.inf:
        return None
    seen: Counter[str] = Counter()
    for role in roles if waits else ():
        seen.update(role.waits)
    kinds = {kind: share * total_us for kind, share in by_kind(shares(seen)).items()}
    parts: Parts = {}
    off_cpu = total_us
    cpu = [(role.backend_cpu_ns, role.backend_runq_ns) for role in roles]
    if all(ns is not None for both in cpu for ns in both):
        parts["server_cpu"] = per_op(used or 0 for used, _ in cpu)
        parts["server_runq"] = per_op(waited or 0 for _, waited in cpu)
        off_cpu = max(0.0, total_us - parts["server_cpu"] - parts["server_runq"])
        phases = phases_of(result) if split else {}
        if phases:
            all_cpu = parts.pop("server_cpu")
            parts = {f"{PHASE}{phase}": part * all_cpu for phase, part in phases.items()} | parts
    elif kinds:
        parts["server_running"] = kinds.get("", 0.0)
    waited = {kind: value for kind, value in kinds.items() if kind}
    waited = blocked(waited, off_cpu, parts.get("server_runq", 0.0))
    parts |= {f"wait.{kind}": value for kind, value in waited.items() if kind != "client"}
    client = {
        "client_cpu": per_op(role.client_cpu_ns for role in roles),
        "client_runq": per_op(role.client_runq_ns for role in roles),
        "limiter": per_op(role.limited_ns for role in roles),
        "partner": per_op(role.coupled_ns for role in roles),
    }
    between = max(0.0, waited.get("client", 0.0) - sum(client.values()))
    parts |= client | ({"client_wait": between} if kinds else {})
    return parts | {"rest": total_us - sum(parts.values())}


def blocked(waited: Parts, off_cpu: float, runq: float) -> Parts:
    """The times with an event, by kind, less the CPU time and run-queue wait in them: at most `off_cpu` in all."""
    left, over = dict(waited), sum(waited.values()) - off_cpu
    for kinds, most in ((("client",), runq), (WORKING, math.inf), (tuple(waited), math.inf)):
        blocked_us = sum(left.get(kind, 0.0) for kind in kinds)
        taken = min(over, most, blocked_us)
        if taken > 0:
            left |= {kind: left[kind] * (1 - taken / blocked_us) for kind in kinds if kind in left}
            over -= taken
    return left


def _timed_parts(result: StepResult) -> Parts | None:
    figures = result.figures
    if not figures["time_s"] or figures["server_cpu_us_per_op"] is None:
        return None
    names = {
        "server_cpu": "server_cpu_us_per_op",
        "server_runq": "runq_us_per_op",
        "client_cpu": "client_cpu_us_per_op",
    }
    parts: Parts = {name: figures[key] for name, key in names.items() if figures[key] is not None}
    return parts | {"rest": 1e6 * figures["time_s"] - sum(parts.values())}


def _adds_up(parts: Parts) -> bool:
    return all(abs(value) <= MOST_US for value in parts.values()) and sum(parts.values()) >= LEAST_US


def phases_of(result: StepResult) -> Mapping[str, float]:
    """The phases' shares of the primary metric's server CPU, as fractions; empty if unknown."""
    roles = [
        name for name, role in result.totals.roles.items() if any(role is role_totals for role_totals in _roles(result))
    ]
    figures = [result.figures["probes"].get(name, {}) for name in roles]
    if len(figures) != 1:  # of several roles only the shares of each have a value
        return {}
    return figures[0].get("phases_sampled") or figures[0].get("phases") or {}


def logs_of(pair: tuple[Parts, Parts], names: Sequence[str]) -> dict[str, float]:
    """Each part's contribution to the log ratio of the other's time to the base's; these add up to it."""
    base, other = pair
    before, after = sum(base.values()), sum(other.values())
    mean = (after - before) / math.log(after / before) if after != before else before
    return {name: (other.get(name, 0.0) - base.get(name, 0.0)) / mean for name in names}


def _times(ratio: Ratio | None, logs: Sequence[Mapping[str, float]]) -> tuple[float | None, float | None]:
    """The bounds of the factor by which the time per operation differs."""
    if ratio is not None and (not ratio.low or not ratio.high):
        return None, None
    if ratio is not None and ratio.low and ratio.high:
        return (ratio.low, ratio.high) if ratio.metric == TIME else (1 / ratio.high, 1 / ratio.low)
    low, high = inference.mean_interval([sum(parts.values()) for parts in logs])
    return (None, None) if low is None or high is None else (ratio_of(low), ratio_of(high))


def _parts(
    names: Sequence[str],
    pairs: Sequence[tuple[Parts, Parts]],
    logs: Sequence[Mapping[str, float]],
    grown: Mapping[str, str],
) -> tuple[Part, ...]:
    wholes, growth = [sum(parts.values()) for parts in logs], []
    for name in names:
        changes = [parts[name] for parts in logs]
        share = sum(changes) / sum(wholes) if sum(wholes) else None
        low, high = inference.share_interval(changes, wholes)
        known = low is not None and high is not None and not low <= 0 <= high
        known = known and min(high or 0.0, 1.0) - max(low or 0.0, -1.0) <= WIDEST
        base_us, us = (fmean(pair[place].get(name, 0.0) for pair in pairs) for place in (0, 1))
        growth.append(Part(name, base_us, us, share, low, high, known, grown.get(name, "")))
    return tuple(growth)


def _grown(pairs: Sequence[tuple[StepResult, StepResult]]) -> dict[str, str]:
    moved: dict[str, float] = {}
    for base, other in pairs:
        for sign, result in ((-1, base), (1, other)):
            seen: Counter[str] = Counter()
            for role in _roles(result):
                seen.update(role.waits)
            for event, share in shares(seen).items():
                moved[event] = moved.get(event, 0.0) + sign * share
    grown: dict[str, str] = {}
    for event in sorted(moved, key=lambda event: -abs(moved[event])):
        (kind,) = by_kind({event: 1.0})
        grown.setdefault(f"wait.{kind}", event)
    return grown


def _in_order(names: Iterable[str]) -> list[str]:
    places = {name: place for place, name in enumerate(TITLES)}
    return sorted(dict.fromkeys(names), key=lambda name: places.get(name, places["server_cpu"]))


def _roles(result: StepResult) -> list[RoleTotals]:
    primary = result.totals.primary_metric
    return result.totals.of_kind(primary.role) if primary is not None else []
