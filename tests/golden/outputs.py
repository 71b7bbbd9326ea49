"""The golden files: plans of the command lines in plans.toml, and the output for recorded and synthetic runs.

They are the same on every machine: plans are made for MACHINE, and LEFT_OUT are the keys that differ between
installations. Screens have golden files of their own, in `tests/tui/screens`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from engine.analysis.answer import compare as answer
from engine.cli.main import main
from engine.core.kernel import GuestMachine, Kernel
from engine.core.model import Build, Cell
from engine.host import environment
from engine.host.environment import Machine
from engine.journal.totals import StepTotals
from engine.observe.stalls import Stall
from tests.conftest import unpacked
from tests.golden.flat import flat
from tests.support.journal import ENVIRONMENT, make_run
from tests.support.totals import SECOND_NS

HOME = Path(__file__).parent
RECORDED = ("two-configs-aa", "two-majors", "two-builds", "in-slices", "interleaved")
BRIEF = ("demo", "failures")
IN_MARKDOWN = ("demo", "failures")
FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    "failures": {"published.txt": ("--published", "--all")},
    "sliced": {"blocks.txt": ("--slices", "qr100")},
}
# Long entries of a cell, which are kept in one comparison only.
DETAILS = ("bucket_counts", "buckets", "probes", "roles", "stalls")
DETAILED = "demo"
FOLDERS = ("plans", "runs")
BASE = "base"  # the plan that is written whole
COMMAND = "python -m tests.golden"
MACHINE = Machine(memory_bytes=16 * 2**30, free_disk_bytes=400 * 2**30)
CPUS = 8
# Keys of a plan that depend on this machine, this installation or this moment.
LEFT_OUT = re.compile(
    r"^(created|engine|environment\..*|revision|run)$"
    r"|^builds\.(compiler|digest|flags|prefix|provenance|version)$"
    r"|\.programs\.\w+\.(digest|path|version)$|\.identity\.(hyperfine|pg_dump|pg_restore|pgbench|psql)$"
)
FILES = {
    "nightly.toml": 'builds = ["16.3", "17.0"]\nconfigs = ["defaults"]\nrepeats = 4\ninterleave = "cells"\n',
    "read.sql": "SELECT 1;\n",
    "write.sql": "SELECT 1;\n",
    "small.conf": "shared_buffers = 32MB\nwork_mem = 8MB\n",
    "schema.sql": "CREATE TABLE item (id int PRIMARY KEY, price numeric);\n",
    "rows.sql": "INSERT INTO item SELECT n, n % 100 FROM generate_series(1, 1000) AS n;\n",
    "statements.sql": "-- name: cheap\nSELECT count(*) FROM item WHERE price < 10;\n"
    "-- name: one\nSELECT price FROM item WHERE id = 7;\n",
}


def _command_lines() -> dict[str, str]:
    return {name: " ".join(line.split()) for name, line in tomllib.loads((HOME / "plans.toml").read_text()).items()}


def bench(*words: str) -> str:
    """The standard output of a command."""
    result = CliRunner().invoke(main, words, prog_name="bench")
    assert result.exit_code == 0, f"bench {shlex.join(words)}: {result.output}"
    return result.stdout


def files() -> list[str]:
    """Names of the golden files that there are."""
    return sorted(str(path.relative_to(HOME)) for folder in FOLDERS for path in (HOME / folder).iterdir())


def texts(folder: Path, builds: Iterable[Build]) -> dict[str, str]:
    """The text of each golden file, by name. `folder` is empty, and every user may enter it."""
    by_major = {build.major: build for build in builds if not build.initdb_args}
    compared = cache(answer.compare)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer, "compare", lambda paths, base: compared(tuple(paths), base))  # once for all forms
        patch.setenv("HOME", str(folder))
        patch.setenv("COLUMNS", "80")
        return {**dict(_runs(folder)), **dict(_plans(folder, by_major, patch))}


# -- Plans


def _plans(folder: Path, builds: Mapping[int, Build], patch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    lines = _command_lines()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    labels = sorted(set(re.findall(r"\b\d\d\.\d+\b", " ".join(lines.values()))))
    stand_ins = {label: replace(builds[int(label.split(".")[0])], label=label) for label in labels}
    (folder / "builds.json").write_bytes(msgspec.json.encode(stand_ins))
    for name, value in {"PGBED_BUILDS": folder / "builds.json", "PGBED_OUT": folder / "out"}.items():
        patch.setenv(name, str(value))
    patch.setattr(environment, "machine", lambda path: MACHINE)
    patch.setattr(environment, "record", lambda path: ENVIRONMENT)
    patch.setattr(os, "sched_getaffinity", lambda pid: set(range(CPUS)))
    patch.setattr(os, "cpu_count", lambda: CPUS)
    with chdir(folder):
        plans = {
            name: _plan(json.loads(bench("run", *shlex.split(line), "--dry-run", "--json")), folder)
            for name, line in lines.items()
        }
    for name, plan in plans.items():
        changed = plan if name == BASE else _changed(plans[BASE], plan)
        yield f"plans/{name}.txt", f"bench {lines[name]}\n{_text(changed)}"


def _plan(record: dict[str, Any], folder: Path) -> dict[str, str]:
    lines = flat(record | record.pop("manifest"))
    return {path: text.replace(f"{folder}/", "") for path, text in lines if not LEFT_OUT.search(path)}


def _changed(base: Mapping[str, str], plan: Mapping[str, str]) -> dict[str, str]:
    """The lines of a plan that differ from the base's; `-` for a key that it lacks, unless another workload has it."""
    same_workload = base["workload.name"] == plan["workload.name"]
    lacking = [path for path in base.keys() - plan if same_workload or not path.startswith("workload.")]
    return dict.fromkeys(lacking, "-") | {path: text for path, text in plan.items() if base.get(path) != text}


