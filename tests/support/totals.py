"""Totals of steps and slices with chosen values, as the engine would count them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from engine.core.model import Cell
from engine.journal.rows import SliceRow
from engine.journal.totals import RoleTotals, StepTotals
from workloads.client import histogram
from workloads.insert.workload import PRIMARY_METRICS

SECOND_NS = 1_000_000_000
SLICE_NS = 50_000_000
RATES = {"l.i0": 100_000.0, "l.x": 400_000.0, "l.i1": 20_000.0, "qr100": 8_000.0}  # ops/s of the base


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
        primary_metric=PRIMARY_METRICS[kind],
    )  # fmt: skip


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
                                 count * 100_000, count, 5_000_000, 200_000, 1, 400_000, 0, 0, 0))  # fmt: skip
    return rows


def planned_as(kind: str) -> dict[str, Any]:
    """The primary metric in a step's plan, in a journal."""
    return {"primary_metric": asdict(PRIMARY_METRICS[kind])} if kind in PRIMARY_METRICS else {}


def made_slice(step: int, started_ns: int, block: int, place: int, ops: int) -> SliceRow:
    """A slice of 50 ms, of four in a block."""
    opened_ns = started_ns + (4 * block + place) * 50_000_000
    return SliceRow(
        step, block, place, opened_ns, opened_ns, 50_000_000, ops, ops, 100_000 * ops, ops, 0, 0, 0, 300_000, 0, 0, 0
    )
