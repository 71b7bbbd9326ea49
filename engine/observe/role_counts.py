"""What the roles of a server that is only watched have executed between two counts, and the texts of queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from engine.core.text import visible
from engine.postgres.pgstat import MonitorError
from engine.postgres.server_activity import MOST_ROLES, RoleActivity, ServerActivity, role_name
from engine.postgres.statement_counts import By, Counted, StatementCounts


class RoleCounts:
    def __init__(self) -> None:
        self._last: tuple[int, StatementCounts] | None = None
        self._found: dict[str, tuple[Counted, int]] = {}  # by role, with the length of the interval
        self._texts: dict[str, str] = {}  # by query id

    def take(self, t_ns: int, now: StatementCounts) -> tuple[Counted, int] | None:
        """All that was executed since the last counts, and how long ago these were; None if they were reset since."""
        before, self._last = self._last, (t_ns, now)
        if before is None:
            return None
        length_ns = max(1, t_ns - before[0])
        self._found = {role_name(name): (counted, length_ns) for name, counted in now.since(before[1])}
        whole = now.total.since(before[1].total)
        return (whole, length_ns) if whole is not None else None

    def forget(self) -> None:
        """Drop what later counts would be compared with."""
        self._last, self._found = None, {}

    def ordered(self, seen: Iterable[RoleActivity], by: By) -> list[RoleActivity]:
        """The roles that were seen; queries by the time that they took, even if none was in flight just then."""
        roles = list(seen)
        if by != "query":
            return roles
        known = {role.name for role in roles}
        taken_ms = {name: counted.ms for name, (counted, _) in self._found.items()}
        more = sorted((name for name in taken_ms if name not in known), key=lambda name: -taken_ms[name])
        roles += [RoleActivity(name) for name in more[:MOST_ROLES]]
        return sorted(roles, key=lambda role: (-role.active, -taken_ms.get(role.name, 0.0)))[:MOST_ROLES]

    def read_texts(self, activity: ServerActivity, roles: Sequence[RoleActivity]) -> None:
        """Ask for texts of queries that are not known. Raises MonitorError if the connection is lost."""
        ids = [role.name for role in roles if role.name.lstrip("-").isdigit() and role.name not in self._texts]
        if activity.by == "query" and ids and activity.statements is not None and activity.statements.texts_due:
            try:
                found = activity.texts(ids)
            except MonitorError:
                if activity.lost:
                    raise
                return  # only these are slow, and later they are asked for again
            self._texts |= {id: visible(found.get(id, "")) for id in ids}

    def record(self, name: str) -> dict[str, Any]:
        """What is known of a role."""
        text = {"text": self._texts[name]} if self._texts.get(name) else {}
        if name not in self._found:
            return text
        counted, length_ns = self._found[name]
        seconds = length_ns / 1e9
        return {
            "calls_per_s_now": round(counted.calls / seconds, 3),
            "rows_per_s_now": round(counted.rows / seconds, 3),
            "ms_per_call_now": round(counted.ms / counted.calls, 3),
            **text,
        }