def _text(lines: Mapping[str, str]) -> str:
    return "".join(f"{path}: {lines[path]}\n" for path in sorted(lines))


# -- Runs


def _runs(folder: Path) -> Iterator[tuple[str, str]]:
    """Each file's name and text: a comparison as JSON, in Markdown, and as a terminal of 80 columns shows it."""
    for name, paths in (*_recorded(folder).items(), *_made(folder).items()):
        words = [str(path) for path in paths]
        yield f"runs/{name}.json.txt", _text(_comparison(json.loads(bench("compare", "--json", *words)), name))
        yield f"runs/{name}.txt", bench("compare", "--all", *words)
        if name in BRIEF:
            yield f"runs/{name}.brief.txt", bench("compare", *words).replace(f"{folder}/", "")
        for form, options in FORMS.get(name, {}).items():
            yield f"runs/{name}.{form}", bench("compare", *options, *words)
        if name in IN_MARKDOWN:
            yield f"runs/{name}.md", bench("compare", "--md", *words)


def _comparison(record: dict[str, Any], name: str) -> dict[str, str]:
    """The record's lines; of its cells those of the first repeat, with details for one run only."""
    del record["folders"]
    details = () if name == DETAILED else DETAILS
    record["cells"] = [
        {key: value for key, value in cell.items() if key not in details}
        for cell in record["cells"]
        if cell["repeat"] == 1
    ]
    return dict(flat(record))


def _recorded(folder: Path) -> dict[str, list[Path]]:
    """The recordings of the demo and of the tests, each in a folder of its own."""
    bench("demo", "--to", str(folder / "demo"))
    plans, slower = sorted((folder / "demo").iterdir())
    recorded = {name: [unpacked(name, folder / name / "run")] for name in RECORDED}
    return {"demo": [slower], "demo-plans": [plans], **recorded}


def _made(folder: Path) -> dict[str, list[Path]]:
    """Runs with cases that the recordings lack: failures, a missed SLA, kernels, pairs of several machines."""
    pooled = [
        make_run(
            folder / "pooled" / machine,
            repeats=4,
            seed=seed,
            effects={("17.0", "l.i1"): 0.9 + 0.01 * seed},
            environment=ENVIRONMENT | {"host": {"machine": machine}},
        )
        for seed, machine in enumerate(("a", "b", "c"))
    ]
    failures = make_run(
        folder / "failures" / "run",
        repeats=4,
        aa=True,
        effects={("17.0", "l.i0"): 0.856},
        stalls=_stalls,
        change=_late,
        failed={9: "server killed by signal 9"},
    )
    kernels = make_run(
        folder / "kernels" / "run",
        builds=("16.3",),
        under=("6.1", "6.12"),
        kernels=[
            Kernel(label, f"{label}.90", "nixpkgs", f"/{label}", f"/{label}/bzImage", label, label)
            for label in ("6.1", "6.12")
        ],
        guest=GuestMachine("kvm", 4, 4096, "image", 1024, "qemu 9.2.4"),
        environments=_under_kernel,
        repeats=4,
    )
    sliced = make_run(folder / "sliced" / "run", effects={("17.0", "qr100"): 1.04}, repeats=8, blocks=40)
    options = make_run(
        folder / "options" / "run",
        builds=("16.3", "17beta1-builtin"),
        configs=("cx9a2_c8r32", "cx10a_c8r32_large"),
        options={"placement": "paired", "delete_form": "range"},
        change=_reads,
        noise=0.03,
    )
    one_pair = make_run(folder / "one-pair" / "run", repeats=1)
    alone = {"failures": failures, "kernels": kernels, "one-pair": one_pair, "options": options, "sliced": sliced}
    return {"pooled": pooled} | {name: [run] for name, run in alone.items()}


def _under_kernel(cell: Cell) -> dict[str, Any]:
    return ENVIRONMENT | {"kernel": {"release": f"{cell.subject.kernel}.90"}}


def _stalls(cell: Cell, step: str, started_ns: int) -> list[Stall]:
    if step != "l.i1" or cell.subject.build != "17.0":
        return []
    causes = ({"kind": "checkpoint", "text": "checkpoint sync"},)
    ended_ns = started_ns + 14 * SECOND_NS
    return [Stall("insert", 1, started_ns, ended_ns, "rate", 0.01, 14.0, 0, 280_000, 20_000.0, causes)]


def _late(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """A server that misses its SLA."""
    missed = step == "qr100" and cell.subject.build == "17.0"
    return replace(totals, seconds=totals.seconds * 1.4) if missed else totals


def _reads(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
    """Queries that read pages; the second build reads twice as many, counts its reads, and deletes other rows."""
    second = cell.subject.build != "16.3"
    if step == "qr100":
        pages = totals.roles["query"].statements * (4 if second else 2)
        return replace(totals, reads=pages // 4 if second else None, pages_read=pages, read_ms=pages * 0.25)
    if step == "l.i1" and second:
        delete = replace(totals.roles["delete"], short_deletes=3)
        return replace(totals, pages_read=1, read_ms=0.25, roles=totals.roles | {"delete": delete})
    return totals
