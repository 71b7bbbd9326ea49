"""The page: what stands in it as text, where its charts go, and scripts that the browser may run.

Everything from a record is text: Jinja escapes it, and charts get JSON in which no tag can begin. The browser runs only
the scripts whose hashes stand in the page's policy, and fetches nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from engine.analysis.cells.compared_cells import METRICS
from engine.analysis.series.trend import TrendSeries
from engine.analysis.series.trend_changes import FEWEST, levels
from engine.core.text import Visible, visible, visible_record
from engine.core.version import version
from engine.report import flame, origins, render, tables
from engine.report.html import flames
from engine.report.html.charts import charts
from engine.report.journals import Recorded
from engine.report.origins import Origins
from engine.report.policy import policy
from engine.report.tables.counters import statistics
from engine.report.tables.section import value_text
from engine.results.comparison import Comparison
from engine.results.ratio import RATE, Ratio
from engine.results.section import (
    ARROWS,
    WORDS,
    Column,
    Notes,
    Section,
    TextTable,
    bounds_text,
    columns,
    drawn,
    of_ratio,
    row,
    text,
)

LIBRARY = ("d3.min.js", "plot.umd.min.js")
WHERE_TO = {flames.SAMPLES: "Where the CPU time went", flames.OFF_CPU: "Where the time off the CPU went"}
OWN = ("charts.js", "page.js")
MOMENTS = 8  # of a step that is drawn over time: a shorter one has its blocks beside the ratio
VERDICTS = {"better": "better", "worse": "worse", "=": "same", "~": "undecided", "?": "withheld", " ": "no verdict"}
CLASSES = {"better": "better", "worse": "worse", "=": "same", "~": "unknown", "?": "withheld", " ": "none"}


@dataclass(frozen=True, slots=True)
class GridCell:
    sign: str
    css: str
    ratio: str
    interval: str
    verdict: str
    reasons: str


@dataclass(frozen=True, slots=True)
class StepPart:
    name: str
    id: str
    unit: str
    lines: tuple[tuple[str, GridCell], ...]  # subject, its entry
    charts: tuple[tuple[str, str], ...]  # kind, title
    tables: tuple[TextTable, ...]

    @property
    def differs(self) -> bool:
        return any(cell.css in ("better", "worse") for _, cell in self.lines)


def page(comparison: Comparison, known: Origins, recorded: Recorded) -> Visible:
    """Return the whole page. Raises UserError if a journal is damaged."""
    sections = [*tables.sections(comparison, "percentiles"), *statistics(comparison, recorded)]
    data, graphs = charts(comparison, recorded), flames.flames(comparison)
    libraries = (*LIBRARY, *(flame.LIBRARY[1:] if graphs else ()))
    scripts = [*map(flame.vendored, libraries), *map(_own, OWN)]
    ids = step_ids(comparison.steps)
    by_step, others = parted(sections, comparison.steps)
    steps = [
        StepPart(
            name=step,
            id=ids[step],
            unit=comparison.units.get(step, ""),
            lines=tuple((subject.name, grid_cell(comparison.ratio(subject.name, step, comparison.primary_metric(step))))
                        for subject in comparison.others),
            charts=tuple(_charts_of(data["steps"][step], graphs.get(step, []))),
            tables=tuple(by_step.get(step, ())),
        )
        for step in comparison.steps
    ]  # fmt: skip
    of_comparability, of_subjects, *of_origins = drawn([origins.comparability(comparison), *known.sections], Notes())
    return rendered(
        "page",
        scripts,
        data | {"ids": ids, "flames": graphs},
        style=(flame.vendored(flame.STYLE) if graphs else "") + _own("page.css"),
        title=f"{', '.join(comparison.names[1:]) or comparison.base} against {comparison.base}",
        comparison=comparison,
        header=render.header(comparison),
        grid=_grid(comparison, steps),
        steps=steps,
        comparability=of_comparability,
        subjects=of_subjects,
        further=[*others, *of_origins],
        commands=known.commands,
        measured=known.measured,
        notes=render.footer(comparison),
        overview=any(step["ratio"] is not None for step in data["overview"]),
    )


def trend_page(series: Sequence[TrendSeries], by: str) -> Visible:
    """A page of figures over many runs, a chart for each series. Raises UserError as `page` does."""
    scripts = [*map(flame.vendored, LIBRARY), *map(_own, OWN)]
    metric = series[0].metric
    title = "Throughput" if metric == RATE else next(known.title for known in METRICS if known.name == metric)
    steps = {
        str(place): {"unit": one.unit, "by": by, "points": [
            {"place": at, "build": point.build, "created": point.created, "run": point.run, "value": point.value}
            for at, point in enumerate(one.points, 1)
        ], "changes": [at + 1 for at in changed], "levels": [
            {"from": first + 0.5, "to": end + 0.5, "mean": mean}
            for first, end, mean in levels([point.value for point in one.points], changed)
        ]}
        for place, one in enumerate(series)
        for changed in [[one.points.index(change.after) for change in one.changes or ()]]
    }  # fmt: skip
    headings = columns("", Column("builds", WORDS), "p", Column("runs", WORDS))
    sections = [
        Section("changes", "Where it changed for good", headings, tuple(
            row(f"{change.ratio - 1:+.1%}", f"{change.before.build} to {change.after.build}", f"{change.p:.1g}",
                f"{change.before.run} and {change.after.run}")
            for change in one.changes or ()
        ))
        for one in series
    ]  # fmt: skip
    return rendered(
        "trend",
        scripts,
        {"subjects": [], "steps": steps, "flames": {}},
        style=_own("page.css"),
        title=f"{title[:1].upper()}{title[1:]} by {by}",
        series=list(zip(series, drawn(sections, Notes()), strict=True)),
        fewest=FEWEST,
    )


def rendered(template: str, scripts: Sequence[str], data: Any, *, style: str, **values: Any) -> Visible:
    environment = Environment(
        loader=DictLoader({name: _own(f"{name}.html") for name in ("frame", "parts", template)}),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template(template).render(
        policy=policy(scripts),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=Markup(in_script(visible_record(data))),
        version=version(),
        **values,
    )
    return Visible(text)  # each value of it is visible


def _shown(value: object) -> Visible | Markup:
    """A template's value as it stands in the page; markup is our own."""
    return value if isinstance(value, Markup) else visible(str(value))


