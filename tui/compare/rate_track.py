"""Two rates on one axis: by time since the step began, or by work done, where a slower one does not lag."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from engine.core.errors import UserError
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.view.step_series import SECOND_NS, Series, StepSeries

TIME, WORK = "time", "work"
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Track:
    """A rate over an axis: each value holds from `until - length` to `until`. `stalls` are spans of the same axis."""

    until: tuple[float, ...]
    length: tuple[float, ...]
    value: tuple[float, ...]
    stalls: tuple[Span, ...]
    stalled_s: float = 0.0

    @property
    def end(self) -> float:
        return self.until[-1] if self.until else 0.0

    @property
    def median(self) -> float | None:
        return median(self.value) if self.value else None

    @property
    def greatest(self) -> float:
        return max(self.value, default=0.0)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One cell's step as recorded: rates and stalls in ns; in a `sliced` step without the server's pauses."""

    started_ns: int
    primary_role: str  # the kind of role whose progress counts as the step's
    rates: dict[str, Series]
    stalls: tuple[tuple[str, int, int], ...]  # kind of role, start, end
    sliced: bool = False


def recorded(run: Path, cell: str, step: str) -> Recorded:
    """Read a step of a finished cell. Raises UserError if the run is damaged or lacks the step."""
    with JournalReader(run) as reader:
        attempt = outcome.chosen(reader.manifest, reader.attempts(origins=False)).get(cell)
        done = attempt is not None and attempt.state == "finished"
        rows = [row for row in reader.steps(attempt.id) if row.name == step] if attempt and done else []
        if not rows:
            raise UserError(f"{run.name}: cell {cell} has no finished step {step}")
        series = StepSeries(reader, rows[-1])
        series.catch_up()
        kinds = {role.name: role.kind for role in series.roles.values()}
        ends = max((rate.until[-1] for rate in series.rates.values() if rate.until), default=rows[-1].started_ns)
        stalls = tuple(
            (kinds.get(str(event.role), str(event.role)), event.started_ns, event.ended_ns or ends)
            for event in series.events
            if event.kind == "stall"
        )
        primary = rows[-1].primary_metric.role if rows[-1].primary_metric else ""
        return Recorded(rows[-1].started_ns, primary, series.rates, stalls, bool(reader.slices(rows[-1].id)))


def kinds(sides: Sequence[Recorded]) -> list[str]:
    """The kinds of role that made progress on either side, the step's primary one first."""
    own = next((side.primary_role for side in sides if side.primary_role), "")
    moved = {kind for side in sides for kind, series in side.rates.items() if any(series.value)}
    return sorted(moved, key=lambda kind: (kind != own, kind))


def track(side: Recorded, kind: str, by: str) -> Track:
    """The rate of one kind of role, by time or by work done."""
    series = side.rates.get(kind)
    if series is None:
        return Track((), (), (), ())
    stalls = [(from_ns, until_ns) for role, from_ns, until_ns in side.stalls if role == kind]
    points = list(zip(series.until, series.length, series.value, strict=True))
    if by == WORK:
        made = by_work(points, stalls)
    elif side.sliced:
        made = by_own_time(points, stalls)
    else:
        made = by_time(points, side.started_ns, stalls)
    return replace(made, stalled_s=sum(until_ns - from_ns for from_ns, until_ns in stalls) / SECOND_NS)


def by_time(points: Sequence[tuple[int, int, float]], started_ns: int, stalls: Iterable[tuple[int, int]]) -> Track:
    """Place points (until_ns, length_ns, per second) on an axis of seconds since the step began."""
    return Track(
        tuple((until - started_ns) / SECOND_NS for until, _, _ in points),
        tuple(length / SECOND_NS for _, length, _ in points),
        tuple(value for _, _, value in points),
        tuple(((from_ns - started_ns) / SECOND_NS, (until - started_ns) / SECOND_NS) for from_ns, until in stalls),
    )


def by_own_time(points: Sequence[tuple[int, int, float]], stalls: Iterable[tuple[int, int]]) -> Track:
    """Place points on an axis of this server's active seconds, without its pauses."""
    return _added(points, [length / SECOND_NS for _, length, _ in points], stalls)


def by_work(points: Sequence[tuple[int, int, float]], stalls: Iterable[tuple[int, int]]) -> Track:
    """Place points on an axis of operations done. A second without progress has no length, but keeps its place."""
    return _added(points, [value * length / SECOND_NS for _, length, value in points], stalls)


def _added(
    points: Sequence[tuple[int, int, float]], amounts: Sequence[float], stalls: Iterable[tuple[int, int]]
) -> Track:
    done, ends = 0.0, []
    for amount in amounts:
        done += amount
        ends.append(done)
    lengths = [end - before for before, end in zip([0.0, *ends], ends, strict=False)]
    times = [until for until, _, _ in points]

    def at(t_ns: int) -> float:
        """Progress at a time, interpolated within each interval."""
        for place, until in enumerate(times):
            if t_ns <= until:
                length_ns = points[place][1]
                share = (t_ns - (until - length_ns)) / length_ns if length_ns else 1.0
                return ends[place] - lengths[place] * (1 - max(0.0, share))
        return done

    return Track(
        tuple(ends),
        tuple(lengths),
        tuple(value for _, _, value in points),
        tuple((at(from_ns), at(until_ns)) for from_ns, until_ns in stalls),
    )
