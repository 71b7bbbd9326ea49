"""The roles of client processes, each on its one connection: load tables, or repeat a test's event for a time."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from psycopg.pq import abc

from workloads.api.base import Role
from workloads.client import seeds
from workloads.client.connection import COMMAND_OK, SqlError, error_of, execute
from workloads.client.counter_page import Control, Page, Word
from workloads.client.process import Gates, Stopped, await_slice, check_stop, clock, pair_with_backend, recorder
from workloads.oltp.catalog import BY_NAME, OltpTest
from workloads.oltp.exchange import Exchange
from workloads.oltp.messages import Draw, events, name_of
from workloads.oltp.spec import OltpSpec
from workloads.oltp.statements import TABLE
from workloads.oltp.tally import EVERY_NS, Tally
from workloads.oltp.texts import table_rows

# Failures of one event among several clients', by their word in the page: the client continues, as the reference does.
TOLERATED = {"40001": Word.SERIALIZATION, "40P01": Word.DEADLOCK, "23505": Word.FAILED}
TOLD_BYTES = 1 + hashlib.sha256().digest_size  # a table's number and digest
ROLLBACK = b"Q\0\0\0\x0dROLLBACK\0"


@dataclass(frozen=True, slots=True)
class OltpContext:
    spec: OltpSpec
    role: Role
    page: Page
    slot: int
    connection: abc.PGconn
    gates: Gates
    tell: int  # where a load writes the digests of its tables


def load(context: OltpContext) -> None:
    """Make every table whose turn it is, copy its rows, and build its indexes."""
    spec, page, connection = context.spec, context.page, context.connection
    options = spec.options
    context.gates.await_start(page, context.slot)
    record = recorder(page, context.slot, options.rows)
    for table in range(context.role.client, options.tables + 1, page.roles):
        page.set_word(context.slot, Word.IN_FLIGHT_NS, began_ns := clock())
        name = f"{TABLE}{table}"
        execute(connection, f"CREATE TABLE {name} ({COLUMNS})".encode())
        os.write(context.tell, bytes([table]) + _copy(context, table))
        execute(connection, f"ALTER TABLE {name} ADD PRIMARY KEY (id)".encode())
        execute(connection, f"CREATE INDEX {name}_k ON {name} (k)".encode())
        execute(connection, f"SELECT setval('{name}_id_seq', {options.rows})".encode())
        record(began_ns, clock(), options.rows, 0)


COLUMNS = "id serial, k integer NOT NULL DEFAULT 0, c char(120) NOT NULL DEFAULT '', pad char(60) NOT NULL DEFAULT ''"


def _copy(context: OltpContext, table: int) -> bytes:
    """Copy a table's rows; return their digest."""
    connection, page = context.connection, context.page
    connection.exec_(f"COPY {TABLE}{table} (id, k, c, pad) FROM STDIN".encode())
    digest = hashlib.sha256()
    for block in table_rows(context.spec.seed, table, context.spec.options.rows):
        check_stop(page)
        digest.update(block)
        connection.put_copy_data(block)
    connection.put_copy_end()
    result = connection.get_result()
    if result is None or result.status != COMMAND_OK:
        raise error_of(connection, result) if result else SqlError("08006", "the server closed the connection")
    while connection.get_result() is not None:
        pass
    return digest.digest()


def client(context: OltpContext) -> None:
    """Repeat the test's event, a block of them drawn at a time, until the step's time is over."""
    spec, page, options = context.spec, context.page, context.spec.options
    test = BY_NAME[str(spec.step["name"])]
    _prepare(context, test)
    draw = Draw(seeds.stream(spec.seed, test.name, spec.repeat, context.role.client), options.tables, options.rows)
    blocks = events(draw, test.event)
    next(blocks)  # numpy is loaded before the clock starts
    exchange, tally = Exchange(context.connection), Tally(page, context.slot)
    words, ask, times_ns = page.words, exchange.ask, tally.times_ns
    in_flight = page.slot(context.slot) + Word.IN_FLIGHT_NS
    gate, paused, stop = int(Control.GATE), int(Control.PAUSED_NS), int(Control.STOP)
    length_ns, depletes = int(spec.step["seconds"]) * 1_000_000_000, test.depletes
    if options.placement == "paired":
        pair_with_backend(page, context.slot, context.connection, context.slot)
    start_ns = context.gates.await_start(page, context.slot)
    due_ns = ended_ns = start_ns
    for block in blocks:
        began_ns = clock()  # drawing a block is not part of an event
        for event in block:
            words[in_flight] = began_ns
            if not words[gate]:
                if ended_ns > start_ns:
                    tally.write(ended_ns)
                began_ns = await_slice(page, context.slot)
            try:
                rows = 0
                for message in event:
                    rows += ask(message)
                ended_ns = clock()
                times_ns.append(ended_ns - began_ns)
                tally.rows += 0 if depletes else rows
            except SqlError as error:
                _tolerate(context, exchange, test, error)
                ended_ns = clock()
            began_ns = ended_ns
            if ended_ns >= due_ns:
                due_ns = ended_ns + EVERY_NS
                tally.write(ended_ns)
                if ended_ns - words[paused] - start_ns >= length_ns:
                    tally.sort()
                    exchange.close()
                    return
                if words[stop]:
                    raise Stopped
        tally.sort()


def _prepare(context: OltpContext, test: OltpTest) -> None:
    for place, statement in enumerate(test.event):
        for table in range(1, context.spec.options.tables + 1):
            if statement.prepared:
                name, sql = name_of(place, table), statement.of(table)
                result = context.connection.prepare(name.encode(), sql.encode())
                if result.status != COMMAND_OK:
                    raise error_of(context.connection, result)


def _tolerate(context: OltpContext, exchange: Exchange, test: OltpTest, error: SqlError) -> None:
    """Count an event that failed, and end its transaction. Raises an error that ends the step."""
    word = TOLERATED.get(error.sqlstate)
    if word is None:
        raise error
    if test.transaction:
        exchange.ask(ROLLBACK)
    page, slot = context.page, context.slot
    page.set_word(slot, word, page.word(slot, word) + 1)
