"""The interface of a workload: all that the engine, the command line and the screens need to know.

A workload is an object with the members of `Workload`, named by one line of the registry in `workloads`. Its plan is a
JSON object, the `record`, in the manifest of a run; everything else derives from that record, so that a run can be
resumed, shown and compared without the original options.

Its clients are processes that its launcher starts and that count in the shared page (`workloads.client.counter_page`).
If the client is a foreign program, the launcher reads its output and fills the page: the engine always reads the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

Record = Mapping[str, Any]

# Source of the age of a statement in flight: the page or, for a foreign client program, the server's activity.
# `session` also counts idle sessions, for clients that never idle for long; `active` only those at work.
Ages = Literal["page", "session", "active"]

# Prefix of the folders that a launcher makes in `Place.folder`, by which they are recognised after a crash.
CLIENT_FOLDER = "clients-"

# Kinds of roles whose progress is rows; other roles' progress is statements.
COUNTED_IN_ROWS = frozenset({"insert", "delete", "index"})

# Kinds of steps that no later step depends on: these may be left out, or last longer in some repeats than in others.
WITHOUT_EFFECTS = frozenset({"query", "task", "point", "range", "aggregate"})


class Role(NamedTuple):
    """One connection of a step: its client (1, 2, ...) and its task."""

    client: int
    name: str  # kind, with a number for further workers of one client: query, query2


def role_kind(name: str) -> str:
    """A role's name without the number of a further worker: `query` for `query2`."""
    return name.rstrip("0123456789")


@dataclass(frozen=True, slots=True)
class PrimaryMetric:
    """The metric of a step that verdicts are first given for: the rate of all roles of one kind, in `unit`.

    `live` is false if progress comes in lumps, so that a rate means nothing before the end of the step. By "time" it
    is the mean time of these roles' statements in seconds, and less is better.
    """

    role: str
    unit: str
    live: bool = True
    by: Literal["rate", "time"] = "rate"


@dataclass(frozen=True, slots=True)
class Step:
    """One step as the engine sees it. Amounts are over all clients.

    `kind` is load, index, write, query, pause, or a workload's own. Steps of one `group` (its kind, unless it is given)
    do alike work: pairs of clusters are expected to scatter alike in them. `roles` are its connections in the
    order of their slots in the page; a step without roles consists of its maintenance. `connections` is the most that
    it holds open at once. `work` is the final row count of the insert role, if any (0: unknown), `rate_per_s` the limit
    of its rate, `expected_s` a rough length.
    `sliced` steps may be interleaved: their roles obey the gate (`workloads.client.client_gate`). By "time" if their
    length is fixed. By "work" if their work is fixed, the same for each client: the primary roles then obey the quota
    as well, and make one statement per round. "whole" if their statements last longer than slices: these are cut
    anywhere, clients measure active time (`process.active`) and report `times_s`. With `cut`, so are the statements of
    a step by time that turn out to last longer. Clients that are not `gated` ignore the gate: they and their server
    processes are stopped between slices, and their launcher reports the work of each slice later
    (`workloads.client.slice_times`). Neighbours that are `interchangeable` swap places in every other repeat, so that
    drift within cells cancels out. A client process that serves several roles has `threads`.

    `needs` name build features (`engine.builds.features`) or programs of the plan: the step is left out of the cells
    of builds that lack them, and refused if it was `named` and no build has them. Work before its clients are ready
    takes `preparation_s`. A step that is `apart` makes clusters of its own and does not use the cell's server.
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
    sliced: Literal["", "time", "work", "whole"] = ""
    cut: bool = False
    interchangeable: bool = False
    ages: Ages = "page"
    threads: int = 1
    gated: bool = True
    makes_files: bool = False  # in the data folder, for the server: its clients must run on the server's machine
    needs: tuple[str, ...] = ()
    named: bool = False
    preparation_s: float = 0.0
    apart: bool = False
    group: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.group or self.kind)


def planned_seconds(step: Step) -> int:
    """The length of a step, if it is sliced by time and may have another one; else 0."""
    seconds = step.record.get("seconds") or 0 if step.sliced == "time" and step.kind in WITHOUT_EFFECTS else 0
    return int(seconds) if seconds == int(seconds) else 0


def lasting(step: Step, seconds: int) -> Step:
    """The step with another length; roles with a limited rate have more rows in proportion."""
    factor = seconds / step.record["seconds"]
    scaled = {"seconds": seconds}
    if "rows_per_client" in step.record:
        scaled["rows_per_client"] = round(step.record["rows_per_client"] * factor)
    record = {**step.record, **scaled}
    return replace(step, record=record, work=round(step.work * factor), expected_s=step.expected_s * factor)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """SQL of a step. Statements of one group run at once, a session each; groups run one after another.

    A step without roles consists of `groups` and lasts at least `least_s`. `before` runs unmeasured before a step;
    `evict` then evicts its relations from shared buffers, `cold` the cluster's files from the page cache. `background`
    groups are started before a step, `gap_s` apart; the step does not wait for them. `after` runs unmeasured once all
    interleaved servers have done the step, on all at the same moment.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    least_s: float = 0.0
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    evict: bool = False
    cold: bool = False
    background: tuple[tuple[str, ...], ...] = ()
    gap_s: float = 0.0

    @property
    def vacuums(self) -> bool:
        """Whether tables are vacuumed before the step's clients begin, or by the step."""
        return any(sql.startswith("VACUUM") for group in (*self.before, *self.groups) for sql in group)


