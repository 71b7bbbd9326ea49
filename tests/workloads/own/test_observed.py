import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from engine.postgres.server import Server
from workloads.own import observed

CANNOT = "cannot be prepared: only queries, INSERT, UPDATE, DELETE and MERGE can"
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


def test_the_longest_statements_come_first(tmp_path: Path) -> None:
    (rows := tmp_path / "top.csv").write_text(ROWS)
    (rules := tmp_path / "p.sql").write_text("-- $1 uniform 1 9\n-- name: q13\n-- $2 of 1, 2\n-- $1 of 5\n")
    longest, left_out = observed.statements(str(rows), 3, str(rules))
    assert [statement.name for statement in longest] == ["q11", "q13", "q15"] and longest[1].writes == "rollback"
    assert {rule.places: rule.values for rule in longest[1].rules} == {(1,): ("1", "2"), (0,): ("5",)}
    assert [omission.what for omission in left_out] == [
        "q17 (49% of the time)", "q12 (44% of the time)", "q14 (1% of the time)",
    ]  # fmt: skip
    assert left_out[0].why.startswith("it reads the server's catalogs") and "has no end" in left_out[2].why
    assert left_out[1].why.startswith("BEGIN cannot be prepared")
    longest, left_out = observed.statements(str(rows), 3, None)
    assert [statement.name for statement in longest] == ["q15", "q16"]
    assert left_out[2] == ("2 statements (4% of the time)", "no values for its parameters: give rules with --params")


def test_useless_rows_of_an_export_are_left_out_by_reason(tmp_path: Path) -> None:
    long = " ".join(["SELECT 1 /* "] + ["x" * 1000] * 200 + ["*/"])
    lines: list[Sequence[object]] = [
        *[[None, "<insufficient privilege>", 100 + number] for number in range(3)],
        ["21", long, 60], ["22", None, 50], ["1;DROP", "SELECT 2", 40], ["23", "SELECT 3", "NaN"],
        ["24", "SELECT 4", ""],
        ["25", "SELECT 5", "much"], ["26", "SELECT \N{LATIN SMALL LETTER E WITH ACUTE}", 30], ["27", "SELECT '\n'", 20],
        *[[str(number), "COMMIT", 0.001] for number in range(1000, 4000)],
        ["28", "SELECT count(*) FROM a", 5], ["29", "SELECT count(*) FROM a", 4], ["30", "SELECT 1", 0],
    ]  # fmt: skip
    with (rows := tmp_path / "top.csv").open("w", newline="", encoding="latin-1") as file:
        csv.writer(file).writerows([["queryid", "query", "total_exec_time"], *lines])
    kept, left_out = observed.statements(str(rows), 20, None)
    assert [statement.name for statement in kept] == ["q27", "q28", "q24", "q30"], "those of two databases are one"
    assert {omission.why.partition(";")[0]: omission.what for omission in left_out} == {
        "its text is hidden from the role that read it": "3 statements (59% of the time)",
        "its text is longer than 64 KiB": "q21 (12% of the time)",
        "its text or time is missing": "q22 (10% of the time)",
        "its queryid is no number": "1 statement (8% of the time)",
        "its text is not UTF-8": "q26 (6% of the time)",
        f"COMMIT {CANNOT}": "q1000 (less than 1% of the time)",
        "its time is no number of milliseconds": "2 statements (less than 1% of the time)",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", "the first line must name the columns"),
        (
            "query,total_time\nBEGIN,1\n",
            "none of its statements can be run: 1 statement .100% of the time.: BEGIN cannot",
        ),
        (
            "query,total_time\nSELECT 1,much\n",
            "none of its statements can be run: 1 statement .*: its time is no number",
        ),
        ("query," + "x" * 200_000, "the first line must name the columns"),
        ("queryid,query,total_time\n1;DROP,SELECT 1,1\n", "its queryid is no number"),
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
    kept, _ = observed.statements(str(rows), 1, None)
    assert [statement.name for statement in kept] == ["q1"]


def test_what_locks_rows_is_rolled_back(tmp_path: Path) -> None:
    (rows := tmp_path / "top.csv").write_text("queryid,query,total_exec_time\n1,SELECT 1 FROM t FOR UPDATE,5\n")
    assert [statement.writes for statement in observed.statements(str(rows), 1, None)[0]] == ["rollback"]


def test_a_server_without_the_view_is_named_without_its_password(server: Callable[[int | str], Server]) -> None:
    dsn = server(16).dsn("postgres") + " password=secret"
    with pytest.raises(ValueError, match="pg_stat_statements is missing there") as refused:
        observed.statements(dsn, 3, None)
    assert "secret" not in str(refused.value)
