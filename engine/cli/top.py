"""The command `bench top`: servers that run, watched without a workload."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, get_args

import click

from engine.cli import interface
from engine.cli.options import GLYPHS, OUT, PLAIN, console
from engine.core.errors import UserError
from engine.core.model import Manifest
from engine.host.account import make_passable, own_folder
from engine.journal.database import database_path
from engine.journal.runs import reference
from engine.journal.writer import create_run
from engine.plan import observation as observation_plan
from engine.postgres.pgstat import MonitorError
from engine.postgres.server_activity import ServerActivity
from engine.postgres.statement_counts import By
from engine.report import follow
from engine.report.console import PlainConsole, echo, echo_lines
from engine.run.observation import Observation, Watched

PRINTED_S = 5.0  # of an observation whose state is printed
LEFT_S = 0.2  # between checks whether the interface was left
QUERY_IDS = 140000  # the first version with query ids in pg_stat_activity


@click.command()
@click.argument("servers", nargs=-1, required=True, metavar="DSN...")
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    default="application",
    show_default=True,
    help="What connections are counted by: their application_name, their user, or the query that they execute.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=10_000_000),
    metavar="S",
    help="End after this time [default: with q or Ctrl-C; with --json after 5].",
)
@OUT
@PLAIN
@GLYPHS
@click.option("--json", "as_json", is_flag=True, help="Print the state at the end as JSON, and nothing else.")
def top(servers: tuple[str, ...], by: By, seconds: float | None, out: Path, **how: Any) -> None:
    """Watch one or two servers that run, without a workload: connections, rates, waits, stalls.

    DSN is a connection string, as a URI or as keywords, possibly with a name before it: prod=postgresql://me@db1/shop.
    Nothing is changed there: transactions are read-only, and an ordinary role will do; membership in pg_monitor lets it
    see what others' connections do and wait for. What is seen is recorded as a run, for bench watch and bench report.
    """
    as_json = bool(how["as_json"])
    with ExitStack() as opened:
        watched = _connected(servers, by, opened)
        run, manifest = _made(watched, by, PRINTED_S if as_json and seconds is None else seconds, out)
        with _writable(run), Observation(run, manifest, watched) as observation:
            try:
                if as_json:
                    _print_json(run, observation)
                else:
                    notes = [note for one in watched for note in one.notes]
                    _show(run, observation, console(how["plain"]), notes, **how)
            except KeyboardInterrupt:
                observation.end()
                echo(_how_to_return(run), err=True)
                raise


@contextmanager
def _writable(run: Path) -> Iterator[None]:
    """Say in a line that a record cannot be written, also as it is completed."""
    try:
        yield
    except sqlite3.Error as error:
        raise UserError(f"{run}: the record cannot be written: {error}") from None


def _connected(servers: Sequence[str], by: By, opened: ExitStack) -> list[Watched]:
    """Connect to all servers. Raises UserError, before anything is written, if one cannot be watched."""
    watched = []
    for found in observation_plan.looked_up(observation_plan.named(servers)):
        try:
            activity = opened.enter_context(ServerActivity(found.conninfo, by))
        except MonitorError as error:
            raise UserError(f"{found.name}: {error}") from None
        if by == "query" and activity.version < QUERY_IDS:
            raise UserError(
                f"{found.name}: PostgreSQL {found.version} does not say which query a connection executes (14 or later "
                "do): use --by application or --by user"
            )
        watched.append(Watched(found, activity))
    return watched


def _made(watched: Sequence[Watched], by: By, seconds: float | None, out: Path) -> tuple[Path, Manifest]:
    manifest = observation_plan.manifest([server.found for server in watched], by, seconds)
    run = out / manifest.run
    database_path(run)  # before anything is written: SQLite cannot handle every file system's paths
    try:
        make_passable(out)
    except OSError as error:
        raise UserError(f"{out}: cannot be made: {error.strerror}; choose another folder with --out") from error
    own_folder(out)
    create_run(run, manifest.record())
    return run, manifest


def _show(
    run: Path, observation: Observation, terminal: PlainConsole, notes: Sequence[str], *, glyphs: str, **_: object
) -> None:
    if interface.wanted(terminal):
        with interface.beside(run.parent, run, glyphs=glyphs) as screen:
            while screen.poll() is None:
                if observation.ended:  # the screen stays, as long as somebody looks at it
                    screen.wait()
                else:
                    observation.watch(LEFT_S)
        observation.end()
        if screen.returncode:
            sys.exit(screen.returncode)
    else:
        for line in (f"run {run}", *notes):
            terminal.say(line)
        follow.follow(run, terminal, rest=observation.watch)
    terminal.say(_how_to_return(run))


def _print_json(run: Path, observation: Observation) -> None:
    while not observation.ended:
        observation.watch(follow.LOOK_S)
    echo_lines(follow.once(run, as_json=True))  # after the end, so that the last second is in it


def _how_to_return(run: Path) -> str:
    return f"recorded: bench watch {reference(run)} --cell 1 replays it"
