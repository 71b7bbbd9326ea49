"""Clients over TCP on this machine: who may connect, with what, and what is recorded of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from engine.core.model import Build
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.postgres.server import SUPERUSER
from tests.support.benchcall import LONG, Bench, nothing_left, processes_of


def test_clients_come_over_tcp_with_a_password_that_stands_nowhere(
    bench: Bench, build: Callable[[int | str], Build]
) -> None:
    label = build(12).label  # of itself it would keep an md5 hash
    bench.detached("--pg", label, "--repeats", "1", "--tcp", "--set", "log_statement=all", *LONG)
    step = bench.await_step("l.i1")
    (folder,) = bench.run.glob("cells/*/socket")
    passfile = folder.resolve() / "password"
    assert passfile.stat().st_mode & 0o777 == 0o600
    address, port, database, user, password = passfile.read_text().strip().split(":")
    assert (address, database, user) == ("127.0.0.1", "ib", SUPERUSER) and len(password) > 30
    own = f"host={folder.resolve()} port={port} user={user} dbname={database}"
    with psycopg.connect(own, autocommit=True) as connection:
        shown = {
            name: connection.execute(f"SHOW {name}").fetchone() for name in ("listen_addresses", "password_encryption")
        }
        assert shown == {"listen_addresses": (address,), "password_encryption": ("scram-sha-256",)}
        rules = connection.execute(
            "SELECT type, array_to_string(database, ','), array_to_string(user_name, ','), address, netmask, "
            "auth_method FROM pg_hba_file_rules ORDER BY line_number"
        ).fetchall()
        assert rules == [
            ("local", "all", "all", None, None, "trust"),
            ("host", "ib", SUPERUSER, "127.0.0.1", "255.255.255.255", "scram-sha-256"),
        ]
        with JournalReader(bench.run) as reader:
            backends = [role.backend_pid for role in reader.roles(step.id)]
        found = connection.execute(
            "SELECT DISTINCT host(client_addr) FROM pg_stat_activity WHERE pid = ANY(%s)", (backends,)
        ).fetchall()
        assert found == [(address,)]
        kept = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (user,)).fetchone()
        assert kept is not None and kept[0].startswith("SCRAM-SHA-256$4096:")
    for given, told in (("", "no password supplied"), ("password=wrong", "password authentication failed")):
        with pytest.raises(psycopg.OperationalError, match=told):
            psycopg.connect(f"host={address} port={port} user={user} dbname={database} passfile=/nowhere {given}")
    for pid, line in processes_of(bench.out):
        assert password not in line
        assert password.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    bench("stop")
    nothing_left(bench)
    assert not passfile.exists()
    written = [path for path in bench.run.rglob("*") if path.is_file() and password.encode() in path.read_bytes()]
    assert not written
    assert b"ALTER ROLE" not in next(bench.run.glob("cells/*/server.log")).read_bytes()
    (attempt,) = bench.attempts()
    assert attempt.origin["server"]["network"] == {
        "address": address, "port": int(port), "client": address, "method": "scram-sha-256", "scram_iterations": 4096,
    }  # fmt: skip
    assert read_manifest(bench.run).route.words == "TCP within this machine"


def test_servers_side_by_side_have_ports_of_their_own_and_clients_their_cpu(
    bench: Bench, build: Callable[[int | str], Build]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        pair = f"{build(12).label},{build(16).label}"
        words = ("--pg", pair, "--repeats", "1", "--tcp", "--interleave", "slices", "--set", "shared_buffers=32MB")
        small = ("--rows", "2000", "--rows-written", "1000", "--query-seconds", "1", "--steps", "l.i0,l.i1,qr100")
        refused = bench("run", *words, *small, "--port", str(port - 1 if port == 65535 else port))
        assert refused.returncode == 2 and f"127.0.0.1:{port} is in use" in refused.stderr
    done = bench("run", *words, *small, "--port", str(min(port, 65534)))
    assert done.returncode == 0, done.stderr + done.stdout
    assert "clients connect over TCP within this machine" in done.stdout
    ports = sorted(attempt.origin["server"]["network"]["port"] for attempt in bench.attempts())
    assert ports == [min(port, 65534), min(port, 65534) + 1]
    with JournalReader(bench.run) as reader:
        for attempt in reader.attempts():
            for step in reader.steps(attempt.id):
                assert step.totals is not None and step.totals.paused
                assert all(role.paired == role.connections for role in step.totals.roles.values())
    assert bench.comparison()["route"] == "TCP within this machine"
    assert "clients connect over TCP within this machine" in bench("compare").stdout


def test_pgbench_connects_over_tcp(bench: Bench, label: str) -> None:
    done = bench(
        "run", "--pg", label, "--repeats", "1", "--tcp", "--workload", "pgbench-select", "--clients", "2", "--connect",
        "--pgbench-scale", "1", "--warmup-seconds", "1", "--seconds", "2", "--set", "shared_buffers=32MB", "--plain",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    log = next(bench.run.glob("cells/*/server.log")).read_text()
    assert "FATAL" not in log
    (attempt,) = bench.attempts()
    assert bench.steps(attempt)[-1].totals.roles["pgbench"].statements > 10  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--listen", "10.0.0.1"), "--listen 10.0.0.1 is for clients over TCP: add --tcp or --client-host"),
        (("--port", "5433"), "--port 5433 is for clients over TCP"),
        (("--ssh-option", "Port=22"), "--ssh-option: add --client-host"),
        (("--tcp", "--listen", "192.0.2.1"), "--listen 192.0.2.1: no address of this machine"),
        (("--tcp", "--listen", "eth77"), "neither an IP address nor a network interface of this machine (there are lo"),
        (("--tcp", "--listen", "0.0.0.0"), "means every interface"),
        (("--client-host", "-oProxyCommand=x"), "is no name of a host"),
        (("--client-host", "there", "--interleave", "slices"), "clients on another host cannot be driven in slices"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    bench: Bench, label: str, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    silent = tmp_path / "ssh"
    silent.write_text('#!/bin/sh\necho "pgbed $(uname -m) none /nowhere"; cat > /dev/null\n')
    silent.chmod(0o755)
    called = Bench(bench.out, {"PGBED_SSH": str(silent)})
    done = called("run", "--pg", f"{label},other={os.environ['PGBED_SERVERS']}/{label}", *words)
    assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not list(bench.out.glob("*/manifest.json"))
