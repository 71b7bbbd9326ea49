"""The command `bench report`: a comparison as a page for the browser."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.options import FILE, OUT, RunArgument
from engine.core.errors import UserError
from engine.host import disk
from engine.journal.runs import find_run
from engine.report.console import echo


@click.command()
@click.argument("runs", nargs=-1, type=RunArgument(), metavar="[RUN]…")
@OUT
@click.option("-o", "--to", type=FILE, help="File to write [default: RUN-report.html here].")
@click.option("--base", metavar="LABEL", help="Compare with this build or config instead of the run's base.")
def report(runs: tuple[str, ...], out: Path, to: Path | None, base: str | None) -> None:
    """Write a comparison as one file: the answer, every step with charts and tables, and the origin of the figures.

    RUN is a run's name or folder [default: the newest]. Several runs are compared as one. The page needs no other
    files and can be mailed; it has the figures of bench compare.
    """
    from engine.report import document  # reads results, which loads more than the other commands need

    folders = [find_run(run, out) for run in runs or (None,)]
    to = to or Path(f"{folders[0].resolve().name}-report.html")
    disk.check_writable(to)  # before the work
    text = document.report(folders, base)
    try:
        size = disk.replace_text(to, text)
    except OSError as error:
        raise UserError(f"{to}: cannot be written: {error.strerror}; name another file with --to") from error
    echo(f"{to.absolute()}: {size / 1e6:.1f} MB; open it in a browser")
