"""The cells behind a ratio as a table, and the details of one cell. Pure: values to lines."""

from collections.abc import Mapping, Sequence

from engine.core.format import duration, short
from engine.journal.totals import progress_unit
from engine.results.cell_step import SLA, CellStep, StallRecord
from engine.results.comparison import ComparedSubject as Subject
from engine.results.comparison import Comparison
from engine.results.ratio import RATE, TIME
from tui.compare.comparison_table import RowKey, ratio_text
from tui.compare.explanation import answer_lines, judged_by
from tui.glyphs import Glyphs
from tui.marks import Line, Span, cut, fit, folded, hanging, line

# Columns of figures: metric, heading, width. Those that do not fit are dropped from the end.
COLUMNS = (
    ("server_cpu_us_per_op", "cpu us", 7),
    ("runq_us_per_op", "runq us", 8),
    ("ctx_switches_per_op", "switch", 7),
    ("wal_bytes_per_op", "wal B", 6),
    ("client_cpu_us_per_op", "client", 7),
    ("max_s", "max s", 7),
    ("plan_us_per_op", "plan us", 8),
    ("read_kb_per_op", "read kB", 8),
    ("written_kb_per_op", "dirty kB", 9),
    ("device_written_kb_per_op", "dev kB", 7),
    ("instructions_per_op", "instr", 7),
    ("heap_bytes", "heap", 7),
    ("index_bytes", "indexes", 8),
)
NAME_CELLS = 15
STALL_CELLS, SLA_CELLS = 9, 7
LEAST_CELLS = 1 + 4 + NAME_CELLS + 10 + 7 + STALL_CELLS + SLA_CELLS  # the columns that are always shown


def cells(comparison: Comparison, step: str, subject: Subject) -> list[CellStep]:
    """All cells of both sides by run and repeat, the baseline's first, including unpaired ones."""
    base = comparison.baseline_of(subject.name)
    both = [*comparison.of(base, step), *comparison.of(subject.name, step)]
    return sorted(both, key=lambda cell: (cell.run, cell.repeat, cell.subject != base))


def heading(comparison: Comparison, row: RowKey, columns: int) -> Line:
    rate = "time" if comparison.primary_metric(row.step) == TIME else comparison.units.get(row.step, "ops/s")
    text = f" {'rep':<4}cell of{rate:>{NAME_CELLS + 10 - len('cell of')}}{'/ base':>7}"
    text += "".join(f"{title:>{wide}}" for _, title, wide in _columns(columns))
    return line((f"{text}{'stalls':>{STALL_CELLS}}{'sla':>{SLA_CELLS}}", "dim"))


def table(
    comparison: Comparison, subject: Subject, rows: Sequence[CellStep], cursor: int, columns: int, glyphs: Glyphs
) -> list[Line]:
    base = comparison.baseline_of(subject.name)
    judged = comparison.primary_metric(rows[0].step) if rows else RATE
    rates = {(cell.run, cell.repeat): cell.figure(judged) for cell in rows if cell.subject == base}
    lines: list[Line] = []
    for place, cell in enumerate(rows):
        rate, mate = cell.figure(judged), rates.get((cell.run, cell.repeat))
        ratio = ratio_text(rate / mate) if rate and mate and cell.subject != base else ""
        name = cut(cell.subject, NAME_CELLS - 1, glyphs)
        figures = "".join(f"{short(cell.figure(metric)):>{wide}}" for metric, _, wide in _columns(columns))
        rate_text = duration(rate) if judged == TIME else "-" if rate is None else f"{rate:,.0f}"
        text = f"{cell.repeat:<4}{name:<{NAME_CELLS}}{rate_text:>10}{ratio:>7}{figures}"
        stalls = f"! {cell.stall_s:.1f} s" if cell.stalls else "-"
        spans: list[Span] = [
            (">" if place == cursor else " ", "chosen"),
            (text, "base" if cell.subject == base else ""),
            (f"{stalls:>{STALL_CELLS}}", "stall" if cell.stalls else "dim"),
            (f"{_sla_word(cell):>{SLA_CELLS}}", "sla" if _sla_word(cell).startswith("x") else "dim"),
        ]
        if place == cursor:
            spans = [(text, mark if mark in ("stall", "sla") else "cursor") for text, mark in spans]
        lines.append(tuple(spans))
    return lines


def about(comparison: Comparison, cell: CellStep, columns: int) -> list[Line]:
    """Describe one cell's step: SLA, stalls with causes, roles, folder, and how the build was made."""
    lines = folded(f"{cell.subject} repeat {cell.repeat}, cell {cell.cell} of {cell.run}", columns, "strong")
    lines += _sla(cell, columns)
    for stall in cell.stalls:
        lines += _stall(stall, comparison.units.get(cell.step, "statements/s"), columns)
    if not cell.stalls:
        lines.append(line((" no stall", "dim")))
    lines += [role_line(name, figures) for name, figures in cell.roles.items()]
    if cell.saturated:
        lines.append(line((f" client CPU-bound (≥ 90% of a core): {', '.join(cell.saturated)}", "warning")))
    covered = cell.coverage
    probes = [f"{name} ({covered[name]:.0%} of the step)" if name in covered else name for name in cell.observers]
    lines += folded(f"probes: {', '.join(probes) or 'none'}", columns, "dim")
    for note in cell.probe_notes:
        lines += folded(note, columns, "warning", indent=2)
    build = next((b for b in comparison.measured.builds if (b.run, b.label) == (cell.run, cell.build)), None)
    if build is not None:
        patches = f", patches {', '.join(build.patches)}" if build.patches else ""
        origin = build.source or build.provenance
        extensions = "".join(f", with {extension.title}" for extension in build.extensions)
        text = f"{build.label}: PostgreSQL {build.version}, {origin}{patches}{extensions}"
        lines += folded(f"{text}; compiler {build.compiler}; flags {build.flags}; {build.digest}", columns, "dim")
    return lines


