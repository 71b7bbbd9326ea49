"""Statements that a server counted in pg_stat_statements: read from the server, or from its rows as CSV."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from workloads.own.sql import SqlSyntax, commands
from workloads.own.statements import MOST_CHARS, Statement, bind, numbered, read_file, rules_of, unsuitable

CONNECT_S = 5
QUERY_ID = re.compile(r"-?[0-9]{1,20}", re.A)
CATALOGS = re.compile(r"\b(pg_catalog\.|information_schema\.|pg_(class|attribute|namespace|type|stat_\w+|settings)\b)")
MOST_READ = 5000
MOST_BYTES = 256 << 20  # of an export
HIDDEN = "<insufficient privilege>"
FIRST_WITH_EXEC_TIME = 130000
VIEW = """
SELECT queryid::text AS queryid, query, {time} AS total_time FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 3 DESC LIMIT {most}
"""


class ObservedStatement(NamedTuple):
    """A statement; `why` is why it cannot be run, if its row tells that already."""

    queryid: str
    query: str
    total_ms: float
    why: str = ""


class LeftOut(NamedTuple):
    """Statements that cannot be run for one reason: their names or number with their share of the time, and why."""

    what: str
    why: str


def statements(source: str, top: int, params: str | None) -> tuple[tuple[Statement, ...], tuple[LeftOut, ...]]:
    """The statements that took most time and can be run, and those in between that cannot. Raises ValueError."""
    rows = _of_csv(Path(source)) if source.endswith(".csv") else _of_server(source)
    rules = rules_of(read_file(Path(params), "--params"), params) if params else {}
    chosen: list[Statement] = []
    left_out: dict[str, list[tuple[str, float]]] = {}
    for number, row in enumerate(sorted(rows, key=lambda row: -row.total_ms), 1):
        if len(chosen) == top:
            break
        name = f"q{row.queryid or number}"
        try:
            chosen.append(_statement(row, name, rules))
        except ValueError as error:
            left_out.setdefault(str(error).removeprefix(f"{name}: "), []).append(
                (name if row.queryid else "1 statement", row.total_ms)
            )
    notices = _told(left_out, sum(row.total_ms for row in rows))
    if not chosen:
        why = f": {notices[0].what}: {notices[0].why}" if notices else ""
        raise ValueError(f"--from-pg-stat-statements {_shown(source)}: none of its statements can be run{why}")
    known = {"*", *(f"q{row.queryid}" for row in rows), *(statement.name for statement in chosen)}
    if unknown := [name for name in rules if name not in known]:
        raise ValueError(f"--params {params}: no statement is called {unknown[0]}")
    return tuple(chosen), notices


def _told(left_out: Mapping[str, Sequence[tuple[str, float]]], total_ms: float) -> tuple[LeftOut, ...]:
    """The statements by reason, the largest share first."""
    shares = {why: sum(ms for _, ms in reasons) / (total_ms or 1.0) for why, reasons in left_out.items()}
    notices = []
    for why, rows_left in sorted(left_out.items(), key=lambda reason: -shares[reason[0]]):
        names = rows_left[0][0] if len(rows_left) == 1 else f"{len(rows_left):,} statements"
        percent = f"{shares[why]:.0%}" if shares[why] >= 0.01 else "less than 1%"
        notices.append(LeftOut(f"{names} ({percent} of the time)", why))
    return tuple(notices)


def _statement(
    row: ObservedStatement, name: str, rules: Mapping[str, Sequence[tuple[Sequence[str], str, str]]]
) -> Statement:
    if row.why:
        raise ValueError(row.why)
    try:
        parts = list(commands(row.query.encode()))
    except SqlSyntax as error:
        raise ValueError(f"its text is cut or no SQL: {error.reason}") from None
    if len(parts) != 1:
        raise ValueError("it is not one statement")
    if why := unsuitable(parts[0]):
        raise ValueError(why)
    if CATALOGS.search(row.query):
        raise ValueError("it reads the server's catalogs, not the application's data")
    sql, parameters = numbered(parts[0], name)
    rules_of = [rule for key in (name, "*") for rule in rules.get(key, ()) if set(rule[0]) <= set(parameters)]
    chosen = {tuple(rule[0]): rule for rule in reversed(rules_of)}  # its own rule stands before one for all
    if parameters and not chosen:
        raise ValueError("no values for its parameters: give rules with --params")
    writing = bool(unsuitable(parts[0], ""))
    return Statement(
        name=name, sql=sql, parameters=parameters, rules=bind(chosen.values(), parameters, name),
        writes="rollback" if writing else "",
    )  # fmt: skip


def _of_csv(path: Path) -> list[ObservedStatement]:
    where = f"--from-pg-stat-statements {path}"
    csv.field_size_limit(MOST_BYTES)
    text = read_file(path, "--from-pg-stat-statements", MOST_BYTES, "replace")
    lines = csv.DictReader(StringIO(text, newline=""))
    try:
        names = {name.strip().lower(): name for name in lines.fieldnames or ()}
        time = next((names[name] for name in ("total_exec_time", "total_time") if name in names), None)
        if "query" not in names or time is None:
            raise ValueError("the first line must name the columns, among them query and total_exec_time")
        rows = [_row(line.get(names.get("queryid", "")), line[names["query"]], line[time]) for line in lines]
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{where}:{max(1, lines.line_num)}: {error}") from None
    return _together(rows)


def _row(queryid: str | None, query: str | None, time: str | float | None) -> ObservedStatement:
    """A row as exported or read; what makes it useless is its `why`."""
    number, text = (queryid or "").strip(), query or ""
    try:
        total_ms = float(time or 0)
    except ValueError:
        total_ms = math.nan
    why = ""
    if text == HIDDEN:
        why = "its text is hidden from the role that read it; read it as a member of pg_read_all_stats"
    elif not text.strip() or time is None:
        why = "its text or time is missing"
    elif not 0 <= total_ms < math.inf:
        why = "its time is no number of milliseconds"
    elif number and not QUERY_ID.fullmatch(number):
        why = "its queryid is no number"
    elif "\N{REPLACEMENT CHARACTER}" in text or "\0" in text:
        why = "its text is not UTF-8"
    elif len(text) > MOST_CHARS:
        why = f"its text is longer than {MOST_CHARS >> 10} KiB"
    return ObservedStatement(
        number if QUERY_ID.fullmatch(number) else "", text, total_ms if 0 <= total_ms < math.inf else 0.0, why
    )


def _together(rows: Iterable[ObservedStatement]) -> list[ObservedStatement]:
    """One row for each statement, which has one for each user and database, and one for calls from functions."""
    merged: dict[tuple[str, ...], ObservedStatement] = {}
    names: dict[str, tuple[str, ...]] = {}  # of a text: the statement that has it
    for number, row in enumerate(rows):
        usual = (str(number), row.why) if row.why and not row.queryid else (row.queryid or row.query,)
        key = usual if row.why else names.setdefault(row.query, usual)
        one = merged.setdefault(key, row._replace(total_ms=0.0))
        merged[key] = (row if one.why else one)._replace(total_ms=one.total_ms + row.total_ms)
    return list(merged.values())


class _Replacing(Loader):
    """Text as UTF-8, whatever a database that has no encoding holds."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode(errors="replace")


