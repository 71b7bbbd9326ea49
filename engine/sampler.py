"""Watches one step: reads the counters page and the kernel once a second, writes the journal, finds stalls.

Nothing here waits for a client, and no client waits for this: a late tick makes a longer interval, never a
slower statement.
"""

from __future__ import annotations

import dataclasses
import resource
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine import causes
from engine.clock import Anchor
from engine.host import Host
from engine.journal import RoleSecond
from engine.model import RoleTotals
from engine.pgstat import MonitorError
from engine.processes import ServerProcesses, ServerSample
from engine.procfs import Task, TaskReader, difference
from engine.serverlog import ServerLog
from engine.stalls import Change, Detector, StallRule
from engine.waits import Activity, Wait
from engine.writer import JournalWriter
from workloads import histogram
from workloads.page import RESPONSE_OFFSET, SERVICE_OFFSET, Page, State, Word

TICK_NS = 1_000_000_000
LOOK_NS = 250_000_000
LATE_NS = 500_000_000  # a tick later than this leaves a `gap` event
CLOCK_STEP_NS = 100_000_000  # a wall clock that moves this far between two ticks was set
SATURATED = 0.9  # of one core: from here on the client, not the server, may set the rate
HISTORY_S = 30  # of seconds kept to explain a stall

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sources:
    """What a step is watched through; all live longer than the step."""

    journal: JournalWriter
    processes: ServerProcesses
    host: Host
    log: ServerLog
    activity: Activity
    monitor_pid: int
    rule: StallRule
    # What the server's log told lately, and which of it still lasts: a checkpoint may outlive its step.
    recent: deque[LogEvent] = field(default_factory=lambda: deque(maxlen=100))
    lasting: dict[tuple[str, int, int | None], int] = field(default_factory=dict)

    def server(self, last: ServerSample | None = None) -> ServerSample:
        """All server processes now; what was last seen of them when the server has gone."""
        return self.processes.sample() or last or ServerSample({}, {}, {})


class RoleWatch:
    """What is known of one connection of the step. `row` is its id in the journal."""

    def __init__(self, slot: int, client: int, name: str, page: Page, backend: Task | None) -> None:
        self.slot = slot
        self.client = client
        self.name = name
        self.row = 0
        self.backend_pid = page.word(slot, Word.BACKEND_PID)
        self.client_pid = page.word(slot, Word.CLIENT_PID)
        self.reader = TaskReader(self.client_pid)
        self.client_first = self.client_last = self.reader.read()
        self.backend_first = self.backend_last = backend
        self.statements = self.rows = self.limited_ns = 0
        self.service = _counts(page, slot, SERVICE_OFFSET)
        self.response = _counts(page, slot, RESPONSE_OFFSET)
        self.detector: Detector | None = None
        self.stall_event = 0
        self.seconds: deque[causes.RoleSecond] = deque(maxlen=HISTORY_S)


