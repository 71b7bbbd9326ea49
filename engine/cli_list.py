"""The commands `bench list`: what there is."""

from __future__ import annotations

from pathlib import Path

import click

from engine import catalogue
from engine.cli_plan import list_choices, list_kernels
from engine.folders import default_out
from engine.options import JSON, OUT


@click.group(name="list")
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
