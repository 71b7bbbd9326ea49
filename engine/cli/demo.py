"""The command `bench demo`: packaged recordings, played with a guide."""

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

RECORDING = "demo.tar.xz"  # two builds under one workload, which the guide begins with
PLANS = "plans.tar.xz"  # an application's statements, which two releases only planned


@click.command()
@GLYPHS
@click.option("-o", "--to", type=FOLDER, metavar="DIR", help="Only unpack the recordings into this folder.")
def demo(glyphs: str, to: Path | None) -> None:
    """Show a recorded comparison of two builds, with a guide, in about a minute. Needs no server and no run.

    A second recording has the plans of an application's statements on two releases. All screens and keys work on both
    as on any run. Nothing is left on the disk.
    """
    packed = [files("engine.cli").joinpath(name).read_bytes() for name in (RECORDING, PLANS)]
    if to is not None:
        to.mkdir(parents=True, exist_ok=True)
        for recording in packed:
            run = unpack(recording, "the demo", to)
            echo(f"{run}; bench compare {reference(run)}")
        return
    if not interface.wanted(console(False)):
        raise UserError("the demo needs a terminal; `bench demo --to FOLDER` unpacks its recordings for other commands")
    with tempfile.TemporaryDirectory(prefix="pgbed-demo-", ignore_cleanup_errors=True) as out:
        run, *_ = [unpack(recording, "the demo", Path(out)) for recording in packed]
        sys.exit(interface.show_to_the_end(Path(out), run, screen="live", glyphs=glyphs, guide="demo"))
