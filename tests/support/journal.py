"""Run directories with chosen results, written by the real journal writer: no server.

`Run` has a verb for each thing that the engine records. `make_run` writes a whole run with it; `growing` and
`interleaved` give one that is under way, which a test lets grow while something reads it.
"""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from engine.core.clock import Clock
from engine.core.model import Build, Cell, Config, Manifest, config_key
from engine.journal import signature
from engine.journal.manifest import manifest_of, read_manifest
from engine.journal.rows import ProbeFrame, RoleSecond, SliceRow, WaitSecond
from engine.journal.totals import StepTotals
from engine.journal.writer import JournalWriter, create_run
from engine.observe.stalls import Stall, StallRule
from engine.plan.schedule import interleave, subjects
from tests.support.totals import RATES, SECOND_NS, SLICE_NS, made_slice, made_totals, planned_as
from workloads.client import histogram
from workloads.insert.steps import plan_steps
from workloads.insert.workload import WORKLOAD

STEPS = ("l.i0", "l.x", "l.i1", "qr100")
START_NS = 50_000 * SECOND_NS
WALL_NS = 1_795_180_800 * SECOND_NS  # of START_NS
CELL = "002-17.0-auto-r1"
WARM_NS = 2_000_000
COUNTED_NS = SLICE_NS - WARM_NS
ENVIRONMENT: dict[str, Any] = {
    "cpu": {"model": "Test", "threads": 8, "governor": "performance", "mhz": 3400.0, "probe_us": 100.0},
    "kernel": {"release": "6.12.58", "command_line": "quiet"},
    "memory": {"total_bytes": 2**34, "transparent_huge_pages": "never"},
    "storage": {"filesystem": "xfs", "read_ahead_kb": 128},
    "state": {"busy_share": 0.01},
}

Change = Callable[[Cell, str, StepTotals], StepTotals]
Slices = Callable[[Cell, str], Sequence[SliceRow]]
P = ParamSpec("P")


class Hand:
    """A clock that a test moves by hand."""

    def __init__(self, at_ns: int = START_NS) -> None:
        self.at_ns = at_ns

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.at_ns, lambda: self.at_ns)


def plan_run(
    path: Path,
    *,
    builds: Sequence[str] = ("16.3", "17.0"),
    configs: Sequence[str] = ("auto",),
    under: Sequence[str] = ("host",),
    repeats: int = 3,
    aa: bool = False,
    environment: dict[str, Any] = ENVIRONMENT,
    digest: str = "d0",
    clients: int = 1,
    options: Mapping[str, Any] = {},
    interleave_slices: bool = False,
    slice_ms: float = 50.0,
    created: str = "2026-11-20T10:00:00+00:00",
    **planned: Any,
) -> Manifest:
    """Create a run folder with a plan and no cells. `under` are labels of kernels; `planned` further entries."""
    steps = plan_steps("g24b", 100_000, clients, STEPS, query_seconds=60)
    workload = {
        "name": "insert",
        "generation": "g24b",
        "scale": "100000",
        "clients": clients,
        "steps": [asdict(step) for step in steps],
        "options": {"clients": clients, **options},
    }
    workload |= {"identity": WORKLOAD.identity(workload), "non_default": list(WORKLOAD.non_default(workload))}
    record = dict(
        run=path.name,
        created=created,
        engine="0.1.0",
        seed=1,
        base=builds[0],
        repeats=repeats,
        aa=aa,
        margin=0.02,
        builds=tuple(Build(label, label, f"/opt/{label}", f"{digest}-{label}", "local") for label in builds),
        configs={
            config_key(config, label): Config(config, (("shared_buffers", "1GB"),), "built in")
            for config in configs
            for label in builds
        },
        workload=workload,
        cells=interleave(subjects(builds, configs, builds[0], aa, under), repeats),
        stall_rule=asdict(StallRule()),
        environment=environment,
        interleave="slices" if interleave_slices else "cells",
        slice_ms=slice_ms,
        **planned,
    )
    manifest = manifest_of(record, path)
    create_run(path, manifest.record())
    (path / "cells").mkdir(exist_ok=True)
    return manifest


def keep(_cell: Cell, _step: str, totals: StepTotals) -> StepTotals:
    """A change that changes nothing."""
    return totals


