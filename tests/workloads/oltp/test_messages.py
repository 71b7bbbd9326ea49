"""Messages of clients: each test's events, as a real server takes and answers them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.ibdatabase import Database
from workloads.client.connection import COMMAND_OK, open_connection
from workloads.oltp.catalog import TESTS, OltpTest
from workloads.oltp.exchange import Exchange
from workloads.oltp.messages import Draw, events, name_of, zipf

ROWS, TABLES = 1000, 2
RANGE = range(1, 102)
WRITES = [1, 1, 1, 1]
EXPECTED: dict[str, list[range | int]] = {
    "update-inlist": [range(80, 101)], "write-only": [0, *WRITES, 0],
    "read-write.10": [0, *[1] * 10, range(1, 11), 1, range(1, 11), range(1, 11), *WRITES, 0],
    "scan": [0], "scan.warm": [0], "hot-points": [100], "random-points.10": [range(9, 11)],
    "random-points.100": [range(80, 101)], "random-points.1000": [range(580, 690)],
    "points-covered-pk": [range(80, 101)], "points-notcovered-pk": [range(80, 101)],
    "points-covered-si": [range(60, 150)], "points-notcovered-si": [range(60, 150)],
    "range-covered-pk": [RANGE], "range-notcovered-pk": [RANGE],
    "range-covered-si": [range(160)], "range-notcovered-si": [range(160)],
    "read-only-sum": [0, *[1] * 10, 1, 0], "read-only-count": [1],
}  # fmt: skip
OTHERS: list[range | int] = [1]


def draw(seed: int = 1) -> Draw:
    return Draw(np.random.default_rng(seed), TABLES, ROWS)


@pytest.fixture
def loaded(database: Callable[..., Database]) -> Database:
    target = database(16)
    for table in range(1, TABLES + 1):
        target.run(f"CREATE TABLE sbtest{table} (id serial PRIMARY KEY, k int, c char(120), pad char(60))")
        target.run(f"INSERT INTO sbtest{table} (k, c, pad) SELECT 1 + i * 7919% {ROWS}, i::text, '' "
                  f"FROM generate_series(1, {ROWS}) i")  # fmt: skip
        target.run(f"CREATE INDEX ON sbtest{table} (k)")
    return target


def answers(target: Database, test: OltpTest, count: int) -> list[list[int]]:
    """Rows of each statement of the first events."""
    connection = open_connection(target.dsn)
    for place, statement in enumerate(test.event):
        for table in range(1, TABLES + 1):
            if statement.prepared:
                prepared = connection.prepare(name_of(place, table).encode(), statement.of(table).encode())
                assert prepared.status == COMMAND_OK, prepared.error_message
    exchange = Exchange(connection)
    answered = [[exchange.ask(message) for message in event] for event in next(events(draw(), test.event))[:count]]
    exchange.close()
    connection.finish()
    return answered


def test_every_statement_of_every_test_returns_its_rows(loaded: Database) -> None:
    for test in TESTS:
        if test.name == "delete":  # from here on some rows are missing
            break
        for rows in answers(loaded, test, 5):
            expected = EXPECTED.get(test.name, OTHERS if not test.transaction else None)
            if expected is not None:
                assert len(rows) == len(expected)
                for got, wanted in zip(rows, expected, strict=True):
                    assert got in wanted if isinstance(wanted, range) else got == wanted, test.name
    assert loaded.one("SELECT count(*) FROM sbtest1") == ROWS, "what is deleted is inserted again"
    updated = "SELECT c FROM sbtest1 UNION ALL SELECT c FROM sbtest2"
    assert loaded.one(f"SELECT count(*) FROM ({updated}) u WHERE c ~ '^([0-9]{{11}}-){{9}}[0-9]{{11}} $'") > 100
    deletes = answers(loaded, TESTS[-2], 20)
    assert sum(map(sum, deletes)) == 2 * ROWS - loaded.one("SELECT (SELECT count(*) FROM sbtest1) + count(*) "
                                                           "FROM sbtest2")  # fmt: skip
    loaded.run("SELECT setval('sbtest1_id_seq', 5000), setval('sbtest2_id_seq', 5000)")
    assert answers(loaded, TESTS[-1], 20) == [[1]] * 20


def test_streams_are_equal_and_blocks_hold_whole_events() -> None:
    for test in TESTS:
        one, other = events(draw(), test.event), events(draw(), test.event)
        for _ in range(2):
            block = next(one)
            assert block == next(other)
            assert block and all(len(event) == len(test.event) for event in block)
    assert next(events(draw(2), TESTS[0].event)) != next(events(draw(), TESTS[0].event))


def test_zipf_prefers_low_ids_within_the_table() -> None:
    ids = zipf(np.linspace(0, 0.9999999, 100_001), 1000)
    assert ids.min() == 1 and ids.max() == 1000
    first, tenth = (np.count_nonzero(ids == value) for value in (1, 10))
    # By the integral of x ** -0.8 from n to n + 1.
    assert first / tenth == pytest.approx((2**0.2 - 1) / (11**0.2 - 10**0.2), rel=0.01)
