"""JSON input of the launcher: one step of one cell; and the roles of a step."""

from __future__ import annotations

import msgspec

from workloads.api.base import Role
from workloads.insert.options import Options
from workloads.insert.steps import InsertStep


class InsertSpec(msgspec.Struct, frozen=True):
    """One step to run. `page_fd` is the inherited descriptor of the counters page, with a slot for each role of
    `role_list`, in that order. `seed` is the plan's. `checkpoint`: the role may do one.
    """

    page_fd: int
    dsn: str
    step: InsertStep
    options: Options
    seed: int
    repeat: int
    checkpoint: bool = True


# The busiest roles first, so that roles of different clients get CPUs of their own.
PLACE_ORDER = ("query", "delete", "index", "insert")


def places(roles: tuple[Role, ...]) -> dict[Role, int]:
    ranked = sorted(roles, key=lambda role: (PLACE_ORDER.index(role.name), role.client))
    return {role: place for place, role in enumerate(ranked)}


def role_list(step: InsertStep, options: Options) -> tuple[Role, ...]:
    """The roles of a step in the order of their slots; none for a pause."""
    names: list[str] = []
    if step.kind != "pause":
        names.append("insert")
    if step.kind == "index":
        names.append("index")
    if step.deletes:
        names.append("delete")
    if step.query:
        names.append("query")
    return tuple(Role(client, name) for client in range(1, options.clients + 1) for name in names)
