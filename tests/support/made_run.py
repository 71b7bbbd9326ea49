"""Run directories with known results, written by the real journal writer: no server, every number chosen."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.core.model import Build, Cell, Config, Manifest, config_key
from engine.journal.rows import ProbeFrame, RoleSecond, SliceRow, WaitSecond
from engine.journal.totals import RoleTotals, StepTotals
from engine.journal.writer import JournalWriter, create_run
from engine.observe.stalls import Stall, StallRule
from engine.plan.schedule import interleave, subjects
from workloads import histogram
from workloads.insert.steps import plan_steps

SECOND_NS = 1_000_000_000
STEPS = ("l.i0", "l.x", "l.i1", "qr100")
RATES = {"l.i0": 100_000.0, "l.x": 400_000.0, "l.i1": 20_000.0, "qr100": 8_000.0}  # ops/s of the base
ENVIRONMENT: dict[str, Any] = {
    "cpu": {"model": "Test", "threads": 8, "governor": "performance", "mhz": 3400.0, "probe_us": 100.0},
    "kernel": {"release": "6.12.58", "command_line": "quiet"},
    "memory": {"total_bytes": 2**34, "transparent_huge_pages": "never"},
    "storage": {"filesystem": "xfs", "read_ahead_kb": 128},
    "state": {"busy_share": 0.01},
}

Change = Callable[[Cell, str, StepTotals], StepTotals]
Slices = Callable[[Cell, str], Sequence[SliceRow]]


def keep(_cell: Cell, _step: str, totals: StepTotals) -> StepTotals:
    """No change."""
    return totals


def make_run(
    path: Path,
    *,
    builds: Sequence[str] = ("16.3", "17.0"),
    configs: Sequence[str] = ("auto",),
    under: Sequence[str] = ("host",),
    repeats: int = 3,
    aa: bool = False,
    effects: Mapping[tuple[str, str], float] | None = None,
    noise: float = 0.002,
    change: Change = keep,
    failed: Mapping[int, str] | None = None,
    unfinished: Sequence[int] = (),
    environments: Callable[[Cell], dict[str, Any]] = lambda cell: ENVIRONMENT,
    environments_after: Callable[[Cell], dict[str, Any]] | None = None,
    environment: dict[str, Any] = ENVIRONMENT,
    stalls: Callable[[Cell, str, int], Sequence[Stall]] = lambda cell, step, started_ns: (),
    digest: str = "d0",
    clients: int = 1,
    knobs: Mapping[str, Any] | None = None,
    seed: int = 1,
    slices: Slices | None = None,
    slice_ms: float = 50.0,
    blocks: int = 0,
    slice_noise: float = 0.02,
    arms: Sequence[str] = (),
    **planned: Any,
) -> Path:
    """Writes a run. `effects` multiply a (build, step)'s rate; `noise` is the standard deviation of its log.

    With `arms` workloads are compared, too, of which only the names differ; then `effects` are of a (workload, step).

    `environments` are the machine's records before each cell, `environments_after` those after it, where there are any.

    With `blocks` query steps were driven in slices, so many blocks each, whose rates scatter by `slice_noise`.
    `under` are labels of kernels; `planned` are further entries of the manifest.

    `failed` are ordinals of cells with their reason; `unfinished` ones are never begun.

    With `slices` the run is one of cells abreast, driven in those (of a cell and step), though the cells' other records
    follow each other. Their times are since the begin of the step; `step_id` is set here.
    """
    random_source = random.Random(seed)
    steps = plan_steps("g24b", 100_000, clients, STEPS, query_seconds=60)
    cells = interleave(subjects(builds, configs, builds[0], aa, under, arms or ("",)), repeats)
    workload = {
        "name": "insert",
        "generation": "g24b",
        "scale": "100000",
        "clients": clients,
        "steps": [asdict(step) for step in steps],
        "knobs": dict(knobs or {"limiter": "reference"}),
    }
    manifest = Manifest(
        run=path.name,
        created="2026-11-20T10:00:00+00:00",
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
        arms=dict.fromkeys(arms, workload),
        cells=cells,
        stall_rule=asdict(StallRule()),
        environment=environment,
        interleave="slices" if blocks or slices is not None else "cells",
        slice_ms=slice_ms,
        **planned,
    )
    create_run(path, manifest.record())
    with JournalWriter.open(path) as journal:
        t_ns, abreast = journal.session.monotonic_ns, dict[tuple[int, str], int]()
        for cell in cells:
            if cell.ordinal in unfinished:
                continue
            origin = {"environment": environments(cell)}
            if environments_after is not None:
                origin["environment_after"] = environments_after(cell)
            attempt = journal.begin_attempt(cell.id, t_ns, origin)
            if cell.ordinal in (failed or {}):
                journal.end_attempt(attempt, t_ns + SECOND_NS, "failed", (failed or {})[cell.ordinal])
                continue
            for ordinal, step in enumerate(steps):
                of = cell.subject.workload or cell.subject.build
                effect = (effects or {}).get((of, step.name), 1.0) if not cell.subject.arm else 1.0
                rate = RATES[step.name] * effect * pow(2.718281828, random_source.gauss(0, noise))
                totals = change(cell, step.name, made_totals(step.name, step.kind, rate, clients))
                work = sum(role.rows for role in totals.roles.values())
                step_id = journal.begin_step(attempt, ordinal, step.name, step.kind, work, asdict(step), t_ns)
                for stall in stalls(cell, step.name, t_ns):
                    journal.add_event(
                        "stall", stall.started_ns, stall.record(),
                        ended_ns=stall.ended_ns, attempt=attempt, step=step_id, role=stall.role,
                    )  # fmt: skip
                # The servers of a repeat share the clock of its first cell.
                began_ns = abreast.setdefault((cell.repeat, step.name), t_ns)
                for each in slices(cell, step.name) if slices is not None else ():
                    opened_ns, counted_ns = each.opened_ns + began_ns, each.counted_from_ns + began_ns
                    journal.add_slice(replace(each, step_id=step_id, opened_ns=opened_ns, counted_from_ns=counted_ns))
                add_seconds(journal, step_id, totals, t_ns, clients)
                journal.add_sizes(step_id, [("pi1", "heap", totals.heap_bytes), ("pi1_pkey", "index", 2**20)])
                journal.add_differences(step_id, {"wal": {"": {"wal_records": 12}}})
                journal.add_sample(step_id, t_ns + SECOND_NS, SECOND_NS, "host", {"switches": 5})
                for role, record in totals.probes.items():
                    for probe, data in record.items():
                        frame = ProbeFrame(step_id, t_ns + SECOND_NS, SECOND_NS, probe, role, data, {})
                        journal.add_probe_frame(frame)
                for number in range(1, blocks + 1) if step.kind == "query" else ():
                    places = (0, 3) if (cell.subject == cells[0].subject) == bool(number % 2) else (1, 2)
                    for place in places:
                        ops = round(rate / 20 * pow(2.718281828, random_source.gauss(0, slice_noise)))
                        journal.add_slice(made_slice(step_id, t_ns, number, place, ops))
                t_ns += int(totals.seconds * SECOND_NS)
                journal.end_step(step_id, t_ns, totals)
            journal.add_settings(attempt, [("shared_buffers", "1GB", "configuration file")])
            journal.end_attempt(attempt, t_ns, "finished")
    return path


def made_slices(
    cell: Cell, step: str, rate_per_s: Mapping[str, float], blocks: int = 40, noise: float = 0.0, seed: int = 1
) -> list[SliceRow]:
    """Slices of 50 ms in ABBA blocks of two builds, in qr100 only; the first build of `rate_per_s` has the As.

    `noise` is the standard deviation of the log of each slice's rate, one draw for both builds of a block's halves.
    """
    if step != "qr100":
        return []
    first = next(iter(rate_per_s)) == cell.subject.build
    draws = random.Random(f"{seed} {cell.repeat}")
    rows = []
    for block in range(1, blocks + 1):
        halves = [draws.gauss(0, noise) for _ in (0, 1)]
        for place, half in zip((0, 3) if first else (1, 2), halves, strict=True):
            opened_ns = (4 * block + place) * 50_000_000
            count = round(rate_per_s[cell.subject.build] * pow(2.718281828, half) * 0.048)
            rows.append(SliceRow(0, block, place, opened_ns, opened_ns + 2_000_000, 48_000_000, count, 10 * count,
                                 count * 100_000, count, 5_000_000, 200_000, 1, 400_000))  # fmt: skip
    return rows


def made_slice(step: int, started_ns: int, block: int, place: int, ops: int) -> SliceRow:
    """A slice of 50 ms, of four in a block."""
    opened_ns = started_ns + (4 * block + place) * 50_000_000
    return SliceRow(
        step, block, place, opened_ns, opened_ns, 50_000_000, ops, ops, 100_000 * ops, ops, 0, 0, 0, 300_000
    )


def made_role(statements: int, rows: int, **values: Any) -> RoleTotals:
    """A role's totals with a service time of 300 us for 99 of 100 statements, 3 ms for the rest."""
    slow = statements // 100
    return replace(
        RoleTotals(
            connections=1, statements=statements, rows=rows, rows_actual=rows, service_ns=statements * 327_000,
            max_ns=3_000_000, backend_cpu_ns=statements * 200_000, backend_runq_ns=statements * 1000,
            backend_switches=statements, backend_involuntary=0, backend_read_bytes=0, backend_write_bytes=0,
            client_cpu_ns=statements * 20_000, client_runq_ns=0, client_switches=statements,
            histogram=((histogram.index(300), statements - slow), (histogram.index(3000), slow)),
            buckets=(0, statements - slow, slow, 0, 0, 0, 0, 0, 0, 0),
        ),
        **values,
    )  # fmt: skip


