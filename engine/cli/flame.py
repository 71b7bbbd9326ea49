"""The command `bench flame`: sampled stacks as a page for the browser."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.options import FILE, OUT, RunArgument
from engine.cli.output import echo
from engine.core.errors import UserError
from engine.host import disk
from engine.journal.runs import find_run


@click.command()
@click.argument("run", required=False, type=RunArgument())
@OUT
@click.option("--step", required=True, metavar="STEP", help="The step whose samples are shown, e.g. l.i1.")
@click.option("--role", required=True, metavar="ROLE", help="The role whose samples are shown, e.g. delete.")
@click.option("--pg", "label", metavar="LABEL", help="The build, or LABEL/CONFIG [default: the run's base].")
@click.option(
    "--diff",
    "other",
    type=RunArgument(),
    metavar="RUN2|LABEL",
    help="Show what changes from there to another run, or another build of this run.",
)
@click.option("--to", type=FILE, help="File to write [default: RUN-STEP-ROLE.html in the current folder].")
def flame(
    run: str | None, out: Path, step: str, role: str, label: str | None, other: str | None, to: Path | None
) -> None:
    """Write a flame graph of the stacks that the probe `stacks` sampled, as one HTML file.

    RUN is a run's name or folder [default: the newest]. With --diff, frames are coloured by how much they changed.
    The page needs no network.
    """
    from engine.report import flame as graphs  # reads results, which loads more than the other commands need

    folder = find_run(run, out)
    subject = graphs.subject_of(folder, label)
    base, new = graphs.profile(folder, subject, step, role), None
    if other is not None:
        inside = other in graphs.labels(folder)
        second = folder if inside else find_run(other, out)
        wanted = other if inside else subject.name if subject.name in graphs.labels(second) else None
        new = graphs.profile(second, graphs.subject_of(second, wanted), step, role)
    text = graphs.page(step, role, base) if new is None else graphs.page(step, role, new, base)
    to = to or Path(f"{folder.name}-{step}-{role}{'-diff' if new else ''}.html".replace("/", "_"))
    try:
        disk.write_text(to, text)
    except OSError as error:
        raise UserError(f"{to}: cannot be written: {error.strerror}; name another file with --to") from error
    echo(f"{to}: {base.samples + (new.samples if new else 0)} samples; open it in a browser")