def judged(comparison: Comparison, row: RowKey, subject: Subject, columns: int, glyphs: Glyphs) -> list[Line]:
    """The reason of a withheld verdict, the answer, all findings of the step, and all checks of both sides."""
    ratio = comparison.ratio(subject.name, row.step, judged_by(comparison, row))
    lines: list[Line] = []
    if ratio is not None:
        withheld = ratio.verdict == "withheld"
        for reason in ratio.reasons:
            lines += folded(f"{'withheld: ' if withheld else ''}{reason}", columns, "sla" if withheld else "dim")
        for text in ratio.left_out:
            lines += folded(text, columns, "warning")
    lines += answer_lines(comparison, subject, columns, glyphs)
    drifts = tuple(f"drift at {cell.cell}: " for cell in cells(comparison, row.step, subject))
    for finding in comparison.remarks.findings:
        if finding.startswith((f"{row.step}: ", *drifts)):
            lines += folded(finding, columns, "warning")
    for check in comparison.checks(subject.name):
        sign: Span = (" ok ", "better") if check.ok else (" ? ", "warning")
        lines += hanging(sign, f"{check.what}: {check.text}", columns)
    return lines


def window(lines: Sequence[Line], top: int, height: int, columns: int, glyphs: Glyphs) -> list[Line]:
    """The lines from `top` on; the last one says how many are below."""
    shown = [fit(text, columns, glyphs.ellipsis) for text in lines[top : top + height]]
    below = len(lines) - top - height
    if below > 0 and shown:
        shown[-1] = line((f" {below + 1} more: pgdn", "dim"))
    return shown


def _columns(columns: int) -> list[tuple[str, str, int]]:
    room = columns - LEAST_CELLS
    kept = []
    for column in COLUMNS:
        room -= column[2]
        if room < 0:
            break
        kept.append(column)
    return kept


def _sla_word(cell: CellStep) -> str:
    if cell.sla is None:
        return "-"
    return "ok" if cell.sla.passed else f"x {cell.figure(SLA) or 0.0:.0%}"


def _sla(cell: CellStep, columns: int) -> list[Line]:
    if cell.sla is None:
        return []
    sla = cell.sla
    text = (
        f"SLA: {sla.achieved_per_s:,.1f} of {sla.target_per_s:,.0f} rows/s inserted, {sla.required_per_s:,.0f} required"
    )
    state: Span = ("ok ", "better") if sla.passed else ("x missed ", "sla")
    remark = "" if sla.reference_passed == sla.passed else "; by whole seconds the result differs"
    return [fit(line(" ", state, text + remark), columns)]


def _stall(stall: StallRecord, of_step: str, columns: int) -> list[Line]:
    unit = progress_unit(stall.role, of_step)
    text = f" {stall.role} at {stall.depth:.0%} of {short(stall.median_per_s)} {unit}/s"
    text += f", {stall.missed_rows:,} {unit} not done" if stall.missed_rows > 0 else ""
    text += f", in flight {stall.max_in_flight_ns / 1e9:.1f} s" if stall.max_in_flight_ns else ""
    lines = [fit(line(" ", (f"! {stall.duration_s:.1f} s", "stall"), text), columns)]
    for place, cause in enumerate(stall.causes, 1):
        score = f" ({cause.score:.0%})" if cause.score is not None else ""
        lines += folded(f"{place}. {cause.text or cause.name}{score}", columns, "", indent=4)
    for place, where in enumerate(stall.where):
        lines += folded(f"{'hung: ' if place == 0 else ''}{where}", columns, "dim", indent=4)
    return lines


def role_line(name: str, figures: Mapping[str, float | None]) -> Line:
    """The statements of a role in a cell and their service times."""
    parts = [f"{short(figures.get('statements'))} statements"]
    longest_s = figures.get("max_s")
    longest_us = longest_s * 1e6 if longest_s is not None else None
    for title, key in (("p50", "service_p50_us"), ("p99", "service_p99_us")):
        bound = figures.get(key)
        if bound is not None:  # the bucket's upper bound, which may exceed the longest one measured
            at_most = bound if longest_us is None else min(bound, longest_us)
            parts.append(f"{title} {short(at_most)} us")
    if longest_us is not None:
        parts.append(f"max {longest_us / 1000:,.1f} ms")
    if (cpu_us := figures.get("cpu_us_per_statement")) is not None:
        parts.append(f"cpu {short(cpu_us)} us each")
    return line(f" {name:<8} ", ", ".join(parts))
