"""Observes a server that others use into a step of the journal, without a workload: its connections by role, rates,
waits, stalls, checkpoints and vacuums.

It looks twice a second, at a time that chance moves, and counts once a second. If the server does not answer, only that
is recorded; a lost connection is opened again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from engine.core.text import visible
from engine.journal.rows import RoleSecond, WaitSecond
from engine.journal.totals import RoleTotals, StepTotals
from engine.journal.writer import JournalWriter
from engine.observe.causes import causes
from engine.observe.role_counts import RoleCounts
from engine.observe.server_events import Checkpoints, Vacuums
from engine.observe.server_stalls import Found, ServerStalls
from engine.observe.stalls import SECOND_NS, StallRule
from engine.postgres.activity import Doing
from engine.postgres.pgstat import MonitorError
from engine.postgres.server_activity import TOTAL, RoleActivity, Seen, ServerActivity, Totals
from engine.postgres.serverlog import LogEvent
from engine.postgres.statement_counts import Counted
from workloads import histogram
from workloads.base import PrimaryMetric

FIRST_NS = 300_000_000  # until the first figures
PATIENCE_NS = 2 * SECOND_NS  # without an answer, before that is recorded
NO_SERVICE = histogram.pack({})  # response times are not known
STATEMENTS, TRANSACTIONS = "statements/s", "transactions/s"

Connect = Callable[[], ServerActivity]


@dataclass(slots=True)
class _Last:
    """What was counted last, and when; by the server, and by the observer of its own questions."""

    totals: tuple[int, Totals] | None = None
    wal: int | None = None
    asked: int = 0


class Observer:
    """Observes one server: `begin`, `watch` often, then `finish`. Nothing that the server does is raised.

    `unit` is what the rate counts: statements, or transactions.
    """

    def __init__(
        self,
        journal: JournalWriter,
        attempt: int,
        activity: ServerActivity,
        connect: Connect,
        rule: StallRule,
        unit: str,
    ) -> None:
        self._journal, self._attempt, self._connect = journal, attempt, connect
        self._activity: ServerActivity | None = activity
        self._version = activity.version
        self._rule, self._unit = rule, unit
        self._new: list[ServerActivity | MonitorError] = []  # what the attempt to connect again came to
        self._connecting = False
        self._checkpoints, self._vacuums = Checkpoints(), Vacuums()
        self._recent: deque[LogEvent] = deque(maxlen=100)
        self._lasting: dict[tuple[str, int, object], int] = {}  # the journal's rows of events that last
        self._stall_rows: dict[str, int] = {}  # of stalls that last, by role
        self._counts = RoleCounts()
        self._waits: dict[str, Counter[str]] = {}
        self._all_waits: Counter[str] = Counter()
        self._looks = self._all_looks = self._statements = self._rows = self._wal_bytes = 0
        self._cpu_ns = self._all_cpu_ns = 0
        self._seen = Seen(())
        self._missing: tuple[int, int] | None = None  # the journal's event while there is no answer, and its start
        self._last = _Last(asked=activity.asked)

    def begin(self, ordinal: int, name: str, plan: Mapping[str, Any]) -> None:
        """Open the step's record, and look for the first time."""
        metric = PrimaryMetric(TOTAL, self._unit)
        self.started_ns = time.monotonic_ns()
        plan = {**plan, "notes": list(self._activity.notes if self._activity else ()), "primary_metric": asdict(metric)}
        self.step = self._journal.begin_step(self._attempt, ordinal, name, name, 0, plan, self.started_ns)
        self._role = self._journal.add_role(self.step, 1, TOTAL, 0, 0)
        self._stalls = ServerStalls(self._rule, self.started_ns)
        self._looked_ns = self._ticked_ns = self._answered_ns = self.started_ns
        self._tick_due_ns, self._look_due_ns = self.started_ns + FIRST_NS, self.started_ns
        self._journal.commit()
        self.watch()
        if self._activity is not None:
            self._begin_counting(self._activity)

    @property
    def due_ns(self) -> int:
        return min(self._tick_due_ns, self._look_due_ns)

    def watch(self) -> None:
        """Do what is due."""
        t_ns = time.monotonic_ns()
        if t_ns < self.due_ns:
            return
        cpu_ns = time.thread_time_ns()
        ticks = t_ns >= self._tick_due_ns
        if ticks:
            self._tick_due_ns += SECOND_NS * (1 + (t_ns - self._tick_due_ns) // SECOND_NS)
        between_ns = round(random.uniform(0.3, 0.7) * SECOND_NS)
        self._look_due_ns = self._tick_due_ns - between_ns if ticks else self._tick_due_ns
        if self._activity is None:
            self._connect_again(t_ns)
        else:
            self._ask(self._activity, t_ns, ticks=ticks)
        self._cpu_ns += time.thread_time_ns() - cpu_ns

    def finish(self) -> None:
        """End the step's record and close the connection."""
        t_ns = time.monotonic_ns()
        self._record_stalls(self._stalls.finish(t_ns), t_ns)
        seen_ns = t_ns if self._missing is None else self._answered_ns
        self._record_events([*self._checkpoints.finish(seen_ns), *self._vacuums.finish(seen_ns, self._seen)])
        if self._activity is not None:
            self._activity.close()
        self._journal.end_step(self.step, t_ns, self._totals_after((t_ns - self.started_ns) / 1e9))

    # -- answers

    def _ask(self, activity: ServerActivity, t_ns: int, *, ticks: bool) -> None:
        try:
            self._look(activity, t_ns)
            if ticks:
                self._tick(activity, t_ns)
        except MonitorError as error:
            if activity.lost or t_ns - self._answered_ns >= PATIENCE_NS:
                self._miss(t_ns, str(error))
            if activity.lost:
                activity.close()
                self._activity = None
        else:
            self._answered_ns = time.monotonic_ns()
            self._return(t_ns, "the server did not answer")
        if ticks:
            self._journal.commit()

    def _look(self, activity: ServerActivity, t_ns: int) -> None:
        seen, dt_ns = activity.look(), max(1, t_ns - self._looked_ns)
        self._seen, self._looked_ns = seen, t_ns
        self._looks += 1
        for role in (*seen.roles, seen.total):
            if role.waits:
                self._waits.setdefault(role.name, Counter()).update(role.waits)
        self._record_stalls(self._stalls.look(t_ns, dt_ns, seen), t_ns)

    def _tick(self, activity: ServerActivity, t_ns: int) -> None:
        journal, dt_ns, self._ticked_ns = self._journal, max(1, t_ns - self._ticked_ns), t_ns
        totals = activity.totals()
        self._record_events([*self._checkpoints.take(t_ns, totals), *self._vacuums.take(t_ns, self._seen)])
        before, self._last.totals = self._last.totals, (t_ns, totals)
        transactions = self._record_totals(before, t_ns, totals) if before is not None else None
        own, self._last.asked = activity.asked - self._last.asked, activity.asked
        statements = self._count(activity, t_ns)
        second = transactions if self._unit == TRANSACTIONS else statements
        if second is not None:
            counted, length_ns = second
            self._record_second(t_ns, length_ns, max(0, counted.calls - own), counted.rows)
        self._record_connections(activity, t_ns, dt_ns)
        for role, data in self._waits.items():
            journal.add_wait_second(WaitSecond(self.step, role, t_ns, dt_ns, self._looks, dict(data)))
        self._all_waits.update(self._waits.get(TOTAL, {}))
        self._all_looks += self._looks
        self._waits, self._looks = {}, 0
        journal.add_sample(self.step, t_ns, dt_ns, "engine", {"cpu_ns": self._cpu_ns})
        self._all_cpu_ns, self._cpu_ns = self._all_cpu_ns + self._cpu_ns, 0

    def _count(self, activity: ServerActivity, t_ns: int) -> tuple[Counted, int] | None:
        """Statements since they were counted last, and how long ago that was."""
        statements = activity.statements
        if statements is None or (self._unit == TRANSACTIONS and not statements.due):
            return None
        return self._counts.take(t_ns, activity.count())

    def _begin_counting(self, activity: ServerActivity) -> None:
        t_ns = time.monotonic_ns()
        with suppress(MonitorError):  # the first tick says so
            self._last.totals = (t_ns, activity.totals())
            self._last.asked = activity.asked
            if activity.statements is not None:
                self._counts.take(t_ns, activity.count())

    # -- the record

    def _record_second(self, t_ns: int, dt_ns: int, statements: int, rows: int) -> None:
        total = self._seen.total
        most = _states(total)["wait"] or None
        second = RoleSecond(self._role, t_ns, dt_ns, statements, rows, total.oldest_ns, 0, NO_SERVICE, wait_event=most)
        self._journal.add_role_seconds([second])
        self._statements += statements
        self._rows += rows
        self._record_stalls(self._stalls.tick(t_ns, dt_ns, statements, self._seen), t_ns)

    def _record_connections(self, activity: ServerActivity, t_ns: int, dt_ns: int) -> None:
        roles = self._counts.ordered(self._seen.roles, activity.by)
        self._counts.read_texts(activity, roles)
        data = {
            **_states(self._seen.total),
            "roles": [_states(role) | self._counts.record(role.name) for role in roles],
            "vacuums": [
                {"relation": vacuum.relation, "phase": vacuum.phase, "done": round(vacuum.done, 3)}
                for vacuum in self._seen.vacuums
            ],
        }
        self._journal.add_sample(self.step, t_ns, dt_ns, "connections", data)

    def _record_totals(self, before: tuple[int, Totals], t_ns: int, totals: Totals) -> tuple[Counted, int]:
        """Record what the server counted since; returns its transactions with the rows that they changed."""
        then_ns, then = before
        more = {name: max(0, now - was) for name, now, was in zip(Totals._fields, totals, then, strict=True)}
        length_ns = max(1, t_ns - then_ns)
        self._journal.add_sample(self.step, t_ns, length_ns, "database", more)
        rows = more["inserted"] + more["updated"] + more["deleted"]
        return Counted(more["commits"] + more["rollbacks"], rows, 0.0), length_ns

    def _record_wal(self, t_ns: int, dt_ns: int) -> None:
        before, self._last.wal = self._last.wal, self._seen.wal_bytes
        if before is not None and self._last.wal is not None and self._last.wal >= before:
            self._wal_bytes += self._last.wal - before
            self._journal.add_sample(self.step, t_ns, dt_ns, "wal", {"bytes": self._last.wal - before})

    def _record_events(self, events: Iterable[LogEvent]) -> None:
        for event in events:
            self._recent.append(event)
            key = (event.kind, event.started_ns, event.data.get("pid"))
            if (row := self._lasting.pop(key, None)) is not None:
                self._journal.update_event(row, event.ended_ns, event.data)
                continue
            row = self._note(event.kind, event.started_ns, event.ended_ns, event.data)
            if event.ended_ns is None:
                self._lasting[key] = row

    def _record_stalls(self, stalls: Iterable[Found], t_ns: int) -> None:
        for found in stalls:
            change, lock = found
            if change.kind == "began" and lock is not None:
                lock.holders = self._holders(lock.pid)
            told = causes(self._stalls.evidence(found, self._seen, tuple(self._recent), t_ns))
            record = change.stall.record() | {"causes": [cause.record() for cause in told]}
            if lock is not None:
                blocked_by = [{"pid": pid, "what": doing.what} for pid, doing in lock.holders]
                record["snapshot"] = {"state": "?", "wait": lock.event, "blocked_by": blocked_by}
            role = change.stall.role
            if change.kind == "began":
                started_ns = change.stall.started_ns
                self._stall_rows[role] = self._note("stall", started_ns, None, record, role=role)
            else:
                self._journal.update_event(self._stall_rows[role], change.stall.ended_ns, record)
            if change.kind != "went_on":
                self._journal.commit()

    def _holders(self, pid: int) -> tuple[tuple[int, Doing], ...]:
        try:
            return self._activity.blockers((pid,)).get(pid, ()) if self._activity is not None else ()
        except MonitorError:
            return ()

    def _note(
        self, kind: str, started_ns: int, ended_ns: int | None, data: Mapping[str, Any], role: str | None = None
    ) -> int:
        journal = self._journal
        return journal.add_event(
            kind, started_ns, data, ended_ns=ended_ns, attempt=self._attempt, step=self.step, role=role
        )

    def _totals_after(self, seconds: float) -> StepTotals:
        """Without a primary metric: two servers that do what others want of them are not compared."""
        role = RoleTotals(
            connections=self._seen.total.connections,
            statements=self._statements,
            rows=self._rows,
            rows_actual=0,
            service_ns=0,
            max_ns=0,
            backend_cpu_ns=None,
            backend_runq_ns=None,
            backend_switches=None,
            backend_involuntary=None,
            backend_read_bytes=None,
            backend_write_bytes=None,
            client_cpu_ns=0,
            client_runq_ns=0,
            client_switches=0,
            waits=dict(self._all_waits),
            wait_samples=self._all_looks,
        )
        return StepTotals(
            seconds=seconds,
            roles={TOTAL: role},
            server_cpu_ns=None,
            server_runq_ns=None,
            server_switches=None,
            server_read_bytes=None,
            server_write_bytes=None,
            client_cpu_ns=0,
            engine_cpu_ns=self._all_cpu_ns + self._cpu_ns,
            wal_bytes=self._wal_bytes,
            cluster_bytes=None,
            rss_bytes=None,
        )

    # -- without a connection

    def _miss(self, t_ns: int, reason: str) -> None:
        """Record that the server does not answer, from when it did last."""
        if self._missing is None:
            self._record_stalls(self._stalls.finish(t_ns), t_ns)
            data = {"text": f"no answer from the server: {visible(reason)}"}
            self._missing = self._note("disconnected", self._answered_ns, None, data), self._answered_ns
            self._journal.commit()

    def _return(self, t_ns: int, what: str, more: str = "") -> None:
        if self._missing is None:
            return
        row, since_ns = self._missing
        self._forget()
        text = f"{what} for {(t_ns - since_ns) / 1e9:.0f} s{more}"
        self._journal.update_event(row, t_ns, {"text": text})
        self._journal.commit()

    def _connect_again(self, t_ns: int) -> None:
        if self._new:
            found = self._new.pop()
            self._connecting = False
            if isinstance(found, ServerActivity):
                self._activity = found
                # Waits that are seen next are not those of all the time without a connection.
                self._answered_ns = self._looked_ns = self._ticked_ns = t_ns
                version, self._version = self._version, found.version
                other = f"; it is now PostgreSQL {_words(found.version)}, and was {_words(version)}"
                self._return(t_ns, "the connection was lost", other if version != found.version else "")
                return
        if not self._connecting:
            self._connecting = True
            threading.Thread(target=self._try, daemon=True).start()

    def _try(self) -> None:
        """Connect; in a thread, as a host that is gone takes long to not answer."""
        try:
            self._new.append(self._connect())
        except MonitorError as error:
            self._new.append(error)

    def _forget(self) -> None:
        """Drop what later counts would be compared with."""
        self._missing = None
        self._counts.forget()
        self._last = _Last(asked=self._activity.asked if self._activity is not None else 0)


def _states(role: RoleActivity) -> dict[str, Any]:
    """A role's connections in the record: states are of the moment."""
    return {
        "name": role.name,
        "connections_now": role.connections,
        "active_now": role.active,
        "waiting_now": role.waiting,
        "idle_in_transaction_now": role.idle_in_transaction,
        "unseen_now": role.unseen,
        "oldest_s_now": round(role.oldest_ns / 1e9, 3),
        "wait": next((event for event, _ in role.waits.most_common() if event), ""),
    }


def _words(version: int) -> str:
    return f"{version // 10000}.{version % 10000}"
