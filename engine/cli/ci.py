"""The command `bench ci`: a head against its merge base, within the time and with the files that a CI job wants."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from engine.cli import start
from engine.cli.options import FILE, FOLDER
from engine.core.errors import UserError
from engine.core.format import size, span
from engine.core.text import Visible, user_path, visible_lines
from engine.host import disk
from engine.report.console import PlainConsole, echo
from engine.results.ratio import MIN_PAIRS
from engine.system.account import make_passable, own_folder
from workloads.api.lists import comma_list

STEPS = "l.i0,l.x,l.i1,qr100,qp100"
ROWS, FEWEST_ROWS = 400_000, 50_000  # to load; fewer on a small machine
WANTED_PAIRS = 6  # have to fit
REPORT_S = 20.0  # reserved for the report
SUMMARY = "GITHUB_STEP_SUMMARY"  # the file whose Markdown the job's page shows
SHOWN_LINES = 20  # of the compiler's output
PMUS = Path("/sys/bus/event_source/devices")


@dataclass(frozen=True, slots=True)
class CiSide:
    name: str
    label: str
    title: str


@click.command(short_help="Compare a head with its merge base, for a CI job.")
@click.option("--base", metavar="REV", help="The branch or commit that the head is to be merged into.")
@click.option("--head", default="HEAD", show_default=True, metavar="REV", help="The commit to judge.")
@click.option("--repo", type=FOLDER, default=".", metavar="PATH", help="The checkout [default: the current folder].")
@click.option("--install", metavar="BASE,HEAD", help="Two installs that the job has built, instead of revisions.")
@click.option("--steps", default=STEPS, show_default=True, help="Steps of the Insert Benchmark.")
@click.option(
    "--minutes", type=click.FloatRange(1, 600), default=15, show_default=True, help="Time for all of it, with builds."
)
@click.option("--gate", is_flag=True, help="Exit with 1 when the head is worse, fails or does not build.")
@click.option("--artifacts", type=FOLDER, default="pgbed-ci", show_default=True, metavar="DIR",
              help="Folder for all files that are written.")  # fmt: skip
@click.option("--summary", type=FILE, help="Markdown for a comment [default: summary.md among the artifacts].")
def ci(
    base: str | None,
    head: str,
    repo: Path,
    install: str | None,
    steps: str,
    minutes: float,
    gate: bool,
    artifacts: Path,
    summary: Path | None,
) -> None:
    """Compare a head with its merge base within a time limit, and write the files that a CI job needs.

    Builds both, measures them in slices, and writes summary.md, report.html, junit.xml and the run. Where
    $GITHUB_STEP_SUMMARY names a file, the summary is added to it.

    \b
    Exit codes:
      0  measured; with --gate: and no step is worse
      1  with --gate: a step is worse, failed or missed its SLA; or the head does
         not build
      2  not measured: no merge base, the base does not build, too little time,
         no cell finished
      3  with --gate: every step is undecided
    """
    until_s = time.monotonic() + minutes * 60
    folder = own_folder(artifacts)
    summary = summary or folder / "summary.md"
    console = PlainConsole(force_terminal=False)
    _check_writable(folder, summary)
    sides = _installs(install) if install else _revisions(base, head, repo)
    fitting(sides, comma_list(steps), minutes, folder)  # a mistyped step is found before anything is built
    lacking = _lacking()
    if lacking:
        echo(lacking, err=True)
    _build(sides, folder, summary)
    left_s = until_s - time.monotonic() - REPORT_S
    run, left_out = _measure(sides, comma_list(steps), left_s / 60, folder, console)
    notes = tuple(filter(None, (lacking, left_out)))
    sys.exit(conclude(run, sides, folder, summary, gate, notes))


def _check_writable(folder: Path, summary: Path) -> None:
    """Raise UserError, before anything is built, if the files at the end could not be written."""
    try:
        make_passable(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {error.strerror}; name another folder with --artifacts") from None
    disk.check_writable(folder / "junit.xml")
    disk.check_writable(summary)


def _installs(text: str) -> tuple[CiSide, CiSide]:
    prefixes = comma_list(text)
    if len(prefixes) != 2:
        raise UserError(f"--install {text}: name two installs, BASE,HEAD")
    return tuple(
        CiSide(name, f"{name}={user_path(prefix).absolute()}", prefix)
        for name, prefix in zip(("base", "head"), prefixes, strict=True)
    )  # type: ignore[return-value]


def _revisions(base: str | None, head: str, repo: Path) -> tuple[CiSide, CiSide]:
    from engine.builds.commit_log import merge_base

    if not base:
        raise UserError("name what the head is to be merged into with --base, or two installs with --install")
    ends = merge_base(repo.absolute(), base, head)
    return tuple(
        CiSide(name, f"{name}=git:{repo.absolute()}@{commit.hash}", commit.text)
        for name, commit in zip(("base", "head"), ends, strict=True)
    )  # type: ignore[return-value]


def _lacking() -> str:
    """A line on the parts of the comparison that this machine cannot measure."""
    missing = [
        what
        for what, there in (
            ("Nix: only installs can be compared", "PGBED_RECIPES" in os.environ),
            ("a second CPU: clients and servers share one", len(os.sched_getaffinity(0)) > 1),
            ("a PMU: no instructions per operation", _has_pmu()),
        )
        if not there
    ]
    return f"without {'; without '.join(missing)}" if missing else ""


def _has_pmu() -> bool:
    return any((PMUS / name).exists() for name in ("cpu", "cpu_core", "armv8_pmuv3_0"))


def _build(sides: tuple[CiSide, CiSide], folder: Path, summary: Path) -> None:
    """Build both. A head that does not build is the job's result; a base that does not is an error."""
    from engine.builds import resolve
    from engine.builds.nix import BuildFailed
    from engine.report.render import markdown_text

    for side in sides:
        try:
            resolve.resolve([side.label], echo, folder / ".builds")
        except BuildFailed as error:
            if side.name == "base":
                raise
            last = error.lines[-SHOWN_LINES:]
            for line in (f"{side.title} does not build:", *last):
                echo(line, err=True)
            code = "".join(f"    {line}\n" for line in last)  # indented: no mark within can end it
            _add_to_summary(summary, visible_lines(f"**{markdown_text(side.title)} does not build.**\n\n{code}"))
            sys.exit(1)


