"""Values of a statement's parameters: drawn by their rules, the same on every server for the same data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from psycopg.pq import abc

from workloads.client.connection import SqlError, execute
from workloads.own.statements import Rule, Statement

DRAWN = 1000  # sets of values, used one after another
MOST_ROWS, AT_ONCE = 100_000, 1000  # of a rule's query, and of one answer
MOST_BYTES = 64_000_000
Values = list[bytes | None]


def draw(statement: Statement, connection: abc.PGconn, random: np.random.Generator) -> list[Values]:
    """Sets of values for a statement; one empty set if it has no parameters. Raises SqlError."""
    if not statement.parameters:
        return [[]]
    drawn: list[list[bytes | None]] = [[None] * len(statement.parameters) for _ in range(DRAWN)]
    for rule in statement.rules:
        rows = _rows(statement, rule, connection)
        for row, place in zip(drawn, random.integers(0, len(rows), DRAWN) if rows else _uniform(rule, random),
                              strict=True):  # fmt: skip
            chosen = rows[place] if rows else [str(place).encode()]
            for parameter, value in zip(rule.places, chosen, strict=True):
                row[parameter] = value
    return drawn


def digest(drawn: Sequence[Values]) -> str:
    hashed = hashlib.sha256()
    for values in drawn:
        for value in values:
            hashed.update(b"-" if value is None else b"%d:%s" % (len(value), value))
    return hashed.hexdigest()[:16]


def _rows(statement: Statement, rule: Rule, connection: abc.PGconn) -> list[Values]:
    if rule.values:
        return [[value.encode()] for value in rule.values]
    if not rule.query:
        return []
    names = ", ".join(statement.parameters[place] for place in rule.places)
    # As a cursor's first rows: a query that returns gigabytes must not fill the client's memory.
    rows: list[Values] = []
    size = 0
    execute(connection, b"BEGIN READ ONLY")
    try:
        execute(connection, f"DECLARE pgbed_values NO SCROLL CURSOR FOR {rule.query}".encode())
        while len(rows) < MOST_ROWS:
            result = execute(connection, f"FETCH {AT_ONCE} FROM pgbed_values".encode())
            if result.nfields != len(rule.places):
                raise SqlError("", f"the query has {result.nfields} columns, not {len(rule.places)}")
            for row in range(result.ntuples):
                rows.append([result.get_value(row, column) for column in range(result.nfields)])
                size += sum(len(value) for value in rows[-1] if value is not None)
                if size > MOST_BYTES:
                    raise SqlError("", f"the query returns more than {MOST_BYTES / 1e6:.0f} MB; add a LIMIT")
            if result.ntuples < AT_ONCE:
                break
    except SqlError as error:
        raise SqlError(error.sqlstate, f"the values of {names}: {error.message}") from None
    finally:
        connection.exec_(b"ROLLBACK")
    if not rows:
        raise SqlError("", f"the values of {names}: the query returns no row")
    return rows


def _uniform(rule: Rule, random: np.random.Generator) -> list[int]:
    assert rule.low_high is not None
    low, high = rule.low_high
    return [int(value) for value in random.integers(low, high, DRAWN, endpoint=True)]
