"""The command `bench confirm`: measure once more what a run named slower or faster."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from engine.cli import start
from engine.cli.options import OUT, RunArgument
from engine.core.errors import UserError
from engine.core.model import Manifest
from engine.host import environment
from engine.host.account import own_folder
from engine.host.drift import value
from engine.journal.manifest import read_manifest
from engine.journal.runs import find_run, reference
from engine.plan import planfile
from engine.plan.command_line import command
from engine.plan.request import Request
from engine.report.console import PlainConsole, echo, echo_json
from engine.results.comparison import KNOWN, LATENCIES, Comparison, Ratio
from engine.results.confirmation import Confirmation, ConfirmedStep
from workloads import workload
from workloads.base import WITHOUT_EFFECTS
from workloads.options import options_of

if TYPE_CHECKING:
    from engine.report.gate import Judged


@click.command(short_help="Measure again what a run named slower or faster.")
@click.argument("run", required=False, type=RunArgument())
@click.argument("second", required=False, type=RunArgument())
@OUT
@click.option("--yes", is_flag=True, help="Do not ask before executing what another's run names.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def confirm(run: str | None, second: str | None, out: Path, yes: bool, as_json: bool) -> None:
    """Measure only the steps that RUN named slower or faster, once more, and say of which it is confirmed.

    RUN is a run's name or folder [default: the newest]. Only the rates, times and response times that it named are
    judged again. Builds and plan are RUN's; steps that the named ones need are measured, too, but not judged. It is
    meant for after a boot, or for another machine, to which RUN may be copied. With SECOND, that run is judged, and
    nothing is measured.

    \b
    Exit codes, as with --gate:
      0  no step is confirmed to be slower
      1  a step is confirmed to be slower, or cells failed or are missing, in RUN or again
      2  otherwise, but nothing is known of the steps; or the command failed
    """
    from engine.analysis import confirmation
    from engine.analysis.compare import compare
    from engine.report import gate

    folder = find_run(run, out)
    first, plan = compare([folder]), read_manifest(folder)
    named = confirmation.named(first)
    judged_first = gate.judge(first, plan.tolerated, gate.plan_of([plan]))
    failed = _failed_unnamed(judged_first, named)
    if not named:
        if as_json:
            echo_json(msgspec.to_builtins(Confirmation(plan.run, "", (), failed)))
        if not failed and (gate.unknown(judged_first) or not judged_first):
            raise UserError(f"{plan.run}: nothing is known of any step, so there is nothing to confirm")
        echo(f"{plan.run} named no step slower or faster: there is nothing to confirm", err=True)
        for note in failed:
            echo(note, err=True)
        sys.exit(1 if failed else 0)
    console = PlainConsole(stderr=True, force_terminal=False)  # stdout has the result alone
    again = find_run(second, out) if second is not None else _measured(folder, named, own_folder(out), yes, console)
    if again.resolve() == folder.resolve():
        raise UserError(f"{plan.run} cannot confirm itself; name another run, or none to measure again")
    other = read_manifest(again)
    if second is not None:
        confirmation.check_workloads(folder, again)
    judged = confirmation.again(again, first.base, named)
    steps = confirmation.confirmed(named, judged)
    errors, code = _gated(judged, other, steps)
    notes = (*failed, *errors, *confirmation.differences(plan, other), *_boots(plan, other))
    result = Confirmation(plan.run, other.run, steps, notes)
    if as_json:
        echo_json(msgspec.to_builtins(result))
    for line in (*map(_line, result.steps), *(f"? {note}" for note in notes)):
        echo(line, err=as_json)
    if code == 2 and not failed:
        raise UserError("nothing is known of what was named, so nothing is confirmed")
    sys.exit(1 if failed else code)


def _failed_unnamed(judged: tuple[Judged, ...], named: Sequence[Ratio]) -> tuple[str, ...]:
    """What else the gate of the first run found, such as cells that failed: no second run takes that back."""
    from engine.report import gate

    claims = {(ratio.subject, ratio.step) for ratio in named}
    found = tuple(each for each in gate.failed(judged) if (each.subject, each.step) not in claims)
    return (f"in the first run, and not measured again: {gate.sentence(found)}",) if found else ()


def _measured(folder: Path, named: Sequence[Ratio], out: Path, yes: bool, console: PlainConsole) -> Path:
    """Run the plan again, without the steps that do not matter; return the new run."""
    request = _request(folder, [ratio.step for ratio in named])
    try:
        read_manifest(folder, signed=True)
    except UserError:
        echo(f"{folder} would execute what it names:", err=True)
        echo(f"  {command(request)}", err=True)
        start.agree("Make a run of this plan?", yes)
    prospect = start.prepare_shown(request, out, console)
    start.print_prospect(prospect, out, console)
    made = out / prospect.manifest.run
    code = start.start(prospect, out, console, detach=False)
    if code not in (0, 1):
        echo(f"and when it is over: bench confirm {reference(folder)} {reference(made)}", err=True)
        sys.exit(code)
    return made


def _request(folder: Path, named: Sequence[str]) -> Request:
    """RUN's request up to the last of the named steps, without other steps that have no effect on later ones."""
    request = planfile.of_manifest(folder / "manifest.json")
    manifest = read_manifest(folder)
    selectable = "steps" in {option.name for option in options_of(workload(request.workload).options)}
    if request.options.get("preset") or len(manifest.workloads) > 1 or not selectable:
        return request  # a complete plan
    steps: list[dict[str, Any]] = list(manifest.workload["steps"])
    names = [str(step["name"]) for step in steps]
    kinds = {str(step["name"]): step.get("kind") for step in steps}
    wanted = names[: max(names.index(name) for name in named if name in names) + 1]
    kept = [name for name in wanted if name in named or kinds[name] not in WITHOUT_EFFECTS]
    tolerated = [text for text in request.tolerate if text.rpartition("=")[0] in ("", *kept)]
    return planfile.request({**request.entries(), "steps": kept, "tolerate": tolerated})


