"""What a workload is: all that the engine, the command line and the screens need to know of one.

A workload is an object with the members of `Workload`, named by one line of the registry in `workloads`. Its plan is a
JSON object, the `record`, which stands in the manifest of a run; everything else derives from that record, so that a
run can be resumed, shown and compared without the options that it was made from.

Its clients are processes that a launcher of its own starts and that count in the shared page
(`workloads.counter_page`). Where the client is a foreign program, the launcher reads what that writes and keeps the
page's words: the engine reads the page either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

Record = Mapping[str, Any]

# Where the age of a statement in flight comes from: the page, or the server's activity, where the client is a foreign
# program. `session` counts a session that rests, too, as its client never does for long; `active` one at work.
Ages = Literal["page", "session", "active"]

# With which the names of folders begin that a launcher makes in `Place.folder`: by it they are known after a crash.
CLIENT_FOLDER = "clients-"

# Kinds of roles whose progress is rows; every other role's is statements.
COUNTED_IN_ROWS = frozenset({"insert", "delete", "index", "transaction"})


class Role(NamedTuple):
    """One connection of a step: client 1, 2, ... and what it does there."""

    client: int
    name: str  # its kind, with a number for further workers of one client: query, query2


def role_kind(name: str) -> str:
    """What a role does: its name without the number of a further worker, `query` for `query2`."""
    return name.rstrip("0123456789")


@dataclass(frozen=True, slots=True)
class PrimaryMetric:
    """The metric of a step that verdicts are first given for: the rate of all roles of one kind, in `unit`.

    `live` is false where progress comes in lumps, so that a rate means nothing before the step has ended. By "time" it
    is the mean time of these roles' statements in seconds, and less is better.
    """

    role: str
    unit: str
    live: bool = True
    by: Literal["rate", "time"] = "rate"


@dataclass(frozen=True, slots=True)
class Background:
    """A background workload of a step. It has verdicts of its own, by its rate in `unit`.

    All its connections have one `role`, which no other workload has; `ages` and `threads` are theirs.
    """

    role: str
    unit: str
    ages: Ages = "page"
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One step as the engine sees it. Amounts are over all clients.

    `kind` groups steps of one kind (load, index, write, query, pause, or a workload's own). `roles` are its
    connections in the order of their slots in the page; a step without any consists of its maintenance.
    `connections` is the most that it holds open at once. `work` is what the rows of the insert role, if there is one,
    count up to (0: unknown), `rate_per_s` the rate that those are limited to, `expected_s` a guess of its length.
    `sliced` steps may be interleaved: their roles obey the gate (`workloads.client_gate`). By "time" if their length
    is fixed: they then end when the page's END_NS says, once that is set. By "work" if their work is fixed, the same
    for each client: the primary roles then obey the quota as well, and make one statement per round. Clients that are
    not `gated` know no gate: they and their server processes are stopped between slices, and their launcher reports
    later what was done in each (`workloads.slice_times`). Neighbours that are `interchangeable` swap places in every
    other repeat, so that drift within cells cancels out. A client process that serves several roles has `threads`.
    Roles of `background` workloads follow those of the step itself.

    `needs` are names of what a build must have (`engine.builds.features`) or of programs of the plan: the step is
    left out of the cells of builds that lack it, and refused where it was `named` and no build has it. What is done
    before its clients are ready takes `preparation_s`. A step that is `apart` makes clusters of its own, and the cell's
    server has no part in it.
    """

    name: str
    kind: str
    record: Record
    primary_metric: PrimaryMetric | None = None
    roles: tuple[Role, ...] = ()
    connections: int = 0
    work: int = 0
    rows_indexed: int = 0
    rate_per_s: float = 0.0
    expected_s: float = 0.0
    sliced: Literal["", "time", "work"] = ""
    interchangeable: bool = False
    ages: Ages = "page"
    threads: int = 1
    gated: bool = True
    makes_files: bool = False  # in the data folder, for the server: its clients run on the server's machine only
    needs: tuple[str, ...] = ()
    named: bool = False
    preparation_s: float = 0.0
    apart: bool = False
    background: tuple[Background, ...] = ()

    def watched(self, role: str) -> tuple[Ages, int]:
        """Where ages of a role's statements come from, and how many threads its client process has."""
        found = next((each for each in self.background if each.role == role), None)
        return (found.ages, found.threads) if found else (self.ages, self.threads)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """SQL of a step. Statements of one group run at once, a session each; groups run one after another.

    `groups` are what a step without roles consists of; it lasts at least `least_s`. `before` are done before a step
    begins, unmeasured; `cold`: then the cluster's files are taken out of the page cache. `background`
    groups are started before a step, `gap_s` apart; the step does not wait for them.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    least_s: float = 0.0
    before: tuple[tuple[str, ...], ...] = ()
    cold: bool = False
    background: tuple[tuple[str, ...], ...] = ()
    gap_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What options come to: the manifest's `record`, and settings, probes and programs that go with them.

    A record has at least `name`, `title` (a few words), `clients` and `steps`, each a JSON object with `name`. Steps
    with `sweep`, such as {"clients": 8}, differ in that number only, and are shown as a table by it. For each
    of `programs`, foreign ones that its clients are, the engine adds what it found to the record's table `programs`:
    `path`, `version` as the program gives it, and `digest` of the file. `own_server` says why pgbed
    must start the server; empty where an external server will do.
    """

    record: dict[str, Any]
    settings: tuple[str, ...] = ()  # NAME=VALUE, on top of every config
    probes: tuple[str, ...] = ()  # unless the user names others
    programs: tuple[str, ...] = ()
    own_server: str = ""


