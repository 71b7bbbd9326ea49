"""Progress of a step, and whether it keeps up its target rate."""

from __future__ import annotations

from engine.journal.totals import SLA_FRACTION, sla
from engine.view.step_series import StepSeries
from engine.view.view_state import SlaProgress

SETTLED_S = 2.0  # before this, a mean is too uncertain to compare


def fraction(series: StepSeries, kind: str, until_ns: int, worked_s: float) -> float | None:
    """Fraction of the step that is done; None if its length is unknown."""
    step = series.step
    if step.state == "finished" and step.ended_ns is not None and until_ns >= step.ended_ns:
        return 1.0
    if step.kind == "index" or kind == "index":
        return None
    if step.work and kind == "insert":
        return min(1.0, series.done("insert", until_ns) / step.work)
    if wanted := int(step.plan.get("transactions") or 0) * int(step.plan.get("clients") or 0):
        return min(1.0, series.done(kind, until_ns) / wanted)
    nominal_s = step.planned_s
    return min(1.0, worked_s / nominal_s) if nominal_s else None


def agreement(series: StepSeries, until_ns: int, clients: int) -> SlaProgress | None:
    """Fraction of the target insert rate kept up so far; None in the first seconds."""
    step = series.step
    if step.totals is not None and step.ended_ns is not None and until_ns >= step.ended_ns:
        judged = sla(step.kind, step.totals)
        return SlaProgress(judged.achieved_per_s / judged.target_per_s, judged.passed) if judged is not None else None
    target = float(step.plan.get("rate_per_s") or 0) * clients
    counted_s = series.worked_s(until_ns)
    if step.kind != "query" or target <= 0 or counted_s <= SETTLED_S:
        return None
    # The newest burst may be counted a second late; verdicts use engine.journal.totals.sla after the end.
    kept = series.done("insert", until_ns) / target / max(1.0, counted_s - 1.0)
    return SlaProgress(min(1.0, kept), kept >= SLA_FRACTION)
