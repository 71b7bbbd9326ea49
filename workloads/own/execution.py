"""Statements on a server: prepared, tried and explained before a step's clock starts, then executed again and again.

A statement that fails is not run, and its error is kept: on another build it may work, and the others go on.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from psycopg import pq
from psycopg.pq import abc

from workloads.api.plan_tree import StatementPlan, StatementResult, shape, tree
from workloads.api.report import Report
from workloads.client.connection import COMMAND_OK, TUPLES_OK, SqlError, error_of, execute, scalar
from workloads.own.statements import Statement
from workloads.own.values import Values, digest

TRIED = 6  # executions after which the server has chosen between custom and generic plans
TRIED_S = 3.0  # time after which no further one is tried
CHECKED = 5  # sets of values whose results are counted and digested
SINGLE_TUPLE = int(pq.ExecStatus.SINGLE_TUPLE)
LARGE_BYTES = 1 << 20  # results of this size are fetched row by row
MODULUS = 1 << 128
LOST = "08006"  # given to errors of libpq itself, also where it lacks memory and the connection is not lost
FIRST_WITH_WAL = 130000  # version of EXPLAIN's option
FIRST_WITH_GENERIC_PLANS = 140000  # counted in pg_prepared_statements
QUOTED, PARAMETER = re.compile("'[^']*'|\"[^\"]*\""), re.compile(r"\$[1-9]")
Check = Callable[[], None]


@dataclass(slots=True)
class PreparedStatement:
    """A statement with its values on a connection. `large`: its results are fetched row by row."""

    statement: Statement
    name: bytes
    drawn: Sequence[Values]
    large: bool = False
    outcome: StatementResult | None = None
    explained: StatementPlan | None = None
    next: int = field(default=0)

    @property
    def usable(self) -> bool:
        return self.outcome is not None and not self.outcome.error

    def values(self) -> Values:
        drawn = self.drawn[self.next % len(self.drawn)]
        self.next += 1
        return drawn


def prepare(
    connection: abc.PGconn, statement: Statement, number: int, drawn: Sequence[Values], most_bytes: int, check: Check,
    *, digested: bool,
) -> PreparedStatement:  # fmt: skip
    """Prepare a statement, execute it for its first sets of values, and explain it. Raises Stopped only."""
    prepared = PreparedStatement(statement, b"pgbed_%d" % number, drawn)
    try:
        with writing(connection, statement):
            result = connection.prepare(prepared.name, statement.sql.encode())
            if result.status != COMMAND_OK:
                raise error_of(connection, result)
        _try(connection, prepared, most_bytes, check, digested)
        prepared.explained = explain(connection, prepared)
    except SqlError as error:
        prepared.outcome = failed(connection, statement, error)
    return prepared


def prepare_only(
    connection: abc.PGconn, statement: Statement, number: int, drawn: Sequence[Values]
) -> PreparedStatement:
    """Prepare a statement and plan it once, without executing it."""
    prepared = PreparedStatement(statement, b"pgbed_%d" % number, drawn)
    try:
        result = connection.prepare(prepared.name, statement.sql.encode())
        if result.status != COMMAND_OK:
            raise error_of(connection, result)
        prepared.explained = plan_only(connection, prepared)
        prepared.outcome = StatementResult(statement=statement.name, values=digest(drawn[:1]))
    except SqlError as error:
        prepared.outcome = failed(connection, statement, error)
    return prepared


def failed(connection: abc.PGconn, statement: Statement, error: SqlError) -> StatementResult:
    """The outcome of a statement with an error. Raises it again if the connection is lost: the server has failed."""
    if connection.status != pq.ConnStatus.OK:
        raise error
    return StatementResult(statement=statement.name, error=str(error).strip())


@contextmanager
def writing(connection: abc.PGconn, statement: Statement) -> Iterator[None]:
    """A transaction that is undone for a statement that writes; a read-only one for any other."""
    if statement.writes == "clone":
        yield
        return
    execute(connection, b"BEGIN" if statement.writes else b"BEGIN READ ONLY")
    try:
        yield
    finally:
        connection.exec_(b"ROLLBACK")


def _try(connection: abc.PGconn, prepared: PreparedStatement, most_bytes: int, check: Check, digested: bool) -> None:
    until_s = time.monotonic() + TRIED_S
    rows = executions = total = 0
    firsts: tuple[int, int] | None = None
    for number in range(TRIED):
        check()
        with writing(connection, prepared.statement):
            drawn = prepared.drawn[number % len(prepared.drawn)]
            row_count, size, hashed = fetch(connection, prepared.name, drawn, most_bytes, digested=digested)
        prepared.large = prepared.large or size > LARGE_BYTES
        firsts = firsts or (row_count, hashed)
        if number < CHECKED:
            rows, executions, total = rows + row_count, executions + 1, (total * 31 + hashed) % MODULUS
        if time.monotonic() > until_s:
            break
    prepared.outcome = StatementResult(
        statement=prepared.statement.name, executions=executions, rows=rows,
        digest=f"{total:032x}" if digested else "", values=digest(prepared.drawn[:CHECKED]),
        first_rows=firsts[0] if firsts else None, first_digest=f"{firsts[1]:032x}" if digested and firsts else "",
    )  # fmt: skip


def fetch(
    connection: abc.PGconn, name: bytes, values: Values, most_bytes: int, *, digested: bool = False
) -> tuple[int, int, int]:
    """Execute and read row by row; return rows, bytes and a digest that does not depend on the rows' order.

    Raises SqlError, also for a result larger than `most_bytes`, whose execution is then cancelled.
    """
    rows = size = total = 0
    connection.send_query_prepared(name, values)
    connection.set_single_row_mode()
    error: SqlError | None = None
    while (result := connection.get_result()) is not None:
        if result.status == SINGLE_TUPLE:
            row = [result.get_value(0, column) for column in range(result.nfields)]
            rows += 1
            size += sum(len(value) for value in row if value is not None)
            if digested:
                text = b"\t".join(b"\\N" if value is None else value for value in row)
                total = (total + int.from_bytes(hashlib.md5(text, usedforsecurity=False).digest(), "big")) % MODULUS
            if size > most_bytes and error is None:
                error = SqlError("", f"its result is larger than {most_bytes / 1e6:.0f} MB, which is the limit (-o "
                                     "max_result): add a LIMIT, or let the server aggregate")  # fmt: skip
                connection.get_cancel().cancel()
        elif result.status == COMMAND_OK:
            rows += result.command_tuples or 0
        elif result.status not in (TUPLES_OK, COMMAND_OK):
            error = error or error_of(connection, result)
    if error is not None and error.sqlstate == LOST and connection.status == pq.ConnStatus.OK:
        raise SqlError("", f"a row of its result is too large for the client: {error.message}")
    if error is not None:
        raise error
    return rows, size, total


def explain(connection: abc.PGconn, prepared: PreparedStatement) -> StatementPlan:
    """The plan that the server has chosen by now, custom or generic, with the rows that it estimated and found."""
    wal = ", WAL" if connection.server_version >= FIRST_WITH_WAL else ""
    with writing(connection, prepared.statement):
        # Timing off: it may cost more than the statement.
        sql = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY ON, FORMAT JSON{wal}) {_call(connection, prepared)}"
        before = _generic_plans(connection, prepared)
        result = execute(connection, sql.encode())
        after = _generic_plans(connection, prepared)
    chosen = "" if before is None or after is None else "generic" if after > before else "custom"
    return explained(prepared.statement, result.get_value(0, 0) or b"", chosen)


def _generic_plans(connection: abc.PGconn, prepared: PreparedStatement) -> int | None:
    """The number of times that the server has used a generic plan; None before 14, which does not count them."""
    if connection.server_version < FIRST_WITH_GENERIC_PLANS:
        return None
    return scalar(
        connection, b"SELECT generic_plans FROM pg_catalog.pg_prepared_statements WHERE name = '%s'" % prepared.name
    )


def plan_only(connection: abc.PGconn, prepared: PreparedStatement) -> StatementPlan:
    """The plan for the first values, always a custom one, and how long planning took; nothing is executed.

    Without parameters a prepared statement would be planned only once.
    """
    what = _call(connection, prepared) if prepared.statement.parameters else prepared.statement.sql
    result = execute(connection, f"EXPLAIN (SUMMARY ON, FORMAT JSON) {what}".encode())
    return explained(prepared.statement, result.get_value(0, 0) or b"", "custom")


def _call(connection: abc.PGconn, prepared: PreparedStatement) -> str:
    literals = ", ".join(_literal(connection, value) for value in prepared.drawn[0])
    return f"EXECUTE {prepared.name.decode()}" + (f" ({literals})" if literals else "")


def explained(statement: Statement, text: bytes, chosen: str) -> StatementPlan:
    """`chosen` is custom or generic. If it is unknown, a parameter in the plan shows a generic one; without, it may be
    either. Raises SqlError for anything but a plan in JSON.
    """
    try:
        (record,) = json.loads(text)
        root = tree(record["Plan"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SqlError("", f"its plan cannot be read: {error}") from None
    top = record["Plan"]
    nodes = tuple(root.walk())
    # The result of an InitPlan looks like a parameter.
    if not chosen and not any(node.part == "InitPlan" for node in nodes):
        conditions = (QUOTED.sub("", condition) for node in nodes for condition in node.conditions)
        chosen = "generic" if any(PARAMETER.search(condition) for condition in conditions) else ""
    return StatementPlan(
        statement=statement.name,
        shape=shape(root),
        tree=root,
        chosen=chosen if statement.parameters else "",
        planning_ms=record.get("Planning Time"),
        execution_ms=record.get("Execution Time"),
        rows=top.get("Actual Rows"),
        hit=top.get("Shared Hit Blocks"),
        read=top.get("Shared Read Blocks"),
        wal_bytes=top.get("WAL Bytes"),
    )


def report(every: Sequence[PreparedStatement]) -> Report:
    return Report(
        plans=tuple(prepared.explained for prepared in every if prepared.explained),
        results=tuple(prepared.outcome for prepared in every if prepared.outcome),
    )


def _literal(connection: abc.PGconn, value: bytes | None) -> str:
    if value is None:
        return "NULL"
    return pq.Escaping(connection).escape_literal(value).decode()