def _boots(first: Manifest, second: Manifest) -> tuple[str, ...]:
    """Whether both are of one boot, as far as it can be told: of this machine's own one."""
    machines = [value(manifest.environment, "host", "machine") for manifest in (first, second)]
    if machines[0] is None or machines[0] != machines[1] or machines[0] != environment.machine_id():
        return ()
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        if datetime.fromisoformat(first.created).timestamp() < booted_s:
            return ()
    except ValueError:
        return ()
    return ("both are of one boot of one machine: what holds only for that is not excluded",)


def _line(step: ConfirmedStep) -> str:
    verdict = "confirmed" if step.confirmed else "not confirmed"
    title = LATENCIES.get(step.first.metric)
    what = f"{step.step} {title} response" if title else step.step
    return f"{step.subject} {what} {verdict}: {_effect(step.second)}; first {_effect(step.first)}"


def _effect(ratio: Ratio | None) -> str:
    if ratio is None or ratio.ratio is None or ratio.low is None or ratio.high is None:
        why = "; ".join(ratio.remarks) if ratio else ""
        return f"no interval{f' ({why})' if why else ''}"
    interval = f"{ratio.ratio - 1:+.1%} [{ratio.low - 1:+.1%}, {ratio.high - 1:+.1%}]"
    return f"{ratio.verdict_text or 'no verdict'}, {interval}"


def _gated(judged: Comparison, manifest: Manifest, steps: Sequence[ConfirmedStep]) -> tuple[list[str], int]:
    """What a gate says of the named steps: which lack cells, and the exit code. What was named faster is not slower."""
    from engine.report import gate

    slower = {(each.subject, each.step, each.first.metric) for each in steps if each.first.verdict == "slower"}
    kept = tuple(ratio for ratio in judged.ratios if (ratio.subject, ratio.step, ratio.metric) in slower)
    named = {(each.subject, each.step) for each in steps}
    found = gate.judge(replace(judged, ratios=kept), manifest.tolerated, gate.plan_of([manifest]))
    found = tuple(each for each in found if (each.subject, each.step) in named)
    errors = [f"{each.subject} {each.step}: {each.text}" for each in found if each.outcome == "error"]
    claimed = {(subject, step) for subject, step, _ in slower}
    if errors or any((each.subject, each.step) in claimed for each in gate.failed(found)):
        return errors, 1
    known = any(each.second is not None and each.second.verdict in KNOWN for each in steps)
    return errors, 0 if known else 2
