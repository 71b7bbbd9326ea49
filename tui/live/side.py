"""The right column of a wide terminal: the plan and its results so far, the last minute, the machine."""

from collections.abc import Mapping, Sequence

from engine.core.format import short, span
from engine.core.model import Manifest, workload_title
from engine.view.eta import Planned
from engine.view.step_details import FIGURES
from engine.view.step_series import SECOND_NS, Series
from engine.view.view_state import UNITS, ViewState
from tui.glyphs import Glyphs
from tui.live import budget
from tui.live.text import ends
from tui.marks import Line, cut, fitting, folded, line, rule
from tui.widgets.sparkline import sparkline

MINUTE_NS = 60 * SECOND_NS
NAME_CELLS, VALUE_CELLS = 18, 8
SIGNS = {"finished": "ok", "failed": "x", "running": ">", "interrupted": "x", "next": "next", "planned": ""}
PLAN_SHARE = 0.4  # of the rows, at most
LEAST_PLAN = 4  # rows
PLAN_CELLS = len("─ plan ── ─") - len("  ")  # of the heading, but for its hint, which begins with blanks


def side(
    view: ViewState,
    plan: Sequence[Planned],
    manifest: Manifest,
    figures: Mapping[str, Series],
    glyphs: Glyphs,
    size: tuple[int, int],
) -> list[Line]:
    """The column in `size` (columns, rows); the environment, which never changes, is last and may be cut."""
    columns, rows = size
    lines = [*schedule(view, plan, columns, max(LEAST_PLAN, int(rows * PLAN_SHARE)), glyphs), line()]
    if steps := budget.rows(view, glyphs):
        lines += [*steps, line()]
    lines += last_minute(view, figures, columns, glyphs)
    if view.machine.workers:
        lines += [line(), line(("server processes", "strong"), ("  % of a CPU", "dim"))]
        lines += [line((f"{name:<24}", "dim"), f"{share:6.1f}%") for name, share in view.machine.workers]
    if len(lines) + 2 < rows:  # a heading alone says nothing
        lines += [line(), line(("environment", "strong"))]
        for text in environment(manifest):
            lines += folded(text, columns, indent=0)
    return [_ruled(spans, columns, glyphs) for spans in lines]


def _ruled(spans: Line, columns: int, glyphs: Glyphs) -> Line:
    """A heading in a rule; other lines as they are."""
    (text, mark), *hint = spans or (("", ""),)
    heading = mark == "strong" and not text.startswith(" ")
    return rule(text, columns, glyphs, "".join(part for part, _ in hint).strip()) if heading else spans


def schedule(view: ViewState, plan: Sequence[Planned], columns: int, rows: int, glyphs: Glyphs) -> list[Line]:
    """The cells around the current one, finished ones with their rate in this step; and when the run will end."""
    step = view.step.name if view.step is not None else ""
    head = f"  {view.cells_done}/{view.cells} cells"
    until = f", ends {ends(view)}" if view.left_s is not None else ""
    away = f" (in {span(view.left_s)})" if view.left_s is not None else ""
    unit = f"; {step} in {'s' if view.timed else view.unit}" if any(step in planned.rates for planned in plan) else ""
    hints = f"{head}{until}{away}{unit}", f"{head}{until}{unit}", f"{head}{until}", head
    lines = [line(("plan", "strong"), (fitting(hints, columns - PLAN_CELLS), "dim"))]
    places = [place for place, planned in enumerate(plan) if planned.state in ("running", "next")]
    now = places[0] if places else len(plan)
    room = max(1, rows - 2)
    first = max(0, min(now - room // 2, len(plan) - room))
    shown = plan[first : first + room]
    if first:
        lines.append(line((f"  {first} before", "dim")))
    several = len({planned.cell.subject.config for planned in plan}) > 1
    for planned in shown:
        rate = planned.rates.get(step)
        sign = SIGNS.get(planned.state, planned.state)
        name = planned.cell.subject.name + (f" {planned.cell.subject.config}" if several else "")
        figure = short(rate) if rate is not None else step if planned.state == "running" else ""
        mark = {"running": "strong", "failed": "worse", "interrupted": "worse"}.get(planned.state, "")
        head = f"{sign:>4} {planned.cell.ordinal + 1:>3} r{planned.cell.repeat} "
        name = cut(name, max(6, columns - len(head) - len(figure) - 2), glyphs)
        gap = " " * max(1, columns - len(head) - len(name) - len(figure))
        lines.append(line((head, mark or "dim"), (name, mark), (gap + figure, mark or "dim")))
    left = len(plan) - first - len(shown)
    if left > 0:
        lines.append(line((f"  {left} more", "dim")))
    return lines


def last_minute(view: ViewState, figures: Mapping[str, Series], columns: int, glyphs: Glyphs) -> list[Line]:
    """Name, current value (after the step, the mean of its last minute) and course of each role and machine figure."""

    def value_of(points: Series) -> str:
        at = _at(view)
        return short(points.mean(at - MINUTE_NS, at) if view.over else points.at(at))

    cells = max(4, columns - NAME_CELLS - VALUE_CELLS - 1)
    title = "last minute, mean" if view.over else "last minute"
    lines = [line((title, "strong"), (f"{'each from 0':>{NAME_CELLS + VALUE_CELLS + 12 - len(title)}}", "dim"))]
    rows: list[tuple[str, str, Series]] = []
    if view.series is not None:
        axis = view.series.rates if view.interleaved is None else view.series.active
        rows += [(UNITS.get(kind, kind), value_of(points), points) for kind, points in axis.items()]
    for figure in FIGURES:
        points = figures.get(figure.name)
        if points is not None and points.until:
            unit = figure.unit if figure.unit != "waiting" else ""
            rows.append((f"{figure.name} {unit}".rstrip(), value_of(points), points))
    for name, value, points in rows:
        course = sparkline(points, _at(view), MINUTE_NS, cells, glyphs)
        lines.append(
            line((f"{name:<{NAME_CELLS}}"[:NAME_CELLS], "dim"), f"{value:>{VALUE_CELLS - 1}} ", (course, "rate"))
        )
    dirty = view.machine.dirty_bytes
    if dirty is not None:
        lines.append(line((f"{'dirty MB':<{NAME_CELLS}}", "dim"), f"{short(dirty / (1 << 20)):>{VALUE_CELLS - 1}}"))
    return lines


def _at(view: ViewState) -> int:
    """The moment that is shown, on the axis of the series."""
    if view.interleaved is None:
        return view.at_ns
    assert view.series is not None
    return round(view.series.worked_s(view.at_ns) * SECOND_NS)


def environment(manifest: Manifest) -> list[str]:
    cpu, kernel = manifest.environment.get("cpu", {}), manifest.environment.get("kernel", {})
    workload = manifest.workload
    return [
        *(("of the clients' machine:",) if manifest.external is not None else ()),
        f"{cpu.get('model', '?')}, {cpu.get('threads', '?')} CPUs",
        f"kernel {kernel.get('release', '?')}",
        f"{workload.get('name')} {workload_title(workload)}",
        f"clients {workload.get('clients')}, seed {manifest.design.seed}",
        f"probes {', '.join(manifest.observation.observers) or 'none'}",
    ]
