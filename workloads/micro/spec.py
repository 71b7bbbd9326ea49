"""JSON input of the launcher of a step."""

from __future__ import annotations

import msgspec

from workloads.api.base import Kit
from workloads.micro.options import Options


class MicroSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One step. `programs` are paths by name; `kit` is set for a task that makes clusters of its own."""

    page_fd: int
    dsn: str
    folder: str
    step: str
    options: Options
    programs: dict[str, str]
    kit: Kit | None = None
