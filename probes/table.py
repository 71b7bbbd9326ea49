"""The eight probes: what each answers, what it needs, where it attaches, what it gives, what it costs.

Adding a probe is adding an entry here and a script beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["count", "peak", "histogram", "stacks"]
OTHER = -1  # as `Field.part`: every second key that no other field of that map names


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to attach an event: USDT probes or functions, all of them together, for majors `since` to `until`."""

    usdt: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    at_return: bool = False
    since: int = 0
    until: int = 99

    def holds_for(self, major: int) -> bool:
        """Whether it is meant for this major version."""
        return self.since <= major <= self.until


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens in a server; `name` is also its placeholder in scripts, in capitals.

    A `rare` event may attach where a hit is slow; an `optional` one may be nowhere.
    """

    name: str
    candidates: tuple[Candidate, ...]
    rare: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One figure per process and frame.

    `source` is the script's map, keyed by tid, or by tid and `part`. A `count` is cumulative and divided by `divisor`;
    a `peak` is of the frame; a `histogram` has power-of-two buckets. `since` is the map of the beginnings of what
    has not ended yet, to be counted as well; where parts share it, `since_part` is the map of their parts.
    """

    name: str
    source: str
    kind: Kind
    unit: str
    meaning: str
    part: int | None = None
    divisor: int = 1
    since: str = ""
    since_part: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe. `script` is empty for those that need no BPF; `hits` is how often it fires per statement.

    `first_us` of `budget` are paid once per statement, so hits are those of a simple statement that is planned.
    """

    id: str
    tier: int
    question: str
    needs: tuple[str, ...]
    cost: str
    fields: tuple[Field, ...]
    script: str = ""
    events: tuple[Event, ...] = ()
    hits: float = 0
    degrades_to: tuple[str, ...] = ()

    @property
    def needs_binary(self) -> bool:
        """Whether it attaches to the server's binary."""
        return bool(self.events)


def _us(name: str, source: str, meaning: str, **more: object) -> Field:
    return Field(name, source, "count", "us", meaning, divisor=1000, **more)  # type: ignore[arg-type]


def _count(name: str, source: str, meaning: str, **more: object) -> Field:
    return Field(name, source, "count", "1", meaning, **more)  # type: ignore[arg-type]


def _histogram(name: str, meaning: str) -> Field:
    return Field(name, f"@{name}", "histogram", "us", meaning)


MAX_US = Field("max_us", "@max_us", "peak", "us", "the longest one that ended in the frame")

PLAN_START = Event(
    "plan_start",
    (
        Candidate(usdt=("query__plan__start",)),
        Candidate(functions=("pg_plan_query",)),
        Candidate(functions=("standard_planner",)),
    ),
)
PLAN_END = Event(
    "plan_end",
    (
        Candidate(usdt=("query__plan__done",)),
        Candidate(functions=("pg_plan_query",), at_return=True),
        Candidate(functions=("standard_planner",), at_return=True),
    ),
)
# Called by whoever catches an error, never else.
CAUGHT = Event("caught", (Candidate(functions=("FlushErrorState",)),), rare=True, optional=True)

PARSE = Event("parse", (Candidate(usdt=("query__parse__start",)), Candidate(functions=("raw_parser",))))
# Up to 14 a Parse message has an analysis of its own that bypasses the others, the USDT probe included.
ANALYZE = Event(
    "analyze",
    (
        Candidate(usdt=("query__rewrite__start",), functions=("parse_analyze_varparams",), until=14),
        Candidate(usdt=("query__rewrite__start",), since=15),
        Candidate(
            functions=("pg_analyze_and_rewrite", "pg_analyze_and_rewrite_params", "parse_analyze_varparams"), until=14
        ),
        Candidate(
            functions=(
                "pg_analyze_and_rewrite_fixedparams",
                "pg_analyze_and_rewrite_varparams",
                "pg_analyze_and_rewrite_withcb",
            ),
            since=15,
        ),
    ),
)
EXECUTE = Event("execute", (Candidate(functions=("PortalStart",)),))
STATEMENT_END = Event("statement_end", (Candidate(functions=("ReadyForQuery",)), Candidate(functions=("PortalDrop",))))

