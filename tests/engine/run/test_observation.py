"""Real servers that are only watched: two versions side by side, their stalls, a restart, the record and its replay."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from engine.analysis.compare import compare
from engine.core.clock import Clock
from engine.core.model import Build, Config
from engine.journal.reader import JournalReader
from engine.journal.writer import create_run
from engine.plan import observation as plan
from engine.postgres import statement_counts
from engine.postgres.server import Server
from engine.postgres.server_activity import ServerActivity
from engine.postgres.statement_counts import By
from engine.report import follow
from engine.report.document import report
from engine.run.observation import Observation, Watched, unit_of
from engine.view.player import Player
from tests.support.benchcall import wait_for
from tui.glyphs import SETS
from tui.live import observed_server as observed_text
from tui.live import text as live_text

ODD = "buyer\x1b" + "r" * 57  # as long as a name can be
SETTINGS = (("shared_buffers", "32MB"), ("shared_preload_libraries", "pg_stat_statements"))


@pytest.fixture(scope="module")
def pair(build: Callable[[int], Build], new_folder: Callable[[], Path]) -> Iterator[list[Server]]:
    """Servers of 12 and 17 that count statements, each with a role without rights."""
    with ExitStack() as stack:
        found = [
            stack.enter_context(Server(build(major), Config("counted", SETTINGS, "built in"), new_folder()))
            for major in (12, 17)
        ]
        for server in found:
            with server.connect("postgres") as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements; CREATE ROLE stranger LOGIN")
                connection.execute("CREATE TABLE stock AS SELECT 1 AS id, 0 AS n")
                connection.execute(f'CREATE ROLE "{ODD}" LOGIN; GRANT ALL ON stock TO "{ODD}"')
        yield found


def observation(out: Path, opened: ExitStack, dsns: dict[str, str], by: By = "application") -> tuple[Path, Observation]:
    watched = [
        Watched(found, opened.enter_context(ServerActivity(found.conninfo, by))) for found in plan.looked_up(dsns)
    ]
    manifest = plan.manifest([each.found for each in watched], by, None)
    run = out / manifest.run
    create_run(run, manifest.record())
    return run, opened.enter_context(Observation(run, manifest, watched))


class Shop:
    """A client that executes about five hundred statements a second, until it is closed."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, application_name="shop", autocommit=True)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._connection.execute("UPDATE stock SET n = n + 1 WHERE id = 1")
            time.sleep(0.002)

    def __enter__(self) -> Shop:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._connection.close()


def test_two_versions_are_watched_abreast_and_the_record_replays_a_stall_with_its_cause(
    pair: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement_counts, "SHARE", 1.0)  # statements are counted however busy this machine is
    dsns = {"old": pair[0].dsn("postgres"), "new": pair[1].dsn("postgres")}
    with ExitStack() as opened:
        run, watching = observation(tmp_path, opened, dsns)
        opened.enter_context(Shop(dsns["new"]))
        watching.watch(2.0)
        held_s = time.monotonic()
        with psycopg.connect(dsns["new"], application_name="report") as report:
            report.execute("UPDATE stock SET n = 0")
            watching.watch(4.0)
            with Player(run) as player:
                view = player.look()
                assert view.observed is not None and view.pair is not None and view.unit == "statements/s"
                assert [side.name for side in view.pair.sides] == ["old", "new"]
                assert view.subject == "old" and view.observed.version.startswith("12.")
                player.other_side(view)
                view = player.look()
                assert view.subject == "new" and view.observed is not None
                shop = next(role for role in view.observed.roles if role.name == "shop")
                assert (shop.connections, shop.active, shop.wait) == (1, 1, "Lock:transactionid")
                (stall,) = view.stalled
                assert stall.role == "shop"
                assert "held by pid" in live_text.ages(view)[0][0] and "report, user" in live_text.ages(view)[0][0]
                assert "! new STALL shop" in follow.line(view)
            report.rollback()
        watching.watch(2.5)
        held_s = time.monotonic() - held_s
        watching.end()
        assert "shop" in json.loads(follow.once(run, as_json=True))["observed"][1]["roles"][0]["name"]
    _check_record(run, held_s)


