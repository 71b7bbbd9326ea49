"""The commands `bench probes`: what there is, attaching to a run under way, and what it costs here."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from engine import catalogue, control, launch, probecost, probeset
from engine.folders import default_out, find_run
from engine.options import JSON, OUT
from engine.prepare import Request


@click.group()
def probes() -> None:
    """Probes: what there is, what it costs here, and attaching to a run under way."""


@probes.command(name="list")
@OUT
@JSON
def list_probes(out: Path | None, as_json: bool) -> None:
    """What each probe answers, costs and needs, and whether it can be had here."""
    catalogue.show(catalogue.probes(out or default_out()), as_json)
    measured = probecost.known(out or default_out())
    if measured and not as_json:
        click.echo("\nmeasured on this machine (bench probes cost), probed against bare:")
        for cost in measured:
            click.echo(f"  {','.join(cost.probes):<18} {probecost.said([cost])[0]}")


@probes.command(name="on")
@click.argument("name")
@click.argument("run", required=False)
@OUT
def probe_on(name: str, run: str | None, out: Path | None) -> None:
    """Attach a probe to a running run (the newest unless named), for the rest of its cell."""
    _switch(name, run, out, on=True)


@probes.command(name="off")
@click.argument("name")
@click.argument("run", required=False)
@OUT
def probe_off(name: str, run: str | None, out: Path | None) -> None:
    """Detach a probe from a running run, for the rest of its cell."""
    _switch(name, run, out, on=False)


@probes.command()
@click.option("--probe", "wanted", default="default", show_default=True, metavar="NAME,…", help="Probes, all at once.")
@click.option("--pg", "label", default="16.3", show_default=True, metavar="LABEL", help="The build to measure with.")
@click.option("--workload", default="insert", show_default=True, help="What load to put on.")
@click.option("--steps", default="l.i1", show_default=True, metavar="STEP,…", help="Steps that are compared.")
@click.option("--pairs", type=click.IntRange(1, 1000), default=8, show_default=True, help="Cells with and without.")
@click.option("--rows", type=click.IntRange(1000), default=100_000, show_default=True, help="Rows loaded.")
@click.option("--rows-written", type=click.IntRange(1000), default=200_000, show_default=True, help="Rows of l.i1.")
@click.option("--query-seconds", type=click.IntRange(1), default=10, show_default=True, help="Length of query steps.")
@click.option("--beside", is_flag=True, help="Run although another run is measuring on this machine.")
@OUT
@JSON
def cost(wanted: str, label: str, steps: str, pairs: int, out: Path | None, as_json: bool, **options: object) -> None:
    """Measure what probes cost on this machine: cells with and without them in turn (ABBA), with intervals.

    The result is kept for this host and shown by `bench probes list`.
    """
    folder = (out or default_out()).resolve()
    console = Console(stderr=as_json, highlight=False)
    request = Request(
        builds=(label,),
        probes=tuple(wanted.split(",")),
        steps=tuple(steps.split(",")),
        repeats=pairs,
        **options,  # type: ignore[arg-type]
    )
    prospect = probecost.with_double(launch.prepare_shown(request, folder, console), pairs)
    launch.print_prospect(prospect, folder, console)
    code = launch.start(prospect, folder, console, detach=False)
    if code != 0:
        sys.exit(code)
    run, compared = prospect.manifest.run, set(request.steps)
    found = [each for each in probecost.known(folder) if each.run == run and each.step in compared]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        console.print(f"\ncost of {', '.join(prospect.manifest.observers)}, probed against bare:")
        for line in probecost.said(found):
            console.print(line, soft_wrap=True)


def _switch(name: str, run: str | None, out: Path | None, *, on: bool) -> None:
    record = {"probe": probeset.choice_of(name).name, "on": on}
    click.echo(control.ask(find_run(run, out or default_out()), record))
