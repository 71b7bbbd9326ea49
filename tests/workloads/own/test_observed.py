from collections.abc import Callable
from pathlib import Path

import pytest

from engine.postgres.server import Server
from workloads.own import observed

ROWS = """queryid,query,calls,total_exec_time
11,SELECT * FROM a WHERE b = $1,10,50.5
12,BEGIN,10,900
13,UPDATE a SET b = $1 WHERE c = $2,5,40
14,"SELECT $1 ||
 'x",1,30
15,SELECT count(*) FROM a,1,20
16,SELECT 7,1,10
17,SELECT * FROM pg_catalog.pg_class,1,999
"""


def test_statements_that_took_most_time_come_first_and_others_are_listed_with_why(tmp_path: Path) -> None:
    (rows := tmp_path / "top.csv").write_text(ROWS)
    (rules := tmp_path / "p.sql").write_text("-- $1 uniform 1 9\n-- name: q13\n-- $2 of 1, 2\n-- $1 of 5\n")
    found, left_out = observed.statements(str(rows), 3, str(rules))
    assert [each.name for each in found] == ["q11", "q13", "q15"] and found[1].writes == "rollback"
    assert {rule.places: rule.values for rule in found[1].rules} == {(1,): ("1", "2"), (0,): ("5",)}
    assert [each.name for each in left_out] == ["q17", "q12", "q14"]
    assert left_out[0].why.startswith("it reads the server's catalogs") and "has no end" in left_out[2].why
    assert left_out[1].why.startswith("BEGIN cannot be prepared")
    found, left_out = observed.statements(str(rows), 3, None)
    assert [each.name for each in found] == ["q15", "q16"] and "give rules with --params" in left_out[2].why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", "the first line must name the columns"),
        ("query,total_time\nBEGIN,1\n", "none of its statements can be run; q1: BEGIN cannot"),
        ("query,total_time\nSELECT 1,much\n", "top.csv:2: could not convert"),
        ("query," + "x" * 200_000, "top.csv:1: field larger than field limit"),
        ("queryid,query,total_time\n1;DROP,SELECT 1,1\n", "not a number"),
    ],
)
def test_rows_that_are_none_are_refused(tmp_path: Path, text: str, why: str) -> None:
    (rows := tmp_path / "top.csv").write_text(text)
    with pytest.raises(ValueError, match=why):
        observed.statements(str(rows), 3, None)


def test_a_statement_of_several_users_is_one(tmp_path: Path) -> None:
    (rows := tmp_path / "top.csv").write_text(
        "userid,queryid,query,total_exec_time\n10,1,SELECT 1,5\n10,2,SELECT 2,8\n11,1,SELECT 1,4\n"
    )
    found, _ = observed.statements(str(rows), 1, None)
    assert [each.name for each in found] == ["q1"]


def test_what_locks_rows_is_rolled_back(tmp_path: Path) -> None:
    (rows := tmp_path / "top.csv").write_text("queryid,query,total_exec_time\n1,SELECT 1 FROM t FOR UPDATE,5\n")
    assert [each.writes for each in observed.statements(str(rows), 1, None)[0]] == ["rollback"]


def test_a_server_without_the_view_is_named_without_its_password(server: Callable[[int | str], Server]) -> None:
    dsn = server(16).dsn("postgres") + " password=secret"
    with pytest.raises(ValueError, match="pg_stat_statements is missing there") as refused:
        observed.statements(dsn, 3, None)
    assert "secret" not in str(refused.value)
