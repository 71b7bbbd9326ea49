"""Statements that a server counted in pg_stat_statements: read from the server, or from its rows as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import psycopg

from workloads.own.sql import SqlSyntax, commands
from workloads.own.statements import Statement, made, numbered, read_file, rules_of, unsuitable

CONNECT_S = 5
QUERY_ID = re.compile(r"-?[0-9]{1,20}", re.A)
CATALOGS = re.compile(r"\b(pg_catalog\.|information_schema\.|pg_(class|attribute|namespace|type|stat_\w+|settings)\b)")
MOST_READ = 5000
FIRST_WITH_EXEC_TIME = 130000
VIEW = """
SELECT queryid::text AS queryid, query, {time} AS total_time FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 3 DESC LIMIT {most}
"""


class Row(NamedTuple):
    queryid: str
    query: str
    total_ms: float


class LeftOut(NamedTuple):
    """A statement that cannot be run, and why."""

    name: str
    why: str


def statements(source: str, top: int, params: str | None) -> tuple[tuple[Statement, ...], tuple[LeftOut, ...]]:
    """The statements that took most time and can be run, and those in between that cannot. Raises ValueError."""
    rows = _of_csv(Path(source)) if source.endswith(".csv") else _of_server(source)
    rules = rules_of(read_file(Path(params), "--params"), params) if params else {}
    found: list[Statement] = []
    left_out: list[LeftOut] = []
    for number, row in enumerate(sorted(rows, key=lambda row: -row.total_ms), 1):
        if len(found) == top:
            break
        name = f"q{row.queryid or number}"
        try:
            found.append(_statement(row, name, rules))
        except ValueError as error:
            left_out.append(LeftOut(name, str(error).removeprefix(f"{name}: ")))
    if not found:
        why = f"; {left_out[0].name}: {left_out[0].why}" if left_out else ""
        raise ValueError(f"--from-pg-stat-statements {_shown(source)}: none of its statements can be run{why}")
    if unknown := [
        name for name in rules if name not in ("*", *(each.name for each in found), *(each.name for each in left_out))
    ]:
        raise ValueError(f"--params {params}: no statement is called {unknown[0]}")
    return tuple(found), tuple(left_out)


def _statement(row: Row, name: str, rules: Mapping[str, Sequence[tuple[Sequence[str], str, str]]]) -> Statement:
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
    own = [rule for key in (name, "*") for rule in rules.get(key, ()) if set(rule[0]) <= set(parameters)]
    chosen = {tuple(rule[0]): rule for rule in reversed(own)}  # its own rule stands before one for all
    if parameters and not chosen:
        raise ValueError(f"no values for {', '.join(parameters)}: give rules with --params")
    writing = bool(unsuitable(parts[0], ""))
    return Statement(
        name=name, sql=sql, parameters=parameters, rules=made(chosen.values(), parameters, name),
        writes="rollback" if writing else "",
    )  # fmt: skip


def _of_csv(path: Path) -> list[Row]:
    where = f"--from-pg-stat-statements {path}"
    lines = csv.DictReader(StringIO(read_file(path, "--from-pg-stat-statements"), newline=""))
    try:
        names = {name.strip().lower(): name for name in lines.fieldnames or ()}
        time = next((names[name] for name in ("total_exec_time", "total_time") if name in names), None)
        if "query" not in names or time is None:
            raise ValueError("the first line must name the columns, among them query and total_exec_time")
        found = [
            Row(str(line.get(names.get("queryid", ""), "") or ""), str(line[names["query"]]), float(line[time] or 0))
            for line in lines
        ]
        for row in found:
            if row.queryid and not QUERY_ID.fullmatch(row.queryid):
                raise ValueError(f"queryid {row.queryid[:30]!r} is not a number")
    except (csv.Error, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{where}:{max(1, lines.line_num)}: {error}") from None
    return _together(found)


def _together(rows: Iterable[Row]) -> list[Row]:
    """A statement has a row for each user, and one for what functions called."""
    found: dict[str, Row] = {}
    for row in rows:
        one = found.setdefault(row.queryid or row.query, row._replace(total_ms=0.0))
        found[row.queryid or row.query] = one._replace(total_ms=one.total_ms + row.total_ms)
    return list(found.values())


@lru_cache(maxsize=4)
def _of_server(dsn: str) -> list[Row]:
    where = f"--from-pg-stat-statements {_shown(dsn)}"
    try:
        with psycopg.connect(
            dsn, connect_timeout=CONNECT_S, autocommit=True, options="-c default_transaction_read_only=on"
        ) as connection:
            new = connection.info.server_version >= FIRST_WITH_EXEC_TIME
            sql = VIEW.format(time="total_exec_time" if new else "total_time", most=MOST_READ)
            return _together(Row(queryid or "", query, total_ms) for queryid, query, total_ms in
                             connection.execute(sql.encode()))  # fmt: skip
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
