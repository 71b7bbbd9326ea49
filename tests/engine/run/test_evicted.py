"""Steps that begin with their relations out of shared buffers: evicted by the server, or by starting it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import psycopg

from engine.core.model import Build
from engine.postgres.server import Server
from engine.postgres.waiting import NOBODY
from engine.run.statements import StepStatements
from tests.support.benchcall import Bench, nothing_left

SMALL = ("--workload", "oltp", "--rows", "2000", "--tests", "point-query", "--seconds", "1", "--repeats", "1")


def test_evicted_relations_are_read_again_on_any_version(bench: Bench, build: Callable[[int | str], Build]) -> None:
    labels = f"{build(18).label},{build(16).label}"
    done = bench("--pg", labels, *SMALL, "--set", "shared_buffers=32MB", "--between", "evict")
    assert done.returncode == 0, done.stderr
    nothing_left(bench)
    every = json.loads(bench("compare", "--json").stdout)["cells"]
    cells = [cell for cell in every if cell["step"] == "point-query"]
    reads = {cell["build"]: cell["pages_read_per_op"] * cell["ops"] for cell in cells}
    assert all(reads[label] > 20 for label in labels.split(",")), f"a table that was just loaded: {reads}"
    shown = {cell["build"]: cell["reads_per_op"] for cell in cells}
    new, old = labels.split(",")
    assert shown[old] is None and 0 < shown[new] * next(c["ops"] for c in cells if c["build"] == new) <= reads[new]


def test_a_build_without_pg_buffercache_restarts(server: Callable[[int | str], Server]) -> None:
    version, options = 180000, "-c extension_control_path=/nonexistent"

    def connected() -> psycopg.Connection[Any]:
        return psycopg.connect(server(18).dsn(), autocommit=True, options=options)

    with ExitStack() as opened:
        statements = StepStatements(SimpleNamespace(connect=connected), NOBODY, opened)
        assert not statements.evict(version)
        options = ""
        assert statements.evict(version)
