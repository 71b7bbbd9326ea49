"""The command `bench top`: refusals in a line before anything is written; what it prints; no password on the disk."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import psycopg

from engine.postgres.server import SUPERUSER, Server
from tests.engine.postgres.test_external_server import _one_row, odd_server
from tests.support.benchcall import Bench
from tests.support.terminal import Terminal

PASSWORD = "open sesame 4711"


def refused(bench: Bench, *arguments: str) -> str:
    done = bench("top", *arguments)
    assert done.returncode == 2 and done.stdout == "", done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert not bench.out.exists() or not list(bench.out.iterdir())
    return line


def test_what_cannot_be_watched_is_refused_in_a_line(bench: Bench, tmp_path: Path) -> None:
    assert "not a connection string" in refused(bench, "nonsense")
    assert "Connection refused" in refused(bench, "postgresql://me@127.0.0.1:1/it")
    assert "No such file" in refused(bench, f"host={tmp_path} user=me")
    assert "Missing argument" in refused(bench)
    assert "3 servers" in refused(bench, "host=a", "host=b", "host=c")
    with odd_server("9.6.24", _one_row(b"1")) as conninfo:
        assert "PostgreSQL 9.6.24 is too old" in refused(bench, f"odd={conninfo}")
    with odd_server("1.21.0/bouncer", _one_row(b"x")) as conninfo:
        assert "odd: " in refused(bench, f"odd={conninfo}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_speak_http, args=(listener,), daemon=True).start()
        line = refused(bench, f"postgresql://me@127.0.0.1:{listener.getsockname()[1]}/it?gssencmode=disable")
        assert "127.0.0.1" in line


def _speak_http(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            peer, _ = listener.accept()
            peer.recv(100)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.close()


def test_a_wrong_password_is_refused_and_a_right_one_is_not_written(
    bench: Bench, server: Callable[[int], Server]
) -> None:
    running = server(14)
    hba = running.data_dir / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text("local all keeper scram-sha-256\n" + before)
    with running.connect("ib") as connection:
        connection.execute("SET password_encryption = 'scram-sha-256'")
        connection.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'")
        connection.execute("SELECT pg_reload_conf()")
        try:
            given = {"host": str(running.socket_dir), "user": "keeper", "dbname": "ib"}
            wrong = psycopg.conninfo.make_conninfo(**given, password="wrong")
            assert "local: " in (line := refused(bench, wrong)) and "password authentication failed" in line
            right = psycopg.conninfo.make_conninfo(**given, password=PASSWORD)
            done = bench("top", right, "--json", "--seconds", "1")
            assert done.returncode == 0, done.stderr
        finally:
            hba.write_text(before)
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP ROLE keeper")
    (seen,) = json.loads(done.stdout)["observed"]
    assert seen["name"] == "local" and seen["unit"] == "transactions/s" and seen["connections"] >= 1
    assert any("no member of pg_monitor" in note for note in seen["not_visible"])
    for path in (path for path in bench.run.rglob("*") if path.is_file()):
        assert PASSWORD.encode() not in path.read_bytes()


def test_lines_are_printed_until_it_is_stopped_and_the_run_is_complete(
    bench: Bench, server: Callable[[int], Server]
) -> None:
    dsn = f"prod={server(16).dsn('ib')}"
    command = bench.command("top", dsn, "--plain", "--by", "user")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None and top.stderr is not None
        lines = [next(top.stdout)]
        while "transactions/s" not in lines[-1]:
            lines.append(next(top.stdout))
        os.kill(top.pid, signal.SIGINT)
        assert top.wait(60) == 130
        assert "bench watch" in top.stderr.read()
    assert any("statements are not counted" in line for line in lines)
    assert any("connection" in line and "s  " in line for line in lines)
    assert [attempt.state for attempt in bench.attempts()] == ["finished"]
    assert "bench top begins another observation" in bench("resume").stderr


def test_a_record_that_cannot_be_written_is_said_in_a_line(bench: Bench, server: Callable[[int], Server]) -> None:
    command = bench.command("top", f"prod={server(16).dsn('ib')}", "--plain")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None and top.stderr is not None
        while "transactions/s" not in next(top.stdout):
            pass
        with closing(sqlite3.connect(bench.run / "journal.db", timeout=60)) as journal:
            journal.execute("DROP TABLE step")
        top.stdout.read()
        (line,) = top.stderr.read().splitlines()
        assert top.wait(60) == 2 and "the record cannot be written: no such table" in line


def test_the_live_screen_opens_over_it_and_the_observation_ends_with_it(
    bench: Bench, server: Callable[[int], Server]
) -> None:
    terminal = Terminal(bench.command("top", f"prod={server(17).dsn('ib')}"))
    try:
        terminal.until(b"observed by application")
        terminal.until(b"connection")
        terminal.write(b"q")
        terminal.until(b"recorded: bench watch")
        assert terminal.wait() == 0
    finally:
        terminal.close()
    assert [attempt.state for attempt in bench.attempts()] == ["finished"]


def test_two_of_one_server_are_refused(bench: Bench, server: Callable[[int], Server]) -> None:
    dsn = server(16).dsn("ib")
    assert "are the same server" in refused(bench, f"a={dsn}", f"b={dsn}")
    old = server(12).dsn("ib")
    assert "does not say which query" in refused(bench, "--by", "query", f"old={old}")
    assert SUPERUSER in old
