"""JSON input of the launcher of a step, and the names that its parts share."""

from __future__ import annotations

from typing import Any

import msgspec

from workloads.own.data import Data
from workloads.own.options import Options
from workloads.own.statements import Statement

APP = "pgbed_app"  # the role that owns the data and runs the statements: no superuser
PRISTINE = "pgbed_pristine"  # the database that is cloned for statements that write
CLONE = "pgbed_clone"  # of a step
ROLE = "statement"
DATA, MIX, PLANS = "data", "mix", "plans"  # steps


class OwnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One step: `statements` are those that it runs; `cloned` asks the data step for a database to clone."""

    page_fd: int
    dsn: str
    folder: str
    step: dict[str, Any]
    options: Options
    data: Data
    statements: tuple[Statement, ...] = ()
    cloned: bool = False
    pg_restore: str = ""
    psql: str = ""
    seed: int
    repeat: int
