"""The command `bench ci`: a head against its merge base, within the time and with the files that a CI job wants."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from engine.cli import start
from engine.cli.options import FILE, FOLDER
from engine.core.errors import UserError
from engine.core.format import size, span
from engine.core.text import Visible, visible_lines
from engine.host import disk
from engine.host.account import own_folder
from engine.report.console import PlainConsole, echo

STEPS = "l.i0,l.x,l.i1,qr100,qp100"
ROWS, FEWEST_ROWS = 400_000, 50_000  # to load; fewer if the disk is small
LEAST_MEASURING_S = 180.0  # less time does not give the three pairs that a verdict needs
REPORT_S = 30.0  # reserved for the report
SUMMARY = "GITHUB_STEP_SUMMARY"  # the file whose Markdown the job's page shows
SHOWN_LINES = 20  # of the compiler's output


@dataclass(frozen=True, slots=True)
class Side:
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
    "--minutes", type=click.FloatRange(4, 600), default=15, show_default=True, help="Time for all of it, with builds."
)
@click.option("--gate", is_flag=True, help="Exit with 1 when the head is worse, fails or does not build.")
@click.option("--artifacts", type=FOLDER, default="pgbed-ci", show_default=True,
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
      1  with --gate: a step is worse, failed or missed its SLA; or the head does not build
      2  not measured: no merge base, the base does not build, too little time
    """
    until_s = time.monotonic() + minutes * 60
    sides = _installs(install) if install else _revisions(base, head, repo)
    folder = own_folder(artifacts)
    summary = summary or folder / "summary.md"
    console = PlainConsole(force_terminal=False)
    _say_what_is_missing()
    _build(sides, folder, summary)
    left_s = until_s - time.monotonic() - REPORT_S
    if left_s < LEAST_MEASURING_S:
        raise UserError(
            f"building took {span(minutes * 60 - left_s - REPORT_S)} of {minutes:g} minutes, and measuring needs "
            f"{span(LEAST_MEASURING_S)} or more: give more --minutes, or keep the compiler's cache between jobs"
        )
    run = _measure(sides, steps, left_s / 60, folder, console)
    sys.exit(_conclude(run, sides, folder, summary, gate))


def _installs(text: str) -> tuple[Side, Side]:
    base, comma, head = text.partition(",")
    if not comma or not base or not head:
        raise UserError(f"--install {text}: name two installs, BASE,HEAD")
    return tuple(
        Side(name, f"{name}={Path(prefix).expanduser().absolute()}", prefix)
        for name, prefix in (("base", base), ("head", head))
    )  # type: ignore[return-value]


def _revisions(base: str | None, head: str, repo: Path) -> tuple[Side, Side]:
    from engine.builds.commit_log import merge_base

    if not base:
        raise UserError("name what the head is to be merged into with --base, or two installs with --install")
    ends = merge_base(repo.absolute(), base, head)
    return tuple(
        Side(name, f"{name}=git:{repo.absolute()}@{commit.hash}", commit.text)
        for name, commit in zip(("base", "head"), ends, strict=True)
    )  # type: ignore[return-value]


def _say_what_is_missing() -> None:
    """Print one line on what this machine cannot do and the comparison therefore lacks."""
    missing = [
        what
        for what, there in (
            ("root: no probes", os.geteuid() == 0),
            ("a second CPU: clients and servers share one", (os.cpu_count() or 1) > 1),
            ("Nix: installs only", "PGBED_RECIPES" in os.environ),
        )
        if not there
    ]
    if missing:
        echo(f"without {'; without '.join(missing)}")


def _build(sides: tuple[Side, Side], folder: Path, summary: Path) -> None:
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
            for line in (f"{side.title} does not build:", *error.lines[-SHOWN_LINES:]):
                echo(line, err=True)
            _add_to_summary(summary, visible_lines(f"**{markdown_text(side.title)} does not build.**\n"))
            sys.exit(1)


def _measure(sides: tuple[Side, Side], steps: str, minutes: float, folder: Path, console: PlainConsole) -> Path:
    from engine.plan import planfile

    rows = ROWS
    while True:
        entries: dict[str, Any] = {
            "builds": [side.label for side in sides],
            "steps": steps.split(","),
            "rows": rows,
            "minutes": minutes,
        }
        prospect = start.prepare_shown(planfile.request(entries), folder, console)
        needed = prospect.estimate.needed_bytes
        if needed <= disk.free_bytes(folder) or rows <= FEWEST_ROWS:
            break
        rows //= 2
        echo(f"{size(needed)} of disk would be needed, more than there is: loading {rows:,} rows")
    code = start.start(prospect, folder, console, detach=False)
    if code not in (0, 1):
        sys.exit(code)
    return folder / prospect.manifest.run


def _conclude(run: Path, sides: tuple[Side, Side], folder: Path, summary: Path, gate: bool) -> int:
    from engine.analysis.compare import compare
    from engine.journal.manifest import read_manifest
    from engine.report import document, render
    from engine.report import gate as gates

    comparison = compare([run])
    manifest = read_manifest(run)
    judged = gates.judge(comparison, manifest.tolerated, gates.plan_of([manifest]))
    result = gates.sentence(judged)
    lines = [*(f"{side.name}: {side.title}" for side in sides), result]
    further = "\n".join(f"- {render.markdown_text(line)}" for line in lines)
    _add_to_summary(summary, visible_lines(f"{render.to_markdown(comparison)}\n{further}\n"))
    disk.write_text(folder / "junit.xml", gates.to_junit(comparison, judged))
    if comparison.cells:
        disk.replace_text(folder / "report.html", document.report([run], "html"))
    echo(result, err=True)
    echo(f"summary, page, JUnit and run: {folder}")
    if not gate:
        return 0
    if gates.failed(judged):
        return 1
    if gates.unknown(judged) or not judged:
        raise UserError("gate: nothing is known of any step, so nothing has passed")
    return 0


def _add_to_summary(path: Path, text: Visible) -> None:
    disk.replace_text(path, text)
    if shown := os.environ.get(SUMMARY):
        with Path(shown).open("a") as page:
            page.write(text)
