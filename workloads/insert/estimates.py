"""Rough lengths and sizes of the Insert Benchmark's steps, shown as such."""

from __future__ import annotations

from collections.abc import Iterable

from workloads.insert.steps import InsertStep

# On a small machine. Statements of writes take time besides their rows' time.
ROUGH_ROWS_PER_S = {"load": 100_000, "index": 290_000, "write": 38_000}
ROUGH_ROUND_S = 0.00025

# Bytes on disk per live row, heap and indexes, measured on a table of a million rows: after l.x, and when
# l.i1 and l.i2 have replaced every row once (355 to 375; freed space is reused only after vacuum).
ROW_LOADED_BYTES = 206
ROW_WRITTEN_BYTES = 375
# WAL of one row: 218 in l.i0 without indexes; with full-page images of three indexes' leaves many times that.
ROW_WAL_LOADED_BYTES = 400
ROW_WAL_WRITTEN_BYTES = 4000
ROW_WAL_INDEXED_BYTES = 100  # of each further build
CLUSTER_BYTES = 64 << 20  # a fresh cluster with its first WAL segments, log included
SLACK = 1.15  # the WAL limit is a soft one, and a run that fills the disk at the very end has failed


def expected_seconds(step: InsertStep, clients: int) -> float:
    work = step.rows_indexed * step.builds or step.rows
    rounds = step.rounds if step.kind == "write" else 0
    return max(step.seconds, clients * (work / ROUGH_ROWS_PER_S.get(step.kind, 1e12) + rounds * ROUGH_ROUND_S))


def expected_bytes(steps: Iterable[InsertStep], clients: int, max_wal_bytes: int) -> int:
    """Largest size of a cell's cluster over its steps.

    Rows that a step inserts without deleting stay; with as many deletes, the table grows only by rows not reclaimed
    by vacuum in time. WAL covers the rows, but no more than the server keeps.
    """
    live = replaced = written = 0
    for step in steps:
        rows = step.rows * clients
        live += 0 if step.deletes else rows
        replaced += rows if step.deletes else 0
        written += rows * (ROW_WAL_LOADED_BYTES if step.kind in ("load", "index") else ROW_WAL_WRITTEN_BYTES)
        written += step.rows_indexed * clients * (step.builds - 1) * ROW_WAL_INDEXED_BYTES
    grown = min(live, replaced) * (ROW_WRITTEN_BYTES - ROW_LOADED_BYTES)
    data = live * ROW_LOADED_BYTES + grown
    return int((CLUSTER_BYTES + data + min(written, max_wal_bytes)) * SLACK)
