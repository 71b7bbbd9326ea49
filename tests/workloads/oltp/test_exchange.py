"""A conversation past libpq, with a real server: long answers, errors, and its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.postgres.server import Server
from workloads.client.connection import SqlError, open_connection
from workloads.oltp.exchange import BUFFER_BYTES, Exchange


def text(sql: str) -> bytes:
    body = sql.encode() + b"\0"
    return b"Q" + (len(body) + 4).to_bytes(4, "big") + body


def test_rows_are_counted_whatever_the_length_of_an_answer(server: Callable[[int | str], Server]) -> None:
    connection = open_connection(server(16).dsn())
    exchange = Exchange(connection)
    for rows in (1, 1, 0, 7, 20_000, 1, 3000, 3000):
        asked = f"SELECT repeat('x', 119) FROM generate_series(1, {rows})"
        assert exchange.ask(text(asked)) == rows
    assert exchange.ask(text(f"SELECT repeat('y', {2 * BUFFER_BYTES})")) == 1
    assert exchange.ask(text("CREATE TEMPORARY TABLE there (id int)")) == 0
    assert exchange.ask(text("INSERT INTO there SELECT generate_series(1, 12)")) == 12
    assert [exchange.ask(text(sql)) for sql in ("BEGIN", "DELETE FROM there WHERE id < 3", "COMMIT")] == [0, 2, 0]
    exchange.close()
    assert connection.exec_(b"SELECT count(*) FROM there").get_value(0, 0) == b"10", "libpq has missed nothing"
    connection.finish()


def test_errors_have_their_code_and_the_conversation_goes_on(server: Callable[[int | str], Server]) -> None:
    connection = open_connection(server(16).dsn())
    exchange = Exchange(connection)
    with pytest.raises(SqlError, match=r"^22012 division by zero$"):
        exchange.ask(text("SELECT 1 / 0"))
    with pytest.raises(SqlError, match=r"^22012"):  # after rows have been sent
        exchange.ask(text("SELECT repeat('x', 1000), 1 / (i - 5000) FROM generate_series(1, 9000) i"))
    assert exchange.ask(text("SELECT 1")) == 1
    with pytest.raises(SqlError, match=r"^(57P01|08006)"):
        exchange.ask(text("SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)"))
    with pytest.raises(SqlError, match=r"^08006 the server closed the connection"):
        exchange.ask(text("SELECT 1"))
    exchange.close()
    connection.finish()
