"""The commands that show a run, or act on a running one: `watch`, `resume`, `stop`, `mark`; and `bench` alone.

Imports that only some of them need are inside them: `watch` must show its first frame at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from engine.cli import interface
from engine.cli.options import GLYPHS, OUT, PLAIN, console, of_run
from engine.core.errors import UserError
from engine.journal.runs import find_cell, reference, runs_in
from engine.report.console import echo, echo_lines


@click.command()
@of_run
@PLAIN
@GLYPHS
@click.option("--once", is_flag=True, help="Print the current state as one line, and exit.")
@click.option("--json", "as_json", is_flag=True, help="With --once: JSON instead of a line.")
@click.option("--cell", metavar="CELL", help="Replay this cell, by its id or its number in the run.")
@click.option("--step", metavar="STEP", help="With --cell: start at this step.")
def watch(folder: Path, cell: str | None, step: str | None, **how: Any) -> None:
    """Watch a run [default: the newest], or replay one of its cells. Quitting does not affect the run."""
    once, as_json, plain, glyphs = (how[name] for name in ("once", "as_json", "plain", "glyphs"))
    if cell is None and step is not None:
        raise UserError(f"--step {step} is where a replay starts: name its cell with --cell too")
    if cell is not None and (once or as_json):
        raise UserError("--cell replays a cell, and --once and --json show the current state of the run: choose one")
    if not (once or as_json) and interface.wanted(console(plain)):
        named = find_cell(folder, cell) if cell is not None else None
        interface.become(folder.parent, folder, screen="live", glyphs=glyphs, cell=named, step=step)
    from engine.report import follow

    if once or as_json:
        echo_lines(follow.once(folder, as_json=as_json))
        return
    if cell is not None:
        raise UserError(
            f"replay needs a terminal{' and no --plain' if plain else ''}; the cell's figures are in "
            f"{folder / 'journal.db'}, for SQL"
        )
    try:
        follow.follow(folder, console(plain))
    except KeyboardInterrupt:
        echo(f"stopped watching; the run continues (bench watch {reference(folder)})", err=True)
        raise


@click.command()
@of_run
@PLAIN
@GLYPHS
@click.option("--detach", is_flag=True, help="Start the engine, and exit.")
def resume(folder: Path, plain: bool, **how: Any) -> None:
    """Continue a run of yours that was stopped, or whose engine died. Finished cells are kept.

    In slices the pair that was under way is run again as a whole; its earlier record stays, and is not counted.
    """
    from engine.cli import start

    sys.exit(start.resume(folder, console(plain), **how))


@click.command()
@of_run
def stop(folder: Path) -> None:
    """Stop a running run [default: the newest]; `bench resume` continues it. The running cell is discarded."""
    from engine.cli import start

    start.stop(folder, console(False))


@click.command(context_settings={"ignore_unknown_options": True})  # a mark may be "-1"
@click.argument("text")
@of_run
def mark(folder: Path, text: str) -> None:
    """Add a marker to a running run [default: the newest], to find the moment again."""
    from engine.run import control

    echo(control.ask(folder, {"mark": text}))


@click.command()
@OUT
@GLYPHS
def open_interface(out: Path, glyphs: str) -> None:
    """Open the terminal interface, as `bench` alone does."""
    out = out.resolve()
    interface.become(out, next(iter(runs_in(out)), None), screen="launch", glyphs=glyphs)