class StepSampler:
    """One step under watch. Made when the clients stand at the barrier; `begin` opens the record, `watch` is
    called often and does what is due, `finish` when all roles are done."""

    def __init__(
        self, sources: Sources, attempt: int, page: Page | None = None, roles: Sequence[tuple[int, str]] = ()
    ) -> None:
        self.sources = sources
        self.attempt = attempt
        self.page = page
        self.step = 0
        self.started_ns = self.ended_ns = 0
        self.server_first = self._server_last = sources.server()
        self.host_first = self._host_last = sources.host.host()
        self.device_first = self._device_last = sources.host.device()
        self.engine_first_ns = self._engine_last_ns = engine_cpu_ns()
        self.largest_rss_bytes = 0
        self.roles = [
            RoleWatch(slot, client, name, page, self.server_first.tasks.get(page.word(slot, Word.BACKEND_PID)))
            for slot, (client, name) in enumerate(roles)
            if page is not None
        ]
        self.recent = sources.recent
        self._lasting = sources.lasting
        self._anchor = Anchor.now()
        self._last_ns = self._looked_ns = 0

    def begin(self, ordinal: int, name: str, kind: str, work: int, plan: Mapping[str, Any]) -> int:
        """Opens the step's record; the step starts now. Returns its id."""
        journal = self.sources.journal
        self.started_ns = self._last_ns = self._looked_ns = time.monotonic_ns()
        self.step = journal.begin_step(self.attempt, ordinal, name, kind, work, plan, self.started_ns)
        for role in self.roles:
            role.row = journal.add_role(self.step, role.client, role.name, role.backend_pid, role.client_pid)
            role.detector = Detector(self.sources.rule, role.name, role.client, self.started_ns)
        journal.commit()
        return self.step

    def watch(self) -> None:
        """Does what is due: a tick each second, a look at statements in flight four times as often."""
        t_ns = time.monotonic_ns()
        if t_ns - self._last_ns >= TICK_NS:
            self.tick(t_ns)
        elif t_ns - self._looked_ns >= LOOK_NS:
            self.look(t_ns)

    def tick(self, t_ns: int) -> None:
        """Records the interval that ends now."""
        dt_ns = t_ns - self._last_ns
        if dt_ns <= 0:
            return
        journal = self.sources.journal
        if dt_ns > TICK_NS + LATE_NS:
            data = {"text": f"a tick came {(dt_ns - TICK_NS) / 1e9:.1f} s late"}
            journal.add_event("gap", self._last_ns, data, ended_ns=t_ns, attempt=self.attempt, step=self.step)
        self._watch_clock(t_ns)
        self._poll_log()
        server = self.sources.server(self._server_last)
        self.largest_rss_bytes = max(self.largest_rss_bytes, server.total["largest_rss_bytes_now"])
        waits = self._waits()
        host, device = self.sources.host.host(), self.sources.host.device()
        self._sample_server(t_ns, dt_ns, server)
        host_second = difference(self._host_last, host)
        device_second = difference(self._device_last, device)
        journal.add_sample(self.step, t_ns, dt_ns, "host", host_second)
        if device:
            journal.add_sample(self.step, t_ns, dt_ns, "device", device_second)
        changes: list[tuple[RoleWatch, Change]] = []
        for role in self.roles:
            changes += [(role, change) for change in self._tick_role(role, t_ns, dt_ns, server, waits)]
        self._host_last, self._device_last, self._server_last = host, device, server
        for role, change in changes:
            self._record_stall(role, change)
        engine_ns = engine_cpu_ns()
        journal.add_sample(self.step, t_ns, dt_ns, "engine", {"cpu_ns": engine_ns - self._engine_last_ns})
        self._engine_last_ns = engine_ns
        self._last_ns = t_ns
        journal.commit()

    def look(self, t_ns: int) -> None:
        """Between two ticks: has a statement been in flight for too long?"""
        self._looked_ns = t_ns
        began = False
        for role in self.roles:
            for change in role.detector.look(t_ns, self._in_flight_ns(role, t_ns)) if role.detector else ():
                self._record_stall(role, change)
                began = True
        if began:
            self.sources.journal.commit()

    def finish(self, t_ns: int) -> None:
        """Records the last, shorter interval and closes stalls that last."""
        self.ended_ns = t_ns
        self.tick(t_ns)
        for role in self.roles:
            for change in role.detector.finish(t_ns) if role.detector else ():
                self._record_stall(role, change)
            role.reader.close()
        self.sources.journal.commit()

    def role_totals(self, seconds: float) -> dict[str, RoleTotals]:
        """What each role did, its connections added up; call after `finish`."""
        names = dict.fromkeys(role.name for role in self.roles)
        return {name: self._totals([role for role in self.roles if role.name == name], seconds) for name in names}

    def server_totals(self) -> dict[str, int]:
        """What all server processes did since the start, the bench's own monitor connection left out."""
        last = self._server_last
        total = difference(self.server_first.total, last.total)
        own = last.tasks.get(self.sources.monitor_pid)
        first = self.server_first.tasks.get(self.sources.monitor_pid)
        if own is not None and first is not None:
            for key, value in difference(first.counters(), own.counters()).items():
                total[key] -= value
        return total

    @property
    def engine_cpu_ns(self) -> int:
        """CPU time of the engine itself since the start: what watching costs."""
        return self._engine_last_ns - self.engine_first_ns

    def host_totals(self) -> tuple[dict[str, int], dict[str, int]]:
        """What host and device counted since the start."""
        return difference(self.host_first, self._host_last), difference(self.device_first, self._device_last)

    def _sample_server(self, t_ns: int, dt_ns: int, server: ServerSample) -> None:
        journal, last = self.sources.journal, self._server_last
        journal.add_sample(self.step, t_ns, dt_ns, "dbms", difference(last.total, server.total))
        for kind, counters in server.kinds.items():
            data = difference(last.kinds.get(kind, {}), counters)
            if kind != "client backend" and data.get("cpu_ns", 0) + data.get("write_bytes", 0) > 0:
                journal.add_sample(self.step, t_ns, dt_ns, f"process:{kind}", data)

    def _tick_role(
        self, role: RoleWatch, t_ns: int, dt_ns: int, server: ServerSample, waits: dict[int, Wait]
    ) -> tuple[Change, ...]:
        page = self.page
        assert page is not None
        statements, rows = page.word(role.slot, Word.STATEMENTS), page.word(role.slot, Word.ROWS)
        limited_ns = page.word(role.slot, Word.LIMITED_NS)
        service = _counts(page, role.slot, SERVICE_OFFSET)
        response = _counts(page, role.slot, RESPONSE_OFFSET)
        backend = server.tasks.get(role.backend_pid, role.backend_last)
        client = role.reader.read() or role.client_last
        in_flight_ns = self._in_flight_ns(role, t_ns)
        wait = waits.get(role.backend_pid)
        backend_second = _task_difference(role.backend_last, backend)
        client_second = _task_difference(role.client_last, client)
        fresh = _sparse(service - role.service)
        worst_us = page.word(role.slot, Word.MAX_NS) // 1000
        second = RoleSecond(
            role_id=role.row,
            t_ns=t_ns,
            dt_ns=dt_ns,
            statements=statements - role.statements,
            rows=rows - role.rows,
            in_flight_ns=in_flight_ns,
            max_us=min(histogram.bounds(max(fresh))[1], worst_us) if fresh else 0,
            service=histogram.pack(fresh),
            response=histogram.pack(_sparse(response - role.response)) if response.any() else None,
            backend_cpu_ns=backend_second["cpu_ns"],
            backend_runq_ns=backend_second["runq_ns"],
            backend_switches=backend_second["voluntary"] + backend_second["involuntary"],
            backend_read_bytes=backend_second["read_bytes"],
            backend_write_bytes=backend_second["write_bytes"],
            client_cpu_ns=client_second["cpu_ns"],
            client_runq_ns=client_second["runq_ns"],
            client_switches=client_second["voluntary"] + client_second["involuntary"],
            wait_event=wait.event if wait else None,
        )
        self.sources.journal.add_role_second(second)
        role.seconds.append(causes.RoleSecond.of(second, wait, backend, client, limited_ns - role.limited_ns))
        p50_us, p99_us = _quantiles(service)
        done = page.word(role.slot, Word.STATE) >= State.DONE
        role.statements, role.rows, role.limited_ns = statements, rows, limited_ns
        role.service, role.response = service, response
        role.backend_last, role.client_last = backend, client
        if role.detector is None:
            return ()
        if done:
            return role.detector.finish(page.word(role.slot, Word.ENDED_NS) or t_ns)
        return role.detector.tick(
            t_ns,
            dt_ns,
            rows=second.rows,
            statements=second.statements,
            in_flight_ns=in_flight_ns,
            p50_us=p50_us,
            p99_us=p99_us,
        )

    def _waits(self) -> dict[int, Wait]:
        """What backends wait for; empty for a second in which the server does not say."""
        try:
            return self.sources.activity.sample().waits
        except MonitorError:
            return {}

    def _in_flight_ns(self, role: RoleWatch, t_ns: int) -> int:
        assert self.page is not None
        sent_ns = self.page.word(role.slot, Word.IN_FLIGHT_NS)
        return max(0, t_ns - sent_ns) if sent_ns else 0

    def _record_stall(self, role: RoleWatch, change: Change) -> None:
        stall = dataclasses.replace(change.stall, causes=self._explain(role, change))
        journal = self.sources.journal
        if change.kind == "began":
            role.stall_event = journal.add_event(
                "stall", stall.started_ns, stall.record(), attempt=self.attempt, step=self.step, role=role.name
            )
        else:
            journal.update_event(role.stall_event, stall.ended_ns, stall.record())

    def _explain(self, role: RoleWatch, change: Change) -> tuple[dict[str, Any], ...]:
        raise NotImplementedError

    def _watch_clock(self, t_ns: int) -> None:
        now = Anchor.now()
        step_ns = self._anchor.step_ns(now)
        self._anchor = now
        if abs(step_ns) >= CLOCK_STEP_NS:
            self.sources.log.anchor = (now.monotonic_ns, now.wall_ns)
            data = {"text": f"the wall clock was set by {step_ns / 1e9:+.1f} s", "step_ns": step_ns}
            self.sources.journal.add_event(
                "clock_step", t_ns, data, ended_ns=t_ns, attempt=self.attempt, step=self.step
            )

    def _poll_log(self) -> None:
        journal = self.sources.journal
        for event in self.sources.log.poll():
            self.recent.append(event)
            key = (event.kind, event.started_ns, event.data.get("pid"))
            row = self._lasting.pop(key, None)
            if row is not None:
                journal.update_event(row, event.ended_ns, event.data)
                continue
            row = journal.add_event(
                event.kind, event.started_ns, event.data, ended_ns=event.ended_ns, attempt=self.attempt, step=self.step
            )
            if event.ended_ns is None:
                self._lasting[key] = row

    def _totals(self, roles: Sequence[RoleWatch], seconds: float) -> RoleTotals:
        page = self.page
        assert page is not None

        def words(word: Word) -> int:
            return sum(page.word(role.slot, word) for role in roles)

        backends = [_task_difference(role.backend_first, role.backend_last) for role in roles]
        clients = [_task_difference(role.client_first, role.client_last) for role in roles]
        service = sum((_counts(page, role.slot, SERVICE_OFFSET) for role in roles), _none())
        response = sum((_counts(page, role.slot, RESPONSE_OFFSET) for role in roles), _none())
        buckets = [
            sum(page.words[page.slot(role.slot) + Word.BUCKET_0 + bucket] for role in roles) for bucket in range(10)
        ]
        return RoleTotals(
            connections=len(roles),
            statements=words(Word.STATEMENTS),
            rows=words(Word.ROWS),
            rows_actual=words(Word.ROWS_ACTUAL),
            service_ns=words(Word.SERVICE_NS),
            max_ns=max(page.word(role.slot, Word.MAX_NS) for role in roles),
            backend_cpu_ns=sum(task["cpu_ns"] for task in backends),
            backend_runq_ns=sum(task["runq_ns"] for task in backends),
            backend_switches=sum(task["voluntary"] + task["involuntary"] for task in backends),
            backend_involuntary=sum(task["involuntary"] for task in backends),
            backend_read_bytes=sum(task["read_bytes"] for task in backends),
            backend_write_bytes=sum(task["write_bytes"] for task in backends),
            client_cpu_ns=sum(task["cpu_ns"] for task in clients),
            client_runq_ns=sum(task["runq_ns"] for task in clients),
            client_switches=sum(task["voluntary"] + task["involuntary"] for task in clients),
            short_deletes=words(Word.SHORT_DELETES),
            min_lookups=words(Word.MIN_LOOKUPS),
            min_lookup_ns=words(Word.MIN_LOOKUP_NS),
            limited_ns=words(Word.LIMITED_NS),
            coupled_ns=words(Word.COUPLED_NS),
            saturated=any(task["cpu_ns"] > SATURATED * seconds * 1e9 for task in clients),
            histogram=tuple(_sparse(service).items()),
            response=tuple(_sparse(response).items()),
            buckets=tuple(buckets),
        )


