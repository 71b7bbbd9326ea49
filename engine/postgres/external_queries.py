"""Queries to external servers: an answer that is late or malformed is an error in one line."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, TypeVar

import psycopg

from engine.core.clock import patient
from engine.core.errors import UserError
from engine.core.record import converted
from engine.postgres import session
from engine.postgres.session import ServerSession
from engine.postgres.waiting import NOBODY, Waiting

ANSWER_S = patient(20)
MAKING_S = 200.0  # to create or drop a database; its statement_timeout is shorter

T = TypeVar("T")


def connect(conninfo: str, answer_s: float | None = None, waiting: Waiting = NOBODY, server: str = "") -> ServerSession:
    return session.connect(conninfo, server, waiting, answer_s=answer_s or ANSWER_S)


def rows(connection: psycopg.Connection[Any], name: str, question: str, of: type[T], *values: object) -> list[T]:
    """The rows of an answer, each a dataclass or a tuple. Raises psycopg.Error, and UserError for invalid rows."""
    cursor = connection.execute(question, values or None)
    answer: list[Any] = cursor.fetchall()
    if is_dataclass(of):
        names = [column.name for column in cursor.description or ()]
        answer = [dict(zip(names, row, strict=True)) for row in answer]
    return [
        converted(row, of, f"{name}: the server's answer to: {session.shown(question, connection)}") for row in answer
    ]


def row(connection: psycopg.Connection[Any], name: str, question: str, of: type[T], *values: object) -> T:
    answer = rows(connection, name, question, of, *values)
    if len(answer) != 1:
        raise UserError(
            f"{name}: the server answers with {len(answer)} rows, not 1, to: {session.shown(question, connection)}"
        )
    return answer[0]
