"""The launcher of a step of workload own: `python -m workloads.own.launch`, one step's spec on stdin."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start an unused thread per core

import resource
import sys
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from psycopg.conninfo import make_conninfo
from psycopg.pq import abc

from workloads.api.base import Role
from workloads.api.report import Report, Timing
from workloads.client import client_gate, seeds
from workloads.client.connection import COMMAND_OK, TUPLES_OK, SqlError, error_of, execute, open_connection
from workloads.client.counter_page import Control, Page, State, Word
from workloads.client.launcher import Team, report_file, reported, run
from workloads.client.process import Gates, RecordFn, await_slice, check_stop, clock, recorder, sleep_until, untimed
from workloads.own import execution, planner
from workloads.own.execution import PreparedStatement
from workloads.own.restore import restore
from workloads.own.spec import APP, CLONE, DATA, PLANS, PRISTINE, ROLE, OwnSpec
from workloads.own.values import Values, draw

GATE, PAUSED_NS, STOP = int(Control.GATE), int(Control.PAUSED_NS), int(Control.STOP)
PAUSED_SINCE_NS, TURNS = int(Control.PAUSED_SINCE_NS), int(Control.TURNS)
MOST_TIMES = 1000  # of statements that outlast slices
MEMORY_BYTES = 2 << 30  # of a client: a result that outgrows it fails, not the machine


def main() -> int:
    parent_pid = os.getppid()
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=OwnSpec)
    clients = int(spec.step.get("clients", 1))
    roles = tuple(Role(client, DATA if spec.step["kind"] == DATA else ROLE) for client in range(1, clients + 1))
    page = Page(spec.page_fd, len(roles))
    report_fd = report_file()

    def work(slot: int, role: Role, connection: abc.PGconn, gates: Gates) -> None:
        step = RolePart(spec, page, slot, role, connection, gates)
        report = step.data() if spec.step["kind"] == DATA else step.statements()
        if slot:
            report = Report(results=tuple(result for result in report.results if result.error))
        os.write(report_fd, msgspec.json.encode((slot, report)) + b"\n")

    if spec.step["kind"] == DATA:
        code = run(Team("own", roles, page, spec.dsn, work), parent_pid)
    elif not any(statement.writes == "clone" for statement in spec.statements):
        code = run(Team("own", roles, page, make_conninfo(spec.dsn, user=APP), work), parent_pid)
    else:
        try:
            _as_superuser(spec, f"CREATE DATABASE {CLONE} TEMPLATE {PRISTINE} OWNER {APP}")
            code = run(Team("own", roles, page, make_conninfo(spec.dsn, user=APP, dbname=CLONE), work), parent_pid)
            _as_superuser(spec, f"DROP DATABASE {CLONE}")
        except SqlError as error:
            page.set_error(0, f"the data cannot be cloned: {error}")
            page.words[Control.STOP] = 1
            page.set_word(0, Word.STATE, State.FAILED)
            return 1
    if lines := reported(report_fd):
        sys.stdout.buffer.write(msgspec.json.encode(together(lines)))
    return code


def together(lines: bytes) -> Report:
    """The first client's report, with failures of others only: a client without statements does less work."""
    reports: dict[int, Report] = dict(msgspec.json.decode(line, type=tuple[int, Report]) for line in lines.splitlines())
    first = reports.pop(0, Report())
    failed = {result.statement: result for report in reports.values() for result in report.results}
    for result in first.results:
        if result.error:
            failed.pop(result.statement, None)
    return replace(first, results=(*first.results, *failed.values()))


