"""Servers that are running already: compared by their own views, with nothing left on them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.model import Build, Config
from engine.journal.reader import JournalReader
from engine.journal.run_lock import is_locked
from engine.plan import planfile
from engine.plan.prepare import prepare
from engine.postgres.external_cell import RECORD, clear
from engine.postgres.server import Server
from engine.report.render import to_json
from engine.view.player import Player
from tests.support.benchcall import Bench, children_of, wait_for
from tests.support.between import Relay
from tui.live import text as live_text

PASSWORD = "open:\\sesame 7Q"  # with characters to escape in a file of passwords
SMALL = ("--rows", "2000", "--rows-written", "1000", "--query-seconds", "1", "--plain")
LONG = ("--rows", "2000", "--rows-written", "50000000", "--steps", "l.i1", "--repeats", "1")
ROLES = f"""
CREATE ROLE tenant LOGIN CREATEDB PASSWORD '{PASSWORD}' IN ROLE pg_monitor;
CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}';
CREATE ROLE few LOGIN CREATEDB CONNECTION LIMIT 3 PASSWORD '{PASSWORD}';
CREATE ROLE reader LOGIN CREATEDB PASSWORD '{PASSWORD}';
ALTER ROLE reader SET default_transaction_read_only = on;
"""


class Standby(Server):
    """A server that waits for a primary's WAL, and answers questions meanwhile."""

    def _configure(self) -> None:
        super()._configure()
        waiting = self.data_dir / "standby.signal"
        waiting.touch()
        self.account.chown(waiting)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that somebody else runs."""

    server: Server

    def dsn(self, user: str = "tenant", password: str = PASSWORD, *, more: str = "", host: str = "") -> str:
        """Its connection string; by its socket unless a `host` is given."""
        secret = f":{quote(password)}" if password else ""
        place = f"host={self.server.socket_dir}&" if not host else ""
        return f"postgresql://{user}{secret}@{host}/postgres?{place}{more}"

    def ask(self, sql: str, database: str = "postgres") -> list[Any]:
        """The first column of an answer, asked as the superuser."""
        with self.server.connect(database) as connection:
            cursor = connection.execute(sql)
            return [row[0] for row in cursor.fetchall()] if cursor.description else []

    @property
    def made(self) -> list[str]:
        """The databases that runs have there."""
        return self.ask("SELECT datname FROM pg_database WHERE datname LIKE 'pgbed%'")

    @property
    def socket(self) -> Path:
        assert self.server.socket_dir is not None
        return self.server.socket_dir / ".s.PGSQL.5432"


@pytest.fixture(scope="module")
def running(
    build: Callable[[int | str], Build], small_config: Callable[[Build], Config], new_folder: Callable[[], Path]
) -> Iterator[list[Running]]:
    """Two servers, 12 and 16, with roles that log in by password."""
    with ExitStack() as stack:
        servers = []
        for major in (12, 16):
            server = stack.enter_context(Server(build(major), small_config(build(major)), new_folder()))
            hba = server.data_dir / "pg_hba.conf"
            hba.write_text("local all tenant,guest,few,reader scram-sha-256\n" + hba.read_text())
            with server.connect("postgres") as connection:
                connection.execute("SET password_encryption = 'scram-sha-256'")
                connection.execute(ROLES)
                connection.execute("SELECT pg_reload_conf()")
            servers.append(Running(server))
        yield servers


def passfile(folder: Path) -> Path:
    """A new file of passwords."""
    path = folder / "passwords"
    path.write_text("*:*:*:tenant:" + PASSWORD.replace("\\", "\\\\").replace(":", "\\:") + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def compared(running: list[Running], new_folder: Callable[[], Path]) -> tuple[Bench, str]:
    """A run of the Insert Benchmark on both, three pairs, and its output. One password is in a file."""
    folder = new_folder()
    bench = Bench(folder / "runs", {"PGPASSFILE": str(passfile(folder)), "PGOPTIONS": "-c work_mem=77MB"})
    old, new = running
    pg = f"prod={old.dsn(password='')},new={new.dsn()}"
    done = bench("run", "--pg", pg, "--repeats", "3", "--steps", "pause", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr + (bench.run / "engine.log").read_text()
    return bench, done.stdout


def found_in(run: Path) -> dict[str, Any]:
    """`bench compare --json` of a run, without the process."""
    comparison: dict[str, Any] = json.loads(to_json(compare([run])))
    return comparison


def test_servers_that_are_running_are_compared_without_verdicts(
    compared: tuple[Bench, str], running: list[Running]
) -> None:
    bench, output = compared
    assert "cells: external servers cannot be paused" in output
    assert "new against prod, ratios without verdicts" in output and "not visible from outside" in output
    assert [attempt.cell.split("-")[1] for attempt in bench.attempts()] == ["prod", "new", "new", "prod", "prod", "new"]
    comparison = found_in(bench.run)
    unseen = (
        "server_cpu_us_per_op", "runq_us_per_op", "ctx_switches_per_op", "read_kb_per_op", "written_kb_per_op",
        "device_written_kb_per_op", "cluster_bytes",
    )  # fmt: skip
    for cell in comparison["cells"]:
        assert all(cell[name] is None for name in unseen), cell["step"]
        assert all(role["cpu_s"] is None and role["mean_us"] != 0 for role in cell["roles"].values())
        if cell["step"] == "l.i0":
            assert cell["rate_per_s"] > 0 and cell["wal_bytes_per_op"] > 0 and cell["heap_bytes"] > 0
    rates = [ratio for ratio in comparison["ratios"] if ratio["metric"] == "rate_per_s"]
    assert {ratio["step"] for ratio in rates} == {"l.i0", "l.x"}
    assert all(row["verdict"] == "none" and (row["low"] is not None or row["left_out"]) for row in rates)
    assert not any(row["flagged"] for row in comparison["ratios"])
    findings = " ".join(comparison["findings"])
    assert (
        "role may" in findings
        and "include the work of its other clients" in findings
        and "different settings" in findings
    )
    assert PASSWORD not in json.dumps(comparison) and "77MB" not in json.dumps(comparison)
    assert running[0].made == running[1].made == []


def test_invisible_figures_are_absent_not_zero(compared: tuple[Bench, str]) -> None:
    bench, _ = compared
    with JournalReader(bench.run) as reader:
        attempt = reader.attempts()[0]
        settings = {name: value for name, value, _ in reader.settings(attempt.id)}
        assert settings["shared_buffers"] == "64MB" and "database" in settings
        server = reader.attempts()[0].origin["server"]
        assert server["database"].startswith("pgbed_") and not server["checkpoint"] and server["may_see_all"]
        for step in reader.steps(attempt.id):
            assert {source for _, _, source, _ in reader.samples(step.id)} == {"engine", "wal"}
            for role in reader.roles(step.id):
                for second in reader.role_seconds(role.id):
                    assert second.backend_cpu_ns is None and second.client_cpu_ns is not None
    with Player(bench.run, cell=attempt.cell, step="l.i0") as player:
        view = player.look()
        lines = ["".join(span[0] for span in line) for line in live_text.role_table(view, 80)]
        assert "not visible from outside" in lines[-1] and lines[-1].split()[2:5] == ["-", "-", "-"]
        assert "not visible from outside" in "".join(span[0] for span in live_text.states(view))
    log = (bench.run / "cells" / attempt.cell / "maintenance.log").read_text()
    assert "VACUUM" in log and "CHECKPOINT" not in log  # the role may not


def test_a_password_is_nowhere_in_the_record(compared: tuple[Bench, str]) -> None:
    bench, output = compared
    secrets = [PASSWORD.encode(), quote(PASSWORD).encode(), PASSWORD.replace(":", "\\:").encode(), b"sesame"]
    assert "sesame" not in output
    for path in bench.run.rglob("*"):
        if path.is_file():
            assert not any(secret in path.read_bytes() for secret in secrets), path


def test_verdicts_are_given_where_others_load_is_accepted(compared: tuple[Bench, str], tmp_path: Path) -> None:
    bench, _ = compared
    run = tmp_path / bench.run.name
    shutil.copytree(bench.run, run)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["external"]["accept_foreign_load"] = True
    (run / "manifest.json").write_text(json.dumps(manifest))
    comparison = found_in(run)
    assert "without verdicts" not in " ".join(comparison["answer"][0]["lines"])
    assert any("verdicts were requested" in finding for finding in comparison["findings"])
    rates = [ratio for ratio in comparison["ratios"] if ratio["metric"] == "rate_per_s"]
    assert all(ratio["verdict"] != "none" or ratio["left_out"] for ratio in rates)


def test_pgbench_over_tcp_has_no_password_on_its_command_line(bench: Bench, running: list[Running]) -> None:
    new = running[1]
    with Relay(new.socket) as relay:
        pg = f"new={new.dsn(host=f'127.0.0.1:{relay.port}')}"
        words = ("--workload", "pgbench-select", "--clients", "2", "--seconds", "2", "--rate", "100")
        run = bench.detached("--pg", pg, "--repeats", "1", "--pgbench-scale", "1", "--warmup-seconds", "1", *words)
        lines: set[str] = set()

        def over() -> bool:
            time.sleep(0.3)
            for entry in Path("/proc").iterdir():
                if entry.name.isdecimal():
                    try:
                        line = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                    except OSError:
                        continue
                    if b"pgbed_" in line and b"pgbench" in line:
                        lines.add(line.decode(errors="replace"))
            return bool(bench.attempts()) and bench.attempts()[0].state != "running"

        wait_for(over, "the cell")
        bench.await_end()
        assert lines and not any("sesame" in line or quote(PASSWORD) in line for line in lines)
    assert [attempt.state for attempt in bench.attempts()] == ["finished"], bench.attempts()
    assert found_in(run)["units"] == {"select.c2": "tx/s"}
    assert new.made == [] and not list(run.glob("cells/*/database.json"))


def test_a_broken_connection_fails_its_cell_only(bench: Bench, running: list[Running]) -> None:
    new = running[1]
    with Relay(new.socket) as relay:
        pg = f"new={new.dsn(host=f'127.0.0.1:{relay.port}')}"
        bench.detached("--pg", pg, *LONG[:-1], "2")
        bench.await_step("l.i1")
        (database,) = new.made
        new.ask(f"COMMENT ON DATABASE {database} IS 'mine'")
        relay.cut()
        bench.await_step("l.i1", cell=2)
        (failed, _) = bench.attempts()
        assert failed.state == "failed" and failed.reason and "\n" not in failed.reason
        assert f"; database {database} on new does not bear this run's mark" in failed.reason
        new.ask(f"DROP DATABASE {database}")
        assert len(new.made) == 1
        bench("stop")
    assert new.made == [] and bench.attempts()[1].state == "interrupted"


def test_a_killed_engines_database_is_dropped_by_its_mark(bench: Bench, running: list[Running]) -> None:
    old, _ = running
    run = bench.detached("--pg", f"prod={old.dsn()}", *LONG)
    bench.await_step("l.i1")
    (database,) = old.made
    engine = bench.engine_pid()
    (reaper,) = children_of(engine, b"engine.run.reaper")
    os.kill(reaper, signal.SIGKILL)
    os.kill(engine, signal.SIGKILL)
    wait_for(lambda: not is_locked(run), "the engine to end")
    assert old.made == [database]
    (mark,) = old.ask(f"SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = '{database}'")
    old.ask(f"COMMENT ON DATABASE {database} IS 'mine'")
    refused = bench("resume", run.name)
    assert refused.returncode == 2 and "sesame" not in refused.stderr, "no password is recorded"
    bench.environment["PGPASSFILE"] = str(passfile(run.parent))
    refused = bench("resume", run.name)
    assert refused.returncode == 2 and "does not bear this run's mark" in refused.stderr and old.made == [database]
    old.ask(f"COMMENT ON DATABASE {database} IS '{mark}'")
    again = bench("resume", run.name, "--detach")
    assert again.returncode == 0, again.stderr
    assert f"dropped leftovers of cell 001-prod-as-is-r1: database {database}" in again.stdout
    wait_for(lambda: len(bench.attempts()) == 2, "the next attempt")
    bench.await_step("l.i1", cell=2)
    assert bench("probes", "on", "planner").stderr.endswith("probes cannot see inside it\n")
    os.kill(bench.engine_pid(), signal.SIGKILL)  # what outlives it clears up at once
    wait_for(lambda: not old.made, "the database to be dropped")
    wait_for(lambda: not list(run.glob("cells/*/database.json")), "its record to go")


def test_a_database_is_dropped_while_autovacuum_works_there(running: list[Running], tmp_path: Path) -> None:
    slow = "autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 1"
    for place, server in enumerate(running):
        cell = tmp_path / "cells" / f"{place}"
        cell.mkdir(parents=True)
        (cell / RECORD).write_text(json.dumps({"build": "prod", "database": "pgbed_busy", "mark": "ours"}))
        server.ask("ALTER SYSTEM SET autovacuum_naptime = 1")
        server.ask("SELECT pg_reload_conf()")
        server.ask("CREATE DATABASE pgbed_busy OWNER tenant")
        server.ask("COMMENT ON DATABASE pgbed_busy IS 'ours'")
        server.ask(f"CREATE TABLE t WITH ({slow}) AS SELECT generate_series(1, 100000) AS a", "pgbed_busy")
        server.ask("DELETE FROM t", "pgbed_busy")
        workers = "SELECT pid FROM pg_stat_activity WHERE datname = 'pgbed_busy' AND backend_type = 'autovacuum worker'"
        wait_for(lambda: server.ask(workers), "autovacuum")  # noqa: B023
        assert clear(cell, server.dsn()) == "database pgbed_busy on prod"
        assert server.made == []


def test_a_given_database_must_be_and_become_empty(bench: Bench, running: list[Running]) -> None:
    new = running[1]
    new.ask("CREATE DATABASE room")
    new.ask("GRANT CREATE ON SCHEMA public TO guest", "room")
    words = ("--pg", f"new={new.dsn('guest')}", "--repeats", "1", *SMALL, "--scratch-database", "room")
    done = bench("run", *words, "--steps", "l.i1", "--rows-written", "3000")
    assert done.returncode == 0, done.stdout + done.stderr + str([attempt.reason for attempt in bench.attempts()])
    left = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert new.ask(left, "room") == []
    new.ask("CREATE TABLE pi1 (mine int)", "room")
    refused = bench("run", *words, "--steps", "l.i0")
    assert refused.returncode == 2 and "database room is not empty: it holds relation pi1" in refused.stderr
    assert new.ask(left, "room") == ["pi1"]


def test_what_cannot_be_compared_is_refused_in_one_line(
    bench: Bench, running: list[Running], label: str, tmp_path: Path, new_folder: Callable[[], Path]
) -> None:
    old, new = running
    prod = f"prod={old.dsn()}"
    with (
        Relay(new.socket, pooling=True) as pooler,
        Relay(new.socket, b"\x0016.", b"\x0011.") as aged,
        Standby(new.server.build, new.server.config, new_folder()) as standby,
    ):
        refused: list[tuple[str, dict[str, Any], str]] = [
            (f"prod=postgresql:///x?host={tmp_path}", {}, "prod: connection"),
            (f"prod={old.dsn(password='wrong')}", {}, "password authentication failed"),
            (f"prod={old.dsn(more='foo=1')}", {}, 'prod: not a connection string: invalid URI query parameter: "foo"'),
            (f"prod=postgresql://tenant:{PASSWORD}/:x@[::1/", {}, "prod: not a connection string: "),
            (f"prod={old.dsn(more='options=-cjit%3Doff')}", {}, "prod: options is not supported"),
            (f"prod={old.dsn('guest')}", {}, "role guest may not create databases"),
            (f"prod={old.dsn()}", {"scratch_database": "absent"}, "--scratch-database absent: "),
            (f"prod={old.dsn('few')}", {}, "connections, and"),
            (f"prod={old.dsn('reader')}", {}, "are read-only"),
            (f"prod={new.dsn(host=f'127.0.0.1:{pooler.port}')}", {}, "a connection pooler is in front"),
            (f"prod={new.dsn(host=f'127.0.0.1:{aged.port}')}", {}, "is too old: 12 or later"),
            (f"prod={Running(standby).dsn('bench', '')}", {}, "a standby, which is read-only"),
            (f"{prod},{label}", {}, "they cannot be compared"),
            (f"{prod},prod={new.dsn()}", {}, "would both be called prod; give one another name"),
            (f"{prod},other={old.dsn(more='connect_timeout=9')}", {}, "prod and other are the same server"),
            (prod, {"configs": ["cx5"]}, "--config cannot be used with prod=…"),
            (prod, {"overrides": ["work_mem=1MB"]}, "--set cannot be used"),
            (prod, {"keep": True}, "--keep cannot be used"),
            (prod, {"probes": ["sched"]}, "--probes cannot be used"),
            (prod, {"interleave": "slices"}, "external servers cannot be paused"),
            (prod, {"placement": "paired"}, "--placement paired binds"),
            (prod, {"preset": "planner-delete"}, "this workload cannot run"),
            (prod, {"preset": "copy-ring"}, "-O setup=FILE may write files next to the data"),
            (label, {"accept_foreign_load": True}, "--accept-foreign-load is for external servers"),
        ]
        for pg, entries, why in refused:
            with pytest.raises(UserError) as error:
                prepare(planfile.request({"builds": pg.split(","), **entries}), bench.out, lambda _: None)
            message = str(error.value)
            assert why in message and "\n" not in message and "sesame" not in message, (pg, entries, message)
        done = bench("run", "--pg", f"{prod},{label}")
        assert done.returncode == 2 and done.stderr.startswith("bench: prod=… is an external server")
        assert done.stderr.count("\n") == 1 and not bench.out.exists()
    assert not list(bench.out.glob("*/manifest.json")) and old.made == new.made == []