@lru_cache(maxsize=4)
def _of_server(dsn: str) -> list[ObservedStatement]:
    where = f"--from-pg-stat-statements {_shown(dsn)}"
    try:
        with psycopg.connect(
            dsn,
            connect_timeout=CONNECT_S,
            autocommit=True,
            client_encoding="UTF8",
            options="-c default_transaction_read_only=on",
        ) as connection:
            new = connection.info.server_version >= FIRST_WITH_EXEC_TIME
            connection.adapters.register_loader("text", _Replacing)
            sql = VIEW.format(time="total_exec_time" if new else "total_time", most=MOST_READ)
            return _together(_row(*row) for row in connection.execute(sql.encode()))
    except psycopg.errors.UndefinedTable:
        raise ValueError(f"{where}: pg_stat_statements is missing there: CREATE EXTENSION pg_stat_statements, "
                         "or give a CSV file of its rows") from None  # fmt: skip
    except UnicodeError:  # psycopg resolves names on its own, and does not expect this
        raise ValueError(f"{where}: a part of the host's name is empty or longer than 63 characters") from None
    except psycopg.Error as error:
        raise ValueError(f"{where}: {' '.join(str(error).split())}") from None


def _shown(source: str) -> str:
    """A source without a password."""
    if source.endswith(".csv"):
        return source
    try:
        known = psycopg.conninfo.conninfo_to_dict(source)
    except psycopg.Error:
        return "(no valid connection string)"
    return " ".join(f"{key}={value}" for key, value in known.items() if key != "password")
