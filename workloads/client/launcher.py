"""Client processes of a step: one is forked for each role, watched, stopped when one dies, and waited for.

The launcher imports everything before it forks. It prints nothing during a step; all information is in the counters
page. Its exit code: 0 all roles did their work, 1 a role failed or died, 2 the step was stopped. SIGTERM and SIGINT set
STOP.
"""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from psycopg.pq import abc

from workloads.api.base import Role
from workloads.client import client_gate
from workloads.client.connection import SqlError, execute, open_connection
from workloads.client.counter_page import Control, Page, State, Word
from workloads.client.process import Gates, Stopped, clock, die_with_parent, name_process, stop_on_signals

START_MS = 2  # between two checks whether the step has begun
WATCH_MS = 100  # between two checks for STOP while roles work
RELEASE_MS = 5  # between two checks for RELEASE once all roles are done
CANCEL_AFTER_S = 1.0  # after STOP, a statement still in flight is cancelled
KILL_AFTER_S = 2.5  # after STOP, a role still running is killed

# A role's work on its open connection: slot, role, connection, gates; and its duty to others at its end.
Work = Callable[[int, Role, abc.PGconn, Gates], None]
Ended = Callable[[Role], None]


@dataclass(frozen=True, slots=True)
class Team:
    name: str  # prefix of process names, before role and client
    roles: Sequence[Role]
    page: Page
    dsn: str
    work: Work
    ended: Ended = lambda _: None


def report_file() -> int:
    """A descriptor of a file in memory to which each role may write a line.

    They append: with a place that forked processes share, lines that are written at the same time overwrite each other.
    """
    fd = os.memfd_create("report")
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    return fd


def reported(fd: int) -> bytes:
    """The lines that roles have written to a report file."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


def run(team: Team, parent_pid: int) -> int:
    """Fork the roles and wait for them; return the exit code. Dies with the parent process."""
    die_with_parent(parent_pid)
    name_process(f"{team.name} launcher")
    stop_on_signals(team.page)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # hundreds of roles: a descriptor for each, and its wakers
    gates, openers = Gates.create()
    gc.collect()
    gc.freeze()  # present objects stay: the roles share their pages and never traverse them
    launcher_pid = os.getpid()
    children: dict[int, int] = {}
    for slot, role in enumerate(team.roles):
        try:
            pid = os.fork()
        except OSError as error:
            state = _fail(team, slot, f"client process cannot be started: {error.strerror}")
            team.page.set_word(slot, Word.STATE, state)
            break
        if pid == 0:
            code = 1
            try:
                die_with_parent(launcher_pid)
                for opener in openers:
                    os.close(opener)  # or the gate would stay shut when the launcher opens it
                code = _run_role(team, slot, role, gates)
            finally:
                os._exit(code)
        children[pid] = slot
    return _watch(team, children, list(openers))


def _run_role(team: Team, slot: int, role: Role, gates: Gates) -> int:
    page = team.page
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher passes Ctrl-C on as STOP
    name_process(f"{team.name} {role.name} {role.client}")
    gc.disable()
    page.set_word(slot, Word.CLIENT_PID, os.getpid())
    began_ns = clock()
    state, connection = State.DONE, None
    try:
        connection = open_connection(team.dsn)
        page.set_word(slot, Word.BACKEND_PID, connection.backend_pid)
        page.set_word(slot, Word.CONNECT_NS, clock() - began_ns)
        team.work(slot, role, connection, gates)
    except Stopped:
        state = State.STOPPED
    except Exception as error:
        # Errors after STOP come from a cancelled statement, or from a partner's end.
        state = _fail(team, slot, str(error) if isinstance(error, SqlError) else f"{type(error).__name__}: {error}")
    page.set_word(slot, Word.IN_FLIGHT_NS, 0)
    if not page.word(slot, Word.ENDED_NS):
        page.set_word(slot, Word.ENDED_NS, clock())
    page.set_word(slot, Word.STATE, state)
    client_gate.tell_change(page)
    team.ended(role)
    if state == State.DONE:
        gates.await_release()
    if connection is not None:
        connection.finish()
    return 1 if state == State.FAILED else 0


def _fail(team: Team, slot: int, text: str) -> State:
    """Record a role's failure and stop all others; a failure caused by STOP does not count."""
    page, role = team.page, team.roles[slot]
    if page.words[Control.STOP]:
        return State.STOPPED
    page.set_error(slot, " ".join(f"{text} (client {role.client} {role.name})".split()))
    page.words[Control.STOP] = 1  # first, so that no partner takes the end of this role for a success
    page.set_word(slot, Word.STATE, State.FAILED)
    return State.FAILED


