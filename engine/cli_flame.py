"""The command `bench flame`: sampled stacks as a page for the browser."""

from __future__ import annotations

from pathlib import Path

import click

from engine.errors import UserError
from engine.folders import default_out, find_run


@click.command()
@click.argument("run", required=False)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder that holds the runs.")
@click.option("--step", required=True, metavar="STEP", help="Of which step, e.g. l.i1.")
@click.option("--role", required=True, metavar="ROLE", help="Of which role, e.g. delete.")
@click.option("--pg", "label", metavar="LABEL", help="Of which build [default: the run's base]; LABEL/CONFIG too.")
@click.option(
    "--diff", "other", metavar="RUN2|LABEL", help="What changed from it to another run, or build of this one."
)
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="File to write [default: named so, here].")
def flame(
    run: str | None, out: Path | None, step: str, role: str, label: str | None, other: str | None, to: Path | None
) -> None:
    """Write a flame graph of stacks sampled in a run (the newest unless named), by --probes stacks.

    It is one HTML file that opens in any browser, without a network. With --diff, frames are coloured by what changed.
    """
    from engine import flame as graphs  # reads results, which loads more than the other commands need

    out = out or default_out()
    folder = find_run(run, out)
    subject = graphs.subject_of(folder, label)
    base, new = graphs.profile(folder, subject, step, role), None
    if other is not None:
        inside = other in graphs.labels(folder)
        second = folder if inside else find_run(other, out)
        wanted = other if inside else subject.name if subject.name in graphs.labels(second) else None
        new = graphs.profile(second, graphs.subject_of(second, wanted), step, role)
    text = graphs.page(step, role, base) if new is None else graphs.page(step, role, new, base)
    to = to or Path(f"{folder.name}-{step}-{role}{'-diff' if new else ''}.html")
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{to}: cannot be written: {error.strerror}; name another file with --to") from error
    click.echo(f"{to}: {base.samples + (new.samples if new else 0)} samples; open it in a browser")
