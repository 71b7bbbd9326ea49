"""The commands that look at a run, or act on one that runs: `watch`, `resume`, `stop`, `mark`, `interface`.

What only some of them need is imported there: `watch` is to show something at once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from engine import interface
from engine.errors import UserError
from engine.folders import default_out, find_cell, find_run, runs_in
from engine.options import GLYPHS, OUT, PLAIN, console


@click.command()
@click.argument("run", required=False)
@OUT
@PLAIN
@GLYPHS
@click.option("--once", is_flag=True, help="Print the state as one line and leave.")
@click.option("--json", "as_json", is_flag=True, help="With --once: JSON instead of a line.")
@click.option("--cell", metavar="CELL", help="Replay this cell, by its id or its number in the run.")
@click.option("--step", metavar="STEP", help="With --cell: from this step on.")
def watch(run: str | None, out: Path | None, cell: str | None, step: str | None, **how: Any) -> None:
    """Watch a run (the newest unless named), or replay a cell of it. Leaving does not touch it."""
    once, as_json, plain, glyphs = (how[name] for name in ("once", "as_json", "plain", "glyphs"))
    folder = find_run(run, out or default_out())
    if once or as_json:
        from engine import live

        now = live.Watcher(folder).look()
        click.echo(json.dumps(live.record(now)) if as_json else live.line(now))
        return
    if interface.wanted(console(plain)):
        named = find_cell(folder, cell) if cell else None
        interface.become(folder.parent, folder, glyphs=glyphs, cell=named, step=step)
    if cell is not None:
        raise UserError("a cell is replayed in the interface, which needs a terminal; `bench export` writes it as CSV")
    from engine import live

    try:
        live.follow(folder, console(plain))
    except KeyboardInterrupt:
        click.echo(f"left; the run goes on (bench watch {folder.name})", err=True)


@click.command()
@click.argument("run", required=False)
@OUT
@PLAIN
@GLYPHS
@click.option("--detach", is_flag=True, help="Start the engine and leave.")
def resume(run: str | None, out: Path | None, plain: bool, glyphs: str, detach: bool) -> None:
    """Go on with a run that was stopped, or whose engine died. Finished cells are not run again."""
    folder = find_run(run, out or default_out())
    from engine import launch

    sys.exit(launch.resume(folder, console(plain), detach=detach, glyphs=glyphs))


@click.command()
@click.argument("run", required=False)
@OUT
def stop(run: str | None, out: Path | None) -> None:
    """Stop a running run cleanly; `bench resume` goes on with it."""
    from engine import launch

    launch.stop(find_run(run, out or default_out()), console(False))


@click.command()
@click.argument("text")
@click.argument("run", required=False)
@OUT
def mark(text: str, run: str | None, out: Path | None) -> None:
    """Leave a word in the record of a running run (the newest unless named), to find the moment again."""
    from engine import control

    click.echo(control.ask(find_run(run, out or default_out()), {"mark": text}))


@click.command(name="interface")
@OUT
@GLYPHS
@click.option("--screen", type=click.Choice(interface.SCREENS), default="launch", show_default=True)
def open_interface(out: Path | None, glyphs: str, screen: str) -> None:
    """The terminal interface; `bench` alone opens it on Launch."""
    out = (out or default_out()).resolve()
    interface.become(out, next(iter(runs_in(out)), None), screen=screen, glyphs=glyphs)
