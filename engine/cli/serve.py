"""The command `bench serve`: the terminal interface in a browser."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import click

from engine.cli import interface
from engine.cli.options import FILE, GLYPHS, OUT, RunArgument
from engine.core.errors import UserError
from engine.core.route import MOST_PORT
from engine.host.files import open_plain
from engine.journal.runs import find_run, runs_in

TOKEN = "PGBED_SERVE_TOKEN"
LEAST_TOKEN = re.compile(r"[A-Za-z0-9._~-]{16,256}")  # long enough not to be guessed, and valid in a URL


class Port(click.ParamType[int]):
    name = "integer range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not re.fullmatch(r"\d{1,5}", str(value), re.ASCII) or int(value) > MOST_PORT:
            self.fail(f"{value} is not a port: give a number from 1 to {MOST_PORT}, or 0", param, ctx)
        return int(value)


@click.command()
@click.argument("run", required=False, type=RunArgument())
@OUT
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option("--port", type=Port(), default=8000, show_default=True, help="Port to listen on; 0: any free one.")
@click.option("--token-file", type=FILE, help="File with the token; only you may be able to read it.")
@GLYPHS
def serve(run: str | None, out: Path, host: str, port: int, token_file: Path | None, glyphs: str) -> None:
    """Open the interface in a browser: RUN in the screen Live; without it the screen Launch.

    Prints the address to open, with a token: a new one, or that of --token-file or of the environment variable
    PGBED_SERVE_TOKEN. Without the token, nothing is shown. Anyone who has it can do what you can do with bench: start
    runs and stop them.

    Listens on this machine only, unless --host says otherwise. The connection is not encrypted: over a network, use
    `ssh -L 8000:localhost:8000 HOST`.
    """
    out = out.resolve()
    folder = find_run(run, out) if run is not None else next(iter(runs_in(out)), None)
    token = os.environ.pop(TOKEN, "")
    if token_file is not None:
        token = _token_of(token_file)
    elif token and not LEAST_TOKEN.fullmatch(token):
        raise _unfit(TOKEN)
    if token:
        os.environ[TOKEN] = token
    screen = "live" if run is not None else "launch"
    glyphs = "braille" if glyphs == "auto" else glyphs  # the terminal is the browser's, not this one
    out = folder.parent if run is not None and folder is not None else out
    interface.become(out, folder, module="tui.browser", screen=screen, glyphs=glyphs, host=host, port=str(port))


def _token_of(file: Path) -> str:
    """Read the token from a file. Raises UserError if others can read the file, or the token is invalid."""
    try:
        with os.fdopen(open_plain(file, follow=True)) as opened:
            status = os.fstat(opened.fileno())
            token = opened.read(1000).strip()
    except UnicodeDecodeError:
        raise _unfit(str(file)) from None
    except OSError as error:
        raise UserError(f"--token-file {file}: cannot be read: {error.strerror}") from None
    if status.st_uid not in (0, os.geteuid()):
        raise UserError(f"--token-file {file}: belongs to somebody else, who could know it")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UserError(f"--token-file {file}: others can read or write it: chmod 600 it")
    if not LEAST_TOKEN.fullmatch(token):
        raise _unfit(str(file))
    return token


def _unfit(where: str) -> UserError:
    return UserError(f"{where}: the token must be 16 to 256 letters, digits or - . _ ~")
