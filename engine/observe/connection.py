"""One observed connection of a step: its counters, its two processes, its stalls."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.core.model import RoleTotals
from engine.host.procfs import Task, TaskReader
from engine.journal.reader import RoleSecond
from engine.observe.evidence import RoleSecond as SeenSecond
from engine.observe.stall_snapshot import StallSnapshot
from engine.observe.stalls import Change, Detector, StallRule
from engine.postgres.activity import Wait
from engine.postgres.processes import ServerSample
from workloads import histogram
from workloads.base import Ages
from workloads.page import OUTCOMES, RESPONSE_OFFSET, SERVICE_OFFSET, Control, Page, State, Word

HISTORY_S = 60  # of seconds kept to explain a stall
SATURATED = 0.9  # of one core: from here on the client, not the server, may set the rate
TOLD = (Word.CLIENT_CPU_NS, Word.CLIENT_RUNQ_NS, Word.CLIENT_VOLUNTARY, Word.CLIENT_INVOLUNTARY, Word.CLIENT_STATE)

FIRST_OUTCOME, LAST_OUTCOME = min(OUTCOMES.values()), max(OUTCOMES.values())

Counts = npt.NDArray[np.int64]


class RoleWatch:
    """What is known of one connection. Made when its client stands at the barrier; `row` is its id in the journal.

    `ages` says where the age of its statement in flight comes from. `shared` is the connection that its client process
    is counted with, where it serves several.
    """

    def __init__(
        self,
        slot: int,
        client: int,
        name: str,
        page: Page,
        server: ServerSample,
        ages: Ages = "page",
        shared: RoleWatch | None = None,
    ) -> None:
        self.slot = slot
        self.client = client
        self.name = name
        self.row = 0
        self.page = page
        self.backend_pid = self.word(Word.BACKEND_PID)
        self.client_pid = self.word(Word.CLIENT_PID)
        self.detector: Detector | None = None
        self.stall_event = 0
        self.snapshot: StallSnapshot | None = None  # of its newest stall
        self.seconds: deque[SeenSecond] = deque(maxlen=HISTORY_S)
        self._ages: Ages = ages
        self._age_ns = 0
        self._shared = shared
        self.is_here = not page.words[Control.ELSEWHERE]  # else the client's pid is another machine's
        self._reader: TaskReader | None = TaskReader(self.client_pid) if shared is None and self.is_here else None
        self._seen = bool(server.total)  # the server's processes: else a local one of its backend's pid is another's
        self.client_first = self._client = self._read_client()
        self._of_client = _difference(None, None)
        self.backend_first = self._backend = server.tasks.get(self.backend_pid)
        self._statements = self._rows = self._limited_ns = 0
        self._service = self._response = _none()
        self._outcomes = [0] * (LAST_OUTCOME + 1 - FIRST_OUTCOME)
        self.fresh_outcomes: dict[str, int] = {}  # of the last interval; not zeros
        self.fresh_times: list[tuple[int, int]] = []  # of the last interval: see `Page.times`
        self._timed = 0

    def begin(self, row: int, rule: StallRule, t_ns: int) -> None:
        """The step begins now; `row` is the connection's id in the journal."""
        self.row = row
        self.detector = Detector(rule, self.name, self.client, t_ns)

    def close(self) -> None:
        """Closes the files of the client's process."""
        if self._reader:
            self._reader.close()

    def word(self, word: Word) -> int:
        """One counter."""
        return self.page.word(self.slot, word)

    def observe(self, wait: Wait | None) -> None:
        """What the server says of the session: its age, where the page does not have it."""
        counts = wait is not None and self.word(Word.STATE) < State.DONE
        self._age_ns = wait.age_ns if wait and counts and (self._ages == "session" or wait.state == "active") else 0

    def in_flight_ns(self, t_ns: int) -> int:
        """The age of the statement in flight; 0 when there is none."""
        if self._ages != "page":  # a session has rested since before the step at first
            return min(self._age_ns, max(0, t_ns - self.word(Word.STARTED_NS)))
        sent_ns = self.word(Word.IN_FLIGHT_NS)
        return max(0, t_ns - sent_ns) if sent_ns else 0

    def look(self, t_ns: int) -> tuple[Change, ...]:
        """Between two ticks: is the statement in flight older than any should be?"""
        age_ns = self.in_flight_ns(t_ns)
        return self.detector.look(t_ns, age_ns) if age_ns and self.detector else ()

    def tick(
        self, t_ns: int, dt_ns: int, server: ServerSample, wait: Wait | None
    ) -> tuple[RoleSecond, tuple[Change, ...]]:
        """The interval that ends now, and what it shows of stalls."""
        words = self.page.counters(self.slot)
        statements, rows, limited_ns = words[Word.STATEMENTS], words[Word.ROWS], words[Word.LIMITED_NS]
        backend = server.tasks.get(self.backend_pid, self._backend)
        of_backend = self._of_backend(self._backend, backend)
        if self._shared is None:
            client = self._read_client() or self._client
            self._client, self._of_client = client, _difference(self._client, client)
        of_client = self._of_client
        served_by = self._shared or self
        outcomes = words[FIRST_OUTCOME : LAST_OUTCOME + 1]
        self.fresh_outcomes = {}
        if outcomes != self._outcomes:
            for name, word in OUTCOMES.items():
                if more := words[word] - self._outcomes[word - FIRST_OUTCOME]:
                    self.fresh_outcomes[name] = more
            self._outcomes = outcomes
        timed = words[Word.TIMED]
        self.fresh_times = self.page.times(self.slot, self._timed, timed) if timed > self._timed else []
        self._timed = timed
        # No count lies beyond the longest, so that most of a histogram need not be looked at.
        used = histogram.index(words[Word.MAX_NS] // 1000) + 1
        buckets, counts = self._fresh(self._service, SERVICE_OFFSET, used)
        longest = int(buckets[-1]) if len(buckets) else None
        response = None
        if words[Word.LATE_MAX_NS] or self.page.counts(self.slot, RESPONSE_OFFSET)[0]:
            late = histogram.index(words[Word.LATE_MAX_NS] // 1000) + 1
            response = _packed(*self._fresh(self._response, RESPONSE_OFFSET, late))
        second = RoleSecond(
            role_id=self.row,
            t_ns=t_ns,
            dt_ns=dt_ns,
            statements=statements - self._statements,
            rows=rows - self._rows,
            in_flight_ns=self.in_flight_ns(t_ns),
            max_us=min(histogram.bounds(longest)[1], words[Word.MAX_NS] // 1000) if longest is not None else 0,
            service=_packed(buckets, counts),
            response=response,
            backend_cpu_ns=of_backend["cpu_ns"],
            backend_runq_ns=of_backend["runq_ns"],
            backend_switches=of_backend["switches"],
            backend_read_bytes=of_backend["read_bytes"],
            backend_write_bytes=of_backend["write_bytes"],
            client_cpu_ns=of_client["cpu_ns"],
            client_runq_ns=of_client["runq_ns"],
            client_switches=of_client["switches"],
            wait_event=wait.event if wait else None,
        )
        seen = SeenSecond(
            t_ns=t_ns,
            dt_ns=dt_ns,
            in_flight_ns=second.in_flight_ns,
            wait=wait,
            backend_cpu_ns=of_backend["cpu_ns"] or 0,
            backend_runq_ns=of_backend["runq_ns"] or 0,
            backend_state=backend.state if backend else "",
            client_cpu_ns=served_by._of_client["cpu_ns"],
            client_state=served_by._client.state if served_by._client else "",
            limited_ns=limited_ns - self._limited_ns,
        )
        self.seconds.append(seen)
        self._statements, self._rows, self._limited_ns = statements, rows, limited_ns
        self._backend = backend
        return second, self._detect(second, self._service[:used])

    def _read_client(self) -> Task | None:
        """The client's process now; of one elsewhere what was told of it last."""
        if self._shared is not None or self.is_here:
            return self._reader.read() if self._reader else None
        cpu_ns, runq_ns, voluntary, involuntary, state = (self.word(word) for word in TOLD)
        return Task(self.client_pid, chr(state).strip("\0 "), cpu_ns, runq_ns, 0, voluntary, involuntary, 0, 0)

    def _detect(self, second: RoleSecond, service: Counts) -> tuple[Change, ...]:
        if self.detector is None:
            return ()
        if self.word(Word.STATE) >= State.DONE:
            return self.detector.finish(self.word(Word.ENDED_NS) or second.t_ns)
        p50_us, p99_us = _quantiles(service)
        return self.detector.tick(
            second.t_ns,
            second.dt_ns,
            rows=second.rows,
            statements=second.statements,
            in_flight_ns=second.in_flight_ns,
            p50_us=p50_us,
            p99_us=p99_us,
        )

    def _of_backend(self, first: Task | None, last: Task | None) -> dict[str, int | None]:
        used: dict[str, int | None] = {**_difference(first, last)}
        return used if self._seen else dict.fromkeys(used)

    @property
    def backend_used(self) -> dict[str, int | None]:
        """What the connection's server process did since it was first seen; None where it cannot be."""
        return self._of_backend(self.backend_first, self._backend)

    @property
    def client_used(self) -> dict[str, int]:
        """What its client process did since it was first seen."""
        return _difference(self.client_first, self._client)

    def _fresh(self, known: Counts, offset: int, used: int) -> tuple[Counts, Counts]:
        """Buckets that counted since they were `known`, of the first ones, and how many; makes them known."""
        now = np.array(self.page.counts(self.slot, offset)[:used], dtype=np.int64)
        more = now - known[:used]
        known[:used] = now
        (buckets,) = more.nonzero()
        return buckets, more[buckets]

    def counts(self, offset: int) -> Counts:
        """A copy of the histogram at `SERVICE_OFFSET` or `RESPONSE_OFFSET`."""
        return np.array(self.page.counts(self.slot, offset), dtype=np.int64)


def totals(roles: Sequence[RoleWatch], seconds: float, threads: int = 1) -> RoleTotals:
    """What connections of one role did in a step of so many seconds, added up; a client process has `threads`."""

    def words(word: Word) -> int:
        return sum(role.word(word) for role in roles)

    def of_backends(key: str) -> int | None:
        found = [used for backend in backends if (used := backend[key]) is not None]
        return sum(found) if len(found) == len(backends) else None

    backends, clients = [role.backend_used for role in roles], [role.client_used for role in roles]
    service = sum((role.counts(SERVICE_OFFSET) for role in roles), _none())
    response = sum((role.counts(RESPONSE_OFFSET) for role in roles), _none())
    return RoleTotals(
        connections=len(roles),
        statements=words(Word.STATEMENTS),
        rows=words(Word.ROWS),
        rows_actual=words(Word.ROWS_ACTUAL),
        service_ns=words(Word.SERVICE_NS),
        max_ns=max(role.word(Word.MAX_NS) for role in roles),
        backend_cpu_ns=of_backends("cpu_ns"),
        backend_runq_ns=of_backends("runq_ns"),
        backend_switches=of_backends("switches"),
        backend_involuntary=of_backends("involuntary"),
        backend_read_bytes=of_backends("read_bytes"),
        backend_write_bytes=of_backends("write_bytes"),
        client_cpu_ns=sum(task["cpu_ns"] for task in clients),
        client_runq_ns=sum(task["runq_ns"] for task in clients),
        client_switches=sum(task["switches"] for task in clients),
        short_deletes=words(Word.SHORT_DELETES),
        min_lookups=words(Word.MIN_LOOKUPS),
        min_lookup_ns=words(Word.MIN_LOOKUP_NS),
        max_lookups=words(Word.MAX_LOOKUPS),
        connect_ns=words(Word.CONNECT_NS),
        late_max_ns=max(role.word(Word.LATE_MAX_NS) for role in roles),
        paired=sum(role.word(Word.CPU_PLUS_1) > 0 for role in roles),
        limited_ns=words(Word.LIMITED_NS),
        coupled_ns=words(Word.COUPLED_NS),
        saturated=any(task["cpu_ns"] > SATURATED * threads * seconds * 1e9 for task in clients),
        histogram=tuple(_sparse(service).items()),
        response=tuple(_sparse(response).items()),
        buckets=tuple(
            sum(role.page.words[role.page.slot(role.slot) + Word.BUCKET_0 + bucket] for role in roles)
            for bucket in range(len(histogram.REFERENCE_BUCKETS))
        ),
        outcomes={name: count for name, word in OUTCOMES.items() if (count := words(word))},
    )


def _none() -> Counts:
    return np.zeros(histogram.BUCKETS, dtype=np.int64)


def _packed(buckets: Counts, counts: Counts) -> bytes:
    """As `histogram.pack` has it."""
    pairs = np.empty((len(buckets), 2), dtype="<u4")
    pairs[:, 0], pairs[:, 1] = buckets, counts
    return pairs.tobytes()


def _sparse(counts: Counts) -> dict[int, int]:
    buckets = np.flatnonzero(counts)
    return dict(zip(buckets.tolist(), counts[buckets].tolist(), strict=True))


def _quantiles(counts: Counts) -> tuple[int | None, int | None]:
    """Median and 99th percentile in us; None while nothing was counted."""
    added = counts.cumsum()
    whole = int(added[-1])
    if whole == 0:
        return None, None
    p50, p99 = added.searchsorted((0.5 * whole, 0.99 * whole))
    return histogram.bounds(int(p50))[1], histogram.bounds(int(p99))[1]


def _difference(first: Task | None, last: Task | None) -> dict[str, int]:
    if first is None or last is None:
        return dict.fromkeys(("cpu_ns", "runq_ns", "switches", "involuntary", "read_bytes", "write_bytes"), 0)
    return {
        "cpu_ns": last.cpu_ns - first.cpu_ns,
        "runq_ns": last.runq_ns - first.runq_ns,
        "switches": last.switches - first.switches,
        "involuntary": last.involuntary - first.involuntary,
        "read_bytes": last.read_bytes - first.read_bytes,
        "write_bytes": last.write_bytes - first.write_bytes,
    }
