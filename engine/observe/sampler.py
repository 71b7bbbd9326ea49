"""Watches one step: reads the counters page and the kernel once a second, writes the journal, finds stalls.

It never waits for a client, nor a client for it: a late tick makes a longer interval, never a slower statement.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from engine.core.clock import Anchor
from engine.host.procfs import STOPPED, difference, state_of
from engine.journal.totals import RoleTotals
from engine.observe.active_age import ActiveAges
from engine.observe.causes import causes
from engine.observe.clock_jumps import CLOCK_STEP_NS, clock_events
from engine.observe.connections import HISTORY_S, Connection, Connections
from engine.observe.evidence import Evidence, HostSecond, Partner
from engine.observe.sources import UNSEEN_SERVER, Sources
from engine.observe.stall_snapshot import Snapshots
from engine.observe.stalls import StallChange
from engine.observe.wait_samples import WaitLooks
from engine.postgres.activity import Observed
from engine.postgres.pgstat import MonitorError
from engine.postgres.server_processes import ServerSample
from engine.postgres.serverlog import LogEvent
from workloads.api.base import Role, Step
from workloads.client import slice_times
from workloads.client.counter_page import READ_OFFSET_NS, Control, Page

TICK_NS = 1_000_000_000
LOOK_NS = 250_000_000
LEAD_NS = 5_000_000  # time to write the step's record, so that clients start at the recorded time
# If a paused server was active for less than this in a second, roles' counts go into the next one.
LEAST_WORKED_NS = 100_000_000
LATE_NS = 500_000_000  # a tick later than this leaves a `gap` event

Relations = Callable[[Role], frozenset[str]]  # tables used by a role


class StepSampler:
    """Samples one step, from when its clients wait at the barrier: `begin`, `watch` often, then `finish`."""

    def __init__(
        self,
        sources: Sources,
        attempt: int,
        step: Step,
        page: Page | None = None,
        relations: Relations = lambda _: frozenset(),
    ) -> None:
        self.sources = sources
        self.attempt = attempt
        self.step = 0
        self._watched = step
        self._relations = relations
        self.started_ns = self.ended_ns = 0
        self.seconds = 0.0  # set by `finish`: duration without pauses
        self.wall_seconds = 0.0  # set by `finish`: duration with pauses, 0 if there were none
        self._page = page
        self.largest_rss_bytes = 0
        self.role_totals: dict[str, RoleTotals] = {}  # set by `add_up`
        self._server_first = self._server = sources.server()
        self._host_first, self._device_first = self._host, self._device = sources.machine()
        self._engine_first_ns = self._engine_ns = time.process_time_ns()
        self._connections = Connections(step, page, self._server)
        self.roles = self._connections.all
        known = [(role.name, role.backend_pid) for role in self.roles if role.backend_pid]
        self._waits = WaitLooks(sources.activity, known, page)
        # If waits are sampled often, the same query also reports old statements.
        self._least_age_s = sources.rule.in_flight_floor_s / 2
        if self._waits.often:
            self._waits.least_age_s = self._least_age_s
        self._anchor = Anchor.now()
        self._ticked_ns = self._looked_ns = self._due_ns = self._ticked_active_ns = 0
        self.stalling = False  # whether there is a current stall
        self._stopped_event: int | None = None  # while the postmaster is stopped
        self._observed = Observed({}, ())
        self._wal = (0, 0)  # (time, bytes) of the last reading
        self._active_ages = ActiveAges()
        self._snapshots = Snapshots(sources.activity, seen=sources.processes is not None)
        self._host_seconds: deque[HostSecond] = deque(maxlen=HISTORY_S)

    def begin(self, ordinal: int, name: str, kind: str, work: int, plan: Mapping[str, Any], wal_bytes: int) -> None:
        """Open the step's record; the step starts `LEAD_NS` from now. The caller commits once the clients know."""
        journal = self.sources.journal
        lead_ns = LEAD_NS + (self._page.words[Control.LATENCY_NS] if self._page else 0)
        self.started_ns = self._ticked_ns = self._looked_ns = time.monotonic_ns() + lead_ns
        self._ticked_active_ns = self.started_ns
        self._wal = (self.started_ns, wal_bytes)
        self._due_ns = self.started_ns + READ_OFFSET_NS + TICK_NS
        self.step = journal.begin_step(self.attempt, ordinal, name, kind, work, plan, self.started_ns)

        def add(role: Connection) -> int:
            return journal.add_role(self.step, role.client, role.name, role.backend_pid, role.client_pid)

        self._connections.begin(add, self.sources.rule, self.started_ns)

    def watch(self) -> None:
        """Do the work that is due: a tick each second, a look at statements in flight about four times as often."""
        t_ns = time.monotonic_ns()
        self._snapshots.poll()
        if t_ns >= self._due_ns:
            self._tick(t_ns)
            self._due_ns += TICK_NS * (1 + (t_ns - self._due_ns) // TICK_NS)
        elif t_ns >= self._look_due_ns and self._may_ask:
            self._look(t_ns)
        elif t_ns >= self.started_ns:
            old = self._waits.look(t_ns)
            if old is not None and self._ages_come_with_waits:
                self._take_ages(old)
            if old is not None and self._waits.least_age_s:  # else it has no connections
                self._seek_blocked(old)
            if old is not None and self._ages_come_with_waits:
                self._find_stalls(t_ns)

    @property
    def due_ns(self) -> int:
        return min(self._due_ns, self._look_due_ns, max(self._waits.due_ns, self.started_ns))

    @property
    def _look_due_ns(self) -> int:
        """Time of the next look at statements in flight: with the tick if looks at waits cover them."""
        with_waits = self._ages_come_with_waits and not self._connections.on_page
        return self._due_ns if with_waits else self._looked_ns + LOOK_NS

    @property
    def _ages_come_with_waits(self) -> bool:
        """Whether ages come with waits: not without a gate, where a server is stopped so often that a miss matters."""
        turns = self._page is not None and self._page.words[Control.TURNS]
        return self._connections.asked and self._waits.least_age_s > 0 and not turns

    def finish(self, t_ns: int) -> None:
        """Record the last, shorter interval of a step that ended at `t_ns`, and end current stalls."""
        self.ended_ns = t_ns
        self._tick(max(t_ns, self._ticked_ns + 1), last=True)
        self._snapshots.close()
        for role, change in self._connections.finish(t_ns):
            self._record_stall(role, change)
        self.close()
        self.seconds = (self._active_ns(self.ended_ns) - self.started_ns) / 1e9
        if self._page is not None and self._page.words[Control.PAUSED_NS]:
            self.wall_seconds = (self.ended_ns - self.started_ns) / 1e9
        self.sources.journal.commit()

    def close(self) -> None:
        """Release resources held for the step, finished or not. May be called again."""
        self._snapshots.close()
        self._connections.close()

    def add_up(self) -> None:
        """Add up the roles of an ended step, including corrections that clients made after its end."""
        for name in dict.fromkeys(role.name for role in self.roles):
            totals = self._connections.totals(name, self.seconds, self._watched.threads)
            waits, looks = dict(self._waits.seen.get(name, {})), self._waits.looks
            self.role_totals[name] = dataclasses.replace(totals, waits=waits, wait_samples=looks)

    def server_totals(self) -> dict[str, int]:
        """The work of all server processes since the start, without the engine's own monitor connection."""
        return self._of_server(self._server_first, self._server)

    def host_totals(self) -> tuple[dict[str, int], dict[str, int]]:
        return difference(self._host_first, self._host), difference(self._device_first, self._device)

    @property
    def engine_cpu_ns(self) -> int:
        """CPU time of the engine itself since the start: the cost of watching."""
        return self._engine_ns - self._engine_first_ns

    def _active_ns(self, t_ns: int) -> int:
        return t_ns if self._page is None else slice_times.active_ns(self._page, t_ns)

    @property
    def _may_ask(self) -> bool:
        """Whether queries may be sent: not while backends are stopped, as one in a status update makes ours spin."""
        if self._page is None or not self._page.words[Control.PAUSED_SINCE_NS]:
            return True
        return not (self._connections.asked or self._page.words[Control.TURNS])

    @property
    def _is_halted(self) -> bool:
        """Whether its processes may be stopped for another server's slice: before that, its gate is shut."""
        words = self._page.words if self._page is not None else None
        return words is not None and bool(words[Control.TURNS]) and not words[Control.GATE]

    def _is_stopped(self, pid: int) -> bool:
        """Whether a backend is stopped by another process than ours."""
        if self.sources.processes is None or self._is_halted:
            return False
        return state_of(pid) in STOPPED and not self._is_halted

    def _tick(self, t_ns: int, *, last: bool = False) -> None:
        journal, sources, dt_ns = self.sources.journal, self.sources, t_ns - self._ticked_ns
        if dt_ns > TICK_NS + READ_OFFSET_NS + LATE_NS:
            text = f"a tick came {(dt_ns - TICK_NS) / 1e9:.1f} s late"
            self._note("gap", self._ticked_ns, t_ns, {"text": text})
        self._watch_clock(t_ns)
        self._poll_log()
        before, halted = self._server, self._is_halted
        server, (host, device) = sources.server(before, all_processes=last), sources.machine()
        known, self._observed = self._observed, self._observe()
        self._sample_wal(t_ns, self._observed.wal_bytes if self._observed is not known else None)
        self._watch_postmaster(t_ns, server)
        self._sample_server(t_ns, dt_ns, server)
        of_host, of_device = difference(self._host, host), difference(self._device, device)
        if host:
            journal.add_sample(self.step, t_ns, dt_ns, "host", of_host)
            self._host_seconds.append(HostSecond.of(t_ns, dt_ns, of_host, of_device))
        if device:
            journal.add_sample(self.step, t_ns, dt_ns, "device", of_device)
        self._server, self._host, self._device = server, host, device
        changes: list[tuple[Connection, StallChange]] = []
        active_ns = self._active_ns(t_ns)
        worked_ns = active_ns - self._ticked_active_ns
        if last or worked_ns >= min(dt_ns, LEAST_WORKED_NS):
            self._ticked_active_ns = active_ns
            halted = halted or self._is_halted  # then states say nothing
            seconds, outcomes, changes = self._connections.tick(
                t_ns, max(1, worked_ns), server, self._observed.waits, halted=halted
            )
            journal.add_role_seconds(seconds)
            for role, counts in outcomes:
                journal.add_role_outcome(role.row, t_ns, counts)
            for seen in self._waits.take(self.step, t_ns, max(1, worked_ns)):
                journal.add_wait_second(seen)
        # Only now, with every role's second known: a partner may have caused the stall.
        for role, change in changes:
            self._record_stall(role, change)
        engine_ns = time.process_time_ns()
        journal.add_sample(self.step, t_ns, dt_ns, "engine", {"cpu_ns": engine_ns - self._engine_ns})
        self._engine_ns = engine_ns
        if of_monitor := self._of_monitor(before, server):
            journal.add_sample(self.step, t_ns, dt_ns, "monitor", of_monitor)
        self._ticked_ns = self._looked_ns = t_ns
        journal.commit()

    def _look(self, t_ns: int) -> None:
        self._looked_ns = t_ns
        if self._page is not None and self._page.words[Control.TURNS]:
            self._observed = self._observe()  # at the tick, the server may be stopped for another one's slice
        elif self._connections.asked and not self._ages_come_with_waits:
            self._observe(self._least_age_s)
        self._find_stalls(t_ns)

    def _find_stalls(self, t_ns: int) -> None:
        changes = self._connections.look(t_ns)
        if changes:
            self._observed = self._observe()  # the last tick's may be from before the stall
        for role, change in changes:
            self._record_stall(role, change)
        if changes:
            self.sources.journal.commit()

    def _sample_server(self, t_ns: int, dt_ns: int, server: ServerSample) -> None:
        journal, last = self.sources.journal, self._server
        if server is UNSEEN_SERVER:
            return
        self.largest_rss_bytes = max(self.largest_rss_bytes, server.total["largest_rss_bytes_now"])
        journal.add_sample(self.step, t_ns, dt_ns, "server", self._of_server(last, server))
        for kind, counters in server.kinds.items():
            data = difference(last.kinds.get(kind, {}), counters)
            if kind != "client backend" and (data.get("cpu_ns") or data.get("write_bytes")):
                journal.add_sample(self.step, t_ns, dt_ns, f"process:{kind}", data)

    def _sample_wal(self, t_ns: int, wal_bytes: int | None) -> None:
        if wal_bytes is not None:
            (before_ns, before), self._wal = self._wal, (t_ns, wal_bytes)
            self.sources.journal.add_sample(self.step, t_ns, t_ns - before_ns, "wal", {"bytes": wal_bytes - before})

    def _of_server(self, first: ServerSample, last: ServerSample) -> dict[str, int]:
        total = difference(first.total, last.total)
        for key, value in self._of_monitor(first, last).items():
            total[key] -= value
        return total

    def _of_monitor(self, first: ServerSample, last: ServerSample) -> dict[str, int]:
        before, after = (sample.tasks.get(self.sources.monitor_pid) for sample in (first, last))
        return difference(before.counters(), after.counters()) if before is not None and after is not None else {}

    def _observe(self, least_age_s: float = 0.0) -> Observed:
        """Waits of backends; empty, with ages kept, if the server does not answer. `least_age_s` limits the query."""
        if not self._may_ask:
            return self._observed
        try:
            observed = self.sources.activity.sample(least_age_s)
        except MonitorError:
            return Observed({}, ())
        self._take_ages(observed)
        self._seek_blocked(observed)
        return observed

    def _take_ages(self, observed: Observed) -> None:
        now_ns = time.monotonic_ns()
        self._connections.observe(observed, self._aged(now_ns), now_ns)

    def _seek_blocked(self, observed: Observed) -> None:
        now_ns = time.monotonic_ns()
        self._connections.seek_blocked(observed, self._is_stopped, self._aged(now_ns), now_ns)

    def _aged(self, now_ns: int) -> Callable[[int], int]:
        """The conversion of an age to active time."""
        active_ns = self._active_ns(now_ns)
        self._active_ages.remember(now_ns, active_ns)
        return self._active_ages.of if active_ns != now_ns else int

    def _record_stall(self, role: Connection, change: StallChange) -> None:
        self.stalling = any(
            connection.detector is not None and connection.detector.stall is not None for connection in self.roles
        )
        journal = self.sources.journal
        if change.kind == "began":
            wait = self._observed.waits.get(role.backend_pid)
            client_pid = role.client_pid if role.is_here else 0
            role.snapshot = self._snapshots.take(role.backend_pid, client_pid, wait, self._names())
        # After the snapshot, which shows who holds the lock.
        stall = dataclasses.replace(change.stall, causes=self._explain(role, change))
        record = stall.record() | ({"snapshot": role.snapshot.record()} if role.snapshot else {})
        if change.kind == "began":
            role.stall_event = journal.add_event(
                "stall", stall.started_ns, record, attempt=self.attempt, step=self.step, role=role.name
            )
        else:
            journal.update_event(role.stall_event, stall.ended_ns, record)

    def _names(self) -> dict[int, str]:
        roles = {other.backend_pid: f"{other.name} role" for other in self.roles}
        return roles | {vacuum.pid: f"vacuum of {vacuum.relation}" for vacuum in self._observed.vacuums}

    def _explain(self, role: Connection, change: StallChange) -> tuple[dict[str, Any], ...]:
        now_ns, connections = time.monotonic_ns(), self._connections
        ages_ns = connections.in_flight_ns(now_ns).tolist()
        blockers = role.snapshot.blocked_by if role.snapshot is not None else ()

        def partner(other: Connection) -> Partner:
            return Partner(other.name, ages_ns[other.slot], connections.seconds(other))

        evidence = Evidence(
            role=role.name,
            backend_pid=role.backend_pid,
            client_pid=role.client_pid,
            started_ns=change.stall.started_ns,
            ended_ns=change.stall.until_ns(now_ns),
            seconds=connections.seconds(role),
            partners=[partner(other) for other in self.roles if other.client == role.client and other is not role],
            host=tuple(self._host_seconds),
            events=tuple(self.sources.recent),
            vacuums=self._observed.vacuums,
            relations=self._relations(Role(role.client, role.name)),
            names={pid: doing.who for pid, doing in blockers if doing.who} | self._names(),
        )
        return tuple(cause.record() for cause in causes(evidence))

    def _watch_clock(self, t_ns: int) -> None:
        before, self._anchor = self._anchor, Anchor.now()
        if abs(before.step_ns(self._anchor)) >= CLOCK_STEP_NS and self.sources.log is not None:
            self.sources.log.anchor = (self._anchor.monotonic_ns, self._anchor.wall_ns)
        for kind, data in clock_events(before, self._anchor):
            self._note(kind, t_ns, t_ns, data)

    def _watch_postmaster(self, t_ns: int, server: ServerSample) -> None:
        """Record while the postmaster is stopped: backends keep working, so that no stall shows it."""
        if server.stopped and self._stopped_event is None:
            data = {"text": "the postmaster is stopped: nobody can connect"}
            self._stopped_event = self._note("server_stopped", t_ns, None, data)
        elif not server.stopped and self._stopped_event is not None:
            data = {"text": "the postmaster was stopped: nobody could connect"}
            self.sources.journal.update_event(self._stopped_event, t_ns, data)
            self._stopped_event = None

    def _poll_log(self) -> None:
        for event in self.sources.log.poll() if self.sources.log is not None else ():
            event = self._named(event)
            self.sources.recent.append(event)
            key = (event.kind, event.started_ns, event.data.get("pid"))
            row = self.sources.lasting.pop(key, None)
            if row is not None:
                self.sources.journal.update_event(row, event.ended_ns, event.data)
                continue
            row = self._note(event.kind, event.started_ns, event.ended_ns, event.data)
            if event.ended_ns is None:
                self.sources.lasting[key] = row

    def _named(self, event: LogEvent) -> LogEvent:
        """A lock wait with the name of the locked object, if the server can be asked now."""
        if event.kind != "lock_wait" or not self._may_ask:
            return event
        try:
            target = self.sources.activity.with_name(str(event.data["target"]))
        except MonitorError:
            return event
        return dataclasses.replace(event, data={**event.data, "target": target})

    def _note(self, kind: str, started_ns: int, ended_ns: int | None, data: Mapping[str, Any]) -> int:
        return self.sources.journal.add_event(
            kind, started_ns, data, ended_ns=ended_ns, attempt=self.attempt, step=self.step
        )
