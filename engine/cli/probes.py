"""The commands `bench probes`: attach them to a running run, and measure their cost here."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from engine.analysis.causes import probe_cost
from engine.cli import start
from engine.cli.options import JSON, OUT, FigureType, of_run
from engine.plan import planfile
from engine.plan.prepare import with_probed_control
from engine.report.console import PlainConsole, echo, echo_json
from engine.run import control
from engine.system.account import own_folder
from engine.tracing import selection
from workloads import workload
from workloads.api.lists import comma_list
from workloads.api.names import UnknownName
from workloads.api.options import Option, options_of

USUAL = {"steps": ["l.i1"], "rows": 100_000, "rows_written": 200_000, "query_seconds": 10}
ROWS = Option("rows", "", "int", None, least=1000)
SECONDS = Option("query_seconds", "", "int", None, least=1, unit="s")


@click.group()
def probes() -> None:
    """Measure what probes cost on this machine, and switch them during a run. `bench list probes` lists them."""


def _add_switch(word: str, action: str, on: bool) -> None:
    @probes.command(
        name=word,
        short_help=f"{action} a running run.",
        help=f"{action} a running run [default: the newest] until the end of its cell.",
    )
    @click.argument("name")
    @of_run
    def _(folder: Path, name: str) -> None:
        record = {"probe": selection.choice_of(name).name, "on": on}
        echo(control.ask(folder, record))


_add_switch("on", "Attach a probe to", on=True)
_add_switch("off", "Detach a probe from", on=False)


@probes.command(short_help="Measure what probes cost on this machine.")
@click.option("--probe", "wanted", default="default", show_default=True, metavar="NAME,…", help="Probes to measure.")
@click.option("--pg", "label", default="16.3", show_default=True, metavar="LABEL", help="Build to measure with.")
@click.option("--workload", default="insert", show_default=True, help="Workload to run.")
@click.option("--steps", metavar="STEP,…", help="Steps to compare [default: l.i1; pgbench: all].")
@click.option(
    "--pairs", type=click.IntRange(1, 1000), default=8, show_default=True, help="Pairs of cells with and without."
)
@click.option("--rows", type=FigureType(ROWS), help="Rows to load [default: 100000].")
@click.option("--rows-written", type=FigureType(ROWS), help="Rows of l.i1 [default: 200000].")
@click.option("--query-seconds", type=FigureType(SECONDS), help="Seconds per query step [default: 10].")
@click.option("--allow-concurrent", is_flag=True, help="Run even if another run is measuring on this machine.")
@OUT
@JSON
def cost(wanted: str, label: str, pairs: int, out: Path, as_json: bool, **options: Any) -> None:
    """Measure what probes cost on this machine: cells with and without them, interleaved ABBA.

    The result is kept for this host and shown by `bench list probes`.
    """
    folder = own_folder(out)
    console = PlainConsole(stderr=as_json)
    entries = {"builds": [label], "probes": comma_list(wanted), "repeats": pairs, "interleave": "cells"}
    given = {name: value for name, value in options.items() if value is not None}
    if "steps" in given:
        given["steps"] = comma_list(given["steps"])
    request = planfile.request({**entries, **_usual(options["workload"]), **given})
    prospect = with_probed_control(start.prepare_shown(request, folder, console), pairs)
    start.print_prospect(prospect, folder, console)
    code = start.start(prospect, folder, console, detach=False)
    if code != 0:
        sys.exit(code)
    run, compared = prospect.manifest.run, request.options.get("steps")
    costs = [
        measured
        for measured in probe_cost.known(folder)
        if measured.run == run and (not compared or measured.step in compared)
    ]
    if as_json:
        echo_json([asdict(measured) for measured in costs])
    else:
        console.print(f"\ncost of {', '.join(prospect.manifest.observation.observers)}, with probes against without:")
        for line in probe_cost.lines(costs):
            console.say(line)


def _usual(name: str) -> dict[str, Any]:
    """A workload's default options: if it is sized by rows, enough rows for a step to last some seconds."""
    try:
        known = {option.name for option in options_of(workload(name).options)}
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None
    return USUAL if USUAL.keys() <= known else {}
