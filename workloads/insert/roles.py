"""The roles of the Insert Benchmark: the work of each process on its one connection.

A role is a function of its `RoleContext` that prepares, waits at the barrier, works, and returns. The loops send text
through raw libpq and count in the shared page; nothing else happens between two statements.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from psycopg.pq import abc

from workloads.api.base import Role
from workloads.client import seeds
from workloads.client.client_gate import is_sliced
from workloads.client.connection import COMMAND_OK, TUPLES_OK, error_of, execute, lookup, open_connection, scalar
from workloads.client.counter_page import RING_OFFSET, Control, Page, State, Word
from workloads.client.limiter import Limiter
from workloads.client.process import (
    Gates,
    Stopped,
    active,
    await_quota,
    await_slice,
    check_stop,
    clock,
    pair_with_backend,
    recorder,
    sleep_until,
    untimed,
    wait_for,
)
from workloads.insert import ddl, queries, row_values
from workloads.insert.coupling import RING_ROUNDS, InsertGate, LowKeyLookup, PartnerEnded, Partners
from workloads.insert.maker import Maker
from workloads.insert.options import Options
from workloads.insert.spec import InsertSpec
from workloads.insert.steps import Generation

GATE, PAUSED_NS = int(Control.GATE), int(Control.PAUSED_NS)
QUOTA = int(Control.QUOTA)
LIMITED_EVERY_NS = 100_000_000  # a wait for the limiter is counted as often
QUERIES_PER_CHECK = 8  # range queries between checks for STOP and the streams' ends; the reference checks every 16


@dataclass(frozen=True, slots=True)
class RoleContext:
    spec: InsertSpec
    role: Role
    page: Page
    slot: int
    connection: abc.PGconn
    gates: Gates
    place: int
    partners: Partners
    text: bytes  # the run's buffer of random characters
    report_fd: int  # a file that takes a line of JSON of each client

    @property
    def table(self) -> str:
        return ddl.table_name(self.role.client)

    @property
    def options(self) -> Options:
        return self.spec.options

    @property
    def form(self) -> Generation:
        return self.options.form

    @property
    def rows_per_statement(self) -> int:
        return self.options.rows_per_statement_of(self.spec.step)

    @property
    def rounds(self) -> int:
        return self.spec.step.rounds_of(self.rows_per_statement)

    def set(self, word: Word, value: int) -> None:
        self.page.set_word(self.slot, word, value)

    def random(self) -> np.random.Generator:
        spec = self.spec
        return seeds.stream(spec.seed, spec.step.name, spec.repeat, self.role.client, self.role.name)

    def ready(self) -> int:
        """Pair with the backend if requested, then wait at the barrier; return the step's start."""
        if self.options.placement == "paired":
            pair_with_backend(self.page, self.slot, self.connection, self.place)
        return self.gates.await_start(self.page, self.slot)


def insert(context: RoleContext) -> None:
    """Insert the step's rows and, in steps with deletes, make the rounds of both streams."""
    spec, page = context.spec, context.page
    per_statement, rounds = context.rows_per_statement, context.rounds
    if spec.step.kind == "load":
        _create_table(context)
    price_type, rows = context.form.price_type, row_values.block_rows(per_statement)
    block = row_values.RowBlock(context.random(), context.text, price_type, rows)
    next_statement = row_values.insert_statements(block, per_statement, ddl.insert_head(context.table).encode())
    next_statement()  # the first block is drawn before the clock starts
    low_key, first_low = _low_key(context)
    start_ns = context.ready()
    record = recorder(page, context.slot, per_statement, limited=spec.step.rate_per_s > 0)
    rate = (
        Limiter(spec.step.rate_per_s, per_statement, start_ns, even=is_sliced(page)) if spec.step.rate_per_s else None
    )
    gate = None
    if rate is not None or spec.step.deletes:
        maker = Maker(
            rounds,
            per_statement,
            rate,
            deletes=spec.step.deletes,
            first_low=first_low,
            resync_rounds=context.options.effective_resync_rounds,
            start_ns=start_ns,
        )
        gate = InsertGate(page, context.partners, maker, low_key)
    try:
        _insert_rounds(context, rounds, next_statement, gate.enter if gate else _uncoupled(page), record)
        context.set(Word.ENDED_NS, clock())
        if gate is not None:
            gate.finish()
    except PartnerEnded:
        pass


