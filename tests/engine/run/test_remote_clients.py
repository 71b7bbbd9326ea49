"""Clients on another host, over a stand-in for ssh: started, counted, and gone, whatever ends the connection."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.core.model import Build
from engine.core.route import Route
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.remote.client_host import connected
from tests.support.benchcall import CELLS, Bench, nothing_left, wait_for
from tests.support.otherhost import left_there, stand_in

THERE = ("--client-host", "someone@there", "--listen", "127.0.0.1")
SMALL = ("--rows", "2000", "--rows-written", "1000", "--query-seconds", "2", "--set", "shared_buffers=32MB")
DELAY_MS = 3.0
PATIENCE_S = 60.0  # for the end of a step whose time is over


@pytest.fixture
def there(new_folder: Callable[[], Path]) -> Iterator[Bench]:
    """`bench` with a way to another host."""
    folder = new_folder()
    remote_bench = Bench(folder / "runs", stand_in(folder))
    yield remote_bench
    remote_bench.stop()


def gone(bench: Bench) -> None:
    nothing_left(bench)
    wait_for(lambda: not left_there(bench.out.parent), "all to go on the other host")


@pytest.fixture(scope="module")
def finished(new_folder: Callable[[], Path], build: Callable[[int | str], Build]) -> Bench:
    """A finished run of all kinds of roles; what goes there and back is held up."""
    folder = new_folder()
    bench = Bench(folder / "runs", stand_in(folder, DELAY_MS))
    words = ("--pg", build(16).label, "--repeats", "1", "--steps", "l.i0,l.x,qr100", *SMALL)
    done = bench("run", *words, "--query-seconds", "4", *THERE, "--plain")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "clients connect over TCP from" in done.stdout
    wait_for(lambda: not left_there(folder), "all to go on the other host")
    return bench


def test_counts_of_clients_elsewhere_are_as_of_clients_here(finished: Bench) -> None:
    (attempt,) = finished.attempts()
    with JournalReader(finished.run) as reader:
        steps = {step.name: step for step in reader.steps(attempt.id)}
        assert list(steps) == ["l.i0", "l.x", "qr100"]
        for name, step in steps.items():
            totals = step.totals
            assert totals is not None and totals.client_cpu_ns > 0
            for row in reader.roles(step.id):
                role, seconds = totals.roles[row.name], list(reader.role_seconds(row.id))
                assert role.client_cpu_ns > 0 and role.client_switches > 0 and (role.backend_cpu_ns or 0) > 0
                assert sum(second.statements for second in seconds) == role.statements > 0
                assert sum(count for _, count in role.histogram) == role.statements
                assert role.service_ns <= totals.seconds * 1e9
            link = totals.report["client_clock"]
            assert abs(link["ahead_ms"]) <= link["error_ms"] + 0.01  # it is the same clock, and that is not known
            assert DELAY_MS <= link["error_ms"] < 20, (name, link)
        assert steps["l.i0"].totals.roles["insert"].rows == 2000  # type: ignore[union-attr]
        query = steps["qr100"].totals
        assert query is not None and 3.95 < query.seconds < 4 + PATIENCE_S
        # Told as they go, not at the end; but on a busy machine the report of a second may come in the next one.
        seconds = reader.role_seconds(reader.roles(steps["qr100"].id)[-1].id)
        assert sum(second.statements > 0 for second in seconds) > 1, seconds


def test_both_machines_and_the_way_between_are_recorded(finished: Bench) -> None:
    manifest = read_manifest(finished.run)
    assert manifest.route.host == "someone@there" and manifest.route.address == manifest.route.client == "127.0.0.1"
    assert manifest.design.interleave == "cells"
    (attempt,) = finished.attempts()
    for record in (manifest.environment, attempt.origin["environment"], attempt.origin["environment_after"]):
        assert record["client"]["kernel"]["release"] == record["kernel"]["release"]
        assert record["client"]["link"]["copied"] in ("tar", "nix") and record["client"]["link"]["round_trip_ms"] > 0
    assert f"TCP from {manifest.route.name}" == finished.comparison()["route"]


def test_a_record_of_somebody_else_chooses_no_host(finished: Bench, tmp_path: Path) -> None:
    run = tmp_path / "mailed"
    run.mkdir()
    record = json.loads((finished.run / "manifest.json").read_text())
    record["route"]["ssh_options"] = ["ProxyCommand=touch /tmp/x"]
    (run / "manifest.json").write_text(json.dumps(record))
    done = finished("resume", str(run))
    assert done.returncode == 2 and "you did not begin this run here" in done.stderr, done.stderr
    for name, value in (("host", "-oProxyCommand=x"), ("address", "0.0.0.0"), ("client", "everybody"), ("port", 1)):
        bad = {**record, "route": {**record["route"], name: value}}
        (run / "manifest.json").write_text(json.dumps(bad))
        with pytest.raises(UserError, match=r"manifest\.json: route: "):
            read_manifest(run)


def test_pgbench_runs_there_with_the_same_program(there: Bench, label: str) -> None:
    words = ("--workload", "pgbench-select", "--clients", "2", "--pgbench-scale", "1")
    more = ("--warmup-seconds", "1", "--seconds", "3")
    done = there("run", "--pg", label, "--repeats", "1", *words, *more, "--set", "shared_buffers=32MB", *THERE)
    assert done.returncode == 0, done.stderr + done.stdout + str([attempt.reason for attempt in there.attempts()])
    (attempt,) = there.attempts()
    totals = there.steps(attempt)[-1].totals
    assert totals is not None
    role, summed = totals.roles["pgbench"], totals.report["pgbench"]
    assert 0 <= summed["processed"] - role.statements < 0.5 * summed["processed"]
    assert 2.95 < totals.seconds < 3 + PATIENCE_S
    assert role.client_cpu_ns > 0 and totals.report["client_clock"]["error_ms"] > 0
    gone(there)


def test_a_host_that_will_not_do_is_refused_before_anything_runs(
    new_folder: Callable[[], Path], label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"

    def refusal(text: str) -> str:
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        with (
            pytest.raises(UserError) as caught,
            connected(Route(host="someone@there"), ["workloads.insert.launch"], {}, print),
        ):
            pytest.fail("it was taken for a host")
        return str(caught.value)

    monkeypatch.setenv("PGBED_SSH", "/no/ssh")
    assert "/no/ssh cannot be run: No such file" in refusal("")
    monkeypatch.setenv("PGBED_SSH", str(program))
    denied = refusal("echo 'someone@there: Permission denied (publickey).' >&2; exit 255")
    assert "Permission denied (publickey).; ssh must get there without asking" in denied
    assert "does not execute commands" in refusal("yes hello")
    assert "it is riscv64, this machine" in refusal("echo 'pgbed riscv64 tar /tmp/x'; cat > /dev/null")
    neither = refusal('echo "pgbed $(uname -m) none /tmp/x"; cat > /dev/null')
    assert "it has no tar, and Nix cannot" in neither
    folder = new_folder()
    bench = Bench(folder / "runs", stand_in(folder, delay_ms=25))
    done = bench("run", "--pg", label, "--steps", "l.i0", *SMALL, *CELLS, *THERE)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert re.search(r"--client-host someone@there: its clock is known to \d+ ms only \(limit: 20 ms\)", done.stderr)
    assert not list(bench.out.glob("*/manifest.json")) and not left_there(folder)
    done = bench("run", "--pg", label, "--workload", "micro", *THERE)
    assert done.returncode == 2 and "write files for the server and must run on its machine" in done.stderr
    done = bench("run", "--pg", label, *SMALL, *THERE, "--interleave", "slices")
    assert done.returncode == 2 and "clients on another host cannot be interleaved in slices" in done.stderr


@pytest.mark.slow
def test_another_program_there_is_refused(new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_folder()
    for name, value in stand_in(folder).items():
        monkeypatch.setenv(name, value)
    record = {"pgbench": {"path": sys.executable, "version": "pgbench (PostgreSQL) 9.6", "digest": "0" * 64}}
    with (
        pytest.raises(
            UserError, match=r"--client-host there: its pgbench is another one: version Python .*, here .*9.6"
        ),
        connected(Route(host="there"), ["workloads.pgbench.launch"], record, print),
    ):
        pytest.fail("it was taken for the same")
    wait_for(lambda: not left_there(folder), "all to go on the other host")