@dataclass(frozen=True, slots=True)
class Kit:
    """What a step that is `apart` makes clusters of the build under test with, as the engine makes the cell's.

    `programs` is the folder of `postgres` and `initdb`, `environment` all that these see. `initdb` are arguments for
    any cluster, `provider` those of this build's. `conf` goes to the end of postgresql.conf. `folder` lies on the disk
    of the cell's cluster: each folder in it is a cluster, removed, and its server ended, with the cell at the latest.
    """

    programs: str
    major: int
    environment: Mapping[str, str]
    initdb: tuple[str, ...]
    provider: tuple[str, ...]
    conf: str
    folder: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step's clients run: against which database, counting in which page (an inherited descriptor).

    `folder` is a private one that they may write to, removed with the cell; so is `data_folder`, which lies on the disk
    of the database, for files that the server reads or keeps: empty on an external server. `found` is
    what the report of the first step of the run that found something says of it (see `Launch`): the same for all cells.
    `checkpoint`: the role may do one. `kit` is there for a step that is `apart`. Of a background workload, `first` is
    its first slot in the page; its step ends when the roles of the slots below `until` are done, and its relations are
    in a `schema` of its own.
    """

    dsn: str
    page_fd: int
    seed: int
    repeat: int
    folder: str
    data_folder: str
    found: Record = field(default_factory=dict)
    checkpoint: bool = True
    kit: Kit | None = None
    first: int = 0
    until: int = 0
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """The launcher of a step's clients: its command line, and what it is given on standard input.

    It ends with code 0 when all roles did their work, and stops them on SIGTERM or the page's STOP. After RELEASE it
    may still correct counts of the page, and print one JSON object: the report of the step, kept with its totals.
    Its `statements`, where there are any, are shown: JSON objects with `script` (from 1), `statement`, `mean_ms`;
    and `stop_ms` where the mean may be too long by so much, because clients were stopped by their launcher, or held;
    or `error_ms`, its standard error where many such stops were taken off.
    Its `first_end`, where each client does a fixed amount, says when the first of several had done its: `seconds` into
    the step, and how many `transactions` all had done by then.
    Its `found` is an object that later launches of the run are given: `Place.found`. Its `load` says what each
    transaction loads: `bytes`, `rows` and `sha256` of a file. Then the page lists the time of each (`Page.add_time`),
    and these are shown. Its `timing`, an object, says what the programs that it ran took: `user_s`, `system_s`,
    `memory_bytes`, `floor_s` (how long they take to do nothing), `server_cpu_s` (of servers that are not the cell's);
    of several runs these are means, of memory the most, and `times_s` are how long each took.
    Of its `work`, amounts by their names, cells that are compared must have done the same.
    `starts` are the commands of further launchers that this one starts.
    """

    command: tuple[str, ...]
    stdin: str
    starts: tuple[tuple[str, ...], ...] = ()


# What a schema that a load makes in a database of somebody else is commented with: it may be dropped again.
SCHEMA_MARK = "pgbed: tables of a load beside another"


@dataclass(frozen=True, slots=True)
class Written:
    """The user's own scripts that a plan executes, by their files' names."""

    scripts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def together(cls, parts: Iterable[Written]) -> Written:
        """What all of them execute. Raises ValueError where one name stands for two texts."""
        scripts: dict[str, str] = {}
        for each in parts:
            for name, text in each.scripts.items():
                if scripts.setdefault(name, text) != text:
                    raise ValueError(f"two different scripts are called {name}")
        return cls(scripts)


@dataclass(frozen=True, slots=True)
class Listing:
    """The named sizes of a workload, as rows for `bench list workloads`; `columns` are those that a table shows.

    A row has `workload` and `steps` (names with spaces between), and may have any option's value by its name. `steps`
    says what each step does.
    """

    rows: tuple[dict[str, Any], ...]
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    steps: Mapping[str, str] = field(default_factory=dict)


class Workload(Protocol):
    """The members of a workload."""

    name: str
    description: str

    @property
    def options(self) -> type[msgspec.Struct]:
        """The class of its options: see `workloads.options`."""
        ...

    def plan(self, options: Any) -> Plan:
        """What an instance of `options` comes to. Raises UnknownName or ValueError, each in one line."""
        ...

    def check(self, record: Record) -> None:
        """Looks whether the plan can be run with the programs that were found. Raises ValueError in one line."""
        ...

    def written(self, record: Record) -> Written:
        """What the author of the plan wrote and clients execute: nobody should run another person's plan unread."""
        ...

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        """The options given, with defaults for interleaved steps. Raises ValueError if they contradict each other."""
        ...

    def steps(self, record: Record) -> tuple[Step, ...]: ...

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        """The SQL of a step, for a server of that major version."""
        ...

    def launch(self, record: Record, step: Step, place: Place) -> Launch: ...

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        """The tables that a role works on: a vacuum of one of them may explain a stall of it."""
        ...

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        """The largest size that a cell's cluster is expected to have."""
        ...

    def identity(self, record: Record) -> dict[str, Any]:
        """What must be equal for results to be compared, apart from clients and steps: the values in effect."""
        ...

    def non_default(self, record: Record) -> tuple[str, ...]:
        """The options that are not as the workload's published form has them, in words: "placement paired"."""
        ...

    def sizes(self) -> Listing: ...


@runtime_checkable
class BackgroundWorkload(Protocol):
    """A workload that can run in the background of another's steps: see `workloads.combined`."""

    def background_plan(self, entries: Record) -> Plan:
        """Plan it from options as text or values. Raises UnknownName or ValueError, each in one line.

        The last of its steps is the load, without an end of its own; those before prepare it.
        """
        ...
