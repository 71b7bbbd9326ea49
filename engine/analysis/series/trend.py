"""Figures of many runs over time or versions, and where they changed for good.

The figures of each run's finished steps are kept in one file in the folder of the runs and renewed for a run that has
changed since: ten thousand cells are then read in the time of one file. Points of one series were measured alike:
workload and its options, design, config, kernel, control, route and the machine. A point is the median of a run's cells
of one build. `analysis.series.trend_changes` tells changes from chance.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec

from engine.analysis.cells.compared_cells import METRICS
from engine.analysis.cells.run_results import CellResult, RunResult, load
from engine.analysis.checks import comparability
from engine.analysis.series.trend_changes import FEWEST, changes, levels
from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import Build
from engine.core.record import converted
from engine.core.version import order_of
from engine.features import conditions
from engine.host.drift import value
from engine.journal.runs import runs_in
from engine.results.comparison import WorkloadSummary
from engine.results.ratio import RATE, TIME
from engine.system.files import read_plain

Order = Literal["date", "version"]
INDEX = ".pgbed-trend"
FORMAT = 3
MAX_BYTES = 1 << 30
COMMIT = re.compile("commit ([0-9a-f]{7,40})")  # as engine.builds.source_tree writes it, without changes
RELEASE = re.compile(r"(\d+)(\.\d+|(?:beta|rc)\d+)")
REVISION = re.compile("([^=]+)=git:(.+)@[^@]+")
WATCHED = ("manifest.json", "journal.db", "journal.db-wal")


class StepFigures(msgspec.Struct, frozen=True, array_like=True):
    """The figures of one build's cells of one step in one run. `series` is all that points of a series share."""

    series: str
    step: str
    build: str
    version: str
    base: bool
    place: int  # among the builds of the run, the base being 0
    cells: int
    figures: dict[str, float]
    workload: str
    revision: str  # git's name: a commit, or a release's tag; empty if unknown to git
    repository: str  # the run's source, as far as its request says


class IndexedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run in the index; `seen` are sizes and times of its files when it was read."""

    seen: tuple[tuple[int, int], ...]
    created: str
    found: tuple[StepFigures, ...]


class Index(msgspec.Struct, frozen=True, array_like=True):
    """The file in the folder of the runs: entries by the names of the runs' folders."""

    format: int
    runs: dict[str, IndexedRun]


class TrendPoint(msgspec.Struct, frozen=True):
    run: str
    created: str
    build: str
    version: str
    cells: int
    value: float
    revision: str = ""
    repository: str = ""


class LevelChange(msgspec.Struct, frozen=True):
    """`before` is the last point of the old level, `after` the first of the new; `ratio` is of the levels' means.

    `p` is how often, by chance, the series examined together would show such a change anywhere. `bisect` is the command
    that finds the commit; empty if it became no slower, or git does not know both builds.
    """

    before: TrendPoint
    after: TrendPoint
    ratio: float
    p: float
    bisect: str = ""


class TrendSeries(msgspec.Struct, frozen=True):
    """Points in order, and the changes among them; None if there are too few points to say."""

    series: str
    step: str
    metric: str
    unit: str
    points: tuple[TrendPoint, ...]
    changes: tuple[LevelChange, ...] | None


def entries(out: Path, progress: Callable[[int, int], None] = lambda done, of: None) -> dict[str, IndexedRun]:
    """The readable runs below a folder that have finished cells, by name.

    Unchanged runs come from the index; `progress` hears how many of the others have been read.
    """
    known = _read(out / INDEX)
    seen = {run: _seen(run) for run in runs_in(out)}
    stale = [run for run, now in seen.items() if run.name not in known or known[run.name].seen != now]
    runs = {run.name: known[run.name] for run in seen if run not in stale}
    for done, run in enumerate(stale):
        progress(done, len(stale))
        try:
            runs[run.name] = _entry(load(run), seen[run])
        except UserError:  # kept as one without figures, until it changes
            runs[run.name] = IndexedRun(seen[run], "", ())
    if runs != known:
        _write(out / INDEX, runs)
    return runs