def _create_table(context: RoleContext) -> None:
    """Make the table on a separate connection, as the reference does, or inserts cost a sixth more CPU (on 16)."""
    connection = open_connection(context.spec.dsn)
    try:
        for sql in ddl.create_table(context.form, context.table):
            execute(connection, sql.encode())
    finally:
        connection.finish()


def _insert_rounds(
    context: RoleContext,
    rounds: int,
    next_statement: row_values.Statements,
    enter: Callable[[int], int],
    record: Callable[[int, int, int, int], None],
) -> None:
    send, page, words = context.connection.exec_, context.page, context.page.words
    in_flight = page.slot(context.slot) + Word.IN_FLIGHT_NS
    for number in range(rounds):
        if number >= words[QUOTA]:  # before the coupling: a role that has used its quota owes the partner nothing
            await_quota(page, context.slot, number)
        intended_ns = enter(number)
        sql = next_statement()
        words[in_flight] = began_ns = clock()
        if not words[GATE]:
            began_ns = await_slice(page, context.slot)
        result = send(sql)
        ended_ns = clock()
        if result.status != COMMAND_OK:
            raise error_of(context.connection, result)
        record(began_ns, ended_ns, result.command_tuples or 0, intended_ns + words[PAUSED_NS])


def _uncoupled(page: Page) -> Callable[[int], int]:
    words, stop = page.words, int(Control.STOP)

    def enter(_: int) -> int:
        if words[stop]:
            raise Stopped
        return 0

    return enter


def _low_key(context: RoleContext) -> tuple[LowKeyLookup | None, int | None]:
    """The low-key lookup and, if made before the start, its first result."""
    if not context.spec.step.deletes:
        return None, 0
    kept = context.options.effective_lookup_connection == "kept"
    sql, wake_fd = ddl.min_key(context.table), context.partners.wake_insert
    sought = LowKeyLookup(context.spec.dsn, sql, kept, wake_fd, context.page, context.slot)
    if context.form.first_lookup != "before-start":
        return sought, None
    first, took_ns = sought.now()
    context.set(Word.MIN_LOOKUPS, 1)
    context.set(Word.MIN_LOOKUP_NS, took_ns)
    return sought, first


def delete(context: RoleContext) -> None:
    """Delete as many rows as the insert role adds, a round behind or ahead within the bounds of the queues."""
    page, words, partners = context.page, context.page.words, context.partners
    per_statement, rounds = context.rows_per_statement, context.rounds
    template = ddl.delete_template(context.options.effective_delete_form, context.table, per_statement).encode()
    maker = page.slot(partners.insert_slot)
    rounds_made, ring, maker_state = maker + Word.ROUNDS_MADE, maker + RING_OFFSET, maker + Word.STATE
    base = page.slot(context.slot)
    in_flight, started, short = base + Word.IN_FLIGHT_NS, base + Word.ROUNDS_STARTED, base + Word.SHORT_DELETES
    context.ready()
    record = recorder(page, context.slot, per_statement, limited=context.spec.step.rate_per_s > 0)
    send = context.connection.exec_

    def made_or_ended(number: int) -> bool:
        return words[rounds_made] > number or words[maker_state] >= State.DONE

    for number in range(rounds):
        check_stop(page)
        if not partners.drains and words[maker_state] >= State.DONE:
            return
        if words[rounds_made] <= number:
            began_ns = active(page)
            wait_for(page, partial(made_or_ended, number), partners.wake_delete)
            context.set(Word.COUPLED_NS, page.word(context.slot, Word.COUPLED_NS) + active(page) - began_ns)
            if words[rounds_made] <= number:
                check_stop(page)  # the other stream may have ended because of STOP
                return
        entry = ring + 3 * (number % RING_ROUNDS)
        go_ns, intended_ns, low_key = words[entry], words[entry + 1], words[entry + 2]
        if go_ns > (began_ns := active(page)):
            slept_ns = page.word(context.slot, Word.LIMITED_NS) - began_ns
            while go_ns > (now_ns := active(page)):
                sleep_until(page, min(go_ns, now_ns + LIMITED_EVERY_NS))
                context.set(Word.LIMITED_NS, slept_ns + active(page))
        words[started] = number + 1
        os.eventfd_write(partners.wake_insert, 1)
        sql = template % {b"lo": low_key, b"hi": low_key + per_statement}
        words[in_flight] = began_ns = clock()
        if not words[GATE]:
            began_ns = await_slice(page, context.slot)
        result = send(sql)
        ended_ns = clock()
        if result.status != COMMAND_OK:
            raise error_of(context.connection, result)
        deleted = result.command_tuples or 0
        if deleted != per_statement:
            words[short] += 1
        record(began_ns, ended_ns, deleted, intended_ns + words[PAUSED_NS])


