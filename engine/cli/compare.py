"""`bench compare`: a run's results, or several runs' as one; with --gate a verdict for CI."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from engine.cli.options import FILE, OUT, RunArgument, console
from engine.core.errors import UserError
from engine.journal.runs import find_run, reference
from engine.report.console import echo, echo_lines
from workloads.api.lists import comma_list

if TYPE_CHECKING:
    from engine.report.gate import GatedStep
    from engine.results.comparison import Comparison


def _steps(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from engine.cli import completion  # loads all workloads

    return completion.steps(ctx, param, incomplete)


@click.command()
@click.argument("runs", nargs=-1, type=RunArgument(), metavar="[RUN]…")
@OUT
@click.option("--base", metavar="LABEL", help="Compare with this build or config instead of the run's base.")
@click.option("--json", "form", flag_value="json", help="Print JSON; its keys are stable.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV: one line per step, subject and metric.")
@click.option("--md", "form", flag_value="md", help="Print Markdown tables.")
@click.option("--all", "everything", is_flag=True, help="Print all tables and notes, not the verdicts alone.")
@click.option("--published", is_flag=True, help="Add the columns of published Insert Benchmark reports.")
@click.option("--slices", metavar="STEP", shell_complete=_steps, help="Show the blocks of a sliced step, pair by pair.")
@click.option("--plan", metavar="STATEMENT", help="Show a statement's plans of both builds side by side.")
@click.option("--gate", is_flag=True, help="Exit with 1 if a build is slower by more than tolerated, or failed.")
@click.option("--tolerate", metavar="[STEP=]PERCENT,…", help="With --gate: slow-down to accept [default: the plan's].")
@click.option("--junit", type=FILE, help="With --gate: write the result to this file as JUnit XML.")
def compare(
    runs: tuple[str, ...],
    out: Path,
    base: str | None,
    form: str | None,
    everything: bool,
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
      1  a step is slower by more, or its response times are; it missed its SLA
         or did nothing; or cells failed or are missing
      2  the command failed
      3  nothing is worse, but every step of some build is undecided or withheld
    """
    from engine.analysis.answer.compare import compare as compare_runs
    from engine.report import render  # loads the statistics, which take most of a second

    folders = [find_run(run, out) for run in runs or (None,)]
    chosen = {"--published": published, "--slices": slices is not None, "--plan": plan is not None, "--gate": gate}
    excluded = [flag for flag, given in chosen.items() if given]
    if len(excluded) > 1 and excluded != ["--published", "--gate"]:
        raise UserError(f"{' and '.join(excluded)}: choose one")
    if not gate and (junit or tolerate is not None):
        raise UserError(f"{'--junit' if junit else '--tolerate'} needs --gate")
    if everything and (form or slices is not None or plan is not None):
        raise UserError("--all is for the text of a comparison: nothing else is shortened")
    if form == "csv" and (slices is not None or plan is not None):
        raise UserError("--csv: slices and plans are printed as text, --md or --json")
    if slices is not None:
        _show_slices(folders, slices, base, form)
        return
    if plan is not None:
        _show_plan(folders, plan, base, form)
        return
    comparison = compare_runs(folders, base)
    if published and (design := comparison.measured.design) != "cells":
        raise UserError(
            f"--published: {', '.join(comparison.runs)} was measured in {design}; published figures are "
            "of a server alone on its machine: run with --interleave cells to compare with them"
        )
    if published and any(build.external for build in comparison.measured.builds):
        raise UserError("--published: figures of external servers cannot be compared with published ones")
    judged = _gate(comparison, folders, tolerate, junit) if gate else None
    if form == "json":
        echo_lines(render.to_json(comparison))
    elif form == "csv":
        echo_lines(render.to_csv(comparison))
    elif form == "md":
        echo_lines(render.to_markdown(comparison, published=published))
    else:
        given = [
            *map(reference, folders),
            *(["--base", shlex.quote(base)] if base else []),
            *["--published"] * published,
        ]
        rest = "" if everything else " ".join(("bench compare", *given, "--all"))
        render.print_comparison(comparison, console(False), published=published, rest=rest)
    if judged is not None:
        from engine.report.gate import exit_code, sentence

        echo(sentence(judged), err=True)
        sys.exit(exit_code(judged))


def _gate(
    comparison: Comparison, folders: list[Path], tolerate: str | None, junit: Path | None
) -> tuple[GatedStep, ...]:
    from engine.host import disk
    from engine.journal.manifest import read_manifest
    from engine.plan.tolerance import strictest, tolerances
    from engine.report import gate

    manifests = [read_manifest(run) for run in folders]
    plan = gate.plan_of(manifests)
    given = comma_list(tolerate or "")
    tolerated = tolerances(given, plan.steps) or strictest([manifest.design.tolerated for manifest in manifests])
    judged = gate.judge(comparison, tolerated, plan)
    if not judged:
        raise UserError("gate: there is nothing to compare with the base")
    if junit:
        try:
            disk.write_text(junit, gate.to_junit(comparison, judged))
        except OSError as error:
            raise UserError(f"{junit}: cannot write the result: {error.strerror}") from None
    return judged


def _show_plan(folders: list[Path], statement: str, base: str | None, form: str | None) -> None:
    from engine.analysis.answer.compare import compared_cells
    from engine.analysis.causes.statement_plans import side_by_side
    from engine.report import render

    cells = compared_cells(folders, base)
    plans = side_by_side(cells, statement)
    if form == "json":
        echo_lines(render.plans_to_json(plans))
    elif form == "md":
        echo_lines(render.plans_to_markdown(plans))
    else:
        render.print_plans(plans, console(False))


def _show_slices(folders: list[Path], step: str, base: str | None, form: str | None) -> None:
    from engine.analysis.answer.step_slices import sliced_step
    from engine.report import render
    from engine.report import sliced_step as sliced

    step_result = sliced_step(folders, step, base)
    if form == "json":
        echo_lines(sliced.to_json(step_result))
    elif form == "md":
        echo_lines(render.slices_to_markdown(step_result))
    else:
        render.print_slices(step_result, console(False))
