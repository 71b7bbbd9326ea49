"""The record of a slice, as the conductor hands it to the engine."""

from __future__ import annotations

from typing import NamedTuple


class Slice(NamedTuple):
    """One turn of one server. Times are CLOCK_MONOTONIC nanoseconds.

    `ops` and `rows` are statements and rows of the primary metric's roles that ended in the counted part, `counted_ns`
    the mean of those roles' counted parts; `cpu_ns`, `cpu_ops` and `runq_ns` are of the whole slice. `spill_over_ns` is
    CPU time that the server used in others' slices since its last one. `stopped` processes were stopped after the
    slice; `switch_ns` is the time from its end until the next gate could open. In work mode, `imbalance_ns` is how long
    some primary roles had made their rounds and others had not. `early_ns` and `early_ops` are of the beginning of the
    counted part; 0 if statements are slow. For clients without a gate, `ops` and `cpu_ops` come later: the counts at
    the end of `turn`, less those at the end of the turn before (`workloads.client.slice_times`). Slices of whole
    statements have no `ops`: their clients tell the active time of each.
    """

    block: int
    place: int
    side: int
    opened_ns: int
    counted_from_ns: int
    counted_ns: int
    ops: int
    rows: int
    cpu_ns: int
    cpu_ops: int
    runq_ns: int
    spill_over_ns: int
    stopped: int
    switch_ns: int
    imbalance_ns: int
    early_ns: int = 0
    early_ops: int = 0
    turn: int = -1
