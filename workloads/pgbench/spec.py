"""What the launcher of a step is given on its standard input, as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from workloads.pgbench.options import Options
from workloads.pgbench.scripts import Script


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One step. `version` is the major version of the pgbench at `program`; a warm-up has `warm_clients`.

    `folder` is there for files.
    """

    page_fd: int
    folder: str
    dsn: str
    program: str
    version: int
    options: Options
    scripts: tuple[Script, ...]
    step: dict[str, Any]
    warm_clients: int
    log_every: int
    log_by_line: bool
    seed: int