# Static functions, which no USDT probe stands for.
ENDPOINT_START = Event("endpoint_start", (Candidate(functions=("get_actual_variable_endpoint",)),))
ENDPOINT_END = Event("endpoint_end", (Candidate(functions=("get_actual_variable_endpoint",), at_return=True),))
LEAF_PAGE = Event("leaf_page", (Candidate(functions=("_bt_readpage",)),))

BUFFER = Event("buffer", (Candidate(functions=("ReadBufferExtended",)),))
INDEX_ENTRY = Event("index_entry", (Candidate(functions=("index_getnext_tid",)),))
INDEX_TUPLE = Event("index_tuple", (Candidate(functions=("index_getnext_slot",)),))

RUNQ_US = _histogram("runq_us", "waits for a CPU, from runnable to running")
OFF = {"since": "@off", "since_part": "@state"}

PROBES: tuple[Probe, ...] = (
    Probe(
        id="procsched",
        tier=0,
        question="How much CPU does each backend get, how long does it wait for one, how often is it switched?",
        needs=("a kernel with scheduler information",),
        cost="three small reads per process and second",
        fields=(
            _us("oncpu_us", "schedstat", "time on a CPU"),
            _us("runq_us", "schedstat", "time ready, waiting for a CPU"),
            _count("slices", "schedstat", "stays on a CPU"),
            _count("vol", "status", "voluntary switches"),
            _count("invol", "status", "involuntary switches"),
            _count("migr", "sched", "moves to another CPU"),
        ),
    ),
    Probe(
        id="planstats",
        tier=0,
        question="How much time do statements take to plan and to execute, by statement?",
        needs=("PostgreSQL 13", "pg_stat_statements loaded, track_planning on"),
        cost="1 % (2 clients); more where many clients run the same statement",
        fields=(
            _count("plans", "pg_stat_statements", "plannings"),
            _us("plan_us", "pg_stat_statements", "time planning"),
            _count("calls", "pg_stat_statements", "executions"),
            _us("exec_us", "pg_stat_statements", "time executing"),
        ),
    ),
    Probe(
        id="runq",
        tier=1,
        question="How long do server and client processes wait for a CPU once they could run?",
        needs=("bpftrace", "sched tracepoints"),
        cost="0 to 2 %",
        fields=(
            RUNQ_US,
            _count("n", "@n", "waits"),
            _us("sum_us", "@runq_ns", "time waited"),
            MAX_US,
        ),
        script="runq.bt",
        degrades_to=("procsched",),
    ),
    Probe(
        id="sched",
        tier=1,
        question="Where does the wall time of each backend go: on a CPU, waiting for one, asleep and how?",
        needs=("bpftrace", "sched tracepoints"),
        cost="0 to 6 %; holds all that runq has",
        fields=(
            _us("oncpu_us", "@on_ns", "time on a CPU", since="@on"),
            _us("sum_us", "@runq_ns", "time ready, waiting for a CPU", since="@runnable"),
            _us("off_sleep_us", "@off_ns", "asleep: client, lock or latch (S)", part=1, **OFF),
            _us("off_disk_us", "@off_ns", "asleep for a disk (D)", part=2, **OFF),
            _us("off_stopped_us", "@off_ns", "stopped by a signal (T)", part=4, **OFF),
            _us("off_other_us", "@off_ns", "off the CPU in another state", part=OTHER, **OFF),
            _count("preempted", "@switches", "switches while it could have gone on (R)", part=0),
            _count("slept", "@switches", "switches to sleep (S)", part=1),
            _count("disk", "@switches", "switches to wait for a disk (D)", part=2),
            _count("other", "@switches", "switches in another state", part=OTHER),
            _count("migrations", "@migrations", "moves to another CPU"),
            MAX_US,
            RUNQ_US,
            _histogram("slice_us", "stays on a CPU"),
        ),
        script="sched.bt",
        degrades_to=("procsched",),
    ),
    Probe(
        id="stacks",
        tier=1,
        question="What are server and client processes doing when they are on a CPU?",
        needs=("bpftrace", "frame pointers in the binary for more than the innermost function"),
        cost="1 %",
        fields=(
            _count("samples", "@samples", "samples, 99 a second and CPU"),
            Field("stacks", "@stacks", "stacks", "1", "samples by user and kernel stack"),
        ),
        script="stacks.bt",
        degrades_to=("procsched",),
    ),
    Probe(
        id="planner",
        tier=2,
        question="How long do statements take to plan?",
        needs=("bpftrace", "uprobes"),
        cost="3 to 5 us of CPU per statement that is planned",
        fields=(
            _count("n", "@n", "plannings"),
            _us("sum_us", "@plan_ns", "time planning, wall"),
            MAX_US,
            _count("nested", "@nested", "plannings inside a planning, not timed"),
            _histogram("plan_us", "plannings by duration"),
        ),
        script="planner.bt",
        events=(PLAN_START, PLAN_END, CAUGHT),
        hits=2,
        degrades_to=("planstats", "stacks"),
    ),
    Probe(
        id="phases",
        tier=2,
        question="How does the time of statements split into parse, analyze and rewrite, plan, execute?",
        needs=("bpftrace", "uprobes"),
        cost="8 to 10 us of CPU per statement",
        fields=(
            *(
                _us(f"{name}_us", "@phase_ns", f"time in {name}", part=part)
                for part, name in enumerate(("parse", "analyze", "plan", "execute"), 1)
            ),
            *(
                _count(f"{name}_n", "@n", f"times that {name} began", part=part)
                for part, name in enumerate(("parse", "analyze", "plan", "execute"), 1)
            ),
            _count("nested", "@nested", "phases of statements inside a statement, counted to the outer one's phase"),
        ),
        script="phases.bt",
        events=(PARSE, ANALYZE, PLAN_START, EXECUTE, STATEMENT_END, CAUGHT),
        hits=5,
        degrades_to=("stacks", "planstats"),
    ),
    Probe(
        id="endpoint",
        tier=2,
        question="How much of planning is reading an index end for the current minimum or maximum of a column?",
        needs=("bpftrace", "uprobes", "a binary with its symbol table"),
        cost="5 to 6 us of CPU per statement that is planned",
        fields=(
            _count("plan_n", "@plan_n", "plannings"),
            _us("plan_us", "@plan_ns", "time planning, wall"),
            _count("ep_n", "@endpoint_n", "look-ups of an index end"),
            _us("ep_us", "@endpoint_ns", "time in them"),
            _count("leaf_pages", "@leaf_pages", "leaf pages read for them"),
            Field("plan_hist_us", "@plan_us", "histogram", "us", "plannings by duration"),
            Field("ep_hist_us", "@endpoint_us", "histogram", "us", "look-ups by duration"),
        ),
        script="endpoint.bt",
        events=(PLAN_START, PLAN_END, ENDPOINT_START, ENDPOINT_END, LEAF_PAGE, CAUGHT),
        hits=3,
        degrades_to=("planner",),
    ),
)

# The other form of `endpoint`, on request only: dearer, and its signal is buffers and planning time.
ENDPOINT_PROXY = Probe(
    id="endpoint_proxy",
    tier=2,
    question="How much is read while planning? (endpoint, for binaries without a symbol table)",
    needs=("bpftrace", "uprobes"),
    cost="10 us of CPU per statement",
    fields=(
        _count("plan_n", "@plan_n", "plannings"),
        _us("plan_us", "@plan_ns", "time planning, wall"),
        _count("buffers", "@buffers", "buffers read while planning"),
        _count("tid", "@entries", "index entries fetched, catalogues included"),
        _count("slot", "@tuples", "tuples fetched by index, catalogues included"),
        Field("plan_hist_us", "@plan_us", "histogram", "us", "plannings by duration"),
    ),
    script="endpoint_proxy.bt",
    events=(PLAN_START, PLAN_END, BUFFER, INDEX_ENTRY, INDEX_TUPLE, CAUGHT),
    hits=10,
    degrades_to=("planner",),
)

BY_ID = {probe.id: probe for probe in (*PROBES, ENDPOINT_PROXY)}
SCRIPTED = tuple(probe.id for probe in BY_ID.values() if probe.script)
