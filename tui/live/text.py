"""The Live screen in lines: everything on it but the chart and the ribbon, from a picture alone."""

from __future__ import annotations

import time
from collections.abc import Sequence

from engine.model import Manifest
from tui.glyphs import SETS, Glyphs
from tui.live.picture import UNITS, Picture, RoleLine, lasts
from tui.live.words import cause, event_line, stall_seconds, stall_words
from tui.marks import Line, Span, line
from tui.numbers import clock, short, span, three

BAR_CELLS = 16
# The role table: headings and their cells, 80 together. CPU and run-queue wait per second, service times in ms.
COLUMNS = (
    ("role", 8), ("pid", 7), ("ops/s", 7), ("cpu%", 6), ("us/op", 7), ("runq us", 8), ("wait", 11),
)  # fmt: skip
TIMES = (("p50", 6), ("p99", 6), ("max ms", 7), ("age s", 6))


def title(picture: Picture, *, interface_percent: float | None = None) -> Line:
    """Which cell of the run, which build, which step."""
    cell = picture.cell
    badge = _badge(picture)
    if cell is None:
        return line(badge, (f" {picture.run}", "title"))
    kernel = f" {cell.subject.kernel}" if cell.subject.kernel != "host" else ""
    parts = [
        f"{cell.ordinal + 1}/{picture.cells}",
        f"{cell.subject.name} {cell.subject.config}{kernel}",
        picture.step.name if picture.step else "",
        f"repeat {cell.repeat}/{picture.repeats}",
        clock(picture.length_s) if picture.step else "",
    ]
    return line(badge, (" " + " | ".join(part for part in parts if part) + " ", "title"))


def _badge(picture: Picture) -> Span:
    if picture.state == "replay":
        playing = f"x{picture.speed}" if picture.playing else "HELD"
        return (f" REPLAY {playing} ", "cursor")
    return {
        "running": (" REC ", "cursor"),
        "finished": (" FINISHED ", "title"),
        "failed": (" FAILED ", "error"),
        "died": (" DIED ", "error"),
    }.get(picture.state, (f" {picture.state.upper()} ", "title"))


def progress(picture: Picture, glyphs: Glyphs, behind_s: float | None, interface_percent: float | None) -> Line:
    """How far the step is, how long it will take, whether the SLA holds, what the interface itself costs."""
    spans: list[Span] = []
    if behind_s is not None:
        spans += [(" ", ""), (f" PAUSED {span(behind_s)} behind ", "cursor")]
    if picture.doing:
        spans.append((f" {picture.doing} ", "strong"))
    elif picture.fraction is not None:
        filled = int(BAR_CELLS * picture.fraction)
        bar = glyphs.done * filled + glyphs.todo * (BAR_CELLS - filled)
        spans.append((f" {bar} {int(100 * picture.fraction):3}% ", ""))  # 99.6 % is not all
        if picture.eta_s is not None and picture.fraction < 1:
            spans.append((f" ETA {span(picture.eta_s)} ", ""))
    elif picture.step is not None:
        spans.append((f" {span(picture.length_s)} so far ", ""))
    if picture.silent_s is not None:
        spans.append((f" ? no figures for {span(picture.silent_s)} ", "warning"))
    if picture.sla is not None:
        kept = f" SLA {int(100 * picture.sla.fraction + 1e-9)}% "  # 94.9 % is not 95 %
        spans.append((f" ok{kept}", "") if picture.sla.passed else (f" x{kept}", "sla"))
    spans.append((f" {picture.cells_done} cells done", "dim"))
    if picture.cells_failed:
        spans.append((f" x {picture.cells_failed} failed", "worse"))
    if interface_percent is not None:
        hot = interface_percent > 2
        spans.append((f"  {'? ' if hot else ''}screen {interface_percent:.1f}% cpu", "warning" if hot else "dim"))
    return tuple(spans)


def rates(picture: Picture, kind: str, window: str) -> Line:
    """The rate that the chart shows, its last minute's median, and the base's rate of the same step."""
    film = picture.film
    if film is None:
        return line()
    series = film.rates.get(kind)
    now = series.at(picture.at_ns) if series and picture.silent_s is None else None
    spans: list[Span] = [(f" {UNITS.get(kind, 'ops/s')} ", "dim"), (short(now), "strong")]
    if kind == picture.headline:
        if picture.median_per_s is not None:
            spans += [("  med60 ", "dim"), (short(picture.median_per_s), "")]
        if picture.base_per_s is not None:
            spans += [("  base ", "dim"), (short(picture.base_per_s), "base")]
        if picture.relative is not None:
            spans.append((f" ({picture.relative:.3f}{'' if picture.fraction == 1 else ' so far'})", ""))
    others = [name for name in film.rates if name != kind]
    if others:
        spans.append((f"  i: {', '.join(others)}", "dim"))
    spans.append((f"  {window}", "dim"))
    return tuple(spans)