def _check_record(run: Path, held_s: float) -> None:
    with JournalReader(run) as reader:
        attempts = reader.attempts()
        assert [attempt.state for attempt in attempts] == ["finished", "finished"]
        (step,) = reader.steps(attempts[1].id)
        (stall,) = reader.events(step.id, kinds=("stall",))
        assert 3 < stall.data["duration_s"] < held_s and stall.data["causes"][0]["name"] == "lock"
        counts = reader.counts(step.id)
        assert max(count.statements for count in counts) > 10 and counts[0].t_ns - step.started_ns < 5_000_000_000
        waits = {wait for second in reader.wait_seconds(step.id) if second.role == "shop" for wait in second.data}
        assert "Lock:transactionid" in waits
    now_ns = time.monotonic_ns()
    with Player(run, Clock(lambda: now_ns, time.time_ns), cell=attempts[1].cell) as player:
        assert player.seek_stall(1) is not None
        player.seek(stall.started_ns + 2_500_000_000)
        view = player.look()
        assert view.speed is not None and view.stalled and view.observed is not None
        lines = observed_text.table(view.observed, 80, tall=False, stalled=["shop"], glyphs=SETS["ascii"])
        assert any(line[0] == ("!", "stall") and "shop" in line[1][0] for line in lines)
    comparison = compare([run])
    assert comparison.ratios == () and "only watched" in comparison.answer[0].text
    assert "held by pid" in report([run], "html")


def test_a_role_without_rights_watches_and_a_restart_is_noticed(pair: list[Server], tmp_path: Path) -> None:
    server = pair[1]
    dsn = psycopg.conninfo.make_conninfo(server.dsn("postgres"), user="stranger")
    with ExitStack() as opened:
        run, watching = observation(tmp_path, opened, {"it": dsn}, by="user")
        with Shop(psycopg.conninfo.make_conninfo(dsn, user=ODD)):
            watching.watch(2.5)
        with Player(run) as player:
            observed = player.look().observed
            assert observed is not None
            (odd,) = (role for role in observed.roles if role.name == "buyer\\x1b" + "r" * 57)
            assert odd.connections == 1 and odd.calls_per_s, "what it does is counted under the same name"
        server.restart()

        def returned() -> bool:
            watching.watch(0.3)
            with JournalReader(run) as reader:
                return any(event.ended_ns is not None for event in reader.events(kinds=("disconnected",)))

        wait_for(returned, "the connection")
        watching.watch(2.5)
        with Player(run) as player:
            view = player.look()
            assert view.silent_s is None and view.rate_per_s is not None and view.observed is not None
            assert any("no member of pg_monitor" in note for note in view.observed.notes)
    with JournalReader(run) as reader:
        (event,) = reader.events(kinds=("disconnected",))
        assert "the connection was lost for" in event.data["text"]
        (attempt,) = reader.attempts()
        (step,) = reader.steps(attempt.id)
        after = [(t_ns, dt_ns) for t_ns, dt_ns, _, _ in reader.samples(step.id) if t_ns > (event.ended_ns or 0)]
        assert after and all(t_ns - dt_ns >= (event.ended_ns or 0) for t_ns, dt_ns in after)


def test_rates_are_of_transactions_if_one_of_two_does_not_count_statements(
    pair: list[Server], server: Callable[[int], Server], tmp_path: Path
) -> None:
    dsns = {"counts": pair[1].dsn("postgres"), "not": server(16).dsn("ib")}
    with ExitStack() as opened:
        run, watching = observation(tmp_path, opened, dsns, by="query")
        watching.watch(2.0)
        with JournalReader(run) as reader:
            for attempt in reader.attempts():
                (step,) = reader.steps(attempt.id)
                assert step.plan["primary_metric"]["unit"] == "transactions/s" and reader.counts(step.id)
    with ExitStack() as opened:
        activity = opened.enter_context(ServerActivity(dsns["counts"], "query"))
        assert unit_of([Watched(plan.looked_up({"counts": dsns["counts"]})[0], activity)]) == "statements/s"


def test_texts_that_come_late_are_no_missing_answer(
    pair: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement_counts, "TEXTS", "SELECT '1', pg_sleep(2.2)::text WHERE $1::bigint[] IS NOT NULL")
    with ExitStack() as opened:
        run, watching = observation(tmp_path, opened, {"it": pair[1].dsn("postgres")}, by="query")
        opened.enter_context(Shop(pair[1].dsn("postgres")))
        watching.watch(3.5)
        counts = watching._servers[0].activity.statements
        assert counts is not None and not counts.texts_due, "they were asked for"
    with JournalReader(run) as reader:
        assert reader.events(kinds=("disconnected",)) == []
        (step,) = reader.steps(reader.attempts()[0].id)
        seen = [data for _, _, source, data in reader.samples(step.id) if source == "connections"]
        assert any("calls_per_s_now" in role for data in seen for role in data["roles"])