def _measure(
    sides: tuple[CiSide, CiSide], steps: list[str], minutes: float, folder: Path, console: PlainConsole
) -> tuple[Path, str]:
    """The run, and a line on steps that were left out."""
    from engine.plan import planfile

    entries, left_out = fitting(sides, steps, minutes, folder)
    if left_out:
        echo(left_out, err=True)
    prospect = start.prepare_shown(planfile.request(entries), folder, console)
    code = start.start(prospect, folder, console, detach=False)
    if code not in (0, 1):
        sys.exit(code)
    return folder / prospect.manifest.run, left_out


def fitting(sides: tuple[CiSide, CiSide], steps: list[str], minutes: float, folder: Path) -> tuple[dict[str, Any], str]:
    """The plan that fits into memory, disk and time, and a line on the parts that it leaves out.

    Raises UserError if not even the smallest fits.
    """
    from engine.plan import planfile
    from engine.plan.prepare import estimate

    minutes = max(minutes, 0.1)  # builds may have taken all of it
    # By others, as the builds make it 1; at most twice, since nice processes and waits for a disk count as load, too.
    slowed = min(2.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))

    def plan(rows: int, steps: list[str]) -> dict[str, Any]:
        return {
            "builds": [side.label for side in sides],
            "steps": steps,
            "rows": rows,
            "minutes": minutes,
            **({"counters": "auto"} if _has_pmu() else {}),
        }

    best = estimate(planfile.request(plan(FEWEST_ROWS, steps)), folder)["interleave"]  # with more rows it may be cells
    limits: dict[str, None] = {}
    for rows, kept in _sizes(steps):
        estimated = estimate(planfile.request(plan(rows, kept)), folder)
        pairs = MIN_PAIRS if (rows, len(kept)) == (FEWEST_ROWS, 1) else WANTED_PAIRS * slowed
        over = [
            limit
            for limit, within in (
                ("memory", estimated["interleave"] == best),
                (f"{size(estimated['free_bytes'])} of disk", estimated["needed_bytes"] <= estimated["free_bytes"]),
                (span(minutes * 60), estimated["cell_s"] * len(sides) * pairs <= minutes * 60),
            )
            if not within
        ]
        if not over:
            break
        limits |= dict.fromkeys(over)
    else:
        how = "allow more --minutes, or keep the compiler's cache between jobs"
        if span(minutes * 60) not in over:
            how = "free some, or name another folder with --artifacts"
        what = f"{steps[0]} alone with {rows:,} rows, {MIN_PAIRS} times on each,"
        raise UserError(f"{what} does not fit into {' and '.join(over)}: {how}")
    left_out = [step for step in steps if step not in kept]
    changes = [f"loading {rows:,} rows instead of {ROWS:,}"] if rows < ROWS else []
    changes += [f"leaving out {', '.join(left_out)}"] if left_out else []
    return plan(rows, kept), f"{' and '.join(changes)}, to fit into {' and '.join(limits)}" if changes else ""


def _sizes(steps: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Smaller and smaller plans: first fewer rows, then without the last steps."""
    rows = ROWS
    while rows > FEWEST_ROWS:
        yield rows, steps
        rows //= 2
    for count in range(len(steps), 0, -1):
        yield rows, steps[:count]


def conclude(
    run: Path, sides: tuple[CiSide, CiSide], folder: Path, summary: Path, gate: bool, notes: tuple[str, ...] = ()
) -> int:
    """Write the job's files and print the result; return the exit code. Raises UserError if no cell has finished."""
    from engine.analysis.answer.compare import compare
    from engine.journal.manifest import read_manifest
    from engine.report import document, render
    from engine.report import gate as gates

    comparison = compare([run])
    manifest = read_manifest(run)
    judged = gates.judge(comparison, manifest.design.tolerated, gates.plan_of([manifest]))
    result = gates.sentence(judged)
    titles = (f"{side.name}: {side.title}" for side in sides)
    _add_to_summary(summary, render.to_comment(comparison, (*titles, result, *notes)))
    disk.write_text(folder / "junit.xml", gates.to_junit(comparison, judged))
    if comparison.cells:
        disk.replace_text(folder / "report.html", document.report([run]))
    echo(result, err=True)
    echo(f"summary, page, JUnit and run: {folder}")
    if gate and gates.failed(judged):
        return 1
    if not comparison.cells:
        raise UserError("no cell has finished, so nothing is measured")
    return gates.exit_code(judged) if gate else 0


def _add_to_summary(path: Path, text: Visible) -> None:
    disk.replace_text(path, text)
    if shown := os.environ.get(SUMMARY):
        with Path(shown).open("a") as page:
            page.write(text)
