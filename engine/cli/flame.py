"""The command `bench flame`: stacks as a page for the browser."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from engine.cli.options import FILE, OUT, RunArgument
from engine.core.errors import UserError
from engine.host import disk
from engine.journal.runs import find_cell, find_run
from engine.report.console import echo, echo_json
from engine.results.flame import FunctionChange


@click.command()
@click.argument("run", required=False, type=RunArgument())
@OUT
@click.option("--step", metavar="STEP", help="Step to show [default: with --diff LABEL the slowest, else the busiest].")
@click.option("--role", metavar="ROLE", help="Role to show, e.g. delete [default: the one with most samples].")
@click.option("--pg", "label", metavar="LABEL", help="Build, or LABEL/CONFIG [default: the run's base].")
@click.option(
    "--diff",
    "other",
    type=RunArgument(),
    metavar="RUN2|LABEL",
    help="Colour by the change to another run, or to another build of this run.",
)
@click.option(
    "--cell", metavar="CELL", help="Only the samples of this cell, by its id or number [default: all repeats]."
)
@click.option("--offcpu", is_flag=True, help="Show the time off the CPU by its stacks, instead of samples on it.")
@click.option("--json", "as_json", is_flag=True, help="Print the stacks as JSON instead of writing a page.")
@click.option("-o", "--to", type=FILE, help="File to write [default: RUN-STEP-ROLE.html in the current folder].")
def flame(
    run: str | None,
    out: Path,
    step: str | None,
    role: str | None,
    label: str | None,
    other: str | None,
    cell: str | None,
    offcpu: bool,
    as_json: bool,
    to: Path | None,
) -> None:
    """Write a flame graph of the stacks that the probe `stacks` sampled, as one HTML file.

    With --offcpu, the graph shows the time that server processes spent off the CPU, from the probe `offcpu`: waiting
    for a CPU, for a lock or for a disk. Waits for clients are left out.

    RUN is a run's name or folder [default: the newest]. With --diff, frames are coloured by how much they changed.
    The page needs no network. In the terminal, `f` on the screens Compare and Probes shows the same.
    """
    from engine.report import flame as graphs  # reads results, which loads more than the other commands need

    if cell is not None and (label is not None or other is not None):
        raise UserError("--cell is one cell of one build: give it without --pg and --diff")
    if as_json and to is not None:
        raise UserError("--json prints, --to names a file for the page; give one")
    folder = find_run(run, out)
    one = find_cell(folder, cell) if cell is not None else None
    subject = graphs.subject_of(folder, label) if one is None else graphs.subject_of_cell(folder, one)
    inside = other is not None and other in graphs.labels(folder)
    if step is None and inside:
        step = graphs.slowest(folder, subject, graphs.subject_of(folder, other), offcpu=offcpu)
    if step is None or role is None:
        step, role = graphs.most_sampled(folder, subject, step, role, one, offcpu=offcpu)
    base, new = graphs.profile(folder, subject, step, role, one, offcpu=offcpu), None
    changes: tuple[FunctionChange, ...] = ()
    if other is not None:
        second = folder if inside else find_run(other, out)
        wanted = other if inside else base.label if base.label in graphs.labels(second) else None
        other_subject = graphs.subject_of(second, wanted)
        new = graphs.profile(second, other_subject, step, role, offcpu=offcpu)
        if inside and not offcpu:
            changes = graphs.function_changes(folder, subject, other_subject, step)
    if as_json:
        echo_json(asdict(graphs.graph(step, role, base, new, changes)), indent=None)
        return
    text = graphs.page(step, role, base) if new is None else graphs.page(step, role, new, base, changes)
    to = to or Path(
        f"{folder.name}-{step}-{role}{'-offcpu' if offcpu else ''}{'-diff' if new else ''}.html".replace("/", "_")
    )
    try:
        disk.write_text(to, text)
    except OSError as error:
        raise UserError(f"{to}: cannot be written: {error.strerror}; name another file with --to") from error
    many = base.samples + (new.samples if new else 0)
    amount = f"{many / 1e6:.3f} s off the CPU" if offcpu else f"{many} samples"
    echo(f"{to}: {amount}; open it in a browser")
