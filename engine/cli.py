"""The command `bench`. Every command is a thin wrapper: options in, one call, a table or JSON out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from engine import catalogue, interface, launch, planfile
from engine.cli_flame import flame
from engine.cli_plan import PLAN, list_choices, list_kernels
from engine.cli_probes import probes
from engine.cli_runs import delete, tag
from engine.cli_watch import mark, open_interface, resume, stop, watch
from engine.errors import UserError
from engine.options import GLYPHS, JSON, OUT, PLAIN, console
from engine.prepare import Request, default_out, estimate, with_knobs
from workloads.insert.knobs import Knobs
from workloads.limiter import LIMITERS

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Bench(click.Group):
    """`bench --pg …` is `bench run --pg …`; errors meant for the user are one line and exit code 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `run` in front of options that belong to it; without any, a terminal gets the interface."""
        if not args and interface.wanted(console(False)):
            args = ["interface"]
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command and turns UserError into its line."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise click.exceptions.Exit(_complain(str(error))) from error
        except BrokenPipeError:
            sys.stderr.close()  # the reader of a pipe has gone: nothing left to say, and nowhere to say it
            raise click.exceptions.Exit(0) from None


def _complain(text: str) -> int:
    click.echo(f"bench: {text}", err=True)
    return 2


def _names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else ()


@click.group(cls=Bench, context_settings=CONTEXT)
@click.version_option(package_name="pgbed", prog_name="bench")
def main() -> None:
    """Did this PostgreSQL release, patch, setting or kernel make it slower, by how much, how sure, and why?

    \b
    bench --pg 16.3,17beta1              compare two releases: a quick run, about ten minutes
    bench --pg 16.3 --config cx5,cx7     compare two configs on one build
    bench compare RUN                    the verdicts of a run, again
    bench list builds                    what can be compared

    Run results stay in a folder of their own (see --out) and are never overwritten.
    """


@main.command()
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
    "Dearer ones by name, or NAME:window (10 s of 60), NAME:budget (where cheap); see bench probes list.",
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


@main.command()
@click.argument("runs", nargs=-1, metavar="[RUN]…")
@OUT
@click.option("--base", metavar="LABEL", help="Compare with this build or config instead.")
@click.option("--json", "form", flag_value="json", help="The stable JSON form.")
@click.option("--csv", "form", flag_value="csv", help="One line per cell and step.")
@click.option("--md", "form", flag_value="md", help="Markdown tables.")
@click.option("--published", is_flag=True, help="Also the columns of the benchmark's published reports.")
def compare(runs: tuple[str, ...], out: Path | None, base: str | None, form: str | None, published: bool) -> None:
    """Ratios, intervals and verdicts of one run (the newest unless named) or several."""
    from engine import report  # loads the statistics, which take most of a second
    from engine.compare import compare as compare_runs

    folders = [catalogue.find_run(run, out or default_out()) for run in runs or (None,)]
    comparison = compare_runs(folders, base)
    if form == "json":
        click.echo(report.to_json(comparison))
    elif form == "csv":
        click.echo(report.to_csv(comparison), nl=False)
    elif form == "md":
        click.echo(report.to_markdown(comparison, published=published))
    else:
        report.print_comparison(comparison, console(False), published=published)


@main.command()
@click.argument("run", required=False)
@OUT
@click.option("--to", type=click.Path(path_type=Path), help="Folder to write [default: RUN-export, here].")
def export(run: str | None, out: Path | None, to: Path | None) -> None:
    """Write a run as CSV files, with the interval lines of the reference client."""
    from engine.export import export as export_run

    folder = catalogue.find_run(run, out or default_out())
    to = to or Path(f"{folder.name}-export")
    written = export_run(folder, to)
    click.echo(f"{len(written)} files in {to}")


@main.command()
@OUT
@click.option("--probes", is_flag=True, help="Instead: all that keeps probes from running here.")
@JSON
def doctor(out: Path | None, probes: bool, as_json: bool) -> None:
    """What of this machine would spoil a measurement, why, and what to do about it."""
    from engine import doctor as checks

    found = checks.of_probes() if probes else checks.report(out or default_out())
    if as_json:
        click.echo(json.dumps(checks.as_json(found), indent=1))
    else:
        checks.render(found, console(False))
    sys.exit(1 if checks.failed(found) else 0)


@main.command(hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
def engine(folder: Path) -> None:
    """The engine itself, headless; started by `run` and `resume`."""
    from engine.run import execute

    outcome = execute(folder)
    sys.exit(130 if outcome.interrupted else 1 if outcome.failed else 0)


@main.group(name="list")
def list_() -> None:
    """Show what there is: builds, configs, workloads, runs."""


@list_.command(name="builds")
@JSON
def list_builds(as_json: bool) -> None:
    """Builds that --pg can name."""
    catalogue.show(catalogue.builds(), as_json)


@list_.command(name="configs")
@JSON
def list_configs(as_json: bool) -> None:
    """Settings overlays that --config can name."""
    catalogue.show(catalogue.configs(), as_json)


@list_.command(name="workloads")
@JSON
def list_workloads(as_json: bool) -> None:
    """Workloads with their generations, scales and steps."""
    catalogue.show(catalogue.workloads(), as_json)


@list_.command(name="runs")
@OUT
@JSON
def list_runs(out: Path | None, as_json: bool) -> None:
    """Runs in the output folder, newest first."""
    catalogue.show(catalogue.runs(out or default_out()), as_json)


list_.add_command(list_choices)
list_.add_command(list_kernels)
for command in (watch, resume, stop, mark, open_interface, flame, probes, tag, delete):
    main.add_command(command)
