"""The launcher of client processes: `python -m workloads.launch`, one step's spec as JSON on stdin.

It imports everything once, then forks one process per role. It prints nothing in the course of a step; what there
is to know is in the counters page. Its own exit code: 0 all roles did their work, 1 a role failed or died, 2 the
step was stopped. SIGTERM and SIGINT set STOP.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start a thread per core that nobody uses

import gc
import re
import select
import signal
import sys
import threading
import time

from workloads import seeds
from workloads.connection import SqlError, execute, open_connection
from workloads.insert import rows
from workloads.insert.coupling import Partners
from workloads.insert.roles import ROLES, Seat
from workloads.insert.spec import Role, StepSpec, place_of, role_list
from workloads.insert.steps import generation
from workloads.page import Control, Page, State, Word
from workloads.process import Stopped, clock, die_with_parent, name_process, wait_for_release

WATCH_MS = 100
CANCEL_AFTER_S = 1.0  # a statement still in flight so long after STOP is cancelled
KILL_AFTER_S = 5.0  # a role still there so long after STOP is killed


def main() -> int:
    """Runs one step; returns the exit code."""
    parent_pid = os.getppid()
    die_with_parent(parent_pid)
    name_process("ib launcher")
    spec = StepSpec.of(sys.stdin.read())
    form = generation(spec.generation)
    roles = role_list(spec.step, form, spec.clients, spec.knobs)
    page = Page(spec.page_fd, len(roles))

    def stop(_signal: int, _frame: object) -> None:
        page.words[Control.STOP] = 1

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    text = rows.text_buffer(seeds.stream(spec.seed, spec.repeat, "text"))
    rows.tables(form.price_type)
    partners = partners_of(roles, form.drains)
    gc.freeze()  # what is there now stays: the roles share its pages and never walk through it
    launcher_pid = os.getpid()
    children: dict[int, int] = {}
    for slot, role in enumerate(roles):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                die_with_parent(launcher_pid)
                code = run_role(spec, role, page, slot, place_of(role, roles), partners[role.client], text)
            finally:
                os._exit(code)
        children[pid] = slot
    return watch(spec, roles, page, children)


def partners_of(roles: tuple[Role, ...], drains: bool) -> dict[int, Partners]:
    """For each client its streams' slots, and two eventfds that its roles inherit."""
    slots = {role: slot for slot, role in enumerate(roles)}
    flags = os.EFD_NONBLOCK | os.EFD_CLOEXEC
    return {
        client: Partners(
            insert_slot=slots[Role(client, "insert")],
            delete_slot=slots.get(Role(client, "delete")),
            wake_insert=os.eventfd(0, flags),
            wake_delete=os.eventfd(0, flags),
            drains=drains,
        )
        for client in {role.client for role in roles}
    }


def run_role(spec: StepSpec, role: Role, page: Page, slot: int, place: int, partners: Partners, text: bytes) -> int:
    """One role's life in its own process; returns its exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the launcher's to pass on, as STOP
    name_process(f"ib {role.name} {role.client}")
    gc.disable()
    page.set_word(slot, Word.CLIENT_PID, os.getpid())
    began_ns = clock()
    state, code = State.DONE, 0
    connection = None
    try:
        connection = open_connection(spec.dsn)
        page.set_word(slot, Word.BACKEND_PID, connection.backend_pid)
        seat = Seat(spec, role, page, slot, connection, place, partners, text)
        page.set_word(slot, Word.CONNECT_NS, clock() - began_ns)
        ROLES[re.sub(r"\d+$", "", role.name)](seat)
    except Stopped:
        state = State.STOPPED
    except SqlError as error:
        # Words of an error after STOP are those of a statement that was cancelled, or of a partner's end.
        state, code = fail(page, slot, f"{error} (client {role.client} {role.name})")
    except Exception as error:
        state, code = fail(page, slot, f"{type(error).__name__}: {error} (client {role.client} {role.name})")
    page.set_word(slot, Word.IN_FLIGHT_NS, 0)
    if not page.word(slot, Word.ENDED_NS):
        page.set_word(slot, Word.ENDED_NS, clock())
    page.set_word(slot, Word.STATE, state)
    for wake_fd in (partners.wake_insert, partners.wake_delete):
        os.eventfd_write(wake_fd, 1)
    if state == State.DONE:
        wait_for_release(page)
    if connection is not None:
        connection.finish()
    return code


def fail(page: Page, slot: int, text: str) -> tuple[State, int]:
    """Records a role's failure and stops all others; a failure that STOP brought about is none."""
    if page.words[Control.STOP]:
        return State.STOPPED, 0
    page.set_error(slot, " ".join(text.split()))
    page.words[Control.STOP] = 1  # first, so that no partner takes the end of this role for a good one
    page.set_word(slot, Word.STATE, State.FAILED)
    return State.FAILED, 1


def watch(spec: StepSpec, roles: tuple[Role, ...], page: Page, children: dict[int, int]) -> int:
    """Waits for all roles; sees to it that the others stop when one dies, and that STOP is obeyed."""
    poller = select.poll()
    pids: dict[int, int] = {}
    for pid in children:
        pids[fd := os.pidfd_open(pid)] = pid
        poller.register(fd, select.POLLIN)
    stopped_s: float | None = None
    cancelled = False
    while pids:
        for fd, _ in poller.poll(WATCH_MS):
            poller.unregister(fd)
            os.close(fd)
            pid = pids.pop(fd)
            end_of(page, roles, children[pid], os.waitpid(pid, 0)[1])
        if not page.words[Control.STOP]:
            continue
        stopped_s = stopped_s or time.monotonic()
        waited_s = time.monotonic() - stopped_s
        if waited_s > CANCEL_AFTER_S and not cancelled:
            cancelled = True
            slots = [children[pid] for pid in pids.values()]
            # In a thread: a server that hangs must not keep the launcher from killing the roles.
            threading.Thread(target=cancel, args=(spec.dsn, page, slots), daemon=True).start()
        if waited_s > KILL_AFTER_S:
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
    states = {State(page.word(slot, Word.STATE)) for slot in range(len(roles))}
    if State.FAILED in states:
        return 1
    return 2 if State.STOPPED in states else 0


def end_of(page: Page, roles: tuple[Role, ...], slot: int, status: int) -> None:
    """Looks at how a role's process ended; one that had no time to say so itself is recorded as failed."""
    if page.word(slot, Word.STATE) in (State.DONE, State.FAILED, State.STOPPED):
        return
    role = roles[slot]
    page.set_word(slot, Word.ENDED_NS, clock())
    page.set_word(slot, Word.IN_FLIGHT_NS, 0)
    if page.words[Control.STOP]:
        page.set_word(slot, Word.STATE, State.STOPPED)
        return
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {os.WEXITSTATUS(status)}"
    fail(page, slot, f"client process ended: {how} (client {role.client} {role.name})")


def cancel(dsn: str, page: Page, slots: list[int]) -> None:
    """Cancels the statements of roles that cannot see STOP, as they wait for the server."""
    backends = [page.word(slot, Word.BACKEND_PID) for slot in slots]
    wanted = ",".join(str(pid) for pid in backends if pid)
    if not wanted:
        return
    try:
        connection = open_connection(dsn)
        execute(connection, f"SELECT pg_cancel_backend(pid) FROM unnest(ARRAY[{wanted}]) AS pid".encode())
        connection.finish()
    except SqlError:
        pass  # the server is gone, and the roles will notice; else they are killed


if __name__ == "__main__":
    sys.exit(main())
