"""The connections of a step, read together once a second: their counters, processes and stalls.

There may be hundreds, so that even the smallest work per connection adds up. Readings of them are therefore rows of
arrays.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.host.procfs import Task, TaskReader
from engine.journal.totals import RoleTotals
from engine.observe.blocked import Blocked
from engine.observe.evidence import RoleEvidence as SeenSecond
from engine.observe.histograms import Histograms
from engine.observe.process_usage import Tasks, Used
from engine.observe.stall_snapshot import StallSnapshot
from engine.observe.stalls import Detector, StallChange, StallRule
from engine.postgres.activity import Observed, Wait
from engine.postgres.server_processes import ServerSample
from workloads.api.base import COUNTED_IN_ROWS, Step, role_kind
from workloads.client import histogram
from workloads.client.counter_page import (
    CONTROL_WORDS,
    ERROR_OFFSET,
    OUTCOMES,
    RESPONSE_OFFSET,
    SERVICE_OFFSET,
    SLOT_WORDS,
    Control,
    Page,
    State,
    Word,
    page_bytes,
)

HISTORY_S = 60  # seconds kept to explain a stall
SATURATED = 0.9  # of one core: above this, the client may limit the rate
TOLD = (Word.CLIENT_CPU_NS, Word.CLIENT_RUNQ_NS, Word.CLIENT_VOLUNTARY, Word.CLIENT_INVOLUNTARY, Word.CLIENT_STATE)

Ints = npt.NDArray[np.int64]


class Connection:
    """A single connection. `row` is its id in the journal."""

    def __init__(self, slot: int, client: int, name: str, page: Page) -> None:
        self.slot = slot
        self.client = client
        self.name = name
        self.row = 0
        self.page = page
        self.backend_pid = self.word(Word.BACKEND_PID)
        self.client_pid = self.word(Word.CLIENT_PID)
        self.is_here = not page.words[Control.ELSEWHERE]  # otherwise the client's pid is another machine's
        self.detector: Detector | None = None
        self.stall_event = 0
        self.snapshot: StallSnapshot | None = None  # of its newest stall
        self.history: deque[SeenSecond] = deque(maxlen=HISTORY_S)  # up to this tick, see `Connections.seconds`
        self.history_ticks = 0

    def word(self, word: Word) -> int:
        return self.page.word(self.slot, word)


ConnectionChange = tuple[Connection, StallChange]


class Ticked(NamedTuple):
    """One interval. `seconds` are values of journal rows, `outcomes` only failures."""

    seconds: list[tuple[Any, ...]]
    outcomes: list[tuple[Connection, dict[str, int]]]
    found: list[ConnectionChange]


class _Interval(NamedTuple):
    """Possible causes of a stall: the columns of `SeenSecond`."""

    t_ns: int
    dt_ns: int
    in_flight_ns: list[int]
    wait: list[Wait | None]
    backend_cpu_ns: list[int]
    backend_runq_ns: list[int]
    backend_state: list[str]
    client_cpu_ns: list[int]
    client_state: list[str]

    def of(self, slot: int) -> SeenSecond:
        return SeenSecond(
            self.t_ns,
            self.dt_ns,
            self.in_flight_ns[slot],
            self.wait[slot],
            self.backend_cpu_ns[slot],
            self.backend_runq_ns[slot],
            self.backend_state[slot],
            self.client_cpu_ns[slot],
            self.client_state[slot],
        )


class Connections:
    """The connections, `all` by slot, once clients have reached the barrier. Raises OSError if one has ended."""

    def __init__(self, step: Step, page: Page | None, server: ServerSample) -> None:
        roles = step.roles if page is not None else ()
        self.all = [Connection(slot, *role, page) for slot, role in enumerate(roles) if page is not None]
        self._slots = _slots(page, len(roles))
        self._live = self._slots[:, :ERROR_OFFSET]
        self._known: Ints = np.zeros_like(self._live)  # counters at the last tick
        self._service, self._response = map(Histograms, self._counts())
        self._quantiles = [partial(self._service.quantile_us, connection.slot) for connection in self.all]
        self.asked = bool(step.roles) and step.ages != "page"  # whether the server is asked for ages
        self.on_page = bool(roles) and step.ages == "page"
        self._of_session = step.ages == "session"
        self._ages_ns: Ints = np.zeros(len(roles), dtype=np.int64)  # as reported by the server
        self._sent_ns = [0] * len(roles)  # when these were sent, by the clock
        self._were_old = np.zeros(len(roles), dtype=bool)  # at the last look: the first one after is recorded, too
        self._counts_rows = [role_kind(role.name) in COUNTED_IN_ROWS for role in self.all]
        self._slot_of = {connection.backend_pid: connection.slot for connection in self.all}
        self._sees_backends = bool(server.total)  # otherwise a local process with a backend's pid is unrelated
        self._backends = Tasks(self._of_server(server))
        # A client process with several connections is counted with the first.
        first: dict[int, int] = {}
        self._served_by = [first.setdefault(connection.client_pid, connection.slot) for connection in self.all]
        self._readers: dict[int, TaskReader] = {}
        try:
            for connection in self.all:
                if connection.is_here and self._served_by[connection.slot] == connection.slot:
                    self._readers[connection.slot] = TaskReader(connection.client_pid, io=False)
        except OSError:
            self.close()
            raise
        self._clients = Tasks(self._of_clients())
        self._history: deque[_Interval] = deque(maxlen=HISTORY_S)
        self._ticks = 0

    def begin(self, add: Callable[[Connection], int], rule: StallRule, t_ns: int) -> None:
        """Start the step at `t_ns`; `add` adds a connection to the journal and returns its id."""
        self._floor_ns = int(rule.in_flight_floor_s * 1e9)
        pids, names = [connection.backend_pid for connection in self.all], [connection.name for connection in self.all]
        self._blocked = Blocked(pids, names, self._live, self._floor_ns, t_ns)
        for connection in self.all:
            connection.row = add(connection)
            connection.detector = Detector(rule, connection.name, connection.client, t_ns)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def observe(self, observed: Observed, aged: Callable[[int], int], t_ns: int) -> None:
        """Take the server's ages for connections without one on the page; `aged` converts an age to active time."""
        if not self.asked:
            return
        self._ages_ns[:] = 0
        self._sent_ns = [0] * len(self._sent_ns)
        for pid, age_ns in observed.ages_ns.items():
            slot = self._slot_of.get(pid)
            if slot is not None and (self._of_session or observed.waits[pid].state == "active"):
                self._ages_ns[slot] = aged(age_ns)
                self._sent_ns[slot] = max(t_ns - age_ns, self.all[slot].word(Word.STARTED_NS))
        self._ages_ns[self._live[:, Word.STATE] >= State.DONE] = 0

    def seek_blocked(
        self, observed: Observed, is_stopped: Callable[[int], bool], aged: Callable[[int], int], t_ns: int
    ) -> None:
        """Note which backends are stopped, or wait for a lock, and since when: see `Blocked.seek`."""
        self._blocked.seek(self.in_flight_ns(t_ns), observed, is_stopped, aged, t_ns)

    def in_flight_ns(self, t_ns: int) -> Ints:
        """Ages of the statements in flight, by slot; 0 without one."""
        sent_ns = self._live[:, Word.IN_FLIGHT_NS].copy()
        ages_ns = np.where(sent_ns > 0, t_ns - sent_ns, 0)
        if self.asked:  # at first, a session has been idle since before the step
            ages_ns = np.minimum(self._ages_ns, t_ns - self._live[:, Word.STARTED_NS])
        return np.maximum(ages_ns, 0)

    def look(self, t_ns: int) -> list[ConnectionChange]:
        ages_ns = self.in_flight_ns(t_ns)
        old, before = ages_ns > self._floor_ns, self._were_old
        old[self._blocked.slots] = True
        self._were_old = old
        return [
            (self.all[slot], change)
            for slot in np.flatnonzero(old | before).tolist()
            if (detector := self.all[slot].detector) is not None
            for change in detector.look(t_ns, int(ages_ns[slot]), self._sent_ns[slot], self._blocked.since_ns(slot))
        ]

    def finish(self, t_ns: int) -> list[ConnectionChange]:
        return [
            (connection, change)
            for connection in self.all
            if connection.detector
            for change in connection.detector.finish(t_ns)
        ]

    def tick(
        self, t_ns: int, dt_ns: int, server: ServerSample, waits: Mapping[int, Wait], *, halted: bool = False
    ) -> Ticked:
        """Take the interval that ends now; processes of a server that is `halted` are stopped in others' slices."""
        now = self._live.copy()
        more, self._known = now - self._known, now
        statements, rows = more[:, Word.STATEMENTS].tolist(), more[:, Word.ROWS].tolist()
        in_flight_ns, longest_ns = self.in_flight_ns(t_ns).tolist(), now[:, Word.MAX_NS]
        service = self._service.fresh(int(longest_ns.max(initial=0)))
        backends, clients = self._backends.take(self._of_server(server)), self._clients.take(self._of_clients())
        wait = [waits.get(connection.backend_pid) for connection in self.all]
        of_backends = (backends.cpu_ns, backends.runq_ns, backends.switches, backends.read_bytes, backends.write_bytes)
        columns = zip(
            [connection.row for connection in self.all],
            repeat(t_ns),
            repeat(dt_ns),
            statements,
            rows,
            in_flight_ns,
            np.minimum(service.longest_us, longest_ns // 1000).tolist(),
            service.packed,
            self._fresh_responses(now),
            *(column.tolist() if self._sees_backends else repeat(None) for column in of_backends),
            clients.cpu_ns.tolist(),
            clients.runq_ns.tolist(),
            clients.switches.tolist(),
            [backend_wait.event if backend_wait is not None else None for backend_wait in wait],
        )
        self._remember(t_ns, dt_ns, in_flight_ns, wait, backends, clients, halted=halted)
        done = (now[:, Word.STATE] >= State.DONE).tolist()
        held = (more[:, Word.LIMITED_NS] > 0).tolist()
        ops = [
            of_rows if in_rows else of_queries
            for in_rows, of_rows, of_queries in zip(self._counts_rows, rows, statements, strict=True)
        ]
        changes = [
            (connection, change)
            for connection, ended, limited, sent_ns, *seen in zip(
                self.all, done, held, self._sent_ns, ops, statements, in_flight_ns, self._quantiles, strict=True
            )
            if connection.detector is not None
            for change in (
                connection.detector.finish(connection.word(Word.ENDED_NS) or t_ns)
                if ended
                else connection.detector.tick(
                    t_ns,
                    dt_ns,
                    *seen,
                    held=limited,
                    sent_ns=sent_ns,
                    blocked_ns=self._blocked.since_ns(connection.slot),
                )
            )
        ]
        return Ticked(list(columns), self._fresh_outcomes(more), changes)

    def seconds(self, connection: Connection) -> tuple[SeenSecond, ...]:
        new = min(self._ticks - connection.history_ticks, len(self._history))
        for index in range(len(self._history) - new, len(self._history)):
            connection.history.append(self._history[index].of(connection.slot))
        connection.history_ticks = self._ticks
        return tuple(connection.history)

    def totals(self, name: str, seconds: float, threads: int = 1) -> RoleTotals:
        """Totals of a role over a step; each client process has `threads`."""
        of_role = np.array([connection.name == name for connection in self.all], dtype=bool)
        live, backends, clients = self._live[of_role], self._backends.used(), self._clients.used()
        service, response = (counts[of_role].sum(axis=0) for counts in self._counts())

        def words(word: int) -> int:
            return int(live[:, word].sum())

        def of_backends(column: Ints) -> int | None:
            return int(column[of_role].sum()) if self._sees_backends else None

        return RoleTotals(
            connections=len(live),
            statements=words(Word.STATEMENTS),
            rows=words(Word.ROWS),
            rows_actual=words(Word.ROWS_ACTUAL),
            service_ns=words(Word.SERVICE_NS),
            max_ns=int(live[:, Word.MAX_NS].max()),
            backend_cpu_ns=of_backends(backends.cpu_ns),
            backend_runq_ns=of_backends(backends.runq_ns),
            backend_switches=of_backends(backends.switches),
            backend_involuntary=of_backends(backends.involuntary),
            backend_read_bytes=of_backends(backends.read_bytes),
            backend_write_bytes=of_backends(backends.write_bytes),
            client_cpu_ns=int(clients.cpu_ns[of_role].sum()),
            client_runq_ns=int(clients.runq_ns[of_role].sum()),
            client_switches=int(clients.switches[of_role].sum()),
            short_deletes=words(Word.SHORT_DELETES),
            min_lookups=words(Word.MIN_LOOKUPS),
            min_lookup_ns=words(Word.MIN_LOOKUP_NS),
            max_lookups=words(Word.MAX_LOOKUPS),
            connect_ns=words(Word.CONNECT_NS),
            late_max_ns=int(live[:, Word.LATE_MAX_NS].max()),
            paired=int((live[:, Word.CPU_PLUS_1] > 0).sum()),
            limited_ns=words(Word.LIMITED_NS),
            coupled_ns=words(Word.COUPLED_NS),
            saturated=bool((clients.cpu_ns[of_role] > SATURATED * threads * seconds * 1e9).any()),
            histogram=_sparse(service),
            response=_sparse(response),
            buckets=tuple(words(Word.BUCKET_0 + bucket) for bucket in range(len(histogram.REFERENCE_BUCKETS))),
            outcomes={name: count for name, word in OUTCOMES.items() if (count := words(word))},
        )

    def _counts(self) -> Iterator[Ints]:
        return (self._slots[:, first : first + histogram.BUCKETS] for first in (SERVICE_OFFSET, RESPONSE_OFFSET))

    def _of_server(self, server: ServerSample) -> list[Task | None]:
        return [server.tasks.get(connection.backend_pid) for connection in self.all]

    def _of_clients(self) -> list[Task | None]:
        """The clients' processes, each with the first connection that it serves."""
        tasks: list[Task | None] = [None] * len(self.all)
        for slot, reader in self._readers.items():
            tasks[slot] = reader.read()
        for connection in self.all:
            if not connection.is_here and self._served_by[connection.slot] == connection.slot:
                tasks[connection.slot] = _told(connection)
        return tasks

    def _remember(
        self,
        t_ns: int,
        dt_ns: int,
        in_flight_ns: list[int],
        wait: list[Wait | None],
        backends: Used,
        clients: Used,
        *,
        halted: bool,
    ) -> None:
        unknown = [""] * len(self.all)
        of_backends = (
            backends.cpu_ns.tolist(), backends.runq_ns.tolist(), unknown if halted else self._backends.states,
        )  # fmt: skip
        states = unknown if halted else [self._clients.states[slot] for slot in self._served_by]
        of_clients = (clients.cpu_ns[self._served_by].tolist() if self.all else [], states)
        self._history.append(_Interval(t_ns, dt_ns, in_flight_ns, wait, *of_backends, *of_clients))
        self._ticks += 1

    def _fresh_responses(self, now: Ints) -> list[bytes | None]:
        longest_ns = now[:, Word.LATE_MAX_NS]
        have = ((longest_ns > 0) | (self._slots[:, RESPONSE_OFFSET] > 0)).tolist()
        if not any(have):
            return [None] * len(have)
        packed = self._response.fresh(int(longest_ns.max())).packed
        return [blob if has else None for blob, has in zip(packed, have, strict=True)]

    def _fresh_outcomes(self, more: Ints) -> list[tuple[Connection, dict[str, int]]]:
        counts = more[:, list(OUTCOMES.values())]
        by_connection = (
            (self.all[slot], counts[slot].tolist()) for slot in np.flatnonzero(counts.any(axis=1)).tolist()
        )
        return [
            (connection, {name: n for name, n in zip(OUTCOMES, role_counts, strict=True) if n})
            for connection, role_counts in by_connection
        ]


def _slots(page: Page | None, count: int) -> Ints:
    """A page's slots as rows, through a read-only mapping that is released with the last array over it."""
    if page is None or not count:
        return np.zeros((0, SLOT_WORDS), dtype=np.int64)
    words = np.frombuffer(mmap.mmap(page.fd, page_bytes(count), prot=mmap.PROT_READ), dtype=np.int64)
    return words[CONTROL_WORDS : CONTROL_WORDS + count * SLOT_WORDS].reshape(count, SLOT_WORDS)


def _told(connection: Connection) -> Task:
    """A client's process on another machine, as last reported."""
    cpu_ns, runq_ns, voluntary, involuntary, state = (connection.word(word) for word in TOLD)
    return Task(connection.client_pid, chr(state).strip("\0 "), cpu_ns, runq_ns, 0, voluntary, involuntary, 0, 0)


def _sparse(counts: Ints) -> tuple[tuple[int, int], ...]:
    buckets = np.flatnonzero(counts)
    return tuple(zip(buckets.tolist(), counts[buckets].tolist(), strict=True))
