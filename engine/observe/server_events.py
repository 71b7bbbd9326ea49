"""Checkpoints and vacuums of a server whose log is not read, from its counters and its progress views.

Pure: each takes one reading after another, and returns what has begun or ended. An event that ends has the `started_ns`
with which it began; one that is not over when the observation ends is `unfinished`.
"""

from __future__ import annotations

from dataclasses import replace

from engine.postgres.server_activity import Seen, Totals
from engine.postgres.serverlog import LogEvent

QUIET_NS = 30_000_000_000  # after which a checkpoint that writes nothing more is over, whatever its counters say


class Checkpoints:
    """A checkpoint is counted as it begins, writes for minutes, and counts its times as it ends.

    One that is counted and writes nothing was skipped, as nothing had changed since the one before.
    """

    def __init__(self) -> None:
        self._before: tuple[int, Totals] | None = None
        self._asked: tuple[int, str, Totals] | None = None  # when and why it began, and the counters before
        self._running = False
        self._wrote_ns = 0

    def take(self, t_ns: int, now: Totals) -> list[LogEvent]:
        before, self._before = self._before, (t_ns, now)
        if before is None or now.timed < before[1].timed or now.buffers < before[1].buffers:
            found = self._end(t_ns, None)  # the counters were reset: a restart ends a checkpoint
            self._asked = None
            return found
        began_ns, last = before
        found = []
        if now.timed > last.timed or now.requested > last.requested:
            found += self._end(began_ns, last)
            self._asked = (began_ns, "time" if now.timed > last.timed else "requested", last)
        if self._asked is None:
            return found
        since_ns, cause, _ = self._asked
        if now.buffers > last.buffers:
            self._wrote_ns = t_ns
        ended = now.done > last.done or now.write_ms > last.write_ms or now.sync_ms > last.sync_ms
        if not self._running and (now.buffers > last.buffers or ended):
            self._running, self._wrote_ns = True, t_ns
            found.append(LogEvent("checkpoint", since_ns, None, {"cause": cause}))
        if ended or (self._running and t_ns - self._wrote_ns > QUIET_NS):
            found += self._end(t_ns if ended else self._wrote_ns, now)
        return found

    def finish(self, t_ns: int) -> list[LogEvent]:
        if not self._running or self._asked is None:
            return []
        since_ns, cause, _ = self._asked
        return [LogEvent("checkpoint", since_ns, t_ns, {"cause": cause, "unfinished": True})]

    def _end(self, t_ns: int, now: Totals | None) -> list[LogEvent]:
        if not self._running or self._asked is None:
            return []
        (since_ns, cause, first), self._asked, self._running = self._asked, None, False
        data: dict[str, object] = {"cause": cause, "total_s": round((t_ns - since_ns) / 1e9, 1)}
        if now is not None:
            data |= {
                "buffers": now.buffers - first.buffers,
                "write_s": (now.write_ms - first.write_ms) / 1000,
                "sync_s": (now.sync_ms - first.sync_ms) / 1000,
            }
        return [LogEvent("checkpoint", since_ns, t_ns, data)]


class Vacuums:
    """A vacuum lasts from the look that first shows it to the last."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], LogEvent] = {}  # by pid and relation

    def take(self, t_ns: int, seen: Seen) -> list[LogEvent]:
        now = {(vacuum.pid, vacuum.relation): vacuum.pid in seen.automatic for vacuum in seen.vacuums}
        found = []
        for key in self._known.keys() - now.keys():
            event = self._known.pop(key)
            elapsed = {"elapsed_s": round((t_ns - event.started_ns) / 1e9, 1)}
            found.append(LogEvent(event.kind, event.started_ns, t_ns, event.data | elapsed))
        for key in now.keys() - self._known.keys():
            pid, relation = key
            data = {"pid": pid, "relation": relation}
            words = {"operation": "vacuum"} if now[key] else {"text": f"vacuum of {relation}"}
            event = LogEvent("autovacuum" if now[key] else "vacuum", t_ns, None, data | words)
            found.append(event)
            self._known[key] = event
        return found

    def finish(self, t_ns: int, seen: Seen) -> list[LogEvent]:
        """With those that only the last look has shown."""
        found = self.take(t_ns, seen)
        lasting = [replace(each, ended_ns=t_ns, data=each.data | {"unfinished": True}) for each in self._known.values()]
        return found + lasting
