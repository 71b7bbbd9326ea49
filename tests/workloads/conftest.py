"""A database of its own for each test, on the servers that the session shares."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from engine.postgres.server import Server
from tests.support import steprun
from tests.support.ibdatabase import Database
from tests.support.steprun import run_step
from workloads.client.counter_page import Page
from workloads.insert.steps import plan_steps

_numbers = itertools.count(1)


@pytest.fixture(autouse=True, scope="session")
def loaded_launchers() -> None:
    """Launchers come without the start of an interpreter."""
    steprun.start_launcher = steprun.forked


@pytest.fixture
def database(server: Callable[[int | str], Server]) -> Iterator[Callable[..., Database]]:
    """Makes an empty database, or a copy of one, on a server of a label or major version; dropped after the test."""
    databases: list[Database] = []

    def of(which: int | str, template: str = "template1") -> Database:
        on = server(which)
        name = f"ib_{next(_numbers)}"
        with on.connect("postgres") as connection:
            connection.autocommit = True
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        databases.append(Database(on, name, on.dsn(name)))
        return databases[-1]

    yield of
    for gone in databases:
        with gone.server.connect("postgres") as connection:
            connection.autocommit = True
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [gone.name])
            connection.execute(f"DROP DATABASE {gone.name}".encode())


@pytest.fixture(scope="session")
def loaded_once(server: Callable[[int | str], Server]) -> str:
    """The name of a database of 16 after l.i0 and l.x of two clients, to be copied."""
    on, name = server(16), "ib_loaded"
    with on.connect("postgres") as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    for step in plan_steps("g24b", 3000, 2, ["l.x"]):
        assert run_step(on.dsn(name), step, "g24b", clients=2).exit_code == 0
    return name


@pytest.fixture
def loaded(database: Callable[..., Database], loaded_once: str) -> Database:
    """A database after l.i0 and l.x of two clients."""
    return database(16, loaded_once)


@pytest.fixture(scope="session")
def hyperfine_program() -> str:
    """The hyperfine that PGBED_HYPERFINE names, or PATH."""
    path = os.environ.get("PGBED_HYPERFINE") or shutil.which("hyperfine")
    if not path:
        pytest.fail("no hyperfine: PGBED_HYPERFINE is not set; run ./check", pytrace=False)
    return path


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page.create(2)
    yield page
    page.close()
