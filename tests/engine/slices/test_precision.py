"""Query steps in slices that end early: on the width of what is known, never on the effect, alike for all servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from engine.core.model import Build, Cell, Manifest
from engine.host.account import unprivileged
from engine.journal.manifest import manifest_of, read_manifest
from engine.journal.reader import JournalReader
from engine.journal.totals import sla
from engine.journal.writer import JournalWriter, create_run
from engine.run.attempt import Attempt
from engine.run.control import Commands
from engine.run.interleaved_cells import run_interleaved
from engine.run.stop import Stop
from engine.slices.conductor import Slice
from engine.slices.precision import PrecisionRule
from tests.support.benchcall import Bench
from tests.support.journal import make_run
from workloads.base import Step

SECOND_NS = 1_000_000_000
QUERY = Step("qr100", "query", {}, sliced="time", expected_s=12.0)


@dataclass
class Asked:
    """What is asked of a step that runs, in place of its server and clients."""

    cell: Cell
    worked_s: float = 6.1
    ends_s: list[float] = field(default_factory=list)

    def worked_ns(self) -> int:
        return round(self.worked_s * SECOND_NS)

    def end_after(self, active_ns: int, text: str) -> None:
        assert text
        self.ends_s.append(active_ns / SECOND_NS)


def slices(blocks: int, spread: float, effect: float = 1.0) -> Iterator[Slice]:
    """Slices of two servers whose rates scatter; the second's rate is `effect` times the first's."""
    random = Random(7)
    for block in range(1, blocks + 1):
        for place, side in enumerate((0, 1, 1, 0)):
            ops = round(10_000 * (effect if side else 1.0) * random.lognormvariate(0, spread))
            yield Slice(block, place, side, 0, 0, 50_000_000, ops, ops, 1, ops, 0, 0, 0, 0, 0, 0, 0)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return read_manifest(make_run(tmp_path / "r", repeats=1))


def watched(manifest: Manifest, found: Iterator[Slice], tau: float = 0.01, **asked: float) -> list[Asked]:
    runners = [Asked(cell, **asked) for cell in manifest.cells]  # type: ignore[arg-type]
    narrowing = PrecisionRule(QUERY, runners, tau)
    narrowing.add(found)
    narrowing.watch()
    narrowing.watch()
    return runners


def test_all_servers_get_the_same_end_once_and_ahead_of_them(manifest: Manifest) -> None:
    assert [each.ends_s for each in watched(manifest, slices(60, 0.01))] == [[7.0], [7.0]]
    assert [each.ends_s for each in watched(manifest, slices(60, 0.01), worked_s=6.8)] == [[8.0], [8.0]]


@pytest.mark.parametrize("effect", [0.5, 1.0, 1.5])
def test_the_width_decides_and_not_the_effect(manifest: Manifest, effect: float) -> None:
    """The error of 60 blocks is spread / sqrt(60): narrow enough is half of tau."""
    assert all(each.ends_s for each in watched(manifest, slices(60, 0.02, effect)))
    assert not any(each.ends_s for each in watched(manifest, slices(60, 0.08, effect)))
    assert all(each.ends_s for each in watched(manifest, slices(60, 0.08, effect), tau=0.04))


def test_not_before_forty_blocks_and_not_where_a_server_did_nothing(manifest: Manifest) -> None:
    assert not any(each.ends_s for each in watched(manifest, slices(39, 0.001)))
    assert not any(each.ends_s for each in watched(manifest, slices(60, 0.001, effect=0.0)))


def test_a_step_that_is_nearly_over_is_not_made_longer(manifest: Manifest) -> None:
    assert [each.ends_s for each in watched(manifest, slices(60, 0.01), worked_s=10.6)] == [[11.0], [11.0]]
    assert [each.ends_s for each in watched(manifest, slices(60, 0.01), worked_s=10.8)] == [[], []]


def test_steps_that_are_as_long_as_their_work_never_end_early(manifest: Manifest) -> None:
    runners = [Asked(cell) for cell in manifest.cells]
    narrowing = PrecisionRule(Step("l.i1", "write", {}, sliced="work", expected_s=12.0), runners, 0.01)
    narrowing.add(slices(60, 0.001))
    narrowing.watch()
    assert not any(each.ends_s for each in runners)


def test_real_servers_end_together_with_equal_work(bench: Bench, build: Callable[[int | str], Build]) -> None:
    plan = (
        "--pg", f"{build(14).label},{build(16).label}", "--interleave", "slices", "--repeats", "1", "--rows", "20000",
        "--rows-written", "1000", "--query-seconds", "60", "--steps", "qr500", "--set", "shared_buffers=32MB",
    )  # fmt: skip
    planned = bench(*plan, "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    record = json.loads(planned.stdout)["manifest"]
    run = bench.out / record["run"]
    bench.out.mkdir(parents=True, exist_ok=True)
    create_run(run, record)
    manifest = manifest_of(record, run)
    with JournalWriter.open(run) as journal:
        commands, stop = Commands(journal), Stop()
        attempts = [Attempt(run / "cells" / cell.id, manifest, cell, stop, commands) for cell in manifest.cells]
        run_interleaved(attempts, manifest, unprivileged(), scatter=10.0)  # the first forty blocks are enough
    with JournalReader(run) as reader:
        assert [attempt.state for attempt in reader.attempts()] == ["finished", "finished"], reader.attempts()
        totals = [
            step.totals
            for attempt in reader.attempts()
            for step in reader.steps(attempt.id)
            if step.name == "qr500" and step.totals is not None
        ]
        told = [event.data["text"] for event in reader.events(kinds=("shortened",))]
        assert len(told) == 2 and told[0] == told[1] and told[0].startswith("qr500 ends after ")
        end_s = int(told[0].split()[3])
        assert end_s < 60
        for each in totals:
            assert each.roles["insert"].rows == each.roles["delete"].rows == each.rows_expected == 500 * end_s
            assert each.seconds < 60
            kept = sla("query", each)
            assert kept is not None and kept.passed
