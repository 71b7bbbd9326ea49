"""The text of the Live screen: everything but the charts and the ribbon, from a `ViewState` alone."""

import time
from collections.abc import Mapping, Sequence

from engine.core.format import clock, duration, short, span, three
from engine.journal.rows import EventRow
from engine.view.events import event_words, incident_words, lasts, length_words, roles_words
from engine.view.interleaved_step import reach_words, so_far_words
from engine.view.step_series import SECOND_NS
from engine.view.view_state import UNITS, RoleLine, ViewState
from tui.glyphs import SETS, Glyphs
from tui.marks import SIDES, Line, Span, cut, fitting, line, width
from tui.screens.bench_screen import LEAST

BAR_CELLS = 16
TREND = 0.005  # smaller changes of a ratio are shown as steady
WARNINGS = ("drift", "gap", "probe_gap", "server_error", "lock_wait", "clock_step", "suspended", "server_stopped")
# The role table: headings and their widths, 80 together. Service times in ms.
COLUMNS = (
    ("role", 8), ("pid", 7), ("ops/s", 7), ("cpu%", 6), ("us/op", 7), ("runq%", 6), ("wait", 13),
)  # fmt: skip
NARROWER = ((79, "pid"), (72, "age s"))  # columns dropped from a narrower table; ages of statements stand above it, too
TIMES = (("p50", 6), ("p99", 6), ("max ms", 7), ("age s", 6))


def title(view: ViewState, columns: int) -> Line:
    """The cell of the run, build and step; in a narrow terminal without the least important."""
    cell = view.cell
    badge = _badge(view)
    if cell is None:
        return line(badge, (f" {view.run}", "title"))
    kernel = f" {cell.subject.kernel}" if cell.subject.kernel != "host" else ""
    interleaved = view.interleaved
    numbers = (
        f"cells {interleaved.numbers} of {view.cells}"
        if interleaved is not None
        else f"{cell.ordinal + 1}/{view.cells}"
    )
    for config, repeat, numbered in ((f" {cell.subject.config}", 1, 1), ("", 1, 1), ("", 0, 1), ("", 0, 0)):
        parts = [
            numbers if numbered else "",
            f"{cell.subject.name}{config}{kernel}",
            view.step.name if view.step else "",
            f"{'repeat ' if interleaved is None else 'r'}{cell.repeat}/{view.repeats}" if repeat else "",
            clock(view.length_s) if view.step else "",
        ]
        text = line(badge, (" " + " | ".join(part for part in parts if part) + " ", "title"))
        if width(text) <= columns:
            break
    return text


def _badge(view: ViewState) -> Span:
    if view.state == "replay":
        playing = f"x{view.speed}" if view.playing else "PAUSED"
        return (f" REPLAY {playing} ", "cursor")
    if view.stopping and view.state == "running":
        return (" STOPPING ", "warning")
    return {
        "running": (" REC ", "cursor"),
        "finished": (" FINISHED ", "title"),
        "failed": (" FAILED ", "error"),
        "died": (" DIED ", "error"),
    }.get(view.state, (f" {view.state.upper()} ", "title"))


