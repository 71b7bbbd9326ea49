"""Tables, transactions and conditions on real servers."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.support.ibdatabase import Database
from workloads.tpcc.conditions import conditions, schema

Databases = Callable[[int | str], Database]
DIGEST = """
SELECT md5(string_agg(md5(t::text), '' ORDER BY t::text)) FROM (
  SELECT o::text FROM orders o UNION ALL SELECT l::text FROM order_line l UNION ALL SELECT s::text FROM stock s
  UNION ALL SELECT c::text FROM customer c) t
"""
BREAKS = (
    "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 4",
    "DELETE FROM history WHERE h_c_id = 1",
    "UPDATE district SET d_next_o_id = 400 WHERE d_id = 4",
    "DELETE FROM new_orders WHERE no_o_id = 250",
    "DELETE FROM order_line WHERE ol_o_id = 3 AND ol_number = 1",
    "UPDATE orders SET o_carrier_id = NULL WHERE o_id = 3",
    "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_o_id = 3",
)


def filled(target: Database, seed: int = 1) -> Database:
    for statement in schema(1, seed):
        target.run(statement)
    return target


def broken(target: Database) -> list[int]:
    """The conditions that do not hold, by their number."""
    return [number for number, condition in enumerate(conditions()) if target.one(condition.query)]


def test_rows_are_those_of_the_seed_and_consistent(database: Databases) -> None:
    one, other, of_another_seed = filled(database(12)), filled(database(16)), filled(database(16), 2)
    assert one.one(DIGEST) == other.one(DIGEST) != of_another_seed.one(DIGEST)
    assert other.one("SELECT count(*) FROM customer") == 3000 and not broken(other)


@pytest.mark.parametrize("number", range(len(BREAKS)))
def test_each_condition_sees_what_breaks_it(database: Databases, shared: Database, number: int) -> None:
    condition = conditions()[number]
    with psycopg.connect(shared.dsn) as connection:
        if number == 1:
            connection.execute("INSERT INTO history VALUES (1, 1, 1, now(), 5)")
            connection.execute("UPDATE warehouse SET w_ytd = w_ytd + 5")
            assert connection.execute(condition.query.encode()).fetchall() == [(0,)]
        connection.execute(BREAKS[number].encode())
        ((wrong,),) = connection.execute(condition.query.encode()).fetchall()
        connection.rollback()
    assert wrong > 0, condition.text


@pytest.fixture(scope="module")
def shared(server: Callable[..., object]) -> Database:
    """A database of 16 with one warehouse, for tests that roll back."""
    on = server(16)
    name = "tpcc_shared"
    with on.connect("postgres") as connection:  # type: ignore[attr-defined]
        connection.autocommit = True
        connection.execute(f"CREATE DATABASE {name}")
    return filled(Database(on, name, on.dsn(name)))  # type: ignore[arg-type, attr-defined]
