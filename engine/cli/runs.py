"""The commands `bench tag` and `bench delete`."""

from __future__ import annotations

from pathlib import Path

import click

from engine.builds import resolve
from engine.cli.options import OUT, RunArgument, agree, of_run
from engine.core.errors import UserError
from engine.core.format import size
from engine.host import disk
from engine.journal import housekeeping
from engine.journal.manifest import read_manifest
from engine.journal.runs import find_run, runs_in
from engine.report.console import echo
from workloads.api.lists import comma_list


@click.command()
@click.argument("words", metavar="WORD,…")
@click.option("--remove", is_flag=True, help="Remove these tags.")
@of_run
def tag(folder: Path, words: str, remove: bool) -> None:
    """Tag a run [default: the newest], to find it again: `bench list runs` shows the tags."""
    tags = (housekeeping.untag if remove else housekeeping.tag)(folder, comma_list(words) or [words])
    echo(f"{folder.name}: {' '.join(tags) or 'no tags'}")


@click.command()
@click.argument("names", nargs=-1, required=True, type=RunArgument(), metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@OUT
def delete(names: tuple[str, ...], yes: bool, out: Path) -> None:
    """Delete runs: journals, logs, kept clusters. Asks first.

    Only runs in the output folder are removed, and none that is running.
    """
    # Check all before touching the first: one wrong name removes nothing.
    folders = list(dict.fromkeys(housekeeping.removable(find_run(name, out), out) for name in names))
    lines = [] if yes else [f"{folder}  {size(_occupied_bytes(folder))}" for folder in folders]
    lines.append(f"Remove {f'these {len(folders)} runs' if len(folders) > 1 else 'this run'} for good?")
    agree("\n".join(lines), yes)
    for folder in folders:
        freed = housekeeping.delete(folder, out, lambda text: echo(text, err=True))
        echo(f"removed {folder.name}: {size(freed)} freed")
    _remove_unused_links(out)


def _occupied_bytes(folder: Path) -> int:
    return sum(map(disk.occupied_bytes, (folder, housekeeping.data_of(folder))))


def _remove_unused_links(out: Path) -> None:
    """Remove links to builds of source trees that no run uses; keep all if a run cannot be read."""
    try:
        wanted = {build.digest for run in runs_in(out) for build in read_manifest(run).builds}
    except UserError:
        return
    resolve.prune(out / ".builds", wanted)
