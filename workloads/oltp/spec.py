"""JSON input of the launcher: one step of one cell."""

from __future__ import annotations

from typing import Any

import msgspec

from workloads.api.base import Role
from workloads.oltp.options import Options

LOAD = "load"
QUERY = "query"


class OltpSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One step to run. `page_fd` is the inherited descriptor of the counters page, with a slot for each role of
    `role_list`, in that order. `seed` is the plan's.
    """

    page_fd: int
    dsn: str
    step: dict[str, Any]
    options: Options
    seed: int
    repeat: int


def role_list(kind: str, options: Options) -> tuple[Role, ...]:
    """The roles of a step: clients that share the tables to load, or one for each client."""
    loads = kind == LOAD
    count = min(options.clients, options.tables) if loads else options.clients
    return tuple(Role(client, "insert" if loads else QUERY) for client in range(1, count + 1))
