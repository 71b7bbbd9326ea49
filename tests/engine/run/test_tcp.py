"""Clients over TCP on this machine: who may connect, with which password, and the record."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from engine.core.errors import UserError
from engine.core.model import Build
from engine.journal.manifest import read_manifest
from engine.journal.reader import JournalReader
from engine.postgres.server import SUPERUSER
from engine.system.addresses import check_free, own_address
from tests.support.benchcall import WAITING, Bench, nothing_left, processes_of

SLICES = ("--rows", "2000", "--rows-written", "2000000", "--steps", "l.i1", "--interleave", "slices", *WAITING)
RULES = """
SELECT type, array_to_string(database, ','), array_to_string(user_name, ','), address, netmask, auth_method
FROM pg_hba_file_rules ORDER BY line_number
"""


def test_clients_over_tcp_use_a_password_that_is_never_written(
    bench: Bench, build: Callable[[int | str], Build]
) -> None:
    """Ports of servers side by side in slices. The older one would keep an md5 hash of the password."""
    pair = f"{build(12).label},{build(16).label}"
    more = ("--set", "log_statement=all", "--set", "shared_buffers=32MB", "--repeats", "1")
    bench.detached("--pg", pair, "--tcp", *more, *SLICES)
    step = bench.await_step("l.i1", patience_s=200)
    folders = [folder.resolve() for folder in bench.run.glob("cells/*/socket")]
    files = [folder / "password" for folder in folders]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    written = [file.read_text().strip().split(":") for file in files]
    assert {(address, database, user) for address, _, database, user, _ in written} == {("127.0.0.1", "ib", SUPERUSER)}
    ports, passwords = ({line[place] for line in written} for place in (1, 4))
    assert len(ports) == len(passwords) == 2 and all(len(password) > 30 for password in passwords)
    for folder, (address, port, database, user, _) in zip(folders, written, strict=True):
        with psycopg.connect(f"host={folder} port={port} user={user} dbname={database}") as connection:
            shown = [
                connection.execute(f"SHOW {name}").fetchone() for name in ("listen_addresses", "password_encryption")
            ]
            assert shown == [(address,), ("scram-sha-256",)]
            assert connection.execute(RULES).fetchall() == [
                ("local", "all", "all", None, None, "trust"),
                ("host", "ib", SUPERUSER, "127.0.0.1", "255.255.255.255", "scram-sha-256"),
            ]
            kept = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = %s", (user,)).fetchone()
            assert kept is not None and kept[0].startswith("SCRAM-SHA-256$4096:")
            addresses = connection.execute(
                "SELECT DISTINCT host(client_addr) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND application_name = '' AND pid <> pg_backend_pid()"
            ).fetchall()
            assert addresses == [(address,)]
        for given, message in (("", "no password supplied"), ("password=wrong", "password authentication failed")):
            with pytest.raises(psycopg.OperationalError, match=message):
                psycopg.connect(f"host={address} port={port} user={user} dbname={database} passfile=/nowhere {given}")
    for pid, line in processes_of(bench.out):
        seen = line.encode() + Path(f"/proc/{pid}/environ").read_bytes()
        assert not any(password.encode() in seen for password in passwords)
    bench("stop")
    nothing_left(bench)
    assert not any(file.exists() for file in files)
    for path in (path for path in bench.run.rglob("*") if path.is_file()):
        text = path.read_bytes()
        assert not any(password.encode() in text for password in passwords), path
        assert b"ALTER ROLE" not in text or path.name != "server.log"
    with JournalReader(bench.run) as reader:
        loaded = next(row for row in reader.steps(step.attempt_id) if row.name == "l.i0").totals
    assert loaded is not None and loaded.paused
    assert all(role.paired == role.connections for role in loaded.roles.values())
    records = [attempt.origin["server"]["network"] for attempt in bench.attempts()]
    assert {str(record.pop("port")) for record in records} == ports
    assert records[0] == {
        "address": "127.0.0.1", "client": "127.0.0.1", "method": "scram-sha-256", "scram_iterations": 4096,
    }  # fmt: skip
    assert read_manifest(bench.run).route.words == "TCP within this machine"


def test_what_cannot_be_is_refused_before_anything_is_made(bench: Bench, label: str) -> None:
    for listen, message in (
        ("eth77", r"neither an IP address nor a network interface of this machine \(there are .*lo"),
        ("0.0.0.0", "means every interface"),
    ):
        with pytest.raises(UserError, match=message):
            own_address(listen)
    assert own_address("lo") == "127.0.0.1"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port} is in use; choose another"):
            check_free("127.0.0.1", port - 1, 2)
        done = bench("run", "--pg", label, "--tcp", "--port", str(port))
        assert done.returncode == 2 and done.stderr == (
            f"bench: --port {port}: 127.0.0.1:{port} is in use; choose another, or leave out --port\n"
        )
    assert not list(bench.out.glob("*/manifest.json"))
