"""Options that several commands have, and where they print."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from engine import interface

OUT = click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder that holds the runs.")
PLAIN = click.option("--plain", is_flag=True, help="Lines, as for a log, instead of the interface.")
GLYPHS = click.option(
    "--glyphs",
    type=click.Choice(interface.GLYPHS),
    default="auto",
    envvar="PGBED_GLYPHS",
    help="What the terminal interface draws with [default: braille, or ascii where the terminal has no more].",
)
JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


def console(plain: bool) -> Console:
    """Standard output; as if it were no terminal where plain lines are wanted."""
    return Console(force_terminal=False if plain else None, highlight=False)