def progress(view: ViewState, glyphs: Glyphs, behind_s: float | None, columns: int = 80) -> Line:
    """The step's progress and ETA, and whether the SLA holds."""
    forms = (
        _progress(view, glyphs, behind_s, bar_cells, left)
        for bar_cells, left in ((BAR_CELLS, True), (BAR_CELLS, False), (BAR_CELLS // 2, False))
    )
    shown: Line = ()
    for shown in forms:
        if width(shown) <= columns:
            break
    return shown


def _progress(view: ViewState, glyphs: Glyphs, behind_s: float | None, bar_cells: int, left: bool) -> Line:
    spans: list[Span] = []
    if behind_s is not None:
        spans += [(" ", ""), (f" PAUSED {span(behind_s)} behind ", "cursor")]
    if view.doing:
        spans.append((f" {view.doing} ", "strong"))
    elif view.fraction is not None:
        filled = int(bar_cells * view.fraction)
        bar = glyphs.done * filled + glyphs.todo * (bar_cells - filled)
        spans.append((f" {bar} {int(100 * view.fraction):3}% ", ""))  # rounds down: 99.6% is not all
        if view.eta_s is not None and view.fraction < 1:
            spans.append((f" ETA {span(view.eta_s)} ", ""))
    elif view.step is not None:
        spans.append((f" {span(view.length_s)} so far ", ""))
    if view.silent_s is not None:
        spans.append((f" ? no figures for {span(view.silent_s)} ", "warning"))
    if view.sla is not None:
        kept = f" SLA {int(100 * view.sla.fraction + 1e-9)}% "  # rounds down: 94.9% is not 95%
        spans.append((f" ok{kept}", "") if view.sla.passed else (f" x{kept}", "sla"))
    until = ""
    if view.left_s is not None:
        until = f", {span(view.left_s)} left, ends {ends(view)}" if left else f", ends {ends(view)}"
    spans.append((f" {view.cells_done}/{view.cells} cells{until}", "dim"))
    if view.cells_failed:
        spans.append((f" x {view.cells_failed} failed", "worse"))
    return tuple(spans)


def ends(view: ViewState) -> str:
    """The expected end of the run by the wall clock; with the day unless that is today."""
    assert view.left_s is not None
    end_s = view.wall_ns / 1e9 + view.left_s
    then, now = time.localtime(end_s), time.localtime(view.wall_ns / 1e9)
    return time.strftime("%H:%M" if then.tm_yday == now.tm_yday else "%a %H:%M", then)


def ratio_words(view: ViewState, glyphs: Glyphs, *, several: bool) -> str:
    """`0.934` at the same point of the step, its trend, `so far` until the end, and its range over the base's cells."""
    assert view.relative is not None
    so_far = "" if view.fraction == 1 else f"{trend_of(view, glyphs)} so far"
    ratios = view.relatives
    range_ = f", {ratios[0]:.3f} to {ratios[-1]:.3f} of {len(ratios)} cells" if several and len(ratios) > 1 else ""
    return f"{view.relative:.3f}{so_far}{range_}"


def trend_of(view: ViewState, glyphs: Glyphs) -> str:
    if view.relative is None or view.relative_before is None:
        return ""
    return arrow(view.relative - view.relative_before, glyphs)


def arrow(change: float, glyphs: Glyphs) -> str:
    return " " + glyphs.trends[1 + (change > TREND) - (change < -TREND)]


def rates(view: ViewState, kind: str, window: str, *, glyphs: Glyphs = SETS["ascii"], columns: int = 80) -> Line:
    """The rates; in a narrow terminal without the range over several cells of the base."""
    line = _rates(view, kind, window, glyphs, several=True)
    return line if width(line) <= columns else _rates(view, kind, window, glyphs, several=False)


def _rates(view: ViewState, kind: str, window: str, glyphs: Glyphs, *, several: bool) -> Line:
    series = view.series
    if series is None:
        return line()
    if view.timed:
        of_base: list[Span] = [("  base ", "dim"), (duration(view.base_s), "base")] if view.base_s is not None else []
        return ((" time ", "dim"), (duration(view.time_s), "strong"), *of_base)
    rate = series.rates.get(kind)
    now = rate.at(view.at_ns) if rate and view.silent_s is None else None
    if view.over and rate is not None:
        now = view.rate_per_s if kind == view.primary_role else rate.mean(0, view.at_ns)
    spans: list[Span] = [
        (f" {view.unit if kind == view.primary_role else UNITS.get(kind, 'ops/s')} ", "dim"),
        (short(now), "strong"),
        (" mean", "dim") if view.over else ("", ""),
    ]
    if kind == view.primary_role:
        if not view.over and view.median_per_s is not None:
            spans += [("  med60 ", "dim"), (short(view.median_per_s), "")]
        if view.base_per_s is not None:
            spans += [("  base ", "dim"), (short(view.base_per_s), "base")]
        if view.relative is not None:
            spans.append((f" ({ratio_words(view, glyphs, several=several)})", ""))
    others = [name for name in series.rates if name != kind]
    if others:
        spans.append((f"  i: {', '.join(others)}", "dim"))
    spans.append((f"  {window}", "dim"))
    return tuple(spans)


def legend(view: ViewState, kind: str, window: str, *, glyphs: Glyphs, columns: int) -> Line:
    """Symbol, name and rate so far of interleaved builds, `>` at the one shown; names are cut for room, rates never."""
    assert view.interleaved is not None
    several = "both" if len(view.interleaved.sides) == 2 else "2+"
    of_each = f"  {window.removeprefix('0-')} of each"
    longest = max(len(side.name) for side in view.interleaved.sides)
    forms = [(longest, f"  {glyphs.several} {several}{of_each}"), (longest, of_each)]
    forms += [(cells, "") for cells in range(longest, 0, -1)]
    lines = ((*_of_sides(view, kind, glyphs, cells), (tail, "dim")) for cells, tail in forms)
    shown: Line = ()
    for shown in lines:
        if width(shown) <= columns:
            break
    return shown


def _of_sides(view: ViewState, kind: str, glyphs: Glyphs, name_cells: int) -> list[Span]:
    assert view.interleaved is not None
    spans: list[Span] = [(f" {view.unit if kind == view.primary_role else UNITS.get(kind, 'ops/s')}", "dim")]
    for place, side in enumerate(view.interleaved.sides):
        points = side.series.active.get(kind)
        at = int(side.active_s * SECOND_NS)
        now = None if points is None else points.mean(0, at) if view.over else points.at(at)
        chosen = place == view.interleaved.chosen
        spans += [
            ("  >" if chosen else "  ", "chosen"),
            (f"{glyphs.sides[place]} {cut(side.name, name_cells, glyphs)} ", SIDES[place]),
            (short(side.rate_per_s if kind == view.primary_role else now), "strong" if chosen else ""),
        ]
    return spans


def sentences(view: ViewState, columns: int, glyphs: Glyphs = SETS["ascii"]) -> list[Line]:
    """Each build's ratio to the base so far, and the trend; the sentence of the build shown is strong."""
    interleaved = view.interleaved
    if interleaved is None:
        return []
    lines = []
    for side in interleaved.sides[1:]:
        words = so_far_words(interleaved, side, ended=view.fraction == 1) or f"{side.name}: too early to tell"
        reaches = [f" ({reach})" for reach in reach_words(interleaved)]
        reach = fitting([*reaches, ""], columns - 1 - len(words))
        if len(words) >= columns:
            words = words.removesuffix(" so far")
        mark = "strong" if side is interleaved.compared else ""
        before = None if view.fraction == 1 else interleaved.earlier(side)
        if side.so_far is not None and before is not None and len(words) + len(reach) + 2 < columns:
            words = f"{arrow(side.so_far.ratio - before, glyphs).strip()} {words}"
        lines.append(line((f" {words}", mark), (reach, "dim")))
    return lines


def ages(view: ViewState) -> Line:
    """One line: the current or last stall, and how long statements in flight have been running."""
    if view.step is None:
        return line()
    spans: list[Span] = [] if view.over else [(" | in flight", "dim")]
    for role in () if view.over else view.roles:
        spans += [(f" {role.name} ", "dim"), (f"{role.in_flight_s:.2f}s", "stall" if role.stalled else "")]
    if now := view.incidents_now:
        return line((f" ! {incident_words(now[0], view.at_ns)}", "stall"))
    if view.interleaved is not None and (others := view.interleaved.incidents_now()):
        side, incident = others[0]
        return line((f" ! {side.name} {incident_words(incident, view.at_ns)}", "stall"))
    if incidents := view.incidents:
        length, _, cause = length_words(incidents[-1], view.at_ns).partition(": ")
        count = "1 stall" if len(incidents) == 1 else f"{len(incidents)} stalls, the last"
        words = f" {count} of {roles_words(incidents[-1])}, {length}"
        stalls: Line = ((words, ""), (f": {cause}" if cause else "", "dim"))
        return (*stalls, *spans)  # ages that do not fit are in the table of roles, too
    return ((" no stall in this step", "dim"), *spans)


def role_table(view: ViewState, columns: int) -> list[Line]:
    """A row for each role, and one for the whole server; means over a step that has ended."""
    machine = view.machine
    less = {name for cells, name in NARROWER if columns < cells}
    heads = [head for head in (*COLUMNS, *TIMES) if head[0] not in less]
    words = {head: head for head, _ in heads} | ({"role": "mean"} if view.over else {})
    lines = [line((" " + _row(words, heads), "dim"))]
    lines += [_role(role, heads) for role in view.roles]
    server = {
        "role": "server",
        "pid": "all" if machine.server_processes is None else f"x{machine.server_processes}",
        **_in_room(machine.server_cpu_percent, machine.server_cpu_us_per_op, machine.server_runq_percent),
    }
    workers = [f"{name} {share:.0f}%" for name, share in machine.workers if share >= 1]
    idle = "" if view.over else "background processes idle"
    idle = "not visible from outside" if view.external else idle
    heads = [head for head in heads if head not in (*TIMES, COLUMNS[-1])]  # up to the wait event
    lines.append(line(" " + _row(server, heads), ("  " + (", ".join(workers) or idle), "dim")))
    clients = [role for role in view.roles if role.client_cpu_percent is not None]
    if clients and columns >= 110:
        shares = " ".join(f"{role.name} {role.client_cpu_percent:.0f}%" for role in clients)
        lines.append(line((f" clients' cpu: {shares}", "dim")))
    return lines


def _role(role: RoleLine, heads: Sequence[tuple[str, int]]) -> Line:
    pid = str(role.backend_pid) if role.backend_pid is not None else f"x{role.connections}"
    values = {
        "role": role.name,
        "pid": pid,
        "ops/s": short(role.rate_per_s),
        **_in_room(role.cpu_percent, role.cpu_us_per_op, role.runq_percent),
        "wait": _wait(role) or "-",
        "p50": _ms(role.p50_us),
        "p99": _ms(role.p99_us),
        "max ms": _ms(role.max_us),
        "age s": f"{role.in_flight_s:.2f}" if role.in_flight_s < 100 else f"{role.in_flight_s:.0f}",
    }
    text = _row(values, heads)
    return line(("!", "stall"), (text, "stall")) if role.stalled else line(" " + text)


def _wait(role: RoleLine) -> str:
    return role.wait_event.partition(":")[2]


def _in_room(cpu_percent: float | None, cpu_us: float | None, runq_percent: float | None) -> dict[str, str]:
    """CPU, CPU per operation and run-queue wait, shortened where their columns would cut a digit."""
    room = dict(COLUMNS)
    values = {"cpu%": cpu_percent, "us/op": cpu_us, "runq%": runq_percent}
    return {head: text if len(text := _number(value)) < room[head] else short(value) for head, value in values.items()}


def _row(values: Mapping[str, str], heads: Sequence[tuple[str, int]]) -> str:
    """Join the cells of a row. Words are cut to their columns; a figure never is, and may touch the one before."""
    cells = []
    for head, room in heads:
        value = values.get(head, "")
        cells.append(f" {value[: room - 1]:<{room - 1}}" if head in ("role", "wait") else f"{value:>{room}}")
    return "".join(cells)[1:]


def states(view: ViewState) -> Line:
    """Checkpoints, autovacuum, and the device's activity."""
    if view.external:
        return line((" not visible from outside: checkpoints, autovacuum, the server's machine", "dim"))
    spans: list[Span] = []
    for kind in ("checkpoint", "autovacuum"):
        events = [event for event in view.events if event.kind == kind]
        word = {"checkpoint": "ckpt", "autovacuum": "avac"}[kind]
        if events and lasts(events[-1], view.at_ns):
            spans.append((f" {word} running {span((view.at_ns - events[-1].started_ns) / 1e9)} ", "strong"))
        elif events:
            ended_ns = events[-1].ended_ns or events[-1].started_ns
            spans.append((f" {word} {len(events)}x, {span((view.at_ns - ended_ns) / 1e9)} ago ", ""))
        else:
            spans.append((f" {word} none ", "dim"))
    machine = view.machine
    if machine.written_kb_per_s is not None:
        read, written = _number(machine.read_kb_per_s, 1024), _number(machine.written_kb_per_s, 1024)
        spans.append((f" dev r {read} w {written} MB/s", ""))
    if machine.io_stalled_percent is not None:
        spans.append((f"  io wait {machine.io_stalled_percent:.0f}%", ""))
    if machine.host_busy_percent is not None:
        spans.append((f"  host {machine.host_busy_percent:.0f}% busy", ""))
    return tuple(spans)


def event_line(event: EventRow, at_ns: int, wall_ns: int) -> Line:
    """An event with the wall-clock time at which it began; `wall_ns` is the wall clock at `at_ns`."""
    began = time.strftime("%H:%M:%S", time.localtime((wall_ns - at_ns + event.started_ns) / 1e9))
    mark = ""
    if event.kind == "stall":
        mark = "stall" if lasts(event, at_ns) else "worse"
    elif event.kind in WARNINGS:
        mark = "warning"
    glyph = {"stall": "! ", "worse": "! ", "warning": "? "}.get(mark, "")
    return line((f" {began} ", "dim"), (glyph + event_words(event, at_ns), mark))


def small(view: ViewState, columns: int, behind_s: float | None = None) -> list[Line]:
    rate = f"{short(view.rate_per_s)} {view.unit}" if not view.timed else f"time {duration(view.time_s)}"
    lines = [
        title(view, columns),
        line((f" {rate}", "strong"), f"  {view.doing}"),
        progress(view, SETS["ascii"], behind_s),
    ]
    lines += sentences(view, LEAST[0])
    if view.interleaved is None and view.relative is not None:
        lines.append(line(f" {view.relative:.3f} of base {view.base}{'' if view.over else ', so far'}"))
    lines += [line((f" ! {incident_words(incident, view.at_ns)}", "stall")) for incident in view.incidents_now]
    lines += [
        line(f" {role.name:<8} {short(role.rate_per_s):>6}/s  max {_ms(role.max_us)} ms  {_wait(role)}")
        for role in view.roles
    ]
    return lines


def _ms(value_us: int | None) -> str:
    return "-" if value_us is None else three(value_us / 1000) if value_us < 100_000_000 else short(value_us / 1000)


def _number(value: float | None, divisor: int = 1) -> str:
    return "-" if value is None else f"{value / divisor:.1f}"
