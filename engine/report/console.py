"""The output of commands. Nothing that is printed is taken for markup, and no character of it acts on the terminal.

Everything that `engine.cli` and `engine.report` show goes through here; a test holds them to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import IO, Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from engine.core.text import Visible, visible, visible_json, visible_lines


class PlainConsole(Console):
    """A rich console that shows plain text: no markup, no emoji codes, control characters as their escapes."""

    def __init__(
        self, *, stderr: bool = False, force_terminal: bool | None = None, file: IO[str] | None = None
    ) -> None:
        super().__init__(
            stderr=stderr, force_terminal=force_terminal, file=file, highlight=False, markup=False, emoji=False
        )

    def say(self, line: str) -> None:
        """Print a line; a terminal breaks it between words, unless it has a command, which is copied as it stands."""
        self.print(Text(visible(line)), soft_wrap=not self.is_terminal or "bench " in line)

    def render_str(self, text: str, **how: Any) -> Text:
        """Convert as rich does, but visibly: a table is then laid out for the visible text."""
        return super().render_str(visible_lines(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with each piece of text made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible_lines(segment.text))


def echo(text: str, *, err: bool = False) -> None:
    """Print a line; what standard error cannot take is lost, and nothing else."""
    with suppress(OSError) if err else nullcontext():
        click.echo(visible(text), err=err)


def echo_lines(text: Visible) -> None:
    click.echo(text.removesuffix("\n"))


def echo_json(record: Any, *, indent: int | None = 1) -> None:
    """Print a record as JSON, in ASCII without control characters."""
    echo_lines(visible_json(record, indent, allow_nan=True))


def complain(text: str) -> int:
    """Print an error as one line on stderr; return the exit code for it."""
    echo(f"bench: {text}", err=True)
    return 2
