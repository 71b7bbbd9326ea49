"""Figures of the probes over the last second: a row for each, short enough to stand below a chart."""

from collections.abc import Sequence

from engine.core.format import short
from engine.journal.rows import ProbeFrame
from engine.view.probe_series import quantile_us
from tui.marks import Line, Span, line

# The most telling histogram of each probe: its display name and its key. Buckets are powers of two of us.
HISTOGRAMS = {"runq": ("run queue", "runq_us"), "sched": ("run queue", "runq_us"), "planner": ("planning", "plan_us")}


def rows(frames: Sequence[ProbeFrame], roles: Sequence[str]) -> list[Line]:
    """A row for each probe with figures of the server processes of `roles`."""
    newest: dict[str, dict[str, ProbeFrame]] = {}
    for frame in frames:
        newest.setdefault(frame.probe, {})[frame.role] = frame
    lines = []
    for probe in sorted(newest):
        spans: list[Span] = []
        for role in roles:
            if role in newest[probe] and (words := _words(newest[probe][role])):
                spans += [(f" {role} ", "dim"), (words, "")]
        if spans:
            what = f"{HISTOGRAMS[probe][0]} p99 in us" if probe in HISTOGRAMS else "% of its time on CPU"
            lines.append(line((f" {probe:<8} {what}:", "dim"), *spans))
    return lines


def _words(frame: ProbeFrame) -> str:
    if frame.probe in HISTOGRAMS:
        highest_us = quantile_us(dict(frame.data.get(HISTOGRAMS[frame.probe][1]) or ()), 0.99)
        return f"<{short(highest_us + 1)}" if highest_us is not None else ""
    phases = frame.data.get("phases") or {}
    total = sum(phases.values())
    ranked = sorted(phases.items(), key=lambda phase: -phase[1])[:3]
    return " ".join(f"{name} {100 * count / total:.0f}" for name, count in ranked) if total else ""
