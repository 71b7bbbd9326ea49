"""Arguments and options of several commands, checked before the command starts, and their console."""

from __future__ import annotations

import math
import os
import shlex
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from engine.cli import interface
from engine.cli.grouped_options import option
from engine.core.errors import UserError
from engine.journal.runs import default_out, find_run, runs_in
from engine.report.console import PlainConsole
from workloads.api.options import Option

UNWRITABLE = ("Cc", "Cs")  # categories of Unicode: control characters, and bytes that are not UTF-8


class PathArgument(click.Path):
    """A path that can be accessed, whether or not it exists; refuses bad names early."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        self.check(os.fspath(value), param, ctx)
        return super().convert(value, param, ctx)

    def check(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> None:
        if not value:
            self.fail("must not be empty", param, ctx)
        if value.endswith(".html") and not self.file_okay:
            self.fail(f"'{value}': runs are in a folder; a page is written with --to", param, ctx)
        try:
            Path(value).stat()
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            self.fail(f"'{value}': {getattr(error, 'strerror', error)}", param, ctx)


class RunArgument(PathArgument):
    """A run: its folder, or its name in the output folder, or the start or end of that name."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        self.check(value, param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of runs, newest first, without those that a shell would act on; else folders."""
        out = ctx.params.get("out") or default_out()
        with suppress(OSError):
            names = [run.name for run in runs_in(out) if run.name.startswith(incomplete)]
            if plain := [name for name in names if shlex.quote(name) == name]:
                return [CompletionItem(name) for name in plain]
        return super().shell_complete(ctx, param, incomplete)


class Fraction(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


class FigureType(click.ParamType[int | float]):
    """A number with a unit or suffix, within an option's bounds: 400k, 20M, 90s, 2%."""

    def __init__(self, option: Option) -> None:
        self.name = "number"
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = self._option.parsed(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if number is None:
            self.fail(f"must be {self._option.words}", param, ctx)
        if refusal := self._option.refusal(number):
            self.fail(refusal, param, ctx)
        return number


def _out(folder: Path) -> Path:
    """The folder, unless servers' settings and records cannot hold its path. Raises UserError."""
    for path in (str(folder.absolute()), os.path.realpath(folder)):
        if any(unicodedata.category(char) in UNWRITABLE for char in path):
            raise UserError(
                f"--out {path}: no run can be kept where a path has line breaks, other control characters or bytes "
                "that are not UTF-8; choose another folder"
            )
    return folder


FOLDER = PathArgument(file_okay=False)
FILE = PathArgument(dir_okay=False)
OUT = option(
    "--out",
    type=FOLDER,
    metavar="DIR",
    brief="Folder that holds the runs.",
    callback=lambda _, __, out: _out(out or default_out()),
    help="Folder that holds the runs "
    "[default: $PGBED_OUT, else /var/tmp/pgbed for root, ~/.local/state/pgbed for other users].",
)
PLAIN = option(
    "--plain",
    is_flag=True,
    help="Print lines, as for a log, instead of opening the interface.",
    brief="Print lines instead of opening the interface.",
)
GLYPHS = option(
    "--glyphs",
    type=click.Choice(interface.GLYPHS),
    default="auto",
    envvar="PGBED_GLYPHS",
    help="Characters to draw charts with [default: the finest that the terminal supports].",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def of_run(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument RUN and the option --out to a command, which receives the run's folder."""

    @click.argument("run", required=False, type=RunArgument())
    @OUT
    @wraps(command)
    def on_folder(run: str | None, out: Path, **values: Any) -> None:
        command(find_run(run, out), **values)

    return on_folder


def console(plain: bool) -> PlainConsole:
    return PlainConsole(force_terminal=False if plain else None)


def agree(question: str, yes: bool) -> None:
    """Ask before changing the machine. Raises UserError if the answer is no, or without a terminal."""
    if not yes and not sys.stdin.isatty():
        raise UserError("not a terminal: add --yes to confirm; nothing was done")
    if not yes and not click.confirm(question, err=True):
        raise UserError("nothing was done")