def engine_cpu_ns() -> int:
    """The engine's own CPU time so far, in ns: what watching costs."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return round((usage.ru_utime + usage.ru_stime) * 1e9)


def _none() -> Counts:
    return np.zeros(histogram.BUCKETS, dtype=np.int64)


def _counts(page: Page, slot: int, offset: int) -> Counts:
    return np.array(page.counts(slot, offset), dtype=np.int64)


def _sparse(counts: Counts) -> dict[int, int]:
    buckets = np.flatnonzero(counts)
    return dict(zip(buckets.tolist(), counts[buckets].tolist(), strict=True))


def _quantiles(counts: Counts) -> tuple[int | None, int | None]:
    """Median and 99th percentile in us; None while nothing was counted."""
    added = np.cumsum(counts)
    if added[-1] == 0:
        return None, None
    p50, p99 = np.searchsorted(added, (0.5 * added[-1], 0.99 * added[-1]))
    return histogram.bounds(int(p50))[1], histogram.bounds(int(p99))[1]


def _task_difference(first: Task | None, last: Task | None) -> dict[str, int]:
    if first is None or last is None:
        return dict.fromkeys(("cpu_ns", "runq_ns", "voluntary", "involuntary", "read_bytes", "write_bytes"), 0)
    return difference(first.counters(), last.counters())
