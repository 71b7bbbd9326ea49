"""A server that is only watched, at a moment: its connections by role, what it does, and what is not visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.journal.rows import EventRow, StepRow
from engine.view.interleaved_step import Side, incidents_now

Samples = Mapping[str, tuple[int, Mapping[str, Any]]]  # by source: (length in ns, counters)


@dataclass(frozen=True, slots=True)
class ObservedRole:
    """Connections of one application, user or query. Rates are None where the server does not count them by role.

    Of connections `unseen`, the observing role may not know the state. `wait` is the most frequent of the active ones.
    """

    name: str
    text: str  # of a query
    connections: int
    active: int
    waiting: int
    idle_in_transaction: int
    unseen: int
    oldest_s: float
    wait: str
    calls_per_s: float | None
    rows_per_s: float | None
    ms_per_call: float | None

    @property
    def title(self) -> str:
        return self.text or self.name


@dataclass(frozen=True, slots=True)
class ObservedServer:
    """`total` is over all `roles`. Rates are per second of what is named; `hit_share` is that of the buffer cache."""

    by: str
    version: str
    address: str
    notes: tuple[str, ...]
    total: ObservedRole
    roles: tuple[ObservedRole, ...]
    vacuums: tuple[str, ...]
    rates: Mapping[str, float]
    hit_share: float | None


@dataclass(frozen=True, slots=True)
class ObservedPair:
    """Servers that are watched at the same time, and the `chosen` one, whose details are shown."""

    sides: tuple[Side, ...]
    chosen: int
    at_ns: int

    def incidents_now(self) -> list[tuple[Side, tuple[EventRow, ...]]]:
        return incidents_now(self.sides, self.at_ns)


def observed_server(step: StepRow, samples: Samples) -> ObservedServer:
    """The server from its step's plan and the samples of one tick, which may be missing."""
    plan = step.plan
    _, found = samples.get("connections", (0, {}))
    length_ns, counted = samples.get("database", (0, {}))
    wal_ns, wal = samples.get("wal", (0, {}))
    seconds = max(1, length_ns) / 1e9
    rates = {name: counted.get(name, 0) / seconds for name in RATES} if counted else {}
    if wal:
        rates["wal_bytes"] = wal.get("bytes", 0) / (max(1, wal_ns) / 1e9)
    hit, read = (counted.get(name, 0) for name in ("hit", "read"))
    return ObservedServer(
        by=str(plan.get("by", "")),
        version=str(plan.get("version", "")),
        address=str(plan.get("address", "")),
        notes=tuple(map(str, plan.get("notes", ()))),
        total=_role(found),
        roles=tuple(map(_role, found.get("roles", ()))),
        vacuums=tuple(map(_vacuum, found.get("vacuums", ()))),
        rates=rates,
        hit_share=hit / (hit + read) if hit + read else None,
    )


RATES = ("commits", "rollbacks", "inserted", "updated", "deleted")


def _role(data: Mapping[str, Any]) -> ObservedRole:
    def count(name: str) -> int:
        return int(data.get(f"{name}_now", 0))

    def rate(name: str) -> float | None:
        value = data.get(f"{name}_now")
        return None if value is None else float(value)

    return ObservedRole(
        name=str(data.get("name", "")),
        text=str(data.get("text", "")),
        connections=count("connections"),
        active=count("active"),
        waiting=count("waiting"),
        idle_in_transaction=count("idle_in_transaction"),
        unseen=count("unseen"),
        oldest_s=rate("oldest_s") or 0.0,
        wait=str(data.get("wait", "")),
        calls_per_s=rate("calls_per_s"),
        rows_per_s=rate("rows_per_s"),
        ms_per_call=rate("ms_per_call"),
    )


def _vacuum(data: Mapping[str, Any]) -> str:
    done = f" {float(data.get('done', 0)):.0%}" if data.get("phase") == "scanning heap" else ""
    return " ".join(filter(None, (str(data.get("relation", "")), str(data.get("phase") or "")))) + done


def record(server: ObservedServer) -> dict[str, Any]:
    """As JSON: see `bench top --json`."""
    return {
        "by": server.by,
        "version": server.version,
        "not_visible": list(server.notes),
        "connections": server.total.connections,
        "active": server.total.active,
        "waiting": server.total.waiting,
        "idle_in_transaction": server.total.idle_in_transaction,
        "oldest_s": server.total.oldest_s,
        "roles": [_record(role) for role in server.roles],
        "vacuums": list(server.vacuums),
        "rates_per_s": dict(server.rates),
        "hit_share": server.hit_share,
    }


def _record(role: ObservedRole) -> dict[str, Any]:
    return {name: getattr(role, name) for name in role.__slots__}


def connection_words(total: ObservedRole) -> Sequence[str]:
    """`37 connections`, `5 active`, `2 waiting`, `1 idle in transaction`; what is 0 is left out."""
    parts = [(total.active, "active"), (total.waiting, "waiting"), (total.idle_in_transaction, "idle in transaction")]
    found = [f"{count} {word}" for count, word in parts if count]
    unseen = [f"{total.unseen} not visible"] if total.unseen else []
    return (f"{total.connections} connection{'s' if total.connections != 1 else ''}", *found, *unseen)
