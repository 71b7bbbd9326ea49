"""The output of pgbench, in the forms that its versions have: log lines, the summary, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.pgbench import command, log, summary
from workloads.pgbench.log import LogLine
from workloads.pgbench.options import Options
from workloads.pgbench.scripts import Script, commands, error_of, read_all, sleeps, writes

SUMMARY_18 = """\
pgbench (18.6, server 16.3)
transaction type: <builtin: select only>
scaling factor: 10
query mode: simple
number of clients: 4
number of threads: 2
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 31519
number of failed transactions: 0 (0.000%)
latency average = 0.375 ms
latency stddev = 1.126 ms
initial connection time = 30.085 ms
tps = 10574.996787 (without initial connection time)
"""
SUMMARY_12 = """\
transaction type: <builtin: select only>
number of transactions actually processed: 600/600
number of transactions skipped: 103 (36.373%)
number of transactions above the 4.0 ms latency limit: 555/807 (68.773%)
latency average = 6.381 ms
rate limit schedule lag: avg 0.870 (max 16.247) ms
tps = 4312.306345 (including connections establishing)
tps = 4357.615586 (excluding connections establishing)
"""
FAILURES_18 = """\
number of transactions actually processed: 209
number of failed transactions: 524 (71.487%)
number of serialization failures: 520 (70.9%)
number of deadlock failures: 4 (0.5%)
number of transactions retried: 637 (86.903%)
total number of retries: 1215
latency average = 6.381 ms (including failures)
average connection time = 17.766 ms
tps = 56.134601 (including reconnection times)
statement latencies in milliseconds, failures and retries:
         0.001           0          0 \\set aid random(1, 100000 * :scale)
         2.435         381        770 UPDATE pgbench_accounts SET abalance = 1;
"""
SCRIPTS_18 = """\
number of transactions actually processed: 600
SQL script 1: <builtin: select only>
 - weight: 3 (targets 75.0% of total)
 - 466 transactions (77.7% of total)
 - number of transactions actually processed: 466 (tps = 1466.594071)
 - number of failed transactions: 0 (0.000%)
 - latency average = 0.253 ms
 - statement latencies in milliseconds and failures:
         0.253           0 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
SQL script 2: own.sql
 - weight: 1 (targets 25.0% of total)
 - 134 transactions (22.3% of total)
 - statement latencies in milliseconds and failures:
         1.500           0 UPDATE pgbench_branches SET bbalance = 0;
"""
SCRIPTS_16 = """\
SQL script 1: <builtin: select only>
 - weight: 1 (targets 100.0% of total)
 - 476 transactions (79.3% of total, tps = 750.851412)
 - latency average = 0.456 ms
 - statement latencies in milliseconds and failures:
         0.456           0  SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""


@pytest.mark.parametrize(
    ("text", "lag", "retries", "line"),
    [
        ("0 1 3294 0 1795306507 396292", False, False, LogLine(0, 1, "", 3294, 1795306507396292, 0, 0)),
        ("2 1 43604 0 1795306508 395208 3520", True, False, LogLine(2, 1, "", 43604, 1795306508395208, 3520, 0)),
        ("0 2 skipped 0 1795306508 384782 0", True, False, LogLine(0, 2, "skipped", 0, 1795306508384782, 0, 0)),
        ("0 1 3294 4 1795306507 396292", False, False, LogLine(0, 1, "", 3294, 1795306507396292, 0, 0, 4)),
        ("0 1 failed 0 1795306547 814526", False, False, LogLine(0, 1, "failed", 0, 1795306547814526, 0, 0)),
        (
            "3 1 serialization 0 1795306526 403494 2",
            False,
            True,
            LogLine(3, 1, "serialization", 0, 1795306526403494, 0, 2),
        ),
        ("3 7 other 0 1795306526 403494", False, False, LogLine(3, 7, "failed", 0, 1795306526403494, 0, 0)),
    ],
)
def test_a_line_of_the_log_is_read_in_each_form(text: str, lag: bool, retries: bool, line: LogLine) -> None:
    assert log.parse(text.encode(), lag=lag, retries=retries) == line


@pytest.mark.parametrize(
    "text", ["", "0 1 3294 0 17953", "0 1 3294 0 1795306507 396292 5", "a b c d e f", "0 1 odd 0 1 2"]
)
def test_what_is_no_line_is_passed_over(text: str) -> None:
    assert log.parse(text.encode(), lag=False, retries=False) is None


def test_the_summary_is_read_by_its_labels() -> None:
    figures = summary.parse(SUMMARY_18)
    assert figures["processed"] == 31519 and figures["failed"] == 0
    assert (figures["tps"], figures["latency_mean_ms"], figures["connect_ms"]) == (10574.996787, 0.375, 30.085)


