"""The command `bench`. Every command is a thin wrapper: options in, one call, a table or JSON out."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from engine import interface
from engine.errors import UserError
from engine.folders import default_out, find_run
from engine.options import JSON, OUT, console

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
# Commands with a module of their own, which is imported when the command is: `bench watch` shows its first picture
# before the drivers and statistics that others need would have been loaded.
ELSEWHERE = {
    "run": "engine.cli_run:run",
    "list": "engine.cli_list:list_",
    "watch": "engine.cli_watch:watch",
    "resume": "engine.cli_watch:resume",
    "stop": "engine.cli_watch:stop",
    "mark": "engine.cli_watch:mark",
    "interface": "engine.cli_watch:open_interface",
    "flame": "engine.cli_flame:flame",
    "probes": "engine.cli_probes:probes",
    "tag": "engine.cli_runs:tag",
    "delete": "engine.cli_runs:delete",
}


class Bench(click.Group):
    """`bench --pg …` is `bench run --pg …`; errors meant for the user are one line and exit code 2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `run` in front of options that belong to it; without any such, a terminal gets the interface."""
        if _of_interface(args) and interface.wanted(console(False)):
            args = ["interface", *args]
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help", "--version"):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands by their names."""
        return sorted({*super().list_commands(ctx), *ELSEWHERE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command; imports its module where it has one."""
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, _, name = ELSEWHERE[cmd_name].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command and turns UserError into its line."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise click.exceptions.Exit(_complain(str(error))) from error
        except BrokenPipeError:
            sys.stderr.close()  # the reader of a pipe has gone: nothing left to say, and nowhere to say it
            raise click.exceptions.Exit(0) from None


def _of_interface(args: list[str]) -> bool:
    """Whether nothing is said of a run: at most where runs are kept, and what to draw with."""
    words = iter(args)
    for word in words:
        name, sign, _ = word.partition("=")
        if name not in ("--out", "--glyphs"):
            return False
        if not sign:
            next(words, None)
    return True


def _complain(text: str) -> int:
    click.echo(f"bench: {text}", err=True)
    return 2


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

    folders = [find_run(run, out or default_out()) for run in runs or (None,)]
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

    folder = find_run(run, out or default_out())
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