@dataclass(frozen=True, slots=True)
class Plan:
    """The manifest's `record` of a set of options, with the settings, probes and programs that it needs.

    A record has at least `name`, `title` (a few words), `clients` and `steps`, each a JSON object with `name`. Steps
    with `sweep`, such as {"clients": 8}, differ in that number only, and are shown as a table by it. For each foreign
    program in `programs`, the engine adds to the record's table `programs`: `path`, `version` as the program prints it,
    and `digest` of the file. `own_server` says why pgbed must start the server; empty if an external server will do.
    `notices` are lines for the plan's author. `pairs` of clusters do in slices, unless the author says otherwise; 0 is
    the usual number.
    """

    record: dict[str, Any]
    settings: tuple[str, ...] = ()  # NAME=VALUE, on top of every config
    probes: tuple[str, ...] = ()  # default probes
    programs: tuple[str, ...] = ()
    own_server: str = ""
    notices: tuple[str, ...] = ()
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class Kit:
    """Tools for a step that is `apart` to make clusters of the build under test, as the engine makes the cell's.

    `programs` is the folder of `postgres` and `initdb`, `environment` all that these see. `initdb` are arguments for
    any cluster, `provider` those for clusters of this build. `conf` goes to the end of postgresql.conf. `folder` lies
    on the disk of the cell's cluster: each folder in it is a cluster, removed with its server at the end of the cell at
    the latest.
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
    """Environment of a step's clients: the database, and the page (an inherited descriptor).

    `folder` is private and writable, removed with the cell; so is `data_folder`, on the disk of the database, for files
    that the server reads or keeps: empty on an external server. `found` comes from the report of the first step of the
    run that has it (see `Launch`): the same for all cells. `checkpoint`: the role may do one. `kit` is set for a step
    that is `apart`.
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


@dataclass(frozen=True, slots=True)
class Launch:
    """The launcher of a step's clients: its command line and standard input.

    It ends with code 0 if all roles did their work, and stops them on SIGTERM or the page's STOP. After RELEASE it
    may still correct counts of the page, and print its report (`workloads.api.report.Report`).
    """

    command: tuple[str, ...]
    stdin: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Named sizes of a workload, as rows for `bench list workloads`; `columns` are those that a table shows.

    A row has `workload` and `steps` (space-separated names), and any option's value by its name. `steps` describes each
    step.
    """

    rows: tuple[dict[str, Any], ...]
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    steps: Mapping[str, str] = field(default_factory=dict)


class Workload(Protocol):
    name: str
    description: str

    @property
    def options(self) -> type[msgspec.Struct]:
        """The class of its options: see `workloads.api.options`."""
        ...

    def plan(self, options: Any) -> Plan:
        """Plan from an instance of `options`. Raises UnknownName or ValueError, each in one line."""
        ...

    def check(self, record: Record) -> None:
        """Check that the plan can run with the programs that were found. Raises ValueError in one line."""
        ...

    def written(self, record: Record) -> Mapping[str, str]:
        """Scripts by the plan's author that clients execute, by file name: no user should run a plan unread."""
        ...

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        """The options given, with defaults for interleaved steps. Raises ValueError if they contradict each other."""
        ...

    def steps(self, record: Record) -> tuple[Step, ...]: ...

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance: ...

    def launch(self, record: Record, step: Step, place: Place) -> Launch: ...

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        """Tables that a role works on: a vacuum of one of them may explain its stall."""
        ...

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        """Largest expected size of a cell's cluster."""
        ...

    def identity(self, record: Record) -> dict[str, Any]:
        """Effective values that must be equal for results to be compared, apart from clients and steps."""
        ...

    def non_default(self, record: Record) -> tuple[str, ...]:
        """Options that differ from the workload's published form, in words: "placement paired"."""
        ...

    def sizes(self) -> Listing: ...


UNBEGUN = "unbegun"  # a file beside data that are made for a run which has not begun


@runtime_checkable
class Surveying(Protocol):
    """A workload whose record is completed once its programs are found."""

    def survey(self, record: Record, folder: str) -> dict[str, Any]:
        """The record with the programs' findings, files made in `folder` (kept with the runs). Raises ValueError.

        Before it makes any, it locks the file `UNBEGUN` there until this process ends: an unlocked one is left over
        from a process that was killed.

        `demands` in it are what every build must have: `extension NAME`, `version MAJOR` at least,
        `collation WHERE: NAME`, `locale WHERE: NAME` or `icu WHERE: NAME`. `notices` in it are lines for the user.
        """
        ...