def ages(picture: Picture) -> Line:
    """How long statements in flight have been running, and the stall that lasts, or the last one."""
    if picture.step is None:
        return line()
    spans: list[Span] = [(" in flight", "dim")]
    for role in picture.roles:
        spans += [(f" {role.name} ", "dim"), (f"{role.in_flight_s:.2f}s", "stall" if role.stalled else "")]
    if picture.stalled:
        return line((f" ! {stall_words(picture.stalled[0], picture.at_ns)}", "stall"))
    if picture.stalls:
        last = picture.stalls[-1]
        because = cause(last)
        many = f"{len(picture.stalls)} stall{'s' if len(picture.stalls) > 1 else ''}"
        spans.append((f" | {many}, last {last.role} {stall_seconds(last, picture.at_ns):.1f}s", ""))
        spans.append((f": {because}" if because else "", "dim"))
    else:
        spans.append((" | no stall in this step", "dim"))
    return tuple(spans)


def role_table(picture: Picture, columns: int) -> list[Line]:
    """A row a role, and one of the server as a whole."""
    machine = picture.machine
    heads = [*COLUMNS, *TIMES]
    lines = [line((" " + _row([head for head, _ in heads], heads), "dim"))]
    lines += [_role(role, heads) for role in picture.roles]
    dbms = [
        "dbms",
        "all" if machine.dbms_processes is None else f"{machine.dbms_processes} pr",
        "",
        *_in_room(heads, machine.dbms_cpu_percent, machine.dbms_cpu_us_per_op, machine.dbms_runq_us_per_s),
    ]
    workers = [f"{name} {share:.0f}%" for name, share in machine.workers if share >= 1]
    lines.append(line(" " + _row(dbms, heads[:6]), ("  " + (", ".join(workers) or "background processes idle"), "dim")))
    clients = [role for role in picture.roles if role.client_cpu_percent is not None]
    if clients and columns >= 110:
        shares = " ".join(f"{role.name} {role.client_cpu_percent:.0f}%" for role in clients)
        lines.append(line((f" clients' cpu: {shares}", "dim")))
    return lines


def _role(role: RoleLine, heads: Sequence[tuple[str, int]]) -> Line:
    pid = str(role.backend_pid) if role.backend_pid is not None else f"x{role.connections}"
    values = [
        role.name,
        pid,
        short(role.rate_per_s),
        *_in_room(heads, role.cpu_percent, role.cpu_us_per_op, role.runq_us_per_s),
        role.wait or "-",
        _ms(role.p50_us),
        _ms(role.p99_us),
        _ms(role.max_us),
        f"{role.in_flight_s:.2f}" if role.in_flight_s < 100 else f"{role.in_flight_s:.0f}",
    ]
    text = _row(values, heads)
    return line(("!", "stall"), (text, "stall")) if role.stalled else line(" " + text)


def _in_room(
    heads: Sequence[tuple[str, int]], cpu_percent: float | None, cpu_us: float | None, runq_us: float | None
) -> list[str]:
    """CPU, CPU per operation and run-queue wait as their columns hold them: in short rather than without a digit."""
    room = dict(heads)
    whole = {"cpu%": (cpu_percent, _number), "us/op": (cpu_us, _number), "runq us": (runq_us, _whole)}
    return [text if len(text := form(value)) < room[head] else short(value) for head, (value, form) in whole.items()]


def _row(values: Sequence[str], heads: Sequence[tuple[str, int]]) -> str:
    """The cells of a row. Words are cut to their columns; a figure never is, it rather touches the one before."""
    cells = []
    for value, (head, width) in zip(values, heads, strict=True):
        cells.append(f" {value[: width - 1]:<{width - 1}}" if head in ("role", "wait") else f"{value:>{width}}")
    return "".join(cells)[1:]