def test_an_old_pgbenchs_summary_is_parsed() -> None:
    figures = summary.parse(SUMMARY_12)
    assert (figures["processed"], figures["skipped"], figures["late"]) == (600, 103, 555)
    assert (figures["tps"], figures["lag_mean_ms"], figures["lag_max_ms"]) == (4357.615586, 0.870, 16.247)


def test_failures_and_retries_are_read_in_all_and_by_statement() -> None:
    figures = summary.parse(FAILURES_18)
    assert (figures["failed"], figures["serialization"], figures["deadlock"]) == (524, 520, 4)
    assert (figures["retried"], figures["retries"], figures["tps"]) == (637, 1215, 56.134601)
    assert figures["statements"][1] == {
        "script": 1,
        "statement": "UPDATE pgbench_accounts SET abalance = 1;",
        "mean_ms": 2.435,
        "failures": 381,
        "retries": 770,
    }


def test_statements_belong_to_their_scripts() -> None:
    figures = summary.parse(SCRIPTS_18)
    assert [row["script"] for row in figures["statements"]] == [1, 2]
    assert [row["transactions"] for row in figures["scripts"]] == [466, 134]
    (older,) = summary.parse(SCRIPTS_16)["statements"]
    assert older["statement"].startswith("SELECT") and older["mean_ms"] == 0.456


SCRIPT = """\
-- a comment; with a semicolon
\\set a random(1, \\
  10)
SELECT ';' || $$;$$
  FROM t; SELECT 2
;
/* two
lines */ UPDATE t SET x = :a;
"""


def test_commands_are_counted_as_pgbench_does() -> None:
    numbered = commands(SCRIPT)
    assert [line for line, _ in numbered] == [2, 4, 5, 8]
    assert numbered[3][1] == "UPDATE t SET x = :a"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1 \\gset\nSELECT 2;\n", [(1, "SELECT 1 \\gset"), (2, "SELECT 2")]),
        ("SELECT 1\\; SELECT 2 \\Aset p_\n", [(1, "SELECT 1\\; SELECT 2 \\aset p_")]),
        ("SELECT 1 \\SET a 2\nSELECT :a;", [(1, "SELECT 1"), (1, "\\set a 2"), (2, "SELECT :a")]),
        (
            "SELECT E'it\\'s; \\x', date'2020-01-01';\nEND;",
            [(1, "SELECT E'it\\'s; \\x', date'2020-01-01'"), (2, "END")],
        ),
        ("\\ SLEEP 1 s\nSELECT 'a\\b' /* \\c */ ;\nEND", [(1, "\\sleep 1 s"), (2, "SELECT 'a\\b'"), (3, "END")]),
    ],
)
def test_a_backslash_ends_sql_and_begins_a_command(text: str, expected: list[tuple[int, str]]) -> None:
    assert commands(text) == expected


def test_what_a_version_does_not_know_is_found_in_any_case() -> None:
    script = Script("own.sql", 1, "\\set a PERMUTE(1, 2)\nSELECT 1 \\ASET\nSELECT 2;")
    assert [since for _, since in command.unknown(Options(init_steps="dtgvp"), [script])] == [13, 14]
    assert ("--continue-on-error", 19) in command.unknown(Options(continue_on_error=True), [])
    assert "--continue-on-error" not in dict(command.unknown(Options(), []))
    assert sleeps([Script("own.sql", 1, "SELECT 1 \\Sleep 10 ms\n")])


def test_an_error_names_the_script_and_its_line() -> None:
    scripts = (Script("select-only"), Script("own.sql", 1, SCRIPT))
    parsed = (
        'pgbench: error: /tmp/x/own.sql:1: syntax error in command "set"\n\\set a random(1,10\n   ^ error found here'
    )
    assert error_of(parsed, scripts, "/tmp/x") == 'own.sql:1: syntax error in command "set"'
    assert error_of("", scripts, "/tmp/x") == "pgbench ended without a word"
    rows = (
        "pgbench: error: client 0 script 1 command 2 query 0: expected one row, got 0\npgbench: error: Run was aborted"
    )
    assert error_of(rows, scripts, "/tmp/x") == "own.sql:5: expected one row, got 0"


OWN = 'undefined variable "nosuch"'
SQL = "client {} script 1 aborted in command 3 query 0: ERROR:  {}"
ABORTED = "client {} aborted in command {} (set) of script 1; evaluation of meta-command failed"
NO_ROOM = 'connection to server on socket "/s" failed: FATAL:  sorry, too many clients already'


