"""Queries to external servers: an answer that is late or malformed is an error in one line."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import is_dataclass
from typing import Any, TypeVar

import psycopg

from engine.core.clock import patient
from engine.core.errors import UserError
from engine.core.record import converted
from engine.core.text import visible

ANSWER_S = patient(20)
MAKING_S = 200.0  # to create or drop a database; its statement_timeout is shorter
SHOWN = 60  # characters of a question

T = TypeVar("T")


class Connection(psycopg.Connection[Any]):
    """A connection that waits at most `answer_s` for each answer; psycopg would wait forever."""

    answer_s = ANSWER_S

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        return super().wait(self._in_time(gen), *args, **kwargs)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> psycopg.Cursor[Any]:
        try:
            return super().execute(query, *args, **kwargs)
        except TimeoutError:
            raise psycopg.OperationalError(f"no answer within {self.answer_s:g} s to: {_shown(query, self)}") from None

    def _in_time(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        until_s, ready = time.monotonic() + self.answer_s, None
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                answer: T = end.value
                return answer
            ready = yield wanted
            if time.monotonic() > until_s:
                self.pgconn.finish()  # later messages would answer nothing
                raise TimeoutError


def connect(conninfo: str, answer_s: float | None = None) -> Connection:
    connection = Connection.connect(conninfo, autocommit=True, application_name="pgbed")
    connection.answer_s = answer_s or ANSWER_S
    return connection


def rows(connection: psycopg.Connection[Any], name: str, question: str, of: type[T], *values: object) -> list[T]:
    """The rows of an answer, each a dataclass or a tuple. Raises psycopg.Error, and UserError for invalid rows."""
    cursor = connection.execute(question, values or None)
    answer: list[Any] = cursor.fetchall()
    if is_dataclass(of):
        names = [column.name for column in cursor.description or ()]
        answer = [dict(zip(names, each, strict=True)) for each in answer]
    return [converted(each, of, f"{name}: the server's answer to: {_shown(question, connection)}") for each in answer]


def row(connection: psycopg.Connection[Any], name: str, question: str, of: type[T], *values: object) -> T:
    answer = rows(connection, name, question, of, *values)
    if len(answer) != 1:
        raise UserError(
            f"{name}: the server answers with {len(answer)} rows, not 1, to: {_shown(question, connection)}"
        )
    return answer[0]


def _shown(question: Any, connection: psycopg.Connection[Any]) -> str:
    text = question if isinstance(question, str) else question.as_string(connection)
    words = visible(" ".join(text.split())).lstrip("- ")  # ours begin with a comment that names the query
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}…"
