"""The Probes screen at one moment, from the data read. Pure, so that it can be tested without a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.format import clock, short
from engine.journal.rows import EventRow
from engine.results.flame import FlameGraph
from engine.view.probe_frames import StepPlace
from engine.view.probe_series import ProbeSeries, Sums
from engine.view.step_series import SECOND_NS
from tui.flame import text as flame_text
from tui.flame import tree
from tui.glyphs import Glyphs
from tui.marks import Line, fit, folded, line, side_by_side
from tui.probes import text as probe_text
from tui.probes.probe_status import ProbeRow
from tui.widgets import axes

WINDOWS = (("whole step", 0), ("last 60 s", 60), ("last 10 s", 10))
BAR_ROWS = 5  # in 24 rows; a taller screen gives the extra rows to bars first, then to the strip
BARS_MOST = 14
REMARK_ROWS = 2
STACKS, OFFCPU = "stacks", "offcpu"


@dataclass(frozen=True, slots=True)
class Moment:
    """A step up to `at_ns`, recorded up to `end_ns`; `series` is the chosen probe's, `others` have data here."""

    place: StepPlace
    probe: str
    series: ProbeSeries | None
    others: Sequence[str]
    stalls: Sequence[EventRow]
    at_ns: int
    end_ns: int
    window_s: int
    log: bool
    replay: bool
    running: bool
    stacks: FlameGraph | None = None  # samples of the role by the probe `stacks` over the whole step
    stacks_note: str = ""  # why they are missing

    @property
    def after_ns(self) -> int:
        """Start of the window that histograms cover."""
        return self.at_ns - self.window_s * SECOND_NS if self.window_s else 0

    @property
    def sums(self) -> Sums:
        if self.series is None:
            return Sums()
        if self.window_s:
            return Sums().add(self.series.within(self.after_ns, self.at_ns))
        return self.series.sums(self.at_ns)


