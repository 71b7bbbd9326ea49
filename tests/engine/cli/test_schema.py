"""`bench schema`: it describes all output."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.analysis.answer.compare import compare
from engine.analysis.answer.step_slices import sliced_step
from engine.cli.main import main
from engine.core.model import SCHEMA
from engine.report import sliced_step as sliced_report
from engine.report.render import to_json
from tests.support.journal import make_run
from tests.support.totals import made_slices

TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], place: str = "$") -> Iterable[str]:
    """Values that are not as their schema says: by the keywords that are printed, and no others."""
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, place)
        return
    if "anyOf" in schema:
        if all(list(faults(value, choice, root, place)) for choice in schema["anyOf"]):
            yield f"{place}: none of {schema['anyOf']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    kinds = schema.get("type")
    if kinds and not isinstance(value, TYPES[kinds]):  # type: ignore[arg-type]
        yield f"{place}: {value!r} is no {kinds}"
    elif isinstance(value, dict):
        yield from (f"{place}: lacks {name}" for name in schema.get("required", ()) if name not in value)
        for name, member in value.items():
            part = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if isinstance(part, dict):
                yield from faults(member, part, root, f"{place}.{name}")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, item in enumerate(value):
            yield from faults(item, schema["items"], root, f"{place}[{number}]")


def printed(*names: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["schema", *names])
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("name", ["compare", "slices", "manifest"])
def test_what_is_written_is_as_the_schema_says(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "r", aa=True)
    sliced = make_run(tmp_path / "s", slices=lambda cell, step: made_slices(cell, step, {"16.3": 8e3, "17.0": 7e3}))
    written = {
        "compare": to_json(compare([run])),
        "slices": sliced_report.to_json(sliced_step([sliced], "qr100")),
        "manifest": (run / "manifest.json").read_text(),
    }[name]
    schema = printed(name)
    assert list(faults(json.loads(written), schema, schema)) == []
    assert list(faults({"schema": SCHEMA}, schema, schema))


def test_the_schema_of_a_comparison_describes_every_key() -> None:
    schema = printed()
    cell = schema["$defs"]["CellStep"]
    assert {"rate_per_s", "server_cpu_us_per_op", "sla", "stalls"} <= cell["properties"].keys()
    assert "made dirty in the page cache" in " ".join(cell["description"].split())
    assert set(schema["$defs"]["Ratio"]["properties"]["verdict"]["enum"]) >= {"faster", "same", "withheld"}


def test_the_schema_of_a_plan_has_its_entries() -> None:
    schema = printed("plan")
    (request,) = [part for part in schema["$defs"].values() if "builds" in part.get("properties", {})]
    assert {"builds", "repeats", "margin", "probes"} <= request["properties"].keys()
    assert {"rows", "scale", "clients", "steps"} <= request["properties"].keys(), "the workload's stand among them"
    assert "options" not in request["properties"]
    assert list(faults({"builds": ["16.3"], "rows": 5000}, schema, schema)) == []
    assert list(faults({"builds": ["16.3"], "rows": "few"}, schema, schema))


def test_an_unknown_record_is_refused_in_one_line() -> None:
    done = CliRunner().invoke(main, ["schema", "journal"])
    assert done.exit_code == 2
    assert "'journal' is not one of 'compare', 'slices', 'flame', 'plan', 'manifest'" in done.stderr
