"""`bench doctor`: check this machine for sources of noise, and for programs that runs need."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.builds import client_programs
from engine.cli.options import JSON, OUT, console
from engine.features import features
from engine.host.doctor import DoctorCheck, Need, Status, examine, judged
from engine.report.console import echo_json
from engine.tracing import selection
from probes import bpftrace, helper, requirements
from probes.tracer import direct_command

MARKS: dict[Status, tuple[str, str]] = {  # in the order of the rows
    "ok": ("✓ ok", "green"),
    "warn": ("! warn", "yellow"),
    "fail": ("✗ fail", "red"),
}


@click.command()
@OUT
@click.option("--probes", is_flag=True, help="Check only what the probes need.")
@JSON
def doctor(out: Path, probes: bool, as_json: bool) -> None:
    """Check this machine for sources of noise: each finding, why it matters, and how to fix it.

    Exits with 1 when a check failed.
    """
    checks = of_probes() if probes else examine(out, NEEDS)
    if as_json:
        echo_json([asdict(check) for check in checks])
    else:
        render(checks, console(False))
    sys.exit(1 if any(check.status == "fail" for check in checks) else 0)


def of_probes() -> tuple[DoctorCheck, ...]:
    facts = selection.facts()
    version = "none" if facts.bpftrace is None else requirements.show(facts.bpftrace)
    findings = selection.findings_of(facts)
    lacking = tuple(
        DoctorCheck("probes", "warn", f"off: {', '.join(finding.off)}", finding.text.removeprefix("probes: "))
        for finding in findings
    )
    works = DoctorCheck("probes", "ok", f"can run: {', '.join(requirements.still_works(findings))}")
    loose = _loose_helper() if selection.by_sudo() else ()
    return (*lacking, DoctorCheck("bpftrace", "warn" if facts.bpftrace is None else "ok", version), *loose, works)


def _loose_helper() -> tuple[DoctorCheck, ...]:
    """Check that only root can change what sudo runs as root."""
    command = direct_command()
    script = Path(command[-1])
    modules = Path(helper.__file__).parent if len(command) == 1 else script.parent
    parts = [script, *sorted(modules.iterdir()), Path(sys.executable)]
    loose = next(
        (changeable for part in parts if (changeable := bpftrace.changeable(part, sticky=True)) is not None), None
    )
    if loose is None:
        return (DoctorCheck("probe helper", "ok", f"{script}, started by sudo"),)
    reason = "sudo runs the probe helper as root, so anybody who may write there can act as root"
    remedy = "install pgbed where only root may write, such as root's Nix store, and permit that by sudo"
    return (DoctorCheck("probe helper", "warn", f"{loose} can be changed by users other than root", reason, remedy),)


def render(checks: Collection[DoctorCheck], console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "check", "found"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "")
    for check in sorted(checks, key=lambda check: list(MARKS).index(check.status)):  # the worst next to the count
        mark, style = MARKS[check.status]
        text = Text(check.found)
        if check.reason:
            text.append(f"\n{check.reason}", "dim")
        if check.remedy:
            text.append(f"\n→ {check.remedy}", "cyan")
        table.add_row(Text(mark, style), check.name, text)
    console.print(table)
    failed, warnings = (sum(check.status == status for check in checks) for status in ("fail", "warn"))
    console.print(f"{len(checks)} checks: {failed} failed, {warnings} warning{'s' * (warnings != 1)}")


def _servers(_: Path) -> DoctorCheck:
    if os.environ.get("PGBED_CATALOG") and shutil.which("nix-store"):
        return DoctorCheck("servers", "ok", "built by Nix on demand, if sources can be fetched")
    servers = os.environ.get("PGBED_SERVERS") or None
    reason = "only your own installs can be used: --pg NAME=/path"
    state = f"those in {servers}" if servers else "no Nix"
    return judged("servers", state, servers is not None, reason, "./bench installs Nix")


def _program(name: str) -> Need:
    def check(_: Path) -> DoctorCheck:
        path = client_programs.place(name)
        if path.startswith("/") and not Path(path).is_file():
            return DoctorCheck(
                name, "warn", f"{path}: no such program", "config.toml names it", f"set {name} there to another"
            )
        reason = "workloads that call it cannot run, or leave out some tasks"
        return judged(
            name, path or "none", bool(path), reason, f"start bench from its flake, or set {name} in config.toml"
        )

    return check


NEEDS: tuple[Need, ...] = (
    _servers,
    *(need for feature in features() for need in feature.needs),
    *(_program(name) for name in client_programs.KNOWN),
)
