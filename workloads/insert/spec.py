"""What the engine hands to the launcher: one step of one cell, as JSON; and which roles it will get for it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.insert.knobs import Knobs
from workloads.insert.steps import Generation, Step


class Role(NamedTuple):
    """One process with one connection: client 1, 2, ... and what it does there."""

    client: int
    name: str  # insert, delete, query, query2 ..., index, transaction


def role_kind(name: str) -> str:
    """What a role does: its name without the number of a further worker, `query` for `query2`."""
    return name.rstrip("0123456789")


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One step to run. `page_fd` is the inherited descriptor of the counters page, which has a slot for each role
    of `role_list`, in that order. `seed` is the plan's."""

    page_fd: int
    dsn: str
    step: Step
    generation: str
    clients: int
    seed: int
    repeat: int
    knobs: Knobs = field(default_factory=Knobs)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of(cls, text: str) -> StepSpec:
        """From `to_json`."""
        record = json.loads(text)
        return cls(**{**record, "step": Step.of(record["step"]), "knobs": Knobs.of(record["knobs"])})


# The busiest roles first, so that those of different clients get CPUs of their own.
PLACE_ORDER = ("query", "delete", "insert", "transaction", "index")


def place_of(role: Role, roles: tuple[Role, ...]) -> int:
    """A role's place when roles are dealt out over the CPUs."""

    def rank(other: Role) -> tuple[int, str, int]:
        return PLACE_ORDER.index(role_kind(other.name)), other.name, other.client

    return sorted(roles, key=rank).index(role)


def role_list(step: Step, generation: Generation, clients: int, knobs: Knobs | None = None) -> tuple[Role, ...]:
    """The roles of a step in the order of their slots. A pause has none."""
    knobs = knobs or Knobs()
    names: list[str] = []
    if step.kind != "pause":
        names.append("insert")
    if step.kind == "index":
        names.append("index")
    if step.deletes:
        names.append("delete")
    if step.query:
        names += ["query"] + [f"query{worker}" for worker in range(2, knobs.query_workers + 1)]
    if knobs.open_transaction_s and step.kind in ("write", "query"):
        names.append("transaction")
    return tuple(Role(client, name) for client in range(1, clients + 1) for name in names)
