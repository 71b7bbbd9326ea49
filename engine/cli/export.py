"""`bench export`: runs as CSV files, or as tables for SQL over many runs."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.options import FOLDER, OUT, RunArgument
from engine.core.errors import UserError
from engine.journal.runs import find_run
from engine.report.console import echo


@click.command()
@click.argument("runs", nargs=-1, type=RunArgument(), metavar="[RUN]…")
@OUT
@click.option(
    "--to",
    type=FOLDER,
    help="Folder to write [default: RUN-export in the current one, with --parquet pgbed-parquet]. CSV wants a new or "
    "empty one; Parquet files are added to existing ones.",
)
@click.option("--parquet", is_flag=True, help="Write tables for SQL over many runs.")
def export(runs: tuple[str, ...], out: Path, to: Path | None, parquet: bool) -> None:
    """Write a run as CSV files, and its intervals as the reference client prints them.

    RUN is a run's name or folder [default: the newest]. With --parquet there may be several: a folder for each table
    (cells, steps, roles, seconds, stalls, frames), a file in it for each run.
    """
    folders = [find_run(run, out) for run in runs or (None,)]
    if parquet:
        from engine.report import parquet as tables

        to = (to or Path("pgbed-parquet")).absolute()
        echo(f"{len(tables.export(folders, to))} files in {to.resolve()}")
        return
    if len(folders) > 1:
        raise UserError("as CSV one run is written at a time; name one of them, or add --parquet")
    from engine.report.export import export as export_run

    to = (to or Path(f"{folders[0].resolve().name}-export")).absolute()
    echo(f"{len(export_run(folders[0], to))} files in {to.resolve()}")
