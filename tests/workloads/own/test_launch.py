"""A step with clients on real servers: restored, prepared, explained, executed, undone."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from engine.core.model import Build
from engine.system.account import unprivileged
from tests.support.ibdatabase import Database
from tests.support.steprun import forked
from workloads.api.report import Report
from workloads.client.counter_page import Control, Page, State, Word
from workloads.own.data import of_dump
from workloads.own.launch import together
from workloads.own.options import Options
from workloads.own.spec import APP, CLONE, PRISTINE, OwnSpec
from workloads.own.statements import parsed
from workloads.own.survey import surveyed

SCHEMA = """
CREATE TABLE t (id int PRIMARY KEY, x text);
COPY t FROM stdin;
1\tone
2\t\\N
\\.
INSERT INTO t SELECT n, 'x' FROM generate_series(3, 1000) n;
"""


@pytest.fixture
def data(folder: Path) -> Path:
    (file := folder / "data.sql").write_text(SCHEMA)
    return file


@pytest.fixture
def empty(database: Callable[..., Database]) -> Iterator[Database]:
    """An empty database of 16; what belongs to all databases is removed afterwards."""
    target = database(16)
    yield target
    with psycopg.connect(target.dsn, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [APP]).fetchone():
            return
        for name in (PRISTINE, CLONE):
            connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        connection.execute(f"ALTER DATABASE {target.name} OWNER TO bench".encode())
        connection.execute(f"DROP OWNED BY {APP} CASCADE".encode())
        connection.execute(f"DROP ROLE {APP}".encode())


def run(
    dsn: str, file: Path, text: str = "", kind: str = "data", *, seconds: float = 0.2, pg_restore: str = "",
    clients: int = 1, **options: Any,
) -> Any:  # fmt: skip
    """Plays the engine's part; returns the report, and the page's words, or the error."""
    page = Page.create(clients)
    statements = parsed(text, "s.sql") if text else ()
    step = {"name": "s", "kind": kind, "clients": clients, "seconds": seconds}
    data = surveyed(of_dump(str(file)), pg_restore, trusted=options.get("trust_dump", False))
    spec = OwnSpec(page_fd=page.fd, dsn=dsn, folder="/tmp", step=step, options=Options(**options), data=data,
                statements=statements, cloned="clone" in text, seed=1, repeat=1, pg_restore=pg_restore,
                psql=os.environ["PGBED_PSQL"])  # fmt: skip
    reported, out = os.pipe()
    identity = unprivileged().identity()
    launcher = forked("workloads.own.launch", page.fd, msgspec.json.encode(spec), {1: out}, identity)
    os.close(out)
    with closing(page), os.fdopen(reported, "rb") as reporting:
        deadline = time.monotonic() + 60

        def states() -> list[int]:
            return [page.word(slot, Word.STATE) for slot in range(clients)]

        while min(states()) < State.DONE and time.monotonic() < deadline:
            if min(states()) == State.READY and not page.words[Control.START_NS]:
                page.words[Control.START_NS] = time.monotonic_ns()
            time.sleep(0.002)
        page.words[Control.RELEASE] = 1
        report = reporting.read()
        launcher.wait(60)
        if error := page.error(0):
            return error
        return msgspec.json.decode(report), page.word(0, Word.STATEMENTS), page.word(0, Word.ROWS_ACTUAL)


def test_data_are_restored_by_a_role_that_is_no_superuser(empty: Database, data: Path) -> None:
    report, _, _ = run(empty.dsn, data)
    assert report["planner"]["enable_hashjoin"] == "on"
    with psycopg.connect(empty.dsn) as connection:
        assert connection.execute("SELECT count(*), count(x), max(x) FROM t").fetchone() == (1000, 999, "x")
        query = "SELECT tableowner, rolsuper FROM pg_tables JOIN pg_roles ON rolname = tableowner WHERE tablename = 't'"
        owner = connection.execute(query).fetchone()
        assert owner == (APP, False)
        assert connection.execute("SELECT reltuples FROM pg_class WHERE relname = 't'").fetchone() == (1000,)


def test_extensions_are_put_into_the_schemas_that_the_dump_names(empty: Database, data: Path) -> None:
    data.write_text(
        "CREATE SCHEMA ext;\nCREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA ext;\n"
        "CREATE TABLE t AS SELECT ext.hstore('a', 'b') AS x;"
    )
    outcome = run(empty.dsn, data)
    assert not isinstance(outcome, str), outcome
    where = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'hstore'"
    assert empty.one(where) == "ext" and empty.one("SELECT count(*) FROM t") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("COPY t FROM PROGRAM 'touch /tmp/pgbed-never';", "to COPY to or from an external program"),
        ("ALTER SYSTEM SET jit = off;", "permission denied"),
        ("SELECT 1;\nCREATE TABLE t (id int);", 'data.sql:9: 42P07 relation "t" already exists'),
        ("SELECT pg_read_file('/etc/passwd');", "permission denied"),
        ("BEGIN; INSERT INTO t VALUES (0);", "data.sql: its last transaction has no COMMIT"),
        # A string for our reader is a command for psql.
        (
            "SELECT set_config('standard_conforming_strings', 'off', false);\nSELECT 'a\\'' ;\n"
            "\\! touch /tmp/pgbed-never\n--'\n",
            "backslash commands are restricted",
        ),
        ("SELECT 1;\nSELECT\n1 / 0", "data.sql:9: 22012 division by zero, in: SELECT 1 / 0"),
        (
            "COPY t FROM stdin;\n5000\tx\ny\tz\n\\.\n",
            'data.sql:8: 22P02 invalid input syntax for type integer: "y" (COPY t',
        ),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC; SELECT 1;", "data.sql:8: 42601 syntax error"),
    ],
)
def test_a_hostile_or_faulty_file_is_stopped_and_reported(empty: Database, data: Path, text: str, why: str) -> None:
    data.write_text(SCHEMA + text)
    assert why in run(empty.dsn, data)
    assert not Path("/tmp/pgbed-never").exists()


STATEMENTS = """
-- name: point
-- :id from select id from t order by id
SELECT x FROM t WHERE id = :id;
-- name: shown
-- :n uniform 1 3
SELECT :n::int FROM t WHERE id = 1;
-- name: missing
SELECT 1 FROM nowhere;
-- name: huge
SELECT repeat('x', 1000000) FROM generate_series(1, 10000);
-- name: none
-- :id from select id from t where false
SELECT :id::int;
-- name: wide
-- :x from select repeat('x', 100000) from generate_series(1, 10000)
SELECT :x;
-- name: writer
-- writes: rollback
-- :id uniform 1 1000
DELETE FROM t WHERE id = :id;
-- name: hidden
SELECT deleting();
"""
DELETING = "CREATE FUNCTION deleting() RETURNS void LANGUAGE sql AS 'DELETE FROM t';"


def test_failing_statements_are_reported_and_others_run(empty: Database, data: Path) -> None:
    data.write_text(SCHEMA + DELETING)
    run(empty.dsn, data)
    outcome = run(empty.dsn, data, STATEMENTS, "mix", max_result=2, check_results=True)
    assert not isinstance(outcome, str), outcome
    report, executions, rows = outcome
    errors = {row["statement"]: row["error"] for row in report["results"]}
    assert errors["point"] == errors["writer"] == ""
    assert errors["missing"] == '42P01 relation "nowhere" does not exist'
    assert errors["huge"].startswith("its result is larger than 2 MB")
    assert errors["none"] == "the values of :id: the query returns no row"
    assert errors["wide"] == "the values of :x: the query returns more than 64 MB; add a LIMIT"
    assert errors["hidden"].startswith("25006 cannot execute DELETE in a read-only transaction")
    assert executions > 5 and 0 < rows <= executions
    plans = {plan["statement"]: plan for plan in report["plans"]}
    assert plans["point"]["tree"]["kind"] == "Index Scan" and plans["point"]["chosen"] == "generic"
    assert plans["shown"]["chosen"] == "generic", "although no condition of its plan has a parameter"
    assert plans["point"]["rows"] == 1 and plans["point"]["hit"] > 0 and plans["writer"]["wal_bytes"] > 0
    by_name = {row["statement"]: row for row in report["results"]}
    assert by_name["point"]["rows"] == by_name["point"]["executions"] == 5 and len(by_name["point"]["digest"]) == 32
    with psycopg.connect(empty.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1000,)


def test_what_fails_for_another_client_only_is_in_the_report() -> None:
    def of(name: str, error: str = "") -> dict[str, str]:
        return {"statement": name, "error": error}

    outcomes = [
        (2, {"results": [of("a", "40P01 deadlock detected"), of("b", "lost")]}),
        (0, {"planner": {"a": "b"}, "results": [of("a"), of("b", "no")]}),
        (1, {"results": []}),
    ]
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in outcomes)
    expected = [of("a"), of("b", "no"), of("a", "40P01 deadlock detected")]
    assert together(lines) == msgspec.convert({"planner": {"a": "b"}, "results": expected}, Report)
    assert together(b'[0,{"planner":{}}]\n') == Report()


def test_a_client_that_cannot_do_what_another_does_is_reported(empty: Database, data: Path) -> None:
    run(empty.dsn, data)
    text = "-- name: mine\nSELECT 1 / pg_try_advisory_lock(1)::int"
    report, _, _ = run(empty.dsn, data, text, "statement", clients=2)
    assert sorted(row["error"] for row in report["results"])[-1] == "22012 division by zero"


def test_statements_that_write_for_good_do_so_in_a_clone(empty: Database, data: Path) -> None:
    text = "-- name: w\n-- writes: clone\nINSERT INTO t SELECT max(id) + 1 FROM t"
    run(empty.dsn, data, text)
    report, executions, rows = run(empty.dsn, data, text, "statement")
    assert report["results"][0]["error"] == "" and executions == rows > 1
    with psycopg.connect(empty.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        assert connection.execute("SELECT 1 FROM pg_database WHERE datname = 'pgbed_clone'").fetchone() is None


def test_plans_alone_execute_nothing(empty: Database, data: Path) -> None:
    data.write_text(SCHEMA + DELETING)
    run(empty.dsn, data)
    text = "-- name: a\nSELECT deleting();\n-- name: b\n-- :id uniform 1 9\nSELECT x FROM t WHERE id = :id"
    report, plans, _ = run(empty.dsn, data, text, "plans")
    assert plans > 2 and 0 < report["planning"]["a"] < 50 and 0 < report["planning"]["b"] < 50
    assert [plan["chosen"] for plan in report["plans"]] == ["", "custom"]


def test_forty_joins_of_twelve_tables_are_planned(empty: Database) -> None:
    skewed = Path(__file__).parent / "skewed"
    run(empty.dsn, skewed / "data.sql")
    report, _, _ = run(empty.dsn, skewed / "data.sql", (skewed / "statements.sql").read_text(), "plans", seconds=0.5)
    assert [row["error"] for row in report["results"]] == [""] * 40
    assert len(report["planning"]) == 40 and len({plan["shape"] for plan in report["plans"]}) > 30


@pytest.mark.outside  # over the server that is compiled, which has an extension and its programs
def test_a_truncated_or_failing_archive_is_reported(
    empty: Database, database: Callable[..., Database], build: Callable[[int | str], Build], folder: Path
) -> None:
    source, programs = database(13), build(13).bin
    with psycopg.connect(source.dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA ext")
        connection.execute("CREATE EXTENSION hstore SCHEMA ext")
        connection.execute("CREATE TABLE t AS SELECT ext.hstore('n', n::text) AS x FROM generate_series(1, 99) n")
        connection.execute("CREATE TABLE n AS SELECT n FROM generate_series(1, 99) n")
        connection.execute("CREATE FUNCTION f(int) RETURNS int LANGUAGE internal AS 'int4up'")
    for form in ("custom", "tar"):
        subprocess.run([programs / "pg_dump", f"--format={form}", f"--file={folder / form}", source.dsn], check=True)
    pg_restore = str(programs / "pg_restore")
    for form, short in (("custom", 20), ("tar", 600)):
        dump = surveyed(of_dump(str(folder / form)), pg_restore, trusted=True)
        assert dump.format == form and dump.major == 13 and set(dump.extensions) == {"hstore", "pgstattuple"}
        assert dump.schemas["hstore"] == "ext"
        content = (folder / form).read_bytes()
        for end in (len(content) // 3, -short):
            (folder / "cut").write_bytes(content[:end])
            with pytest.raises(ValueError, match="cut short"):
                surveyed(of_dump(str(folder / "cut")), pg_restore)
    subprocess.run([programs / "pg_dump", "--format=directory", f"--file={folder / 'whole'}", source.dsn], check=True)
    (folder / "whole").chmod(0o755)
    next((folder / "whole").glob("*.dat.gz")).unlink()
    with pytest.raises(ValueError, match=r"cut short: its file \d+\.dat is missing"):
        surveyed(of_dump(str(folder / "whole")), pg_restore)
    refused = r"custom: a function in the language internal needs a superuser .*: --trust-dump restores"
    with pytest.raises(ValueError, match=refused):
        surveyed(of_dump(str(folder / "custom")), pg_restore)
    outcome = run(empty.dsn, folder / "custom", pg_restore=pg_restore, trust_dump=True)
    assert not isinstance(outcome, str), outcome
    assert empty.one(f"SELECT count(*) FROM pg_proc JOIN pg_roles r ON r.oid = proowner WHERE proname = 'f' AND "
                     f"rolname = '{APP}' AND NOT rolsuper") == 1  # fmt: skip
    with psycopg.connect(empty.dsn) as connection:
        assert connection.execute("SELECT count(*), max(x OPERATOR(ext.->) 'n') FROM t").fetchone() == (99, "99")
    # pg_restore connects to no server that is newer than itself.
    subprocess.run(
        [programs / "pg_dump", "--format=custom", "--table=n", f"--file={folder / 'n'}", source.dsn], check=True
    )
    newest = database(19)
    outcome = run(newest.dsn, folder / "n", pg_restore=os.environ["PGBED_PG_RESTORE"])
    assert not isinstance(outcome, str), outcome
    assert newest.one("SELECT count(*) FROM n") == 99
