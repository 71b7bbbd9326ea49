"""Roles and machine at a moment: in its last second, or over a whole step that has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, RoleRow, RoleSecond
from engine.journal.totals import RoleTotals, StepTotals, progress, role_place
from engine.view.step_series import SECOND_NS, StepSeries, is_sliver
from engine.view.view_state import RoleLine, role_lines, share_percent
from workloads.api.base import role_kind
from workloads.client import histogram

TICK_NS = 1_500_000_000  # everything of a tick was read within this time before its end
SLICED, LEAST_SHARE = 0.9, 0.2  # a server with less of a tick is in slices; a rate is over five ticks at most
OF_SERVER = ("server", "process:")  # samples of processes that are idle while their server is paused
Samples = Mapping[str, tuple[int, Mapping[str, Any]]]  # by source: (length in ns, counters)


def last_second(
    reader: JournalReader, series: StepSeries, kind: str, t_ns: int, stalls: Sequence[EventRow]
) -> tuple[tuple[RoleLine, ...], Samples]:
    """Roles and machine in the tick that ends at `t_ns`; progress of roles of a `kind` is the step's."""
    longest: dict[int, RoleSecond] = {}
    for second in reader.seconds(series.step.id, max(series.tick_started_ns(t_ns), t_ns - TICK_NS), t_ns):
        if second.role_id not in longest or second.dt_ns > longest[second.role_id].dt_ns:
            longest[second.role_id] = second
    samples: dict[str, tuple[int, Mapping[str, Any]]] = {}
    share = series.active_share(t_ns)
    for _, dt_ns, source, data in reader.samples(series.step.id, max(t_ns - TICK_NS, 0), t_ns):
        if source not in samples or not is_sliver(dt_ns):
            samples[source] = round(dt_ns * share) if source.startswith(OF_SERVER) else dt_ns, data
    lines = role_lines(series.roles, list(longest.values()), stalls, kind)
    if share < SLICED:
        longer = reader.seconds(series.step.id, t_ns - round(SECOND_NS / max(share, LEAST_SHARE)) - TICK_NS // 3, t_ns)
        lines = steady(lines, longer, series.roles, kind)
    return lines, samples


def steady(
    lines: Sequence[RoleLine], seconds: Sequence[RoleSecond], roles: Mapping[int, RoleRow], kind: str
) -> tuple[RoleLine, ...]:
    """Rates of roles other than the step's `kind` over all these intervals, about a second of the server's own time.

    In slices, a tick has less of it, in which a role with a limited rate may have nothing or twice as much to do.
    """
    done: Counter[str] = Counter()
    lengths_ns: dict[int, int] = {}
    for second in seconds:
        done[roles[second.role_id].name] += progress(roles[second.role_id].name, second)
        lengths_ns[second.role_id] = lengths_ns.get(second.role_id, 0) + second.dt_ns
    length_ns = max(lengths_ns.values(), default=0)
    return tuple(
        line
        if role_kind(line.name) == kind or not length_ns
        else replace(line, rate_per_s=done[line.name] * SECOND_NS / length_ns)
        for line in lines
    )


def role_means(totals: StepTotals, roles: Iterable[RoleRow], counted: str) -> tuple[RoleLine, ...]:
    """Roles over a step: `counted` is the kind whose progress is the step's."""
    pids = {role.name: role.backend_pid for role in roles}
    ops = sum(progress(name, role) for name, role in totals.roles.items() if role_kind(name) == counted)
    return tuple(
        _role_mean(name, role, pids.get(name), totals.seconds, ops)
        for name, role in sorted(totals.roles.items(), key=lambda item: role_place(item[0]))
    )


def _role_mean(name: str, role: RoleTotals, pid: int | None, seconds: float, ops: int) -> RoleLine:
    length_ns, max_us = max(1, round(seconds * SECOND_NS)), role.max_ns // 1000
    counts = dict(role.histogram)
    p50, p99 = (None if us is None else min(us, max_us) for us in histogram.quantiles_us(counts, (0.5, 0.99)))
    cpu_ns = role.backend_cpu_ns
    return RoleLine(
        name,
        role.connections,
        pid if role.connections == 1 else None,
        progress(name, role) * SECOND_NS / length_ns,
        share_percent(cpu_ns, length_ns),
        cpu_ns / 1000 / ops if cpu_ns is not None and ops else None,
        share_percent(role.backend_runq_ns, length_ns),
        share_percent(role.client_cpu_ns, length_ns),
        max(role.waits, key=lambda event: role.waits[event], default=""),
        p50,
        p99,
        max_us,
        0.0,
        False,
    )


def machine_over(totals: StepTotals, last: Samples) -> Samples:
    """Server and machine over a step; states (`_now`) are the last ones."""
    worked_ns = round(totals.seconds * SECOND_NS)
    wall_ns = round((totals.wall_seconds or totals.seconds) * SECOND_NS)
    latest: dict[str, tuple[int, Mapping[str, Any]]] = {}
    if totals.server_cpu_ns is not None:
        counted = {"cpu_ns": totals.server_cpu_ns, "runq_ns": totals.server_runq_ns}
        latest["server"] = (worked_ns, _now(last, "server") | counted)
    for source, counters in (("host", totals.host), ("device", totals.device)):
        if counters:
            latest[source] = (wall_ns, counters | _now(last, source))
    return latest


def _now(last: Samples, source: str) -> dict[str, Any]:
    return {key: value for key, value in last.get(source, (0, {}))[1].items() if key.endswith("_now")}
