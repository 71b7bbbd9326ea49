from pathlib import Path

import pytest

from workloads.own import statements
from workloads.own.statements import Rule, Statement

APP = Path(__file__).parent / "app"

REFUSED = [
    ("select 1;", "f.sql:1: a statement without a name"),
    ("-- name: a b\nselect 1", "'a b' is no name"),
    ("-- name: data\nselect 1", "'data' is no name"),
    ("-- name: a\nselect 1;\n-- name: a\nselect 2", "f.sql:4: two statements are called a"),
    ("-- name: a\nselect :x", "f.sql:2: a: parameter :x has no rule"),
    ("-- name: a\n-- :x from select 1\n-- :y of 1\nselect :x", "there is no parameter :y in it"),
    ("-- name: a\n-- :x of 1\n-- :x of 2\nselect :x", "parameter :x has two rules"),
    ("-- name: a\n-- :x someday\nselect :x", "':x someday': a rule is"),
    ("-- name: a\n-- :x uniform 9 1\nselect :x", "uniform 9 1: give two whole numbers"),
    ("-- name: a\n-- :x from select 1; drop table t\nselect :x", "give one query"),
    ("-- name: a\n-- :x from drop table t\nselect :x", "give one query"),
    ("\\set x 1\n-- name: a\nselect 1", "f.sql:1: \\set is a command of psql"),
    ("-- name: a\nselect 1 \\gx", "a backslash outside quotes"),
    ("-- name: a\nselect :'x'", "are psql's; write :NAME"),
    ("-- name: a\ncopy t from program 'rm -r /'", "COPY cannot be prepared"),
    ("-- name: a\ninsert into t values (1)", "it writes: add"),
    ("-- name: a\nwith x as (delete from t returning 1) select 1", "it writes: add"),
    ("-- name: a\nselect 1 from t for no key update", "it locks rows, which is a write: add"),
    ("-- name: a\nselect 1;\n-- name: b\n-- :x from select '\nselect :x", "f.sql:5: b: :x: from select ': the text"),
    ("-- name: a\n-- writes: always\ninsert into t values (1)", "give rollback or clone"),
    ("-- name: a\n-- weight: 0\nselect 1", "give a whole number"),
    ("-- name: a\n-- name: b\nselect 1", "name is given twice"),
    ("-- nothing", "there is no statement in it"),
    ("-- name: a\nselect '", "f.sql:2: the text after ' has no end"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_a_file_that_cannot_be_run_is_refused_in_a_line(text: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        statements.parsed(text, "f.sql")
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_a_statement_has_numbered_parameters_with_rules() -> None:
    (statement,) = statements.parsed(
        "-- name: a\n-- weight: 3\n-- :x, :y from select 1, 2\n-- :z of 'it''s', 7\nselect :y /* :q */, :x, :y, :z;",
        "f.sql",
    )
    assert statement == Statement(
        name="a", sql="select $1  , $2, $1, $3", parameters=(":y", ":x", ":z"), weight=3,
        rules=(Rule(places=(1, 0), query="select 1, 2"), Rule(places=(2,), values=("it's", "7"))),
    )  # fmt: skip


def test_the_statements_of_the_sample_are_read() -> None:
    sample = statements.read(APP / "statements.sql")
    assert len(sample) == 15 and {statement.writes for statement in sample} == {"", "rollback", "clone"}


def test_an_editors_mark_before_the_first_name_is_no_statement(tmp_path: Path) -> None:
    (file := tmp_path / "s.sql").write_text("-- name: a\nselect 'ä';", "utf-8-sig")
    assert [statement.sql for statement in statements.read(file)] == ["select 'ä'"]


def test_rules_of_a_params_file_are_by_statement() -> None:
    rules = statements.rules_of("-- $1 uniform 1 9\n-- name: q12\n-- $1, $2 from select 1, 2\n", "p.sql")
    assert rules == {"*": ((["$1"], "uniform", "1 9"),), "q12": ((["$1", "$2"], "from", "select 1, 2"),)}
    with pytest.raises(ValueError, match=r"p.sql:1: 'values'"):
        statements.rules_of("values", "p.sql")