def usual(times_ms: list[float]) -> float:
    """The time that one planning in ten does not exceed: on a busy CPU most of the longer ones have to wait for it."""
    return sorted(times_ms)[len(times_ms) // 10]


def _as_superuser(spec: OwnSpec, *commands: str) -> None:
    connection = open_connection(spec.dsn)
    try:
        for command in commands:
            execute(connection, command.encode())
    finally:
        connection.finish()


class RolePart:
    """A role's part in a step."""

    def __init__(self, spec: OwnSpec, page: Page, slot: int, role: Role, connection: abc.PGconn, gates: Gates) -> None:
        self.spec, self.page, self.slot, self.role = spec, page, slot, role
        self.connection, self.gates = connection, gates

    def data(self) -> Report:
        self.gates.await_start(self.page, self.slot)
        restore(self.spec, self.connection, self._check)
        # As the statements' sessions see them, with the settings that the data made for the database.
        as_app = open_connection(make_conninfo(self.spec.dsn, user=APP))
        try:
            return Report(planner=planner.record(as_app))
        finally:
            as_app.finish()

    def statements(self) -> Report:
        """Prepare and try all statements before the barrier, then execute until the step ends."""
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))
        if self.spec.step["kind"] == PLANS:
            execute(self.connection, b"SET plan_cache_mode = force_custom_plan")
        every = [self._prepared(number) for number in range(len(self.spec.statements))]
        usable = [prepared for prepared in every if prepared.usable]
        start_ns = self.gates.await_start(self.page, self.slot)
        record = recorder(self.page, self.slot, 1)
        if usable and self.spec.step["kind"] == PLANS:
            times = self._plan(usable, start_ns, record)
            planning = {name: usual(samples) for name, samples in times.items() if samples}
            return replace(execution.report(every), planning=planning)
        times_s = self._execute(usable, start_ns, record) if usable else []
        # Without a statement that works on this build, the server rests as long as the others measure.
        sleep_until(self.page, start_ns + self._length_ns())
        return replace(execution.report(every), timing=Timing(times_s=tuple(times_s)))

    def _prepared(self, number: int) -> PreparedStatement:
        statement, options = self.spec.statements[number], self.spec.options
        random = self._random(statement.name)
        try:
            drawn = draw(statement, self.connection, random)
        except SqlError as error:
            return PreparedStatement(statement, b"", [[]], outcome=execution.failed(self.connection, statement, error))
        if self.spec.step["kind"] == PLANS:
            return execution.prepare_only(self.connection, statement, number, drawn)
        return execution.prepare(
            self.connection, statement, number, drawn, options.max_result * 1_000_000, self._check,
            digested=options.check_results,
        )  # fmt: skip

    def _execute(self, every: list[PreparedStatement], start_ns: int, record: RecordFn) -> list[float]:
        """Execute until the step ends. A statement that fails is left out from then on.

        Times are without pauses. They are returned if statements were cut, as those that outlast slices are.
        """
        words, connection, page, slot = self.page.words, self.connection, self.page, self.slot
        in_flight = page.slot(slot) + Word.IN_FLIGHT_NS
        chosen = self._order(every)
        most_bytes = self.spec.options.max_result * 1_000_000
        place = ended_ns = 0
        times_s: list[float] = []
        while ended_ns < start_ns + self._length_ns() + words[PAUSED_NS]:
            check_stop(page)
            one = every[chosen[place % len(chosen)]]
            place += 1
            undone = one.statement.writes == "rollback"
            if undone:
                with untimed(page, slot):
                    execute(connection, b"BEGIN")
            values = one.values()
            words[in_flight] = began_ns = clock()
            if not words[GATE]:
                began_ns = await_slice(page, slot)
            paused_ns = words[PAUSED_NS]
            try:
                rows = self._once(one, values, most_bytes)
            except SqlError as error:
                words[in_flight] = 0
                check_stop(page)  # it was cancelled
                one.outcome = execution.failed(connection, one.statement, error)
                connection.exec_(b"ROLLBACK")
                every = [prepared for prepared in every if prepared.usable]
                if not every:
                    return []
                chosen = self._order(every)
                continue
            ended_ns = clock()
            if words[PAUSED_NS] != paused_ns or words[PAUSED_SINCE_NS]:
                began_ns = ended_ns - (client_gate.active_ns(page, ended_ns) - began_ns + paused_ns)
            if len(times_s) < MOST_TIMES:
                times_s.append((ended_ns - began_ns) / 1e9)
            record(began_ns, ended_ns, rows, 0)
            if undone:
                with untimed(page, slot):
                    execute(connection, b"ROLLBACK")
        return times_s if words[TURNS] else []

    def _once(self, one: PreparedStatement, values: Values, most_bytes: int) -> int:
        if one.large:
            return execution.fetch(self.connection, one.name, values, most_bytes)[0]
        result = self.connection.exec_prepared(one.name, values)  # type: ignore[arg-type] # None is NULL
        if result.status not in (TUPLES_OK, COMMAND_OK):
            raise error_of(self.connection, result)
        return result.ntuples or result.command_tuples or 0

    def _plan(self, every: Sequence[PreparedStatement], start_ns: int, record: RecordFn) -> dict[str, list[float]]:
        """Plan all statements in turn; return the planning times of each, in ms."""
        words, page, slot = self.page.words, self.page, self.slot
        in_flight = page.slot(slot) + Word.IN_FLIGHT_NS
        times: dict[str, list[float]] = {prepared.statement.name: [] for prepared in every}
        ended_ns = 0
        while ended_ns < start_ns + self._length_ns() + words[PAUSED_NS]:
            for one in every:
                check_stop(page)
                words[in_flight] = began_ns = clock()
                if not words[GATE]:
                    began_ns = await_slice(page, slot)
                plan = execution.plan_only(self.connection, one)
                ended_ns = clock()
                record(began_ns, ended_ns, 1, 0)
                times[one.statement.name].append(plan.planning_ms or 0.0)
        return times

    def _order(self, every: Sequence[PreparedStatement]) -> list[int]:
        """The order of statements: drawn by weight, the same on every server."""
        if len(every) == 1:
            return [0]
        weights = np.array([prepared.statement.weight for prepared in every], float)
        drawn = self._random("order").choice(len(every), 1000, p=weights / weights.sum())
        return [int(number) for number in drawn]

    def _random(self, purpose: str) -> np.random.Generator:
        spec = self.spec
        return seeds.stream(spec.seed, spec.step["name"], spec.repeat, self.role.client, purpose)

    def _length_ns(self) -> int:
        return int(self.spec.step["seconds"] * 1e9)

    def _check(self) -> None:
        check_stop(self.page)


if __name__ == "__main__":
    sys.exit(main())