def made_once(write: Callable[Concatenate[Path, P], Path]) -> Callable[Concatenate[Path, P], Path]:
    """Write each run once a session, in a folder that nothing else touches; give copies, signed where they are.

    A run with values that are functions is written each time: nobody can tell whether two of them are the same.
    """
    written: dict[tuple[str, str], Path] = {}

    @wraps(write)
    def made(path: Path, /, *unnamed: P.args, **values: P.kwargs) -> Path:
        if any(map(callable, values.values())):
            return write(path, *unnamed, **values)
        key = path.name, repr(sorted(values.items()))
        if key not in written:
            folder = Path(tempfile.mkdtemp(prefix="pgbed-journals-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            written[key] = write(folder / path.name, *unnamed, **values)
        shutil.copytree(written[key], path, dirs_exist_ok=True)
        signature.sign(path, (path / "manifest.json").read_bytes())
        return path

    return made


@made_once
def make_run(
    path: Path,
    /,
    *,
    effects: Mapping[tuple[str, str], float] | None = None,
    noise: float = 0.002,
    change: Change = keep,
    failed: Mapping[int, str] | None = None,
    unfinished: Sequence[int] = (),
    environments: Callable[[Cell], dict[str, Any]] = lambda cell: ENVIRONMENT,
    environments_after: Callable[[Cell], dict[str, Any]] | None = None,
    stalls: Callable[[Cell, str, int], Sequence[Stall]] = lambda cell, step, started_ns: (),
    clients: int = 1,
    seed: int = 1,
    slices: Slices | None = None,
    blocks: int = 0,
    slice_noise: float = 0.02,
    **plan: Any,
) -> Path:
    """Write a whole run; `plan` as in `plan_run`.

    `effects` multiply the rate of a (build, step); `noise` is the standard deviation of its log. `failed` are ordinals
    of cells with the reason; `unfinished` ones never begin.

    `environments` are the machine's records before each cell, `environments_after` those after it.

    With `blocks` query steps are interleaved, in that many blocks, whose rates scatter by `slice_noise`. With `slices`
    the run has these for a cell and step; their times are since the beginning of the step, `step_id` is set here.
    """
    source = random.Random(seed)
    sliced = bool(blocks) or slices is not None
    manifest = plan_run(path, clients=clients, interleave_slices=sliced, **plan)
    with JournalWriter.open(path) as journal:
        t_ns, shared_ns = journal.session.monotonic_ns, dict[tuple[int, str], int]()
        for cell in manifest.cells:
            if cell.ordinal in unfinished:
                continue
            origin = {"environment": environments(cell)}
            if environments_after is not None:
                origin["environment_after"] = environments_after(cell)
            attempt = journal.begin_attempt(cell.id, t_ns, origin)
            if cell.ordinal in (failed or {}):
                journal.end_attempt(attempt, t_ns + SECOND_NS, "failed", (failed or {})[cell.ordinal])
                continue
            for ordinal, step in enumerate(manifest.workload["steps"]):
                name, kind = step["name"], step["kind"]
                effect = (effects or {}).get((cell.subject.build, name), 1.0) if not cell.subject.control else 1.0
                rate = RATES[name] * effect * pow(2.718281828, source.gauss(0, noise))
                totals = change(cell, name, made_totals(name, kind, rate, clients))
                work = sum(role.rows for role in totals.roles.values())
                step_id = journal.begin_step(attempt, ordinal, name, kind, work, {**step, **planned_as(kind)}, t_ns)
                for stall in stalls(cell, name, t_ns):
                    journal.add_event(
                        "stall", stall.started_ns, stall.record(),
                        ended_ns=stall.ended_ns, attempt=attempt, step=step_id, role=stall.role,
                    )  # fmt: skip
                # The servers of a repeat share the clock of its first cell.
                began_ns = shared_ns.setdefault((cell.repeat, name), t_ns)
                for row in slices(cell, name) if slices is not None else ():
                    opened_ns, counted_ns = row.opened_ns + began_ns, row.counted_from_ns + began_ns
                    journal.add_slice(replace(row, step_id=step_id, opened_ns=opened_ns, counted_from_ns=counted_ns))
                _add_records(journal, step_id, totals, t_ns, clients)
                for block in range(1, blocks + 1) if kind == "query" else ():
                    places = (0, 3) if (cell.subject == manifest.cells[0].subject) == bool(block % 2) else (1, 2)
                    for place in places:
                        ops = round(rate / 20 * pow(2.718281828, source.gauss(0, slice_noise)))
                        journal.add_slice(made_slice(step_id, t_ns, block, place, ops))
                t_ns += int(totals.seconds * SECOND_NS)
                journal.end_step(step_id, t_ns, totals)
            journal.add_settings(attempt, [("shared_buffers", "1GB", "configuration file")])
            journal.end_attempt(attempt, t_ns, "finished")
    return path


def _add_records(journal: JournalWriter, step: int, totals: StepTotals, started_ns: int, clients: int) -> None:
    """Twelve even seconds for each role of each client, and one record of every other sort."""
    first_ns = started_ns + SECOND_NS
    for client in range(1, clients + 1):
        for name, role in totals.roles.items():
            if role.waits and client == 1:
                journal.add_wait_second(WaitSecond(step, name, first_ns, SECOND_NS, role.wait_samples, role.waits))
            row = journal.add_role(step, client, name, 1000 + client, 2000 + client)
            statements, rows = role.statements // 12 // clients, role.rows // 12 // clients
            service = histogram.pack({histogram.index(300): statements})
            journal.add_role_seconds(
                [
                    RoleSecond(row, started_ns + second * SECOND_NS, SECOND_NS, statements, rows, 0, 3000, service)
                    for second in range(1, 13)
                ]
            )
    journal.add_sizes(step, [("pi1", "heap", totals.heap_bytes), ("pi1_pkey", "index", 2**20)])
    journal.add_differences(step, {"wal": {"": {"wal_records": 12}}})
    journal.add_sample(step, first_ns, SECOND_NS, "host", {"switches": 5})
    for name, record in totals.probes.items():
        for probe, data in record.items():
            journal.add_probe_frame(ProbeFrame(step, first_ns, SECOND_NS, probe, name, data, {}))


@dataclass
class Side:
    """A cell under way: its attempt, its newest step, and the rows of its roles."""

    cell: Cell
    attempt: int
    step: int = 0
    roles: dict[str, int] = field(default_factory=dict)


@dataclass
class Growing:
    """A run under way, with a clock; its verbs act on the cell `side`, the only one unless cells are interleaved."""

    run: Path
    hand: Hand
    journal: JournalWriter
    sides: list[Side]
    start_ns: int = START_NS
    seconds: int = 0
    blocks: int = 0

    @property
    def attempt(self) -> int:
        return self.sides[0].attempt

    @property
    def step(self) -> int:
        return self.sides[0].step

    @property
    def roles(self) -> dict[str, int]:
        return self.sides[0].roles

    @property
    def steps(self) -> list[int]:
        return [side.step for side in self.sides]

    def begin(
        self, side: int = 0, name: str = "qr100", kind: str = "query", ordinal: int = 0, *,
        work: int = 0, roles: Sequence[str] = ("query",), **plan: Any,
    ) -> None:  # fmt: skip
        """A cell's next step begins now."""
        cell, record = self.sides[side], {"name": name, "kind": kind, **planned_as(kind), **plan}
        cell.step = self.journal.begin_step(cell.attempt, ordinal, name, kind, work, record, self.hand.at_ns)
        pids = enumerate(roles, side)
        cell.roles = {role: self.journal.add_role(cell.step, 1, role, 4100 + n, 4200 + n) for n, role in pids}
        self.journal.commit()

    def second(self, insert: int = 1000, delete: int = 900, **values: Any) -> None:
        """One more second of a write step, and the clock moves on by it; a role with -1 was not read."""
        self.seconds += 1
        self.hand.at_ns = self.start_ns + self.seconds * SECOND_NS
        for role, rows in (("insert", insert), ("delete", delete)):
            self.add_second(self.roles[role], SECOND_NS, rows // 50, rows, 400, max(1, rows // 50), **values)
        self.journal.commit()

    def block(self, *ops: float, slow_ns: int = 0) -> None:
        """Two slices of each cell, with these operations in each; the first cell's are longer by `slow_ns`."""
        for place, side in enumerate([*range(len(ops)), *reversed(range(len(ops)))]):
            count, longer_ns = round(ops[side]), slow_ns if side == 0 else 0
            row = SliceRow(
                self.sides[side].step, self.blocks, place, self.hand.at_ns,
                counted_from_ns=self.hand.at_ns + WARM_NS, counted_ns=COUNTED_NS + longer_ns, ops=count, rows=0,
                cpu_ns=40_000_000, cpu_ops=count, runq_ns=0, spill_over_ns=0, stopped=0, switch_ns=300_000,
                imbalance_ns=0, early_ns=0, early_ops=0,
            )  # fmt: skip
            self.journal.add_slice(row)
            self.hand.at_ns += SLICE_NS + longer_ns
        self.blocks += 1
        if self.blocks % 5 == 0:  # a tick of every cell, each of which worked for its part of the last second
            for side, done in enumerate(ops):
                count = round(done) * 10
                self.add_second(self.sides[side].roles["query"], 10 * SLICE_NS, count, 0, 120, max(1, count))
        self.journal.commit()

    def add_second(
        self, row: int, dt_ns: int, statements: int, rows: int, service_us: int, served: int, **values: Any
    ) -> None:
        service = histogram.pack({histogram.index(service_us): served})
        counts: dict[str, Any] = {
            "statements": statements,
            "rows": rows,
            "in_flight_ns": 0,
            "max_us": service_us,
            "service": service,
        }
        self.journal.add_role_seconds([RoleSecond(row, self.hand.at_ns, dt_ns, **(counts | values))])

    def stall(self, role: str = "insert", causes: tuple[str, ...] = (), side: int = 0) -> int:
        """A stall begins now."""
        cell, record = self.sides[side], self.stall_record(causes)
        id = self.journal.add_event("stall", self.hand.at_ns, record, attempt=cell.attempt, step=cell.step, role=role)
        self.journal.commit()
        return id

    def stall_record(self, causes: tuple[str, ...] = ()) -> dict[str, Any]:
        ranked = [{"kind": "stopped", "score": 0.9, "text": text} for text in causes]
        return {"client": 1, "depth": 0.01, "median_per_s": 1000.0, "missed_rows": 3000, "causes": ranked}

    def end_stall(self, id: int, *causes: str) -> None:
        """A stall ends now."""
        self.journal.update_event(id, self.hand.at_ns, self.stall_record(causes))
        self.journal.commit()

    def end_step(self, side: int = 0, state: str = "finished") -> None:
        """A cell's step ends now."""
        self.journal.end_step(self.sides[side].step, self.hand.at_ns, None, state)


@contextmanager
def _under_way(run: Path, cells: Sequence[Cell], began_ns: int, start_ns: int) -> Iterator[Growing]:
    """These cells have begun. The run's lock is held."""
    with JournalWriter.open(run) as journal:
        sides = [Side(cell, journal.begin_attempt(cell.id, began_ns, {})) for cell in cells]
        anchor = (start_ns, WALL_NS, journal.session.id)
        journal.database.execute("UPDATE session SET monotonic_ns = ?, wall_ns = ? WHERE id = ?", anchor)
        yield Growing(run, Hand(start_ns), journal, sides, start_ns)


@contextmanager
def growing(
    folder: Path,
    *,
    work: int = 100_000,
    builds: Sequence[str] = ("16.3", "17.0"),
    begun: bool = True,
    start_ns: int = START_NS,
) -> Iterator[Growing]:
    """The first cell, of the base, is finished; the second is in l.i1, if that has begun.

    Who looks by the machine's clock says when the step starts: how long the machine has been up is not for a test.
    """
    others = range(1, len(builds))
    run = make_run(folder / "20261120-120000-16.3-17.0", builds=builds, repeats=1, unfinished=others, noise=0.0)
    second = read_manifest(run).cells[1]
    with _under_way(run, [second], start_ns - 5 * SECOND_NS, start_ns) as live:
        if begun:
            live.begin(0, "l.i1", "write", work=work, roles=("insert", "delete"))
        live.journal.commit()
        yield live


@contextmanager
def interleaved(
    folder: Path, *, builds: Sequence[str] = ("16.3", "17.0"), begun: bool = True, **plan: Any
) -> Iterator[Growing]:
    """A run in slices of 50 ms whose first repeat is in qr100 of 12 s, if that has begun."""
    plan = {"builds": builds, "repeats": 1, "interleave_slices": True, **plan}
    manifest = plan_run(folder / "20261122-120000-16.3-17.0", **plan)
    first = [cell for cell in manifest.cells if cell.repeat == 1]
    with _under_way(folder / manifest.run, first, START_NS - SECOND_NS, START_NS) as live:
        for side in range(len(live.sides)) if begun else ():
            live.begin(side, seconds=12)
        yield live
