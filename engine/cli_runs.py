"""The commands `bench tag` and `bench delete`: what is done to whole runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from engine import runs, space
from engine.errors import UserError
from engine.folders import default_out, find_run
from engine.journal import read_tags
from engine.options import OUT


@click.command()
@click.argument("run")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--remove", is_flag=True, help="Take these words away instead.")
@OUT
def tag(run: str, words: tuple[str, ...], remove: bool, out: Path | None) -> None:
    """Give a run words to find it by; without words, print those it has. `bench list runs` shows them."""
    folder = find_run(run, out or default_out())
    if not words:
        if remove:
            raise UserError(f"--remove: name the words; {folder.name} has: {', '.join(read_tags(folder)) or 'none'}")
        tags = read_tags(folder)
    else:
        tags = runs.untag(folder, words) if remove else runs.tag(folder, words)
    click.echo(f"{folder.name}: {' '.join(tags) or 'no tags'}")


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@OUT
def delete(names: tuple[str, ...], yes: bool, out: Path | None) -> None:
    """Remove runs for good: journals, logs, kept clusters. Asks first.

    Only runs in the output folder are removed, and none whose engine is at work.
    """
    out = out or default_out()
    # All are looked at before the first is touched: a wrong name among them removes nothing.
    folders = list(dict.fromkeys(runs.removable(find_run(name, out), out) for name in names))
    sizes = [runs.disk_bytes(folder) for folder in folders]
    if not yes:
        for folder, size in zip(folders, sizes, strict=True):
            click.echo(f"{folder}  {space.readable(size)}", err=True)
        if not sys.stdin.isatty():
            raise UserError("nothing removed: there is nobody to ask; say --yes")
        many = f"these {len(folders)} runs" if len(folders) > 1 else "this run"
        if not click.confirm(f"Remove {many} for good?", err=True):
            raise UserError("nothing removed")
    for folder in folders:
        freed = runs.delete(folder, out, lambda text: click.echo(text, err=True))
        click.echo(f"removed {folder.name}: {space.readable(freed)} freed")
