"""The page that shows samples of a real server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from engine.postgres.server import Server
from engine.report import flame
from engine.tracing import stacks
from probes import folding
from probes.session import ProbeSession, Target
from tests.support.observing import Helper

pytestmark = pytest.mark.outside

STATEMENT = "select count(*) from generate_series(1, 400000) as a(x) where x % 7 = 3"


def test_what_a_server_did_is_in_the_page(
    server: Callable[[int | str], Server], helpers: tuple[Helper, ...], tmp_path: Path
) -> None:
    running = server(16)
    target = Target(running.pid, running.build.bin / "postgres", running.build.major)
    with (
        ProbeSession(target, "stacks", command=helpers[0]) as session,
        psycopg.connect(running.dsn(), autocommit=True) as connection,
    ):
        assert session.wait_baseline(), session.messages
        pid, until_s, frames = connection.info.backend_pid, time.monotonic() + 3, list(session.poll())
        while time.monotonic() < until_s:
            connection.execute(STATEMENT)
            frames += session.poll()
        frames += session.stop()
        complete = session.origin["frame_pointers"]
    known = folding.space(Path(f"/proc/{running.pid}/maps").read_text(), complete=complete)
    sampled = [stack for frame in frames for stack in frame.stacks]
    folded = folding.fold(sampled, lambda of: "query" if of == pid else "server", lambda _: known)

    for role, lines in stacks.by_role(folded).items():
        stacks.write_folded(tmp_path, "qr100", role, lines)
    profile = flame.Profile("16.3", stacks.parse(tmp_path / "stacks" / "qr100.query.folded"))
    assert profile.samples > 20
    page = flame.page("qr100", "query", profile)
    assert any(name in page for name in ("ExecInterpExpr", "ExecScan", "FunctionNext")), sorted(profile.folded)
