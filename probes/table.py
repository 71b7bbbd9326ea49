"""The nine probes. To add one, add an entry here and its script in this folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["count", "peak", "histogram", "stacks", "leaves", "waits"]
PHASES = ("parse", "analyze", "plan", "execute")
WAITS = ("runq", "asleep", "disk")  # kinds of waits whose stacks are taken, by their numbers in `offcpu`
OTHER = -1  # as `Field.part`: every second key that no other field of that map names


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to attach an event: USDT probes or functions, all of them together, for majors `since` to `until`."""

    usdt: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    at_return: bool = False
    since: int = 0
    until: int = 99


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event in a server; in capitals, `name` is its placeholder in scripts.

    A `rare` event may attach where a hit is slow; an `optional` one may have no attach point.
    """

    name: str
    candidates: tuple[Candidate, ...]
    rare: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One figure per process and frame.

    `source` is the script's map, keyed by tid, or by tid and `part`. A `count` is cumulative and divided by `divisor`;
    a `peak` is of the frame; a `histogram` has power-of-two buckets; `stacks`, `leaves` (of one frame, the innermost)
    and `waits` are of the frame, by stack, and waits also by kind (`WAITS`). `since` is the map of start times of open
    intervals, which count as well; if parts share it, `since_part` maps to their parts.
    """

    name: str
    source: str
    kind: Kind
    part: int | None = None
    divisor: int = 1
    since: str = ""
    since_part: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe; tier 0 needs no BPF."""

    id: str
    tier: int
    question: str
    needs: tuple[str, ...]
    cost: str
    fields: tuple[Field, ...]
    events: tuple[ServerEvent, ...] = ()

    @property
    def script(self) -> str:
        return f"{self.id}.bt" if self.tier else ""

    @property
    def needs_binary(self) -> bool:
        return bool(self.events)


def _us(name: str, source: str, **more: Any) -> Field:
    return Field(name, source, "count", divisor=1000, **more)


def _count(name: str, source: str, **more: Any) -> Field:
    return Field(name, source, "count", **more)


def _histogram(name: str, source: str) -> Field:
    return Field(name, source, "histogram")


MAX_US = Field("max_us", "@max_us", "peak")
RUNQ_US = _histogram("runq_us", "@runq_us")

PLAN_START = ServerEvent(
    "plan_start",
    (
        Candidate(usdt=("query__plan__start",)),
        Candidate(functions=("pg_plan_query",)),
        Candidate(functions=("standard_planner",)),
    ),
)
PLAN_END = ServerEvent(
    "plan_end",
    (
        Candidate(usdt=("query__plan__done",)),
        Candidate(functions=("pg_plan_query",), at_return=True),
        Candidate(functions=("standard_planner",), at_return=True),
    ),
)
# Called only by code that catches an error.
CAUGHT = ServerEvent("caught", (Candidate(functions=("FlushErrorState",)),), rare=True, optional=True)

PARSE = ServerEvent("parse", (Candidate(usdt=("query__parse__start",)), Candidate(functions=("raw_parser",))))
# Up to 14 a Parse message has its own analysis that bypasses the others, including the USDT probe.
ANALYZE = ServerEvent(
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
EXECUTE = ServerEvent("execute", (Candidate(functions=("PortalStart",)),))
STATEMENT_END = ServerEvent(
    "statement_end", (Candidate(functions=("ReadyForQuery",)), Candidate(functions=("PortalDrop",)))
)

# Static functions without a USDT probe.
ENDPOINT_START = ServerEvent("endpoint_start", (Candidate(functions=("get_actual_variable_endpoint",)),))
ENDPOINT_END = ServerEvent("endpoint_end", (Candidate(functions=("get_actual_variable_endpoint",), at_return=True),))
LEAF_PAGE = ServerEvent("leaf_page", (Candidate(functions=("_bt_readpage",)),))

BUFFER = ServerEvent("buffer", (Candidate(functions=("ReadBufferExtended",)),))
INDEX_ENTRY = ServerEvent("index_entry", (Candidate(functions=("index_getnext_tid",)),))
INDEX_TUPLE = ServerEvent("index_tuple", (Candidate(functions=("index_getnext_slot",)),))

OFF = {"since": "@off", "since_part": "@state"}

PROBES: tuple[Probe, ...] = (
    Probe(
        id="procsched",
        tier=0,
        question="How much CPU time does each backend get, how long does it wait for a CPU, how often is it switched?",
        needs=("a kernel with scheduler information",),
        cost="three small reads per process and second",
        fields=(
            _us("oncpu_us", "schedstat"),
            _us("runq_us", "schedstat"),
            _count("slices", "schedstat"),
            _count("vol", "status"),
            _count("invol", "status"),
        ),
    ),
    Probe(
        id="planstats",
        tier=0,
        question="How much time do statements take to plan and to execute, by statement?",
        needs=("PostgreSQL 13", "pg_stat_statements loaded, track_planning on"),
        cost="1% (2 clients); more when many clients run the same statement",
        fields=(
            _count("plans", "pg_stat_statements"),
            _us("plan_us", "pg_stat_statements"),
            _count("calls", "pg_stat_statements"),
            _us("exec_us", "pg_stat_statements"),
        ),
    ),
    Probe(
        id="runq",
        tier=1,
        question="How long do server and client processes wait for a CPU once they could run?",
        needs=("bpftrace", "sched tracepoints"),
        cost="0 to 2%",
        fields=(RUNQ_US, _count("n", "@n"), _us("sum_us", "@runq_ns"), MAX_US),
    ),
    Probe(
        id="sched",
        tier=1,
        question="Where does each backend's wall time go: on CPU, waiting for a CPU, or asleep, and in which state?",
        needs=("bpftrace", "sched tracepoints"),
        cost="0 to 6%; includes runq",
        fields=(
            _us("oncpu_us", "@on_ns", since="@on"),
            _us("sum_us", "@runq_ns", since="@runnable"),
            _us("off_sleep_us", "@off_ns", part=1, **OFF),
            _us("off_disk_us", "@off_ns", part=2, **OFF),
            _us("off_stopped_us", "@off_ns", part=4, **OFF),
            _us("off_other_us", "@off_ns", part=OTHER, **OFF),
            _count("preempted", "@switches", part=0),
            _count("slept", "@switches", part=1),
            _count("disk", "@switches", part=2),
            _count("other", "@switches", part=OTHER),
            _count("migrations", "@migrations"),
            _count("wakeups", "@wakeups"),
            MAX_US,
            RUNQ_US,
            _histogram("slice_us", "@slice_us"),
        ),
    ),
    Probe(
        id="stacks",
        tier=1,
        question="What are server and client processes doing when they are on a CPU?",
        needs=("bpftrace", "frame pointers in the binary for more than the innermost function"),
        cost="1%",
        fields=(
            _count("samples", "@samples"),
            Field("stacks", "@stacks", "stacks"),
            Field("leaves", "@leaves", "leaves"),
        ),
    ),
    Probe(
        id="offcpu",
        tier=2,
        question="Where in their code do server processes wait: for a lock, for storage, for a CPU?",
        needs=("bpftrace", "sched tracepoints", "frame pointers in the binary for more than the innermost function"),
        cost="2 to 3 us of CPU per switch",
        fields=(
            *(_us(f"{name}_us", "@off_ns", part=part) for part, name in enumerate(WAITS)),
            _us("client_us", "@off_ns", part=3),
            _us("stopped_us", "@off_ns", part=4),
            Field("waits", "@stacks", "waits", divisor=1000),
        ),
    ),
    Probe(
        id="planner",
        tier=2,
        question="How long do statements take to plan?",
        needs=("bpftrace", "uprobes"),
        cost="3 to 5 us of CPU per planned statement",
        fields=(
            _count("n", "@n"),
            _us("sum_us", "@plan_ns"),
            MAX_US,
            _count("nested", "@nested"),
            _histogram("plan_us", "@plan_us"),
        ),
        events=(PLAN_START, PLAN_END, CAUGHT),
    ),
    Probe(
        id="phases",
        tier=2,
        question="How does the time of statements split into parse, analyze and rewrite, plan, execute?",
        needs=("bpftrace", "uprobes"),
        cost="8 to 10 us of CPU per statement",
        fields=(
            *(_us(f"{name}_us", "@phase_ns", part=part) for part, name in enumerate(PHASES, 1)),
            *(_count(f"{name}_n", "@n", part=part) for part, name in enumerate(PHASES, 1)),
            _count("nested", "@nested"),
        ),
        events=(PARSE, ANALYZE, PLAN_START, EXECUTE, STATEMENT_END, CAUGHT),
    ),
    Probe(
        id="endpoint",
        tier=2,
        question="How much planning time goes into reading an index for a column's current minimum or maximum?",
        needs=("bpftrace", "uprobes", "a binary with its symbol table"),
        cost="5 to 6 us of CPU per planned statement",
        fields=(
            _count("plan_n", "@plan_n"),
            _us("plan_us", "@plan_ns"),
            _count("ep_n", "@endpoint_n"),
            _us("ep_us", "@endpoint_ns"),
            _count("leaf_pages", "@leaf_pages"),
            _histogram("plan_hist_us", "@plan_us"),
            _histogram("ep_hist_us", "@endpoint_us"),
        ),
        events=(PLAN_START, PLAN_END, ENDPOINT_START, ENDPOINT_END, LEAF_PAGE, CAUGHT),
    ),
)

# The other form of `endpoint`, on request only: more expensive, and its signal is buffers and planning time.
ENDPOINT_PROXY = Probe(
    id="endpoint_proxy",
    tier=2,
    question="How much is read while planning? (endpoint, for binaries without a symbol table)",
    needs=("bpftrace", "uprobes"),
    cost="10 us of CPU per statement",
    fields=(
        _count("plan_n", "@plan_n"),
        _us("plan_us", "@plan_ns"),
        _count("buffers", "@buffers"),
        _count("tid", "@entries"),
        _count("slot", "@tuples"),
        _histogram("plan_hist_us", "@plan_us"),
    ),
    events=(PLAN_START, PLAN_END, BUFFER, INDEX_ENTRY, INDEX_TUPLE, CAUGHT),
)

BY_ID = {probe.id: probe for probe in (*PROBES, ENDPOINT_PROXY)}
SCRIPTED = tuple(probe.id for probe in BY_ID.values() if probe.script)