def made_totals(step: str, kind: str, rate_per_s: float, clients: int = 1) -> StepTotals:
    """A step of 20 s (query steps: 61 s) at a rate of ops per second."""
    seconds = 61.0 if kind == "query" else 20.0
    count = round(rate_per_s * seconds)
    if kind == "query":
        inserted = 100 * 60 * clients
        roles = {
            "insert": made_role(inserted // 50, inserted),
            "delete": made_role(inserted // 50, inserted),
            "query": made_role(count, 10 * count),
        }
    elif kind == "index":
        roles = {"insert": made_role(clients, 100 * clients), "index": made_role(3 * clients, 0)}
        seconds, count = 100_100 * clients / rate_per_s, 100_100 * clients
    else:
        count = 2_000_000 if kind == "load" else 400_000
        seconds = count / rate_per_s
        per_statement = 100 if kind == "load" else 50
        roles = {"insert": made_role(count // per_statement, count)}
        if kind == "write":
            roles["delete"] = made_role(count // per_statement, count)
    return StepTotals(
        seconds=seconds,
        roles=roles,
        server_cpu_ns=count * 5_000,
        server_runq_ns=count * 500,
        server_switches=count // 10,
        server_read_bytes=count * 1024,
        server_write_bytes=count * 512,
        client_cpu_ns=count * 700,
        engine_cpu_ns=10_000_000,
        wal_bytes=count * 220,
        rows_indexed=count if kind == "index" else 0,
        rate_target_per_s=100.0 * clients if kind == "query" else 0.0,
        heap_bytes=80 * 2**20,
        index_bytes=90 * 2**20,
        database_bytes=180 * 2**20,
        cluster_bytes=2**30,
        rss_bytes=2**28,
        host={"user_ns": 8 * SECOND_NS, "nice_ns": 0, "system_ns": 2 * SECOND_NS, "idle_ns": 30 * SECOND_NS,
              "iowait_ns": 0, "irq_ns": 0, "softirq_ns": 0, "steal_ns": 0, "switches": 40_000},
        device={"reads": 2000, "read_kb": 16_000, "writes": 4000, "written_kb": 64_000},
    )  # fmt: skip


def add_seconds(journal: JournalWriter, step: int, totals: StepTotals, started_ns: int, clients: int) -> None:
    """Twelve even seconds for each role of each client."""
    for client in range(1, clients + 1):
        for name, role in totals.roles.items():
            if role.waits and client == 1:
                t_ns, looks = started_ns + SECOND_NS, role.wait_looks
                journal.add_wait_second(WaitSecond(step, name, t_ns, SECOND_NS, looks, role.waits))
            row = journal.add_role(step, client, name, 1000 + client, 2000 + client)
            for second in range(1, 13):
                statements = role.statements // 12 // clients
                journal.add_role_seconds(
                    [
                        RoleSecond(
                            role_id=row,
                            t_ns=started_ns + second * SECOND_NS,
                            dt_ns=SECOND_NS,
                            statements=statements,
                            rows=role.rows // 12 // clients,
                            in_flight_ns=0,
                            max_us=3000,
                            service=histogram.pack({histogram.index(300): statements}),
                        )
                    ]
                )
