"""A database of its own for each test, on the servers that the session shares."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from engine.postgres.server import Server
from tests.support.ibdatabase import Database

_numbers = itertools.count(1)


@pytest.fixture
def database(server: Callable[[int | str], Server]) -> Iterator[Callable[[int | str], Database]]:
    """Makes an empty database on a server of a label or major version; dropped after the test."""
    made: list[Database] = []

    def of(which: int | str) -> Database:
        on = server(which)
        name = f"ib_{next(_numbers)}"
        with on.connect("postgres") as connection:
            connection.autocommit = True
            connection.execute(f"CREATE DATABASE {name}".encode())
        made.append(Database(on, name, on.dsn(name)))
        return made[-1]

    yield of
    for gone in made:
        with gone.server.connect("postgres") as connection:
            connection.autocommit = True
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [gone.name])
            connection.execute(f"DROP DATABASE {gone.name}".encode())
