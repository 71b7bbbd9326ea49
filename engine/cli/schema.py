"""The command `bench schema`: JSON Schemas of the records that pgbed writes and reads."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import click
import msgspec

from engine.report.console import echo_json

RECORDS = ("compare", "slices", "flame", "plan", "manifest")


@click.command()
@click.argument("record", type=click.Choice(RECORDS), default="compare")
def schema(record: str) -> None:
    """Print the JSON Schema of a record, as JSON.

    \b
    compare     what `bench compare --json` prints (default)
    slices      what `bench compare --slices STEP --json` prints
    flame       what `bench flame --json` prints
    plan        a plan file, as `bench run --plan` reads it
    manifest    a run's manifest.json
    """
    from engine.core.model import GROUPS, Manifest
    from engine.features import features
    from engine.plan.request import Request
    from engine.results import comparison
    from engine.results.flame import FlameGraph
    from engine.results.sliced_step import SlicedStep
    from workloads import workloads
    from workloads.api.options import groups_of

    types: dict[str, type] = {
        "compare": comparison.Comparison,
        "slices": SlicedStep,
        "flame": FlameGraph,
        "plan": Request,
        "manifest": Manifest,
    }
    document = msgspec.json.schema(types[record])
    groups = groups_of(Request)
    # The fields of groups, features and workloads stand among the others.
    flat: dict[str, tuple[tuple[str, ...], Sequence[type]]] = {
        "plan": (
            (*groups, "options", "features"),
            [*groups.values(), *(f.options for f in features()), *(load.options for load in workloads())],
        ),
        "compare": (tuple(comparison.GROUPS), [*comparison.GROUPS.values()]),
        "manifest": ((*GROUPS, "parts"), [*GROUPS.values(), *(feature.part for feature in features())]),
    }
    names, classes = flat.get(record, ((), ()))
    outer = document["$defs"][types[record].__name__]
    outer["required"] = [name for name in outer["required"] if name not in names]
    for name in names:
        del outer["properties"][name]
    for cls in classes:
        inner = msgspec.json.schema(cls)["$defs"][cls.__name__]
        outer["properties"] |= inner["properties"]
        outer["required"] += inner["required"]
        document["$defs"].pop(cls.__name__, None)
    if record == "plan":
        document["$defs"]["Request"]["description"] = "What to run, and the options of its workload."
    for definition in document["$defs"].values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    echo_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})
