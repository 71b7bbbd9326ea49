"""The command `bench run`, which is also `bench --pg …`: a plan in, a run started."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.console import Console

from engine import launch, planfile
from engine.cli_plan import PLAN
from engine.folders import default_out
from engine.options import GLYPHS, OUT, PLAIN, console
from engine.prepare import Request, estimate, with_knobs
from workloads.insert.knobs import Knobs
from workloads.limiter import LIMITERS


def _names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else ()


@click.command()
@PLAN
@click.option(
    "--pg",
    "builds",
    callback=_names,
    metavar="LABEL,…",
    help="Builds to compare, the base first. NAME=/path is an install of your own.",
)
@click.option("--workload", default="insert", show_default=True, help="What load to put on.")
@click.option("--generation", default="g24b", show_default=True, help="Insert Benchmark generation: g24b, g24a, g22.")
@click.option("--scale", help="quick (default), cached, io: named sizes.")
@click.option("--rows", type=click.IntRange(1000), metavar="N", help="Rows loaded per client, instead of a scale.")
@click.option(
    "--rows-written", type=click.IntRange(1000), metavar="N", help="Rows of l.i1 and l.i2 together, per client."
)
@click.option("--query-seconds", type=click.IntRange(1), metavar="S", help="Nominal length of each query step.")
@click.option("--steps", callback=_names, metavar="STEP,…", help="Only these steps, e.g. l.i0,l.x,l.i1.")
@click.option("--preset", metavar="NAME", help="A named plan instead: planner-delete (see bench list workloads).")
@click.option(
    "--clients",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Clients, each with a table of its own.",
)
@click.option(
    "--config",
    "configs",
    callback=_names,
    default="auto",
    show_default=True,
    metavar="NAME|FILE,…",
    help="Settings overlays to compare under.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="NAME=VALUE", help="One more setting, on top of every config."
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    metavar="N",
    help="Cells per build, interleaved ABBA. A verdict needs 3, better 5.",
)
@click.option("--base", metavar="LABEL", help="What others are compared with [default: the first of --pg].")
@click.option("--aa", is_flag=True, help="Run the base against itself too: the noise floor.")
@click.option(
    "--margin",
    type=click.FloatRange(0.001, 0.5),
    default=0.02,
    show_default=True,
    help="The smallest effect that is called one.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the data; the same for all builds."
)
@click.option(
    "--limiter",
    type=click.Choice(tuple(LIMITERS)),
    default="reference",
    show_default=True,
    help="Rate limiter of query steps.",
)
@click.option(
    "--inserts",
    type=click.Choice(("simple", "prepared")),
    default="simple",
    show_default=True,
    help="Insert statements.",
)
@click.option(
    "--queries", type=click.Choice(("prepared", "simple")), default="prepared", show_default=True, help="Queries."
)
@click.option(
    "--deletes",
    type=click.Choice(("generation", "range", "subselect")),
    default="generation",
    show_default=True,
    help="Delete form: the generation's own, or one of the two by name.",
)
@click.option(
    "--knob", "knobs", multiple=True, metavar="NAME=VALUE", help="Another knob of the workload, e.g. query_workers=2."
)
@click.option(
    "--placement",
    type=click.Choice(("free", "paired")),
    default="free",
    show_default=True,
    help="paired binds client and backend to one CPU: less noise, no scheduling.",
)
@click.option(
    "--probes",
    callback=_names,
    metavar="NAME,…|default|none",
    help="Probes to attach [default: none, or the preset's]. default: sched and stacks, where the machine has them. "
    "Dearer ones by name, or NAME:window (10 s of 60), NAME:stalls (around stalls), NAME:budget (where cheap); "
    "see bench probes list.",
)
@click.option(
    "--probe-budget",
    type=click.FloatRange(0, 100),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="The most that a probe in mode budget may be estimated to cost.",
)
@click.option("--allow-slow-probes", is_flag=True, help="Attach even where each hit costs 10 us.")
@OUT
@click.option("--keep", is_flag=True, help="Keep every cell's cluster instead of removing it.")
@click.option("--beside", is_flag=True, help="Run although another run is measuring on this machine.")
@click.option("--dry-run", is_flag=True, help="Print the cells with estimated time and space, and stop.")
@click.option("--estimate", is_flag=True, help="Only how many cells, time and space, as JSON; build nothing.")
@PLAIN
@GLYPHS
@click.option("--detach", is_flag=True, help="Start the engine, print the run's folder, and leave.")
@click.option("--json", "as_json", is_flag=True, help="The plan as JSON, and with --detach the run's folder.")
def run(**options: Any) -> None:
    """Build the servers, load them in turn, and say which is slower."""
    out = (options.pop("out") or default_out()).resolve()
    dry_run, only_estimate, plain, detach, as_json, glyphs = (
        options.pop(name) for name in ("dry_run", "estimate", "plain", "detach", "as_json", "glyphs")
    )
    knobs = Knobs(
        limiter=options.pop("limiter"),
        insert_protocol=options.pop("inserts"),
        query_protocol=options.pop("queries"),
        delete_form=options.pop("deletes").replace("generation", ""),
        placement=options.pop("placement"),
    )
    knobs = with_knobs(knobs, options.pop("knobs"))
    request = Request(**options, knobs=knobs)
    if only_estimate:
        found = estimate(request, out)
        click.echo(json.dumps({**found.record(), "plan": planfile.record(request)}, indent=1))
        return
    told = Console(stderr=True, force_terminal=False, highlight=False) if as_json else console(plain)
    prospect = launch.prepare_shown(request, out, told)
    if not as_json:
        launch.print_prospect(prospect, out, told)
    elif dry_run or not detach:
        click.echo(json.dumps(prospect.record(), indent=1))
    if not dry_run:
        code = launch.start(prospect, out, told, detach=detach, glyphs=glyphs)
        if as_json and detach:
            click.echo(json.dumps({"folder": str(out / prospect.manifest.run), **prospect.record()}, indent=1))
        sys.exit(code)