def states(picture: Picture) -> Line:
    """What the server does on the side: checkpoint, autovacuum; and what the device does."""
    spans: list[Span] = []
    for kind in ("checkpoint", "autovacuum"):
        found = [event for event in picture.events if event.kind == kind]
        word = {"checkpoint": "ckpt", "autovacuum": "avac"}[kind]
        if found and lasts(found[-1], picture.at_ns):
            spans.append((f" {word} running {span((picture.at_ns - found[-1].started_ns) / 1e9)} ", "strong"))
        elif found:
            ended_ns = found[-1].ended_ns or found[-1].started_ns
            spans.append((f" {word} {len(found)}x, {span((picture.at_ns - ended_ns) / 1e9)} ago ", ""))
        else:
            spans.append((f" {word} none ", "dim"))
    machine = picture.machine
    if machine.written_kb_per_s is not None:
        spans.append((f" dev r {_size(machine.read_kb_per_s)} w {_size(machine.written_kb_per_s)} MB/s", ""))
    if machine.io_stalled_percent is not None:
        spans.append((f"  io wait {machine.io_stalled_percent:.0f}%", ""))
    if machine.host_busy_percent is not None:
        spans.append((f"  host {machine.host_busy_percent:.0f}% busy", ""))
    return tuple(spans)


def event_log(picture: Picture, rows: int) -> list[Line]:
    """The newest events, newest first."""
    newest = list(picture.events)[-rows:][::-1]
    return [event_line(event, picture.at_ns, picture.wall_ns) for event in newest]


def small(picture: Picture, behind_s: float | None = None) -> list[Line]:
    """The one page of a small terminal."""
    rate = f"{short(picture.rate_per_s)} {picture.unit}"
    lines = [
        title(picture),
        line((f" {rate}", "strong"), f"  {picture.doing}"),
        progress(picture, SETS["ascii"], behind_s, None),
    ]
    if picture.relative is not None:
        lines.append(line(f" {picture.relative:.3f} of base {picture.base}, so far"))
    lines += [line((f" ! {stall_words(stall, picture.at_ns)}", "stall")) for stall in picture.stalled]
    lines += [
        line(f" {role.name:<8} {short(role.rate_per_s):>6}/s  max {_ms(role.max_us)} ms  {role.wait}")
        for role in picture.roles
    ]
    return lines


def side(picture: Picture, environment: Sequence[str]) -> list[Line]:
    """The right column of a wide terminal: what the machine is and does."""
    machine = picture.machine
    lines = [
        line(("environment", "strong")),
        *(line(text) for text in environment),
        line(),
        line(("machine", "strong")),
    ]
    figures = (
        ("host busy", machine.host_busy_percent, "%"),
        ("waiting for I/O", machine.io_stalled_percent, "%"),
        ("read", None if machine.read_kb_per_s is None else machine.read_kb_per_s / 1024, "MB/s"),
        ("written", None if machine.written_kb_per_s is None else machine.written_kb_per_s / 1024, "MB/s"),
        ("dirty", None if machine.dirty_bytes is None else machine.dirty_bytes / 2**20, "MB"),
        ("engine", machine.engine_cpu_percent, "%"),
    )
    lines += [line((f"{name:<16}", "dim"), f"{_number(value):>7} {unit}") for name, value, unit in figures]
    lines += [line(), line(("server processes", "strong"))]
    lines += [line((f"{name:<24}", "dim"), f"{share:6.1f} %") for name, share in machine.workers]
    return lines


def environment(manifest: Manifest) -> list[str]:
    """What the run is of, and where."""
    cpu, kernel = manifest.environment.get("cpu", {}), manifest.environment.get("kernel", {})
    workload = manifest.workload
    return [
        f"{cpu.get('model', '?')}, {cpu.get('threads', '?')} CPUs",
        f"kernel {kernel.get('release', '?')}",
        f"{workload.get('name')} {workload.get('generation')}, {workload.get('scale')}",
        f"clients {workload.get('clients')}, seed {manifest.seed}",
        f"probes {', '.join(manifest.observers) or 'none'}",
    ]


def wall(picture: Picture) -> str:
    """The wall-clock time of the moment."""
    return time.strftime("%H:%M:%S", time.localtime(picture.wall_ns / 1e9))


def _ms(value_us: int | None) -> str:
    return "-" if value_us is None else three(value_us / 1000) if value_us < 100_000_000 else short(value_us / 1000)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _size(kb: float | None) -> str:
    return "-" if kb is None else f"{kb / 1024:.1f}"
