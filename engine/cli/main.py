"""The command `bench`. Every command is a thin wrapper: options in, one call, a table or JSON out."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from engine.cli import interface, manual, settings
from engine.cli.grouped_options import FULL, help_text, show_all
from engine.cli.options import FILE, FOLDER, OUT, RunArgument, console
from engine.core.errors import UserError
from engine.journal.runs import find_run
from engine.report.console import complain, echo, echo_lines
from workloads.names import NotRegistered
from workloads.options import options_of

if TYPE_CHECKING:
    from engine.report.gate import Judged
    from engine.results.comparison import Comparison

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # the codes of a shell
OWN_OPTIONS = ("-h", "--help", "--help-all", "--version")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
# Commands with a module of their own, imported on demand, so that `bench watch` draws its first frame without loading
# drivers and statistics. Each with its line in `bench --help`.
ELSEWHERE = {
    "run": ("engine.cli.run:run", "Run a benchmark: build, load, measure, compare."),
    "demo": ("engine.cli.demo:demo", "Show a recorded comparison, with a guide: no server needed."),
    "doctor": ("engine.cli.doctor:doctor", "Check this machine for sources of noise."),
    "list": ("engine.cli.lists:list_", "List builds, configs, workloads, kernels or runs."),
    "pin": ("engine.cli.pin:pin", "Add a release of PostgreSQL to your own builds."),
    "watch": ("engine.cli.watch:watch", "Follow a run, or replay one of its cells."),
    "resume": ("engine.cli.watch:resume", "Continue a run that was stopped or has died."),
    "stop": ("engine.cli.watch:stop", "Stop a run; `bench resume` continues it."),
    "mark": ("engine.cli.watch:mark", "Add a marker to a running run."),
    "interface": ("engine.cli.watch:open_interface", "Open the terminal interface."),
    "serve": ("engine.cli.serve:serve", "Open the terminal interface in a browser."),
    "flame": ("engine.cli.flame:flame", "Write a flame graph of sampled stacks."),
    "report": ("engine.cli.report:report", "Write a comparison as a page for the browser."),
    "probes": ("engine.cli.probes:probes", "List probes, measure their cost, switch them."),
    "tag": ("engine.cli.runs:tag", "Tag a run, or show its tags."),
    "delete": ("engine.cli.runs:delete", "Delete runs from the disk."),
    "host-kernels": ("engine.cli.host_kernels:host_kernels", "Install kernels that this machine can be booted into."),
    "ci": ("engine.cli.ci:ci", "Compare a head with its merge base, for a CI job."),
    "confirm": ("engine.cli.confirm:confirm", "Measure again what a run named slower or faster."),
    "bisect": ("engine.cli.bisect:bisect", "Find the commit that made a step slower."),
    "farm": ("engine.cli.farm:farm", "Measure a plan in blocks on Nix's remote builders."),
    "block": ("engine.cli.farm:block", ""),
    "trend": ("engine.cli.trend:trend", "Show a figure over many runs, and where it changed."),
    "completion": ("engine.cli.completion:completion", "Print a script for completion in a shell."),
    "schema": ("engine.cli.schema:schema", "Print the JSON Schema of a record."),
}


class Bench(click.Group):
    """`bench --pg …` is `bench run --pg …`; errors meant for the user are one line and exit code 2."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit: with 2 and one line on stderr for user errors, 130 on Ctrl-C, 143 on SIGTERM."""
        terminated: list[int] = []

        def terminate(number: int, _: FrameType | None) -> None:
            terminated.append(number)
            raise KeyboardInterrupt

        try:
            signal.signal(signal.SIGTERM, terminate)
            settings.apply()
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()  # while a full disk can still be reported
        except click.exceptions.NoArgsIsHelpError as error:
            code = complain(_commands_of(error.ctx))
        except click.ClickException as error:
            code = complain(_refusal(error))
        except (UserError, NotRegistered) as error:
            code = complain(str(error))
        except (KeyboardInterrupt, click.Abort):
            code = INTERRUPTED
        except SystemExit as end:
            code = end.code
        except BrokenPipeError:
            sys.stderr.close()  # the reader of the pipe has exited: nobody reads further output
            code = 0
        sys.exit(TERMINATED if terminated and code == INTERRUPTED else code or 0)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `run` before options that belong to it; without such options, open the interface on a terminal."""
        if not ctx.resilient_parsing and _of_interface(args) and interface.wanted(console(False)):
            args = ["interface", *args]
        if args and args[0].startswith("-") and args[0] not in OWN_OPTIONS:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *ELSEWHERE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if cmd_name in ELSEWHERE:
            target, short_help = ELSEWHERE[cmd_name]
            module, _, name = target.partition(":")
            command = getattr(import_module(module), name)
            command.short_help = short_help
        if command is not None:
            for own in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
                own.epilog = manual.ending(cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self._lines())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if not incomplete.startswith("-"):
            return [CompletionItem(name, help=line) for name, line in self._lines() if name.startswith(incomplete)]
        command = self.get_command(ctx, "run")
        assert command is not None
        of_run = command.shell_complete(click.Context(command, parent=ctx, info_name="run"), incomplete)
        items = {item.value: item for item in (*super().shell_complete(ctx, incomplete), *of_run)}
        return list(items.values())

    def _lines(self) -> list[tuple[str, str]]:
        lines = {name: command.short_help or "" for name, command in self.commands.items() if not command.hidden}
        lines |= {name: line for name, (_, line) in ELSEWHERE.items() if line}
        return sorted(lines.items())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """In the full help, add the environment variables, the keys of config.toml and the exit codes."""
        if FULL in ctx.meta:
            with formatter.section("Environment variables"):
                formatter.write_dl(settings.ENVIRONMENT)
            keys = options_of(settings.Settings)
            with formatter.section(f"Keys of {settings.settings_path()}"):
                formatter.write_dl([(f"{key.name} = {key.metavar}", help_text(key)) for key in keys])
            with formatter.section("Exit codes"):
                formatter.write_dl(manual.EXIT_CODES)
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. An OSError about a file is a user error, except in the engine."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename is None or ctx.invoked_subcommand == "engine":
                raise
            raise UserError(f"{error.filename}: {error.strerror}") from error


def _commands_of(ctx: click.Context | None) -> str:
    if ctx is None or not isinstance(ctx.command, click.Group):
        return "no command given; see bench --help"
    commands = ((name, ctx.command.get_command(ctx, name)) for name in ctx.command.list_commands(ctx))
    names = ", ".join(name for name, command in commands if command is not None and not command.hidden)
    why = " (the interface needs a terminal)" if ctx.parent is None else ""
    return f"no command given{why}; choose one of {names}; see {ctx.command_path} --help"


def _refusal(error: click.ClickException) -> str:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "bench"
    message = error.format_message().rstrip(".")
    return f"{message}{' See' if message.endswith('?') else '; see'} {command} --help"


def _of_interface(args: list[str]) -> bool:
    words = iter(args)
    for word in words:
        name, sign, _ = word.partition("=")
        if name not in ("--out", "--glyphs"):
            return False
        if not sign:
            next(words, None)
    return True


def _steps(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from engine.cli import completion  # loads all workloads

    return completion.steps(ctx, param, incomplete)


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from engine.cli.version import version_line  # looked up only now: that takes longer than some commands

        echo(version_line())
        ctx.exit()


@click.group(cls=Bench, context_settings=CONTEXT, epilog="Manual: docs/index.md")
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print version, revision and package set.",
)
@click.option(
    "--help-all", is_flag=True, expose_value=False, is_eager=True, callback=show_all,
    help="Show this, environment variables, settings and exit codes.",
)  # fmt: skip
def main() -> None:
    """Does this PostgreSQL release, patch, setting or kernel change performance? By how much, how surely, and why?

    \b
    bench --pg 16.3,18.6                 compare two releases: about ten minutes
    bench --pg 16.3 --config cx5,cx7     compare two configs on one build
    bench compare RUN                    show the results of a run again
    bench list builds                    list the builds that can be compared

    Options without a command belong to `bench run`. Each run is kept in a folder of its own below --out
    and never overwritten.
    """


@main.command(short_help="Compare the builds or configs of a run.")
@click.argument("runs", nargs=-1, type=RunArgument(), metavar="[RUN]…")
@OUT
@click.option("--base", metavar="LABEL", help="Compare with this build or config instead of the run's base.")
@click.option("--json", "form", flag_value="json", help="Print JSON; its keys are stable.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV: one line per step, subject and metric.")
@click.option("--md", "form", flag_value="md", help="Print Markdown tables.")
@click.option("--published", is_flag=True, help="Add the columns of published Insert Benchmark reports.")
@click.option(
    "--slices",
    metavar="STEP",
    shell_complete=_steps,
    help="Show the blocks of a sliced step, pair by pair.",
)
@click.option("--plan", metavar="STATEMENT", help="Show a statement's plans of both builds side by side.")
@click.option("--gate", is_flag=True, help="Exit with 1 if a build is slower by more than tolerated, or failed.")
@click.option("--tolerate", metavar="[STEP=]PERCENT,…", help="With --gate: slow-down to accept [default: the plan's].")
@click.option("--junit", type=FILE, help="With --gate: write the result to this file as JUnit XML.")
def compare(
    runs: tuple[str, ...],
    out: Path,
    base: str | None,
    form: str | None,
    published: bool,
    slices: str | None,
    plan: str | None,
    gate: bool,
    tolerate: str | None,
    junit: Path | None,
) -> None:
    """Compare the builds or configs of a run: ratios, confidence intervals and verdicts.

    RUN is a run's name or folder [default: the newest]. Several runs are compared as one.

    \b
    Exit codes with --gate:
      0  no build is slower by more than tolerated
      1  a step is slower by more, missed its SLA or did nothing, or cells failed or are missing
      2  otherwise, but for some build there is no result; or the command failed
    """
    from engine.analysis.compare import compare as compare_runs
    from engine.report import render  # loads the statistics, which take most of a second

    folders = [find_run(run, out) for run in runs or (None,)]
    chosen = {"--published": published, "--slices": slices is not None, "--plan": plan is not None, "--gate": gate}
    excluded = [flag for flag, given in chosen.items() if given]
    if len(excluded) > 1 and excluded != ["--published", "--gate"]:
        raise UserError(f"{' and '.join(excluded)}: choose one")
    if not gate and (junit or tolerate is not None):
        raise UserError(f"{'--junit' if junit else '--tolerate'} goes with --gate")
    if slices is not None:
        _show_slices(folders, slices, base, form)
        return
    if plan is not None:
        _show_plan(folders, plan, base, form)
        return
    comparison = compare_runs(folders, base)
    if published and comparison.design != "cells":
        raise UserError(
            f"--published: {', '.join(comparison.runs)} was measured in {comparison.design}; published figures are "
            "those of a server alone on its machine: run with --interleave cells to compare with them"
        )
    if published and any(build.external for build in comparison.builds):
        raise UserError("--published: figures of external servers cannot be compared with published ones")
    judged = _gate(comparison, folders, tolerate, junit) if gate else None
    if form == "json":
        echo_lines(render.to_json(comparison))
    elif form == "csv":
        echo_lines(render.to_csv(comparison))
    elif form == "md":
        echo_lines(render.to_markdown(comparison, published=published))
    else:
        render.print_comparison(comparison, console(False), published=published)
    if judged is not None:
        from engine.report.gate import failed, sentence

        echo(sentence(judged), err=True)
        if failed(judged):
            sys.exit(1)


def _gate(comparison: Comparison, folders: list[Path], tolerate: str | None, junit: Path | None) -> tuple[Judged, ...]:
    from engine.host import disk
    from engine.journal.manifest import read_manifest
    from engine.plan.tolerance import strictest, tolerances
    from engine.report import gate

    manifests = [read_manifest(run) for run in folders]
    plan = gate.plan_of(manifests)
    given = [text for text in (tolerate or "").split(",") if text]
    tolerated = tolerances(given, plan.steps) or strictest([manifest.tolerated for manifest in manifests])
    judged = gate.judge(comparison, tolerated, plan)
    if junit:
        try:
            disk.write_text(junit, gate.to_junit(comparison, judged))
        except OSError as error:
            raise UserError(f"{junit}: cannot write the result: {error.strerror}") from None
    unknown = gate.unknown(judged)
    if not gate.failed(judged) and (unknown or not judged):
        of = f" of {', '.join(dict.fromkeys(each.subject for each in unknown))}" if unknown else ""
        why = "; ".join(cell.text for cell in comparison.left_out[:3]) or "see bench compare without --gate"
        raise UserError(f"gate: nothing is known of any step{of}, so nothing has passed: {why}")
    return judged


def _show_plan(folders: list[Path], statement: str, base: str | None, form: str | None) -> None:
    from engine.analysis.compare import compared_cells
    from engine.analysis.statement_plans import side_by_side
    from engine.report import render

    if form == "csv":
        raise UserError("--csv: plans are printed as text, --md or --json")
    cells = compared_cells(folders, base)
    changes, baseline = side_by_side(cells, statement), cells.names[cells.base]
    if form == "json":
        echo_lines(render.plans_to_json(changes))
    elif form == "md":
        echo_lines(render.plans_to_markdown(changes, baseline))
    else:
        render.print_plans(changes, baseline, console(False))


def _show_slices(folders: list[Path], step: str, base: str | None, form: str | None) -> None:
    from engine.analysis.step_slices import sliced_step
    from engine.report import render
    from engine.report import sliced_step as sliced

    step_result = sliced_step(folders, step, base)
    if form == "json":
        echo_lines(sliced.to_json(step_result))
    elif form == "csv":
        echo_lines(sliced.to_csv(step_result))
    elif form == "md":
        echo_lines(render.slices_to_markdown(step_result))
    else:
        render.print_slices(step_result, console(False))


@main.command(short_help="Write runs as CSV or Parquet files.")
@click.argument("runs", nargs=-1, type=RunArgument(), metavar="[RUN]…")
@OUT
@click.option(
    "--to",
    type=FOLDER,
    help="Folder to write [default: RUN-export in the current one, with --parquet pgbed-parquet]. CSV wants a new or "
    "empty one; Parquet files are added to existing ones.",
)
@click.option("--parquet", is_flag=True, help="Write tables for SQL over many runs.")
def export(runs: tuple[str, ...], out: Path, to: Path | None, parquet: bool) -> None:
    """Write a run as CSV files, and its intervals as the reference client prints them.

    RUN is a run's name or folder [default: the newest]. With --parquet there may be several: a folder for each table
    (cells, steps, roles, seconds, stalls, frames), a file in it for each run.
    """
    folders = [find_run(run, out) for run in runs or (None,)]
    if parquet:
        from engine.report import parquet as tables

        to = (to or Path("pgbed-parquet")).absolute()
        echo(f"{len(tables.export(folders, to))} files in {to.resolve()}")
        return
    if len(folders) > 1:
        raise UserError("as CSV one run is written at a time; name one of them, or add --parquet")
    from engine.report.export import export as export_run

    to = (to or Path(f"{folders[0].resolve().name}-export")).absolute()
    echo(f"{len(export_run(folders[0], to))} files in {to.resolve()}")


@main.command(hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--booted", is_flag=True, help="Go on after a boot into a cell's kernel.")
def engine(folder: Path, booted: bool) -> None:
    """The engine itself, headless: started by `run` and `resume`, and after every boot if each cell has its own."""
    from engine.core.record import converted, parsed
    from engine.journal.manifest import read_manifest
    from engine.run.engine import execute
    from engine.run.reboot import go_on

    text = sys.stdin.buffer.read()  # connection strings, which may hold passwords: they are nowhere else
    connections = converted(parsed(text, "stdin"), dict[str, str], "stdin") if text else None
    rebooting = read_manifest(folder).rebooting
    outcome = go_on(folder, booted=booted) if rebooting else execute(folder, connections)
    sys.exit(INTERRUPTED if outcome.interrupted else 1 if outcome.failed else 0)