@pytest.mark.parametrize("prefix", ["pgbench: error: ", "pgbench: fatal: ", ""])
@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ((SQL.format(3, "first"), SQL.format(0, "second"), "client 1 aborted: x"), "own.sql:8: ERROR: first"),
        ((OWN, ABORTED.format(0, 1), SQL.format(1, "deadlock detected")), f"own.sql:4: {OWN}"),
        ((OWN, OWN, ABORTED.format(0, 1), ABORTED.format(1, 1)), f"own.sql:4: {OWN}"),
        ((NO_ROOM, "could not create connection for client 9", SQL.format(1, "late")), NO_ROOM),
        (("client 4 aborted while establishing connection", NO_ROOM), NO_ROOM),
        (
            ("client 2 aborted in command 3 (SQL) of script 1; perhaps the backend died while processing",
             SQL.format(1, "terminating connection")),
            "own.sql:8: ERROR: terminating connection",
        ),
        (("client 2 aborted: failed to send a pipeline sync",), "client 2 aborted: failed to send a pipeline sync"),
    ],
)  # fmt: skip
def test_of_several_errors_the_first_is_the_cause(prefix: str, said: tuple[str, ...], cause: str) -> None:
    scripts = (Script("select-only"), Script("own.sql", 1, SCRIPT))
    if not prefix and not all(message.startswith("client") for message in said):
        prefix = "pgbench: error: "
    last = "pgbench: error: Run was aborted; the above results are incomplete.\n"
    errors = (
        "pgbench: setting random seed to 1\nstarting vacuum...end.\n"
        + "".join(f"{prefix}{message}\n" for message in said)
        + last
    )
    assert error_of(errors, scripts, "/tmp/x") == " ".join(cause.split())


def test_an_error_of_conditions_names_the_line_of_the_script() -> None:
    script = (Script("if.sql", 1, "\\if 1\nSELECT 1;\n\\if 2\n\\endif\n\n\\else\n\\else\n"),)
    text = 'pgbench: error: condition error in script "/tmp/x/if.sql" command {}: {}'
    for command_number, line, why in ((6, 7, "\\else after \\else"), (7, 1, "\\if without matching \\endif")):
        assert error_of(text.format(command_number, why), script, "/tmp/x") == f"if.sql:{line}: {why}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1;", False),
        ("\\set a 1\nBEGIN; SELECT :a; END;", False),
        ("SELECT 1 FOR UPDATE;", True),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x;", True),
        ("CALL p();", True),
        ("SELECT 1 \\gset\nDELETE FROM t;", True),
        ("SELECT 1\\; CALL p();", True),
        ("SELECT nextval('s');", True),
        ("SELECT own.count(1);", True),
        ("SELECT count(*), max(length(x)) FROM t WHERE a IN (1, 2) AND b = (SELECT 1);", False),
        ("SELECT E'\\'' , 1; SELECT 2 \\GSET x_\n", False),
    ],
)
def test_a_script_that_may_write_is_known(text: str, expected: bool) -> None:
    assert writes(Script("own.sql", 1, text)) is expected


def test_built_in_scripts_write_but_one() -> None:
    assert [writes(Script(name)) for name in ("select-only", "simple-update", "tpcb-like")] == [False, True, True]
    assert sleeps([Script("own.sql", 1, "\\sleep 10 ms\nSELECT 1;")]) and not sleeps([Script("select-only")])


def test_scripts_that_cannot_be_are_refused_in_one_line(tmp_path: Path) -> None:
    good, empty = tmp_path / "good.sql", tmp_path / "empty.sql"
    good.write_text("SELECT 1;")
    empty.write_text("\n")
    assert read_all([f"{good}@3"]) == (Script("good.sql", 3, "SELECT 1;"),)
    assert read_all([f"{good}@3", "select@9", "tpcb-like"])[1:] == (Script("select-only", 9), Script("tpcb-like"))
    for specs, message in (
        ([], "no script given"),
        (["s"], "script s: no such file, and none of pgbench's own scripts: select-only, tpcb-like, simple-update"),
        (["select", "select-only@3"], "two scripts of one name"),
        ([f"{good}@x"], "weight must be a whole number, not 'x'"),
        ([f"{good}@0"], "add up to 0"),
        ([str(good), str(good)], "two scripts of one name"),
        ([str(empty)], "it is empty"),
        ([str(tmp_path / "none.sql")], "no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            read_all(specs)


@pytest.mark.parametrize(
    "text",
    ["\\shell ls", "\\SetShell x ls", "SELECT 1 \\shell ls", "\\ \tshell ls", "\\\\\nshell ls", "SELECT 1; \\sHELL ls"],
)
def test_shell_commands_are_found_in_each_form(text: str) -> None:
    assert command.SHELL.search(f"SELECT 1;\n{text}\n")


def test_words_like_shell_are_no_command() -> None:
    assert not command.SHELL.search("SELECT shell FROM setshell;\n\\set shell 1\n")