def room(height: int, probes: int) -> tuple[int, int]:
    """Rows for bars and for the strip; the rest is title, table, axis, remarks and keys."""
    over = max(0, height - (1 + 1 + probes + 1 + BAR_ROWS + 3 + REMARK_ROWS + 1))
    bars = min(BARS_MOST, BAR_ROWS + over // 2)
    return bars, 1 + over - (bars - BAR_ROWS)


def title(moment: Moment, role: str, columns: int) -> Line:
    step, repeat = moment.place.step, moment.place.cell.repeat
    at = clock((min(moment.at_ns, moment.end_ns) - step.started_ns) / 1e9)
    how = "REPLAY" if moment.replay else "REC" if moment.running and step.ended_ns is None else "recorded"
    window = next(words for words, seconds in WINDOWS if seconds == moment.window_s)
    left = f" PROBES  {step.name} {moment.place.name} r{repeat}  {how} {at}"
    right = f"role {role or '-'}   {window} "
    return ((left[: columns - len(right) - 1].ljust(columns - len(right)) + right, "title"),)


def panels(moment: Moment, columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """Histograms of the chosen probe, side by side, or one next to its figures."""
    cells = (columns - 1) // 2
    sums, series = moment.sums, moment.series
    if series is None or not sums.seconds:
        lines = folded(_nothing(moment), columns, "dim")
        return [*lines, *[()] * (rows + 1 - len(lines))]
    if moment.probe == STACKS:
        return _stacks(moment, series.role, sums, columns, rows, glyphs)
    around = {  # by their ends: stalls of several roles overlap
        frame.t_ns: frame
        for stall in moment.stalls
        for frame in series.within(
            max(moment.after_ns, stall.started_ns), min(moment.at_ns, (stall.ended_ns or moment.at_ns) + 2 * SECOND_NS)
        )
    }
    wall_ns = moment.place.session.wall(0)
    panel_lines: list[list[Line]] = []
    for name, histogram in list(sums.histograms.items())[:2]:
        # The known maximum belongs to the first field: waits, or plannings.
        longest_us = sums.figures.get("max_us") if not panel_lines else None
        stalled = probe_text.stalled_buckets(tuple(around.values()), name, histogram, moment.stalls, wall_ns)
        bars = probe_text.bars(histogram, stalled, cells, rows, log=moment.log, glyphs=glyphs)
        panel_lines.append([probe_text.summary(name, histogram, longest_us), *bars])
    if len(panel_lines) < 2:
        heading = line((f" {series.probe}, {series.role}", "strong"), (f"  {short(sums.seconds)} s", "dim"))
        width = cells if panel_lines else columns - 1
        lines = probe_text.figure_lines(series.probe, sums.figures, sums.seconds, width, glyphs)
        panel_lines.append([heading, *lines])
    if len(panel_lines) < 2:
        return [*panel_lines[0][: rows + 1], *[()] * (rows + 1 - len(panel_lines[0]))]
    return side_by_side(panel_lines[0], panel_lines[1], cells, rows + 1, glyphs)


def _stacks(moment: Moment, role: str, sums: Sums, columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The functions sampled in a finished step; while it lasts, the number of samples."""
    rate = sums.figures.get("samples", 0) / sums.seconds
    words = f"  {short(rate)} samples/s; f opens the flame graph"
    heading = line((f" {moment.probe}, {role}", "strong"), (words, "dim"))
    if moment.stacks is None:
        lines = [heading, *folded(moment.stacks_note or "reading the stacks", columns, "dim")]
    else:
        root = tree.tree(moment.stacks)
        functions = tree.functions(root, differential=False)
        lines = [heading, *flame_text.functions(moment.stacks, root, functions, -1, 0, rows, columns, glyphs)]
    return [*lines, *[()] * (rows + 1 - len(lines))]


def panels_and_strip(
    moment: Moment, columns: int, height: int, probes: int, glyphs: Glyphs
) -> tuple[list[Line], list[Line]]:
    """The chosen probe's figures, and the same over time in the rows that they leave empty."""
    bars, strip_rows = room(height, probes)
    shown = panels(moment, columns, bars, glyphs)
    while strip_rows > 1 and shown and not shown[-1]:  # in 24 rows nothing moves
        shown.pop()
        strip_rows += 1
    return shown, over_time(moment, columns, strip_rows, glyphs)


def _nothing(moment: Moment) -> str:
    if moment.series is None:
        only = f"no data from {moment.probe} for this step, only from {', '.join(moment.others)}"
        return (
            f"{only if moment.others else 'no probe data for this step'}; up, down choose a probe, left, right a step"
        )
    if not moment.series.whole:
        return "reading"
    return (
        f"no data from {moment.series.probe} for {moment.series.role} in this window; d changes the role, w the window"
    )


def over_time(moment: Moment, cells: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The chosen probe over the whole step, with a heading and the axis."""
    series = moment.series
    sums = series.sums(moment.at_ns) if series is not None else Sums()
    if series is None or not sums.seconds:
        return []
    field = _field(sums)
    # The whole step; while its end is unknown, an estimated length.
    step_axis = axes.of_step(moment.place.step, moment.end_ns)
    axis = (int(step_axis.start), int(step_axis.end))
    columns = series.columns(field, axis, cells, moment.at_ns)
    peak = max((column.peak for column in columns if column is not None), default=0.0)
    if field in sums.histograms:
        what, most = f"{probe_text.named(field)} us over time, p99", f"highest <{probe_text.size_us(int(peak) + 1)}"
    else:
        what = f"{field.removesuffix('_us')} over time, {'us' if field.endswith('_us') else 'times'} per s"
        most = f"highest {short(peak)}"
    stalled = probe_text.stalled_columns(axis, moment.at_ns, moment.stalls, cells)
    mark = ("  ! where it stalled" if stalled else "", "worse")
    return [
        fit(line((f" {what}", "strong"), f"  {most}", mark), cells, glyphs.ellipsis),
        *probe_text.strip(columns, stalled, rows, glyphs),
        probe_text.axis_line(axis, stalled, cells, glyphs),
    ]


def _field(sums: Sums) -> str:
    """The field that is drawn over time: the first histogram, or else the most telling one."""
    for name in sums.histograms:
        return name
    return next((name for name in ("runq_us", "plan_us", "samples", "n") if name in sums.figures), "processes")


def small(moment: Moment | None, rows: Sequence[ProbeRow]) -> list[Line]:
    of = ""
    if moment is not None:
        place = moment.place
        of = f"  {place.step.name} {place.name} r{place.cell.repeat}"
    states = [line(f"{row.probe:<11} ", (row.state, row.mark)) for row in rows]
    return [line(("PROBES", "strong"), of), *states]