def series(
    runs: Iterable[tuple[str, IndexedRun]],
    metric: str,
    step: str | None,
    by: Order,
    margin: float,
    *,
    against_base: bool = False,
) -> list[TrendSeries]:
    """Series by kind of measurement and step; by date, each build of a run, counted from the base, has its own.

    `margin` is the smallest change to name, a fraction; `against_base` makes figures ratios to the run's base.
    """
    unit = next((known.title for known in METRICS if known.name == metric), "")
    points: dict[tuple[str, str], list[TrendPoint]] = {}
    workloads: dict[tuple[str, str], str] = {}
    for run, entry in runs:
        bases = {(row.series, row.step): row for row in entry.found if row.base}
        for row in entry.found:
            place = (row.series, row.step)
            value = row.figures.get(metric)
            of = bases[place].figures.get(metric) if place in bases else None
            if step not in (None, row.step) or value is None or (against_base and (row.base or not of)):
                continue
            shown = value / of if against_base and of else value
            if against_base:
                against = (f"{row.series}, against {bases[place].build}", row.step)
            elif by == "date" and (row.base or row.place > 1):
                against = (f"{row.series}, {'base' if row.base else f'build {row.place + 1} of the run'}", row.step)
            else:
                against = place
            points.setdefault(against, []).append(
                TrendPoint(run, entry.created, row.build, row.version, row.cells, shown, row.revision, row.repository)
            )
            workloads[against] = row.workload
    by_place = _by_version if by == "version" else _by_date
    ordered = {place: tuple(sorted(points_of, key=by_place)) for place, points_of in sorted(points.items())}
    among = sum(len(points_of) >= FEWEST for points_of in ordered.values())
    return [
        TrendSeries(
            *place,
            metric,
            "of the base" if against_base else unit,
            points_of,
            _changes(points_of, among, margin, metric, workloads[place], place[1]),
        )
        for place, points_of in ordered.items()
    ]


def _by_date(point: TrendPoint) -> tuple[str, str]:
    return point.created, point.run


def _by_version(point: TrendPoint) -> tuple[tuple[int, ...], str, str]:
    return order_of(point.version), point.created, point.run


def _changes(
    points: Sequence[TrendPoint], among: int, margin: float, metric: str, workload: str, step: str
) -> tuple[LevelChange, ...] | None:
    if len(points) < FEWEST:
        return None
    values = [point.value for point in points]
    changed = changes(values, among, margin)
    means = [mean for *_, mean in levels(values, [place for place, _ in changed])]
    return tuple(
        LevelChange(before, after, ratio, p, bisect)
        for (place, p), (old, new) in zip(changed, itertools.pairwise(means), strict=True)
        if old
        for before, after in [(points[place - 1], points[place])]
        for ratio in [new / old]
        for slower in [(metric == RATE and ratio < 1) or (metric == TIME and ratio > 1)]
        for bisect in [_bisect(before, after, workload, step) if slower else ""]
    )


def _bisect(before: TrendPoint, after: TrendPoint, workload: str, step: str) -> str:
    """The command for the range between two builds, if both are of one repository as far as is known."""
    known = {point.repository for point in (before, after)} - {""}
    if not before.revision or not after.revision or before.revision == after.revision or len(known) > 1:
        return ""
    words = ("--good", before.revision, "--bad", after.revision, "--repo", *(known or {"PATH"}),
             "--workload", workload, "--step", step)  # fmt: skip
    return shlex.join(("bench", "bisect", *words))


def _revision(build: Build) -> str:
    if match := COMMIT.fullmatch(build.source):
        return "" if build.initdb_args else match[1]
    match = RELEASE.fullmatch(build.version)
    if match is None or build.label not in (build.version, f"{build.version}-prebuilt"):
        return ""
    return f"REL_{match[1]}_{match[2].replace('.', '').upper()}"


