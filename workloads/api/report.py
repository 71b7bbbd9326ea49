"""The report of a step's clients: a JSON object that their launcher prints at its end, kept with the step's totals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workloads.api.plan_tree import StatementPlan, StatementResult


@dataclass(frozen=True, slots=True)
class StatementTime:
    """A statement of a script (counted from 1), and its mean time as reported by the client.

    The mean may be too long by `stop_ms`, because the client was stopped for a while. If interleaved, stops are so
    frequent that they are subtracted; then `error_ms` is the standard error of the mean.
    """

    script: int
    statement: str
    mean_ms: float
    stop_ms: float = 0.0
    error_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class ScriptTimes:
    """One of several scripts: its transactions whose times are known, and quantiles of their response times.

    A response time is counted from when a transaction was due, if they begin at a rate.
    """

    name: str
    transactions: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Resources of timed programs, as means over several runs except for peak memory. None if unknown.

    `floor_s` is the time to do nothing, which is subtracted where the program only asks for a statement,
    `server_cpu_s` of servers other than the cell's. `times_s` are the times of each run, without pauses, or of each
    repetition of a statement: its rate is over them.
    """

    user_s: float | None = None
    system_s: float | None = None
    memory_bytes: float | None = None
    floor_s: float | None = None
    server_cpu_s: float | None = None
    times_s: tuple[float, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All entries are optional; a launcher may print others, which only it knows.

    `found` is passed to later launches of the run: `Place.found`. `times_ms` has the time of each transaction. `work`
    are amounts by name, which must be equal in compared cells. `planning` are statements' planning times in ms,
    `planner` the settings and statistics targets that decide plans: see `workloads.own.execution`.
    """

    statements: tuple[StatementTime, ...] = ()
    scripts: tuple[ScriptTimes, ...] = ()
    found: dict[str, Any] = {}
    times_ms: tuple[Annotated[float, Meta(ge=0, le=1e12)], ...] = ()
    timing: Timing = Timing()
    work: dict[str, float] = {}
    plans: tuple[StatementPlan, ...] = ()
    results: tuple[StatementResult, ...] = ()
    planning: dict[str, float] = {}
    planner: dict[str, str] = {}