def in_script(record: Any) -> str:
    """JSON that is safe within a script element: no tag and no comment begins in it."""
    text = json.dumps(record, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


OWN_ID = re.compile(r"data|steps|origins|notes|grid|command|comparability|step-.*|.*-title")  # of the page itself


def step_ids(steps: Sequence[str]) -> dict[str, str]:
    """The names of steps in links: `#qr100`. A name that is not a plain word is numbered instead."""
    plain = {
        step
        for step in steps
        if step.isascii() and step.replace(".", "").replace("-", "").isalnum() and not OWN_ID.fullmatch(step)
    }
    return {step: step if step in plain else f"step-{place}" for place, step in enumerate(steps, 1)}


def parted(sections: Iterable[Section], steps: Sequence[str]) -> tuple[dict[str, list[TextTable]], list[TextTable]]:
    """The tables of each step, then those of no step, each with the notes whose marks it has."""
    by_step: dict[str, list[Section]] = {}
    others = []
    for section in sections:
        first = section.columns[0].name.replace("step and ", "").replace("step, ", "")
        headings = (replace(section.columns[0], name=first), *section.columns[1:])
        for step in () if section.flat else steps:
            if rows := tuple(replace(line, step="") for line in section.rows if line.step == step):
                by_step.setdefault(step, []).append(replace(section, columns=headings, rows=rows))
        if rest := tuple(line for line in section.rows if section.flat or line.step not in steps):
            others.append(replace(section, rows=rest))
    notes = Notes()
    tables = {step: drawn(sections_of, notes, again=True) for step, sections_of in by_step.items()}
    return tables, drawn(others, notes, again=True)


def grid_cell(ratio: Ratio | None) -> GridCell:
    if ratio is None:
        return GridCell("", "none", "-", "", "not measured", "")
    sign, figure = ratio.sign, of_ratio(ratio)
    shown = text(figure).lstrip("▲▼=~? ")
    return GridCell(
        ARROWS.get(sign, sign.strip()), CLASSES[sign], shown or "-", bounds_text(figure),
        ratio.verdict_text or VERDICTS[sign], "; ".join(ratio.remarks),
    )  # fmt: skip


def _grid(comparison: Comparison, steps: Sequence[StepPart]) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "base": value_text(metric, comparison.figure(comparison.base, step.name, metric)),
            "unit": "" if metric == "time_s" else step.unit,
            "cells": [cell for _, cell in step.lines],
        }
        for step in steps
        for metric in [comparison.primary_metric(step.name)]
    ]


def _charts_of(data: dict[str, Any], graphs: Sequence[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    unit = data["unit"] if data["metric"] != "time_s" else "s"
    if any(ratio["ratio"] is not None for ratio in data["ratios"]):
        yield "ratio", "Ratio to the base: 95% interval, and every pair of cells"
    if data["cells"]:
        yield "cells", f"Every cell, {unit}"
    long = any(len(series.get("t", ())) >= MOMENTS for series in data["series"])
    if long:
        yield "rate", f"Rate over time, {unit}"
    if data["causes"]:
        yield "causes", "Per operation, ratio to the base"
    if data["roles"]:
        yield "roles", "Server CPU by role, us per operation"
    if data["waits"]:
        yield "waits", "Waits of server processes, share of the samples"
    if data["phases"]:
        yield "phases", "Phases of statements, share of their time"
    for probe, field in dict.fromkeys((series["probe"], series["field"]) for series in data["probed"]):
        yield f"probed {probe} {field}", f"Probe {probe}: {field.replace('_us', '')}, us"
    for role in data["heat"] if long else ():
        yield f"heat {role}", f"How long {role} statements took, over time"
    for place, graph in enumerate(graphs):
        yield f"flame {place}", f"{WHERE_TO[graph['unit']]}: {graph['title']}"


def _own(name: str) -> str:
    return files("engine.report.html").joinpath(name).read_text(encoding="utf-8")
