"""The ghost: the base's curve up to the same point of the step, drawn over the time of the one under way.

Like the best lap in a racing game: aligned by work done if that is fixed (tables grow, rates fall), else by time
worked. The future is drawn at the pace kept so far.
"""

from __future__ import annotations

from bisect import bisect_right

from engine.view.step_series import SECOND_NS, Series, StepSeries

ALIKE_S = 1.5  # by how much steps of a fixed length may differ


class BaseCurve:
    """Curve of one base cell for a kind of role; `past` grows with the series that it lies behind."""

    def __init__(self, base: StepSeries, series: StepSeries, kind: str) -> None:
        self.base = base
        self._series = series
        self._kind = kind
        self.past = Series()
        self._taken = 0  # ticks of the series used so far
        self._at_s = 0.0  # active time at which the base had done the newest tick's work

    def catch_up(self) -> None:
        """Add to `past` the base's rate at the same work for each new tick of the series."""
        rate = self._series.rates.get(self._kind)
        if rate is None or self.base.active.get(self._kind) is None:
            return
        for place in range(self._taken, len(rate.until)):
            until = rate.until[place]
            base_s = base_place(self.base, self._series, until)
            if base_s is None:
                break  # the base never got that far
            value = self._between(self._at_s, base_s)
            if value is not None:
                self.past.add(until, rate.length[place], value)
            self._at_s = base_s
            self._taken = place + 1

    def ahead(self, at_ns: int) -> Series:
        """The base's curve after this point, at the pace of the series so far."""
        curve = Series()
        base_s, worked_s = base_place(self.base, self._series, at_ns), self._series.worked_s(at_ns)
        active = self.base.active.get(self._kind)
        if not base_s or not worked_s or active is None:
            return curve
        slower = worked_s / base_s
        for place in range(bisect_right(active.until, base_s * SECOND_NS), len(active.until)):
            until = at_ns + round((active.until[place] - base_s * SECOND_NS) * slower)
            curve.add(until, round(active.length[place] * slower), active.value[place])
        return curve

    def _between(self, from_s: float, until_s: float) -> float | None:
        """The base's rate over a part of its active time; at a single point, its rate there."""
        active = self.base.active[self._kind]
        if until_s - from_s > 1e-6:
            done = [self.base.done_after(self._kind, at_s) if at_s else 0.0 for at_s in (from_s, until_s)]
            if None not in done:
                assert done[0] is not None and done[1] is not None
                return (done[1] - done[0]) / (until_s - from_s)
        place = bisect_right(active.until, until_s * SECOND_NS)
        return active.value[place] if place < len(active.value) else None


def base_place(base: StepSeries, series: StepSeries, t_ns: int) -> float | None:
    """The base's active time in s at the point of the step that a series had reached at `t_ns`; None after its end.

    The same for all roles: by inserts if they are the step's fixed work, else by time, so that a query step is aligned
    by time although its inserts have a fixed amount to do.
    """
    primary = series.step.primary_metric
    if series.step.work and "insert" in series.rates and (primary is None or primary.role == "insert"):
        return base.worked_for("insert", series.done("insert", t_ns))
    worked_s, base_s = series.worked_s(t_ns), base.worked_s(base.newest_ns)
    return min(worked_s, base_s) if worked_s - base_s < ALIKE_S else None
