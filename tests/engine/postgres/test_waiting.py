"""Whatever a server does, what the engine asks of it is reported, given up by a stop, and the server ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.model import Build, Config
from engine.host.procfs import children, processes_in
from engine.postgres import waiting
from engine.postgres.server import Server
from engine.postgres.waiting import Waiting
from engine.run.stop import Interrupted, Stop
from tests.support.shared_memory import segments_of, still_there

Builds = Callable[[int | str], Build]
Configs = Callable[[Build], Config]
ASKED = "CREATE EXTENSION pg_stat_statements"


def standby(server: Server) -> None:
    with server.connect() as session:
        session.execute("ALTER DATABASE ib SET synchronous_commit = on")
        session.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        session.execute("SELECT pg_reload_conf()")


def lock(server: Server) -> None:
    holder = server.connect()
    HELD.append(holder)
    holder.execute("BEGIN")
    holder.execute("LOCK TABLE pg_extension")


def stopped_postmaster(server: Server) -> None:
    os.kill(server.pid, signal.SIGSTOP)


def all_stopped(server: Server) -> None:
    for pid in (server.pid, *children(server.pid)):
        with suppress(ProcessLookupError):  # a backend that has just ended
            os.kill(pid, signal.SIGSTOP)


HELD: list[object] = []
WAYS: dict[Callable[[Server], None], str] = {
    standby: f"waiting for {ASKED} on",
    lock: f"waiting for {ASKED} on",
    stopped_postmaster: "connecting to",
    all_stopped: "connecting to",
}


@pytest.mark.parametrize("hang", WAYS)
@pytest.mark.parametrize("keep", [False, True])
def test_a_server_that_hangs_is_named_given_up_and_ended(
    hang: Callable[[Server], None],
    keep: bool,
    build: Builds,
    small_config: Configs,
    cell_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    stop, reports, hangs, label = Stop(), list[str](), False, build(16).label

    def progress(text: str) -> None:
        reports.append(text)
        if hangs and text.startswith(f"{WAYS[hang]} {label} ("):
            stop.ask("enough")

    server = Server(
        build(16), small_config(build(16)), cell_dir, keep=keep, waiting=Waiting(progress, stop.check, stop.left_s)
    )
    with pytest.raises(Interrupted, match="enough"), server:
        server.create_database()
        held = segments_of(server)
        hang(server)
        hangs = True
        with server.connect() as session:
            session.execute(ASKED)
    HELD.clear()
    assert f"stopping {label} ({'fast' if keep else 'immediate'} shutdown)" in reports
    assert not processes_in(cell_dir / "data") and not still_there(held)
    assert (cell_dir / "data").exists() is keep


def test_a_server_that_ignores_signals_is_killed_in_time(
    build: Builds, small_config: Configs, cell_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    (cell_dir / "bin").mkdir()
    deaf = f"#!/bin/sh\nPATH={os.environ['PATH']}\ntrap '' INT QUIT TERM\n: > deaf\nexec sleep 600\n"
    for name, script in (("initdb", f"#!/bin/sh\n: > {cell_dir}/cell/data/postgresql.conf\n"), ("postgres", deaf)):
        (cell_dir / "bin" / name).write_text(script)
        (cell_dir / "bin" / name).chmod(0o755)
    stop, reports = Stop(), list[str]()

    def progress(text: str) -> None:
        reports.append(text)
        if "accept connections" in text and (cell_dir / "cell" / "data" / "deaf").exists():
            stop.ask("enough")
            stop.until_s = time.monotonic() + 2.0

    strange = replace(build(16), prefix=str(cell_dir))
    config = small_config(build(16))
    heard = Waiting(progress, stop.check, stop.left_s)
    with pytest.raises(Interrupted), Server(strange, config, cell_dir / "cell", waiting=heard):
        pass
    assert f"killing {build(16).label}, which does not stop" in reports
    assert not processes_in(cell_dir / "cell" / "data") and not (cell_dir / "cell" / "data").exists()
