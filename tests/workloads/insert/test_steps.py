"""Every step of every generation, tiny, against real servers: rows, keys, indexes, and the statements on the wire."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import sqrt

import pytest

from tests.support.ibdatabase import Database
from tests.support.steprun import StepResult, run_step, running
from workloads.client.counter_page import State, Word
from workloads.insert import maintenance
from workloads.insert.options import Options
from workloads.insert.steps import InsertStep, plan_steps

Databases = Callable[[int | str], Database]
LOADED = 3000
FEW = ["l.i0", "l.x", "l.i1", "l.i2", "pause", "qr100", "qp1000"]


def plan(generation: str, clients: int = 1, selected: list[str] | None = None) -> tuple[InsertStep, ...]:
    return plan_steps(generation, LOADED, clients, selected, rows_written=1000, query_seconds=1)


def run(
    database: Database,
    step: InsertStep,
    generation: str,
    clients: int = 1,
    options: Options | None = None,
    seed: int = 1,
) -> StepResult:
    result = run_step(database.dsn, step, generation, clients=clients, options=options, seed=seed)
    assert {role: (outcome.state, outcome.error) for role, outcome in result.roles.items()} == dict.fromkeys(
        result.roles, (State.DONE, "")
    )
    assert result.exit_code == 0
    return result


def pause(database: Database, generation: str, clients: int) -> None:
    options = Options(generation=generation, clients=clients)  # type: ignore[arg-type]
    vacuums = maintenance.maintenance(options, InsertStep("pause", "pause"), database.server.build.major)
    for group in vacuums.groups:
        for statement in group:
            database.run(statement)


def index_columns(database: Database, table: str) -> dict[str, str]:
    rows = database.run(f"SELECT indexname, indexdef FROM pg_indexes WHERE tablename = '{table}'")
    return {name: definition[definition.index("USING") :] for name, definition in rows}


INDEXES = {
    "g22": {
        "marketsegment": "(price, customerid)",
        "registersegment": "(cashregisterid, price, customerid)",
        "pdc": "(price, dateandtime, customerid)",
    },
    "g24": {
        "marketsegment": "(productid, customerid, price)",
        "registersegment": "(cashregisterid, customerid, price)",
        "pdc": "(price, dateandtime, customerid)",
    },
}


@pytest.mark.parametrize(("generation", "major"), [("g24b", 12), ("g24b", 18), ("g24a", 16), ("g22", 16)])
def test_every_step_does_its_rows(database: Databases, generation: str, major: int) -> None:
    """One step of each kind, of query steps that differ in the rate of the writes only."""
    target = database(major)
    clients = 2
    count = 0
    for step in plan(generation, clients, FEW if generation != "g22" else None):
        if step.kind == "pause":
            pause(target, generation, clients)
            continue
        result = run(target, step, generation, clients)
        for role, counts in result.roles.items():
            if role.name == "index":
                assert counts[Word.STATEMENTS] == 3
                assert counts[Word.ROWS] == step.rows_indexed
                continue
            assert counts[Word.STATEMENTS] > 0
            assert sum(counts.service.values()) == sum(counts.reference) == counts[Word.STATEMENTS]
            limited = step.rate_per_s > 0 and role.name in ("insert", "delete")
            assert sum(counts.response.values()) == (counts[Word.STATEMENTS] if limited else 0)
            assert counts[Word.IN_FLIGHT_NS] == 0
            if role.name == "query":
                assert 0 < counts[Word.ROWS_ACTUAL] <= counts[Word.ROWS]
                continue
            # g24a: a stream gives up when the other has finished, and may leave what its queue held.
            lost = 9 if generation == "g24a" and step.deletes else 0
            assert step.rounds - lost <= counts[Word.STATEMENTS] <= step.rounds
            assert counts[Word.ROWS] == counts[Word.STATEMENTS] * step.rows_per_statement
            if role.name == "insert":
                assert counts[Word.ROWS_ACTUAL] == counts[Word.ROWS]
                count += counts[Word.ROWS_ACTUAL]
            else:
                assert (counts[Word.SHORT_DELETES] == 0) == (counts[Word.ROWS_ACTUAL] == counts[Word.ROWS])
                if generation == "g24b":
                    assert counts[Word.SHORT_DELETES] == 0
                count -= counts[Word.ROWS_ACTUAL]
        tables = [f"pi{client}" for client in range(1, clients + 1)]
        assert sum(target.one(f"SELECT count(*) FROM {table}") for table in tables) == count
        if step.name == "l.i0":
            for table in tables:
                assert list(index_columns(target, table)) == [f"{table}_pkey"]
                sequence = target.run(
                    f"SELECT cache_size FROM pg_sequences WHERE sequencename = '{table}_transactionid_seq'"
                )
                assert sequence == [(1000,)]
                assert target.run(f"SELECT min(transactionid), max(transactionid) FROM {table}") == [(1, LOADED)]
                out_of_order = (
                    f"SELECT count(*) FROM (SELECT transactionid <= lag(transactionid) OVER (ORDER BY ctid) AS back "
                    f"FROM {table}) AS keys WHERE back"
                )
                assert target.one(out_of_order) == 0
        if step.name == "l.x":
            for table in tables:
                expected = {f"{table}_{name}": f"USING btree {cols}" for name, cols in INDEXES[generation[:3]].items()}
                assert index_columns(target, table) == {**expected, f"{table}_pkey": "USING btree (transactionid)"}
    price = target.one(
        "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'pi1'::regclass AND attname = 'price'"
    )
    assert price == ("real" if generation == "g22" else "integer")


INSERT = re.compile(
    r"INSERT INTO pi1 \(dateandtime,cashregisterid,customerid,productid,price,data\) VALUES "
    r"(\('\d{4}-\d\d-\d\d \d\d:\d\d:\d\d',\d+,\d+,\d+,\d+\.\d\d,'a+[A-Za-z0-9+/]+'\),?)+$"
)
RANGE_DELETE = re.compile(r"DELETE FROM pi1 WHERE transactionid >= (\d+) AND transactionid < (\d+)$")
SUBSELECT_DELETE = re.compile(
    r"DELETE FROM pi1 WHERE transactionid IN \(SELECT transactionid FROM pi1 "
    r"WHERE transactionid >= (\d+) ORDER BY transactionid ASC LIMIT (\d+)\)$"
)
MIN, MAX = "SELECT min(transactionid) FROM pi1", "SELECT max(transactionid) FROM pi1"


@pytest.mark.parametrize(("generation", "delete_form"), [("g24a", RANGE_DELETE), ("g24b", SUBSELECT_DELETE)])
def test_the_statements_on_the_wire_are_those_of_the_generation(
    database: Databases, generation: str, delete_form: re.Pattern[str]
) -> None:
    target = database(16)
    steps = {step.name: step for step in plan(generation)}
    target.log_statements()
    run(target, steps["l.i0"], generation)
    sent = target.logged()
    assert sent[0] == "DROP TABLE IF EXISTS pi1"
    assert sent[1].startswith("CREATE TABLE pi1 (transactionid bigserial NOT NULL, dateandtime timestamp")
    assert sent[2] == "ALTER SEQUENCE pi1_transactionid_seq CACHE 1000"
    assert len(sent) == 3 + steps["l.i0"].rounds
    assert all(INSERT.match(text) and text.count("),(") == 99 for text in sent[3:])

    run(target, steps["l.x"], generation)
    sent = target.logged()
    assert INSERT.match(sent[0])
    assert [text.split(" ON ")[0] for text in sent[1:]] == [
        f"CREATE INDEX pi1_{name}" for name in ("marketsegment", "registersegment", "pdc")
    ]

    run(target, steps["l.i1"], generation)
    sent = target.logged()
    deletes = [match for text in sent if (match := delete_form.match(text))]
    inserts = [text for text in sent if INSERT.match(text)]
    assert len(deletes) + len(inserts) + sent.count(MIN) == len(sent)
    assert all(text.count("),(") == 49 for text in inserts)
    assert sent.count(MIN) == 1
    lows = [int(match[1]) for match in deletes]
    assert lows == list(range(1, 1 + 50 * len(lows), 50))
    assert all(int(match[2]) == (int(match[1]) + 50 if generation == "g24a" else 50) for match in deletes)
    if generation == "g24b":
        assert len(deletes) == len(inserts) == steps["l.i1"].rounds

    run(target, steps["qr100"], generation)
    sent = [text for text in target.logged() if not INSERT.match(text) and not delete_form.match(text) and text != MIN]
    assert [text for text in sent if text.startswith("PREPARE")] == [
        "PREPARE marketsegment(int) AS SELECT productid,customerid,price FROM pi1 WHERE productid >= $1 "
        "ORDER BY productid,customerid,price LIMIT 10",
        "PREPARE registersegment(int) AS SELECT cashregisterid,customerid,price FROM pi1 WHERE cashregisterid > $1 "
        "ORDER BY cashregisterid,customerid,price LIMIT 10",
        "PREPARE pdc(int) AS SELECT price,dateandtime,customerid FROM pi1 WHERE price >= $1 "
        "ORDER BY price,dateandtime,customerid LIMIT 10",
    ]
    limits = {"marketsegment": 10_000, "registersegment": 1000, "pdc": 500}
    kinds = dict.fromkeys(limits, 0)
    for text in sent[3:]:
        match = re.fullmatch(r"EXECUTE (\w+)\((\d+)\)", text)
        assert match
        assert int(match[2]) < limits[match[1]]
        kinds[match[1]] += 1
    # Each is as frequent: the difference of two counts has a variance of two thirds of all.
    assert max(kinds.values()) - min(kinds.values()) < 4.5 * sqrt(2 / 3 * sum(kinds.values()))

    run(target, steps["qp100"], generation)
    sent = [text for text in target.logged() if not INSERT.match(text) and not delete_form.match(text) and text != MIN]
    assert sent[0] == MAX  # chooses the type of the parameters
    assert sent[1] == (
        "PREPARE point(int,int,int,int,int,int,int,int,int,int) AS SELECT transactionid,productid,data FROM pi1 "
        "WHERE transactionid IN ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)"
    )
    lookups = [number for number, text in enumerate(sent[2:]) if text == MAX]
    assert lookups == list(range(0, len(sent) - 2, 101))
    points = [text for text in sent[2:] if text != MAX]
    assert all(re.fullmatch(r"EXECUTE point\(\d+(,\d+){9}\)", text) for text in points)


def test_lookups_on_new_connections_when_the_generation_says_so(database: Databases) -> None:
    target = database(16)
    for step in plan("g24a", selected=["qp100"]):
        before = target.one(
            "SELECT COALESCE(sum(sessions), 0) FROM pg_stat_database WHERE datname = current_database()"
        )
        result = run(target, step, "g24a")
    lookups = result[1, "query"][Word.MAX_LOOKUPS]
    after = target.one("SELECT sum(sessions) FROM pg_stat_database WHERE datname = current_database()")
    assert lookups > 0
    assert after - before >= lookups


def test_low_key_is_looked_up_again_during_a_long_step(database: Databases) -> None:
    target = database(16)
    options = Options(resync_rounds=10)
    for step in plan("g24b", selected=["l.i2"]):
        result = run(target, step, "g24b", options=options)
    assert result[1, "insert"][Word.MIN_LOOKUPS] == -(-step.rounds // 11)
    assert result[1, "delete"][Word.SHORT_DELETES] == 0


def test_point_queries_know_the_low_key_after_its_lookup(database: Databases) -> None:
    """The second round begins a second later: meanwhile they would search for keys that were deleted long ago."""
    target = database(16)
    *before, step = plan_steps("g24b", LOADED, 1, ["qp100"], rows_written=1000, query_seconds=2)
    for earlier in before:
        run(target, earlier, "g24b")
    with running(target.dsn, step, "g24b") as under_way:
        under_way.start()
        under_way.until(lambda: under_way.word(1, "insert", Word.LOW_KEY) > 0)
        assert under_way.word(1, "insert", Word.ROUNDS_STARTED) == 1
        assert under_way.finish().exit_code == 0


def test_range_deletes_fall_short_where_keys_are_missing(database: Databases) -> None:
    short = {}
    for generation in ("g24a", "g24b"):
        target = database(16)
        # l.x leaves the sequence at 3001..3100, and the keys up to 4000 unused; the deletes pass that gap.
        for step in plan_steps(generation, LOADED, rows_written=6000, selected=["l.i1"]):
            result = run(target, step, generation)
        short[generation] = result[1, "delete"][Word.SHORT_DELETES]
    assert short["g24a"] > 0
    assert short["g24b"] == 0


def test_rows_depend_on_the_seed_only(database: Databases) -> None:
    def checksums(seed: int) -> list[str]:
        """Tables of both clients."""
        target = database(16)
        for step in plan("g24b", 2, ["l.i1"]):
            run(target, step, "g24b", 2, seed=seed)
        row = "cashregisterid, customerid, productid, price, data"
        checksum = f"SELECT md5(string_agg(ROW({row})::text, ',' ORDER BY transactionid)) FROM"
        return [target.one(f"{checksum} {table}") for table in ("pi1", "pi2")]

    first = checksums(1)
    assert first == checksums(1)
    assert first[0] != first[1]
    assert first[0] != checksums(2)[0]
