"""A snapshot of the start of a stall: where the stalled backend and its client hung, and behind whom.

`probes.snapshot` takes it. A user stack arrives some milliseconds later, without waiting for it, and is in the record
from the stall's next second on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.postgres.activity import Activity, Doing, Wait
from engine.postgres.pgstat import MonitorError
from probes import snapshot
from probes.snapshot import ProcessSnapshot, UserStack

MOST_USER_STACKS = 20  # per step: each stops a backend for some milliseconds
MOST_HOLDERS = 8
ELSEWHERE = ProcessSnapshot(0, "", "", "", (), ("it runs on another host",))


@dataclass(frozen=True, slots=True)
class StallSnapshot:
    taken_ns: int
    backend: ProcessSnapshot
    client: ProcessSnapshot
    wait: str
    blocked_by: tuple[tuple[int, Doing], ...]
    notes: tuple[str, ...] = ()
    stack: UserStack | None = None

    def record(self) -> dict[str, Any]:
        """Stacks are innermost first; `blocked_by` are the holders of the lock and their activity."""
        notes = [*self.notes, *self.backend.notes, *(f"client: {note}" for note in self.client.notes)]
        if self.stack is not None and self.stack.note:
            notes.append(self.stack.note)
        return {
            "taken_ns": self.taken_ns,
            **self.backend.record(),
            "user": list(self.stack.frames) if self.stack is not None else [],
            "wait": self.wait,
            "blocked_by": [{"pid": pid, "what": doing.what} for pid, doing in self.blocked_by],
            "client": self.client.record(),
            "notes": notes,
        }


@dataclass(slots=True)
class Snapshots:
    """Takes the snapshots of one step. Waits for nothing but the monitor's query, and raises nothing."""

    activity: Activity
    seen: bool = True  # whether the server's processes can be seen
    _tool: str | None = field(default_factory=snapshot.find_stack_tool)
    _left: int = MOST_USER_STACKS
    _pending: list[UserStack] = field(default_factory=list)

    def take(self, backend_pid: int, client_pid: int, wait: Wait | None, names: Mapping[int, str]) -> StallSnapshot:
        """Take a snapshot; `names` labels pids. `client_pid` is 0 for a client on another machine."""
        taken_ns = time.monotonic_ns()
        try:
            # The backend first: its state is the most short-lived.
            backend = snapshot.take(backend_pid) if self.seen else _unseen(backend_pid)
            client = snapshot.take(client_pid) if client_pid else ELSEWHERE
            stack, note = self._user_stack(backend) if self.seen else (None, "")
            return StallSnapshot(
                taken_ns=taken_ns,
                backend=backend,
                client=client,
                wait=wait.event if wait else "",
                blocked_by=self._doing(wait.blocked_by[:MOST_HOLDERS] if wait else (), names),
                notes=tuple(text for text in (note, "" if wait else "the server did not report a wait event") if text),
                stack=stack,
            )
        except Exception as error:  # any: the run is worth more than a snapshot
            backend, client = (ProcessSnapshot(pid, "", "", "", (), ()) for pid in (backend_pid, client_pid))
            return StallSnapshot(taken_ns, backend, client, "", (), (f"no snapshot: {error!r}",))

    def poll(self) -> None:
        """Collect user stacks that have arrived. Called often; free while none is pending."""
        if self._pending:
            self._pending = [stack for stack in self._pending if not stack.poll()]

    def close(self) -> None:
        for stack in self._pending:
            stack.cancel()
        self._pending.clear()

    def _user_stack(self, backend: ProcessSnapshot) -> tuple[UserStack | None, str]:
        reason = snapshot.reason_not_to_attach(backend)
        if not reason and self._tool is None:
            reason = f"{snapshot.STACK_TOOL} not found: install elfutils"
        if not reason and self._left <= 0:
            reason = f"the limit of {MOST_USER_STACKS} per step is reached"
        if reason or self._tool is None:
            return None, f"no user stack: {reason}"
        self._left -= 1
        stack = UserStack(backend.pid, self._tool)
        self._pending.append(stack)
        return stack, ""

    def _doing(self, pids: tuple[int, ...], names: Mapping[int, str]) -> tuple[tuple[int, Doing], ...]:
        try:
            known = self.activity.doing(pids) if pids else {}
        except MonitorError:
            known = {}
        activities = []
        for pid in pids:
            name, (who, what) = names.get(pid, ""), known.get(pid, Doing("", ""))
            activities.append((pid, Doing(name or who, ": ".join(part for part in (name, what) if part))))
        return tuple(activities)


def _unseen(pid: int) -> ProcessSnapshot:
    """A backend of an external server: a local process with its pid would be another."""
    return ProcessSnapshot(pid, "?", "", "", (), ("the server's processes are not visible from outside",))
