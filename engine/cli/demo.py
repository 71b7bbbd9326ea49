"""The command `bench demo`: a packaged recording, played with a guide."""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import click

from engine.cli import interface
from engine.cli.options import FOLDER, GLYPHS, console
from engine.core.errors import UserError
from engine.journal.archive import unpack
from engine.journal.runs import reference
from engine.report.console import echo

RECORDING = "demo.tar.xz"


@click.command()
@GLYPHS
@click.option("--to", type=FOLDER, help="Only unpack the recording into this folder, for other commands.")
def demo(glyphs: str, to: Path | None) -> None:
    """Show a recorded comparison of two builds, with a guide, in about a minute. Needs no server and no run.

    All screens and keys work on the recording as on any run. Nothing is left on the disk.
    """
    packed = files("engine.cli").joinpath(RECORDING).read_bytes()
    if to is not None:
        to.mkdir(parents=True, exist_ok=True)
        run = unpack(packed, "the demo", to)
        echo(f"{run}; bench compare {reference(run)}")
        return
    if not interface.wanted(console(False)):
        raise UserError("the demo needs a terminal; `bench demo --to FOLDER` unpacks its recording for other commands")
    with tempfile.TemporaryDirectory(prefix="pgbed-demo-", ignore_cleanup_errors=True) as out:
        run = unpack(packed, "the demo", Path(out))
        sys.exit(interface.show_to_the_end(Path(out), run, screen="live", glyphs=glyphs, guide="demo"))
