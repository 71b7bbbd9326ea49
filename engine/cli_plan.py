"""What `bench` has for plans: the option --plan, and the lists of kernels and of all that a plan can choose from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from engine import catalogue, choices, planfile
from engine.errors import UserError
from engine.folders import default_out

# Knobs that have an option of their own: field, option's parameter.
OPTIONS_OF_KNOBS = {
    "limiter": "limiter",
    "insert_protocol": "inserts",
    "query_protocol": "queries",
    "delete_form": "deletes",
    "placement": "placement",
}


def _take(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Makes what the file says the defaults, so that what the command line says wins."""
    if path is None:
        return None
    entries = planfile.read(path)
    knobs = entries.pop("knobs", {})
    for field, option in OPTIONS_OF_KNOBS.items():
        if field in knobs:
            entries[option] = knobs.pop(field) or "generation"  # only the delete form may be empty, and means that
    if knobs:
        entries["knobs"] = planfile.knob_texts(knobs)
    parameters = {parameter.name: parameter for parameter in ctx.command.params}
    for name, value in entries.items():
        parameter = parameters[name]
        if isinstance(value, list) and not (isinstance(parameter, click.Option) and parameter.multiple):
            entries[name] = ",".join(value)
        elif not isinstance(value, (list, tuple)):
            try:
                parameter.type.convert(value, parameter, ctx)
            except click.BadParameter as error:
                raise UserError(f"plan {path}: {name}: {error.message}") from None
    ctx.default_map = entries
    return path


PLAN = click.option(
    "--plan",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_take,
    metavar="FILE",
    help="A plan kept as TOML; options given beside it win.",
)


@click.command(name="kernels")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
def list_kernels(as_json: bool) -> None:
    """Kernels that servers can run under here."""
    catalogue.show(catalogue.kernels(), as_json)


@click.command(name="choices", hidden=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder that holds the runs.")
@click.option("--json", "_as_json", is_flag=True, help="As always.")
def list_choices(out: Path | None, _as_json: bool) -> None:
    """All that a plan can choose from, and the runs there are, as one JSON object: one process instead of six."""
    found: dict[str, Any] = choices.everything(out or default_out())
    click.echo(json.dumps(found, indent=1))