def query(context: RoleContext) -> None:
    """Run queries back to back until the insert or the delete stream has finished."""
    if context.spec.step.query == "point":
        _point_queries(context)
    else:
        _range_queries(context)


def _streams_ended(context: RoleContext) -> Callable[[], bool]:
    words, stop = context.page.words, int(Control.STOP)
    inserts, deletes = context.partners.insert_slot, context.partners.delete_slot
    first = context.page.slot(inserts) + Word.STATE
    last = context.page.slot(inserts if deletes is None else deletes) + Word.STATE
    done = int(State.DONE)

    def ended() -> bool:
        if words[stop]:
            raise Stopped
        if words[first] < done and words[last] < done:
            return False
        check_stop(context.page)  # a stream may have ended because of STOP
        return True

    return ended


def _range_queries(context: RoleContext) -> None:
    words, connection = context.page.words, context.connection
    for sql in queries.range_prepares(context.form, context.table):
        execute(connection, sql.encode())
    draw = queries.range_blocks(context.form, context.random())
    record = recorder(context.page, context.slot, ddl.QUERY_ROWS)
    ended, send = _streams_ended(context), connection.exec_
    in_flight = context.page.slot(context.slot) + Word.IN_FLIGHT_NS
    context.ready()
    while True:
        block = draw()
        for first in range(0, len(block), QUERIES_PER_CHECK):
            if ended():
                return
            for statement in block[first : first + QUERIES_PER_CHECK]:
                words[in_flight] = began_ns = clock()
                if not words[GATE]:
                    began_ns = await_slice(context.page, context.slot)
                result = send(statement)
                ended_ns = clock()
                if result.status != TUPLES_OK:
                    raise error_of(connection, result)
                record(began_ns, ended_ns, result.ntuples, 0)


def _point_queries(context: RoleContext) -> None:
    words, connection = context.page.words, context.connection
    max_key = ddl.max_key(context.table).encode()
    kept = connection if context.options.effective_lookup_connection == "kept" else None
    wide_keys = (scalar(connection, max_key) or 0) >= queries.WIDE_KEY
    execute(connection, ddl.prepare_point(context.table, wide_keys).encode())
    statement = queries.point_statements(context.random())
    record = recorder(context.page, context.slot, ddl.QUERY_ROWS)
    ended, send = _streams_ended(context), connection.exec_
    base = context.page.slot(context.slot)
    in_flight, lookups = base + Word.IN_FLIGHT_NS, base + Word.MAX_LOOKUPS
    low_key = context.page.slot(context.partners.insert_slot) + Word.LOW_KEY
    context.ready()
    while True:
        with untimed(context.page, context.slot):
            hi = lookup(kept, context.spec.dsn, max_key)
        words[lookups] += 1
        for _ in range(queries.LOOKUP_QUERIES):
            if ended():
                return
            words[in_flight] = began_ns = clock()
            if not words[GATE]:
                began_ns = await_slice(context.page, context.slot)
            result = send(statement(words[low_key], hi))
            ended_ns = clock()
            if result.status != TUPLES_OK:
                raise error_of(connection, result)
            record(began_ns, ended_ns, result.ntuples, 0)