def _watch(team: Team, children: dict[int, int], openers: list[int]) -> int:
    """Wait for all roles; open the gates, stop the others if one dies, and enforce STOP.

    `openers` are the writing ends of the gates, in the order in which they open: closing one wakes all waiting roles.
    """
    page, control = team.page, (Control.START_NS, Control.RELEASE)
    poller = select.poll()
    pids: dict[int, int] = {}
    for pid, slot in children.items():
        try:
            fd = os.pidfd_open(pid)
        except OSError as error:
            os.kill(pid, signal.SIGKILL)  # no other process would notice its end
            os.waitpid(pid, 0)
            page.set_word(slot, Word.STATE, _fail(team, slot, f"client process cannot be watched: {error.strerror}"))
            continue
        pids[fd] = pid
        poller.register(fd, select.POLLIN)
    stopped_s: float | None = None
    cancelled = False
    while pids:
        for fd, _ in poller.poll(_patience_ms(page, len(openers))):
            poller.unregister(fd)
            os.close(fd)
            pid = pids.pop(fd)
            _end_of(team, children[pid], os.waitpid(pid, 0)[1])
        while openers and (page.words[control[-len(openers)]] or page.words[Control.STOP]):
            os.close(openers.pop(0))
        if not page.words[Control.STOP]:
            continue
        stopped_s = stopped_s or time.monotonic()
        waited_s = time.monotonic() - stopped_s
        if waited_s > CANCEL_AFTER_S and not cancelled:
            cancelled = True
            slots = [children[pid] for pid in pids.values()]
            # In a thread: a server that hangs must not keep the launcher from killing the roles.
            threading.Thread(target=cancel, args=(team.dsn, page, slots), daemon=True).start()
        if waited_s > KILL_AFTER_S:
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
    states = {State(page.word(slot, Word.STATE)) for slot in range(len(team.roles))}
    if State.FAILED in states:
        return 1
    return 2 if State.STOPPED in states else 0


def _patience_ms(page: Page, shut: int) -> int:
    """The time to sleep: short while many wait for a gate (`shut` are those that have not opened)."""
    if shut == 2:
        return START_MS
    at_work = any(page.word(slot, Word.STATE) < State.DONE for slot in range(page.roles))
    return RELEASE_MS if shut and not at_work else WATCH_MS


def _end_of(team: Team, slot: int, status: int) -> None:
    """Examine how a role's process ended; record a failure for one that could not do so itself."""
    page = team.page
    if page.word(slot, Word.STATE) in (State.DONE, State.FAILED, State.STOPPED):
        return
    page.set_word(slot, Word.ENDED_NS, clock())
    page.set_word(slot, Word.IN_FLIGHT_NS, 0)
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
    page.set_word(slot, Word.STATE, _fail(team, slot, f"client process ended: {how}"))


def cancel(dsn: str, page: Page, slots: Iterable[int]) -> None:
    """Cancel the statements of roles that cannot see STOP because they wait for the server."""
    backends = [page.word(slot, Word.BACKEND_PID) for slot in slots]
    wanted = ",".join(str(pid) for pid in backends if pid)
    if not wanted:
        return
    try:
        connection = open_connection(dsn)
        # With schemas: a database may have a search path of its owner's.
        call = f"SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.unnest(ARRAY[{wanted}]) AS pid"
        execute(connection, call.encode())
        connection.finish()
    except SqlError:
        pass  # the server is gone, which the roles will notice; otherwise they are killed
