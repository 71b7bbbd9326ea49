"""The roles of the Insert Benchmark: what each process does on its one connection.

A role is a function of its `Seat` that prepares, waits at the barrier, works, and returns. The loops send text
through raw libpq and count in the shared page; nothing else happens between two statements.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from psycopg.pq import abc

from workloads import seeds
from workloads.connection import COMMAND_OK, TUPLES_OK, error_of, execute, open_connection, scalar
from workloads.insert import queries, rows, schema
from workloads.insert.coupling import RING_ROUNDS, InsertGate, LowKeyLookup, PartnerEnded, Partners
from workloads.insert.maker import Maker
from workloads.insert.spec import Role, StepSpec
from workloads.insert.steps import Generation, generation
from workloads.limiter import limiter
from workloads.page import RING_OFFSET, Control, Page, State, Word
from workloads.process import (
    Stopped,
    check_stop,
    clock,
    pair_with_backend,
    recorder,
    sleep_until,
    wait_at_barrier,
    wait_for,
)

QUERIES_PER_CHECK = 8  # range queries between two looks at STOP and at the streams; the reference looks every 16


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a role sits: its step, its slot, its connection and its partners of the same client."""

    spec: StepSpec
    role: Role
    page: Page
    slot: int
    connection: abc.PGconn
    place: int
    partners: Partners
    text: bytes  # the run's buffer of random characters

    @property
    def table(self) -> str:
        return schema.table_name(self.role.client)

    @property
    def form(self) -> Generation:
        return generation(self.spec.generation)

    @property
    def rows_per_statement(self) -> int:
        return self.spec.knobs.rows_per_statement_of(self.spec.step)

    @property
    def rounds(self) -> int:
        return -(-self.spec.step.rows_per_client // self.rows_per_statement)

    def set(self, word: Word, value: int) -> None:
        self.page.set_word(self.slot, word, value)

    def random(self) -> np.random.Generator:
        spec = self.spec
        return seeds.stream(spec.seed, spec.step.name, spec.repeat, self.role.client, self.role.name)

    def ready(self) -> int:
        """Pairs with the backend if wanted, then waits at the barrier; returns the step's start."""
        if self.spec.knobs.placement == "paired":
            pair_with_backend(self.page, self.slot, self.connection, self.place)
        return wait_at_barrier(self.page, self.slot)


def insert(seat: Seat) -> None:
    """Inserts the step's rows; in steps with deletes it makes the rounds of both streams."""
    spec, knobs, page, form = seat.spec, seat.spec.knobs, seat.page, seat.form
    per_statement, rounds = seat.rows_per_statement, seat.rounds
    if spec.step.kind == "load":
        _create_table(seat)
    head, tail, flat = schema.insert_head(seat.table), b"", False
    if knobs.insert_protocol == "prepared":
        execute(seat.connection, schema.prepare_insert(form, seat.table, per_statement).encode())
        head, tail, flat = "EXECUTE ins(", b")", True
    else:
        tail = b")"
    block = rows.RowBlock(seat.random(), seat.text, form.price_type, rows.block_rows(per_statement))
    next_statement = rows.insert_statements(block, per_statement, head.encode(), tail, flat=flat)
    next_statement()  # the first block is drawn before the clock starts
    lookup, first_low = _lookup(seat)
    start_ns = seat.ready()
    record = recorder(page, seat.slot, per_statement, limited=spec.step.rate_per_s > 0)
    rate = limiter(knobs.limiter, spec.step.rate_per_s, per_statement, start_ns)
    enter: Callable[[int], int]
    if rate is None and not spec.step.deletes:
        gate = None
        enter = _uncoupled(page)
    else:
        maker = Maker(
            rounds,
            per_statement,
            rate,
            deletes=spec.step.deletes,
            first_low=first_low,
            resync_rounds=knobs.resync_rounds_of(form),
            start_ns=start_ns,
        )
        gate = InsertGate(page, seat.partners, maker, lookup)
        enter = gate.enter
    try:
        _insert_rounds(seat, rounds, next_statement, enter, record)
        seat.set(Word.ENDED_NS, clock())
        if gate is not None:
            gate.finish()
    except PartnerEnded:
        pass


def _create_table(seat: Seat) -> None:
    """Makes the client's empty table, on a connection of its own as the reference does.

    It matters: a backend that made the table itself then spends a sixth more CPU on every insert (measured on 16).
    """
    knobs = seat.spec.knobs
    connection = open_connection(seat.spec.dsn)
    try:
        for sql in schema.create_table(seat.form, seat.table, knobs.create_suffix, knobs.partitions):
            execute(connection, sql.encode())
    finally:
        connection.finish()


def _insert_rounds(
    seat: Seat,
    rounds: int,
    next_statement: rows.Statements,
    enter: Callable[[int], int],
    record: Callable[[int, int, int, int], None],
) -> None:
    """The loop of the insert role."""
    send, words = seat.connection.exec_, seat.page.words
    in_flight = seat.page.slot(seat.slot) + Word.IN_FLIGHT_NS
    for number in range(rounds):
        intended_ns = enter(number)
        sql = next_statement()
        words[in_flight] = began_ns = clock()
        result = send(sql)
        ended_ns = clock()
        if result.status != COMMAND_OK:
            raise error_of(seat.connection, result)
        record(began_ns, ended_ns, result.command_tuples or 0, intended_ns)


def _uncoupled(page: Page) -> Callable[[int], int]:
    """The gate of a stream that nothing holds: only STOP is looked at."""
    words, stop = page.words, int(Control.STOP)

    def enter(_: int) -> int:
        if words[stop]:
            raise Stopped
        return 0

    return enter


def _lookup(seat: Seat) -> tuple[LowKeyLookup | None, int | None]:
    """The low-key lookup and, where it is made before the start, its first result."""
    if not seat.spec.step.deletes:
        return None, 0
    form, knobs = seat.form, seat.spec.knobs
    kept = knobs.lookup_connection_of(form) == "kept"
    lookup = LowKeyLookup(seat.spec.dsn, schema.min_key(seat.table), kept, seat.partners.wake_insert)
    if form.first_lookup != "before-start":
        return lookup, None
    low_key, took_ns = lookup.now()
    seat.set(Word.MIN_LOOKUPS, 1)
    seat.set(Word.MIN_LOOKUP_NS, took_ns)
    return lookup, low_key


def delete(seat: Seat) -> None:
    """Removes as many rows as the insert role adds, a round behind or ahead within the bounds of the queues."""
    page, words, partners = seat.page, seat.page.words, seat.partners
    per_statement, rounds = seat.rows_per_statement, seat.rounds
    template = schema.delete_template(seat.spec.knobs.delete_form_of(seat.form), seat.table, per_statement).encode()
    maker = page.slot(partners.insert_slot)
    made, ring, maker_state = maker + Word.ROUNDS_MADE, maker + RING_OFFSET, maker + Word.STATE
    base = page.slot(seat.slot)
    in_flight, started, short = base + Word.IN_FLIGHT_NS, base + Word.ROUNDS_STARTED, base + Word.SHORT_DELETES
    seat.ready()
    record = recorder(page, seat.slot, per_statement, limited=seat.spec.step.rate_per_s > 0)
    send = seat.connection.exec_
    for number in range(rounds):
        if words[Control.STOP]:
            raise Stopped
        if not partners.drains and words[maker_state] >= State.DONE:
            return
        if words[made] <= number:
            began_ns = clock()
            wait_for(page, partial(_made_or_ended, words, made, number, maker_state), partners.wake_delete)
            seat.set(Word.COUPLED_NS, page.word(seat.slot, Word.COUPLED_NS) + clock() - began_ns)
            if words[made] <= number:
                check_stop(page)  # the other stream may have ended because of it
                return
        entry = ring + 3 * (number % RING_ROUNDS)
        go_ns, intended_ns, low_key = words[entry], words[entry + 1], words[entry + 2]
        if go_ns > (began_ns := clock()):
            sleep_until(page, go_ns)
            seat.set(Word.LIMITED_NS, page.word(seat.slot, Word.LIMITED_NS) + clock() - began_ns)
        words[started] = number + 1
        os.eventfd_write(partners.wake_insert, 1)
        sql = template % {b"lo": low_key, b"hi": low_key + per_statement}
        words[in_flight] = began_ns = clock()
        result = send(sql)
        ended_ns = clock()
        if result.status != COMMAND_OK:
            raise error_of(seat.connection, result)
        deleted = result.command_tuples or 0
        if deleted != per_statement:
            words[short] += 1
        record(began_ns, ended_ns, deleted, intended_ns)


def _made_or_ended(words: memoryview[int], made: int, number: int, maker_state: int) -> bool:
    """Whether the round exists, or the role that would make it has ended."""
    return words[made] > number or words[maker_state] >= State.DONE


def query(seat: Seat) -> None:
    """Queries back to back until the insert or the delete stream has finished."""
    if seat.spec.step.query == "point":
        _point_queries(seat)
    else:
        _range_queries(seat)


def _streams_ended(seat: Seat) -> Callable[[], bool]:
    """Whether the insert or the delete stream has ended; raises `Stopped` on STOP."""
    words, stop = seat.page.words, int(Control.STOP)
    slots = [seat.partners.insert_slot]
    if seat.partners.delete_slot is not None:
        slots.append(seat.partners.delete_slot)
    first, last = (seat.page.slot(slot) + Word.STATE for slot in (slots[0], slots[-1]))
    done = int(State.DONE)

    def ended() -> bool:
        if words[stop]:
            raise Stopped
        if words[first] < done and words[last] < done:
            return False
        check_stop(seat.page)  # a stream may have ended because of it
        return True

    return ended


def _range_queries(seat: Seat) -> None:
    protocol, words, connection = seat.spec.knobs.query_protocol, seat.page.words, seat.connection
    for sql in queries.range_prepares(seat.form, seat.table, protocol):
        execute(connection, sql.encode())
    draw = queries.range_blocks(seat.form, seat.table, protocol, seat.random())
    record, ended, send = recorder(seat.page, seat.slot, schema.QUERY_ROWS), _streams_ended(seat), connection.exec_
    in_flight = seat.page.slot(seat.slot) + Word.IN_FLIGHT_NS
    seat.ready()
    while True:
        block = draw()
        for first in range(0, len(block), QUERIES_PER_CHECK):
            if ended():
                return
            for statement in block[first : first + QUERIES_PER_CHECK]:
                words[in_flight] = began_ns = clock()
                result = send(statement)
                ended_ns = clock()
                if result.status != TUPLES_OK:
                    raise error_of(connection, result)
                record(began_ns, ended_ns, result.ntuples, 0)


def _point_queries(seat: Seat) -> None:
    protocol, words, connection = seat.spec.knobs.query_protocol, seat.page.words, seat.connection
    max_key = schema.max_key(seat.table).encode()
    kept = seat.spec.knobs.lookup_connection_of(seat.form) == "kept"
    for sql in queries.point_prepares(seat.table, protocol, scalar(connection, max_key) or 0):
        execute(connection, sql.encode())
    statement = queries.point_statements(seat.table, protocol, seat.random())
    record, ended, send = recorder(seat.page, seat.slot, schema.QUERY_ROWS), _streams_ended(seat), connection.exec_
    base = seat.page.slot(seat.slot)
    in_flight, lookups = base + Word.IN_FLIGHT_NS, base + Word.MAX_LOOKUPS
    low_key = seat.page.slot(seat.partners.insert_slot) + Word.LOW_KEY
    seat.ready()
    while True:
        hi = _max_lookup(seat, max_key, kept)
        words[lookups] += 1
        for _ in range(queries.LOOKUP_QUERIES):
            if ended():
                return
            words[in_flight] = began_ns = clock()
            result = send(statement(words[low_key], hi))
            ended_ns = clock()
            if result.status != TUPLES_OK:
                raise error_of(connection, result)
            record(began_ns, ended_ns, result.ntuples, 0)


def _max_lookup(seat: Seat, sql: bytes, kept: bool) -> int:
    """The greatest key, on this connection or on one opened for it; outside the timed interval."""
    if kept:
        return scalar(seat.connection, sql) or 0
    connection = open_connection(seat.spec.dsn)
    try:
        return scalar(connection, sql) or 0
    finally:
        connection.finish()


def index(seat: Seat) -> None:
    """Builds the client's indexes one after another, once its inserts are done."""
    statements = schema.create_indexes(seat.form, seat.table, seat.spec.knobs.indexes)
    words, base = seat.page.words, seat.page.slot(seat.slot)
    inserts = seat.page.slot(seat.partners.insert_slot) + Word.STATE
    rows_indexed = seat.spec.step.rows_indexed
    wait_at_barrier(seat.page, seat.slot)  # never paired: parallel workers of a build are the server's choice
    wait_for(seat.page, lambda: words[inserts] >= State.DONE, seat.partners.wake_delete)
    record = recorder(seat.page, seat.slot, 0)
    for number, sql in enumerate(statements, 1):
        check_stop(seat.page)
        words[base + Word.IN_FLIGHT_NS] = began_ns = clock()
        execute(seat.connection, sql.encode())
        record(began_ns, clock(), 0, 0)
        # Counted once although several indexes are built; in parts, so that progress is seen.
        words[base + Word.ROWS] = rows_indexed * number // len(statements)


def transaction(seat: Seat) -> None:
    """Holds a transaction open with a snapshot taken, commits, and repeats until the streams end."""
    ended = _streams_ended(seat)
    hold_ns = int(seat.spec.knobs.open_transaction_s * 1e9)
    record = recorder(seat.page, seat.slot, 1)
    seat.ready()
    while not ended():
        execute(seat.connection, b"BEGIN")
        began_ns = clock()
        result = execute(seat.connection, f"SELECT transactionid FROM {seat.table} LIMIT 1".encode())
        record(began_ns, clock(), result.ntuples, 0)
        while clock() < began_ns + hold_ns and not ended():
            sleep_until(seat.page, min(clock() + 1_000_000_000, began_ns + hold_ns))
        execute(seat.connection, b"COMMIT")


ROLES: dict[str, Callable[[Seat], None]] = {
    "insert": insert,
    "delete": delete,
    "query": query,
    "index": index,
    "transaction": transaction,
}