def _repository(build: Build, request: Mapping[str, Any]) -> str:
    asked = request.get("builds")
    for spec in asked if isinstance(asked, Sequence) else ():
        if isinstance(spec, str) and (match := REVISION.fullmatch(spec)) and match[1] == build.label:
            return match[2]
    return ""


def _entry(result: RunResult, seen: tuple[tuple[int, int], ...]) -> IndexedRun:
    manifest = result.manifest
    versions = {build.label: build.version for build in manifest.builds}
    builds = {build.label: build for build in manifest.builds}
    medians = []
    places = {label: place for place, label in enumerate(dict.fromkeys((manifest.design.base, *versions)))}
    workload = str(manifest.workload.get("name", ""))
    cells: dict[tuple[str, str, bool, str], list[CellResult]] = {}
    for cell in result.cells:
        subject = cell.cell.subject
        base = subject.build == manifest.design.base
        place = (_series(result, cell), subject.build, base, versions.get(subject.build, ""))
        if cell.state == "finished" and not subject.control:
            cells.setdefault(place, []).append(cell)
    for (name, build, base, version), cell_steps in cells.items():
        for step in cell_steps[0].steps:
            steps = [cell.steps[step] for cell in cell_steps if step in cell.steps]
            values = {
                metric.name: [value for step in steps if (value := step.figure(metric.name)) is not None]
                for metric in METRICS
            }
            figures = {metric: median(values_of) for metric, values_of in values.items() if values_of}
            medians.append(
                StepFigures(
                    name,
                    step,
                    build,
                    version,
                    base,
                    places.get(build, 0),
                    len(steps),
                    figures,
                    workload,
                    _revision(builds[build]) if build in builds else "",
                    _repository(builds[build], manifest.request) if build in builds else "",
                )
            )
    return IndexedRun(seen, manifest.origin.created, tuple(medians))


def _series(result: RunResult, cell: CellResult) -> str:
    """A description of the measurement, in words that end with a digest of everything the words omit."""
    manifest, subject = result.manifest, cell.cell.subject
    workload = manifest.workload
    cpu = value(manifest.environment, "cpu", "model"), value(manifest.environment, "cpu", "threads")
    alike = (
        comparability.of_workload(workload, "identity", dict[str, Any]),
        workload.get("clients"),
        workload.get("steps", ()),
        manifest.request.get("overrides", ()),
        sorted(manifest.observation.observers),
        None if subject.kernel == HOST else (manifest.boot.guest, manifest.kernel(subject.kernel)),
        comparability.measured_in(result),
        manifest.route.words,
        conditions(manifest.parts),
        *cpu,
        value(manifest.environment, "memory", "total_bytes"),
    )
    digest = hashlib.sha256(msgspec.json.encode(alike, order="deterministic")).hexdigest()[:8]
    words = (
        converted(workload, WorkloadSummary, "manifest.json: workload").text,
        subject.config,
        "" if subject.kernel == HOST else f"kernel {subject.kernel}",
        manifest.design.words,
        f"{cpu[0]} with {cpu[1]} threads" if all(cpu) else "",
        digest,
    )
    return ", ".join(filter(None, words))


def _seen(run: Path) -> tuple[tuple[int, int], ...]:
    stamps = []
    for name in WATCHED:
        try:
            status = (run / name).stat()
            stamps.append((status.st_size, status.st_mtime_ns))
        except OSError:
            stamps.append((-1, 0))
    return tuple(stamps)


def _read(path: Path) -> dict[str, IndexedRun]:
    try:
        index = msgspec.msgpack.decode(read_plain(path, MAX_BYTES), type=Index)
    except (OSError, UserError, msgspec.MsgspecError):
        return {}
    return index.runs if index.format == FORMAT else {}


def _write(path: Path, runs: dict[str, IndexedRun]) -> None:
    """Write the index if possible. The folder may be anybody's: nothing that exists is opened, not even a symlink."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        file = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb")
        try:
            with file:
                file.write(msgspec.msgpack.encode(Index(FORMAT, runs)))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
