"""JSON input of the launcher of a step."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from workloads.pgbench.options import Options
from workloads.pgbench.scripts import Script

MOST_LINES_PER_S, MOST_EVERY = 500.0, 1024


class WarmUp(msgspec.Struct, frozen=True, kw_only=True):
    """A warm-up of the first cell: transactions per line of the log, and such lines per second and thread, or
    None without a warm-up.

    A line costs pgbench more than half a transaction, and its reader about as much.
    """

    log_every: Annotated[int, Meta(ge=1, le=MOST_EVERY)] = 1
    lines_per_s: Annotated[float, Meta(ge=0)] | None = None

    @classmethod
    def of(cls, tps: float, threads: int) -> WarmUp:
        """The fullest log that is cheap at the transactions per second of all threads."""
        every = 1
        while tps / every > MOST_LINES_PER_S and every < MOST_EVERY:
            every *= 2
        return cls(log_every=every, lines_per_s=tps / threads / every)


class PgbenchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One step. `version` is the major version of the pgbench at `program`; a warm-up has `warm_clients`. If the log
    may be `log_thinned`, lines beyond MOST_LINES_PER_S are left out of it. `setup` is run once in the first step.

    `folder` is for files, `data_folder` for the server's files.
    """

    page_fd: int
    folder: str
    data_folder: str
    dsn: str
    program: str
    version: int
    options: Options
    scripts: tuple[Script, ...]
    step: dict[str, Any]
    warm_clients: int
    log_every: int
    log_by_line: bool
    log_thinned: bool = False
    seed: int
    checkpoint: bool = True
    setup: Script | None = None
