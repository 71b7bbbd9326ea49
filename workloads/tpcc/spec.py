"""JSON input of the launcher: one step of one cell."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from workloads.pgbench.spec import PgbenchSpec

INIT, CAPACITY, LOAD, CHECK = "init", "capacity", "load", "check"


class CapacityReport(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity that the run's first step of it reached: transactions per second of its server's time."""

    capacity_per_s: Annotated[float, Meta(gt=0)] | None = None


class TpccSpec(PgbenchSpec, frozen=True, kw_only=True):
    """One step, as pgbench's. The tables' rows follow from `rows_seed`."""

    rows_seed: int
