"""A step that consists of clients: how they are launched, when they are ready or done, and how they fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from engine.core.clock import patient
from engine.core.model import Subject
from engine.postgres.cellserver import CellServer
from engine.postgres.waiting import POLL_S, LimitedWait, Waiting
from engine.remote.client_host import ClientHost
from engine.run.clients import Launcher
from engine.run.stop import StepFailed
from engine.slices.sliced_server import Side
from workloads import workload
from workloads.api.base import Launch, Place, Record, Step, role_kind
from workloads.client.counter_page import Control, Page, State, Word

READY_TIMEOUT_S = patient(60.0)  # plus, per role:
READY_TIMEOUT_PER_ROLE_S = patient(0.5)
PREPARATION_PATIENCE = 20.0  # as a multiple of a step's expected preparation time


def launch_of(
    step: Step,
    planned: Record,
    server: CellServer,
    host: ClientHost | None,
    seed: tuple[int, int],
    findings: Mapping[str, Any],
) -> Callable[[int], Launch]:
    """The function that launches a step's clients on the page of a descriptor; `seed`: the plan's and the repeat."""

    def launch(page_fd: int) -> Launch:
        place = Place(
            server.client_dsn(host.passfile if host else ""),
            page_fd,
            *seed,
            host.folder if host else str(server.folder),
            str(server.data_folder or ""),
            findings,
            checkpoint=server.may_checkpoint,
            kit=server.kit() if step.apart else None,
        )
        return workload(planned["name"]).launch(host.workload(planned) if host else planned, step, place)

    return launch


def side_of(step: Step, page: Page, subject: Subject, postmaster: int, monitor_pid: int) -> Side:
    backends = tuple(page.word(slot, Word.BACKEND_PID) for slot in range(page.roles))
    kind = step.primary_metric.role if step.primary_metric else ""
    primary = tuple(slot for slot, role in enumerate(step.roles) if role_kind(role.name) == kind)
    pids = () if step.gated else {page.word(slot, Word.CLIENT_PID) for slot in range(page.roles)}
    return Side(subject, page.fd, page.roles, primary, postmaster, backends, monitor_pid, tuple(sorted(pids)))


def await_ready(
    page: Page, launcher: Launcher, preparation_s: float, check_clients: Callable[[], None], waiting: Waiting
) -> None:
    """Wait until all clients are connected and prepared. Raises StepFailed if that takes too long."""
    patience_s = READY_TIMEOUT_S + READY_TIMEOUT_PER_ROLE_S * page.roles + PREPARATION_PATIENCE * preparation_s
    wait = LimitedWait("waiting for the clients to be ready", patience_s, waiting)
    while any(page.word(slot, Word.STATE) < State.READY for slot in range(page.roles)):
        check_clients()
        if not wait.goes_on():
            raise StepFailed(f"clients were not ready within {patience_s:.0f} s; see {launcher.log}")
        time.sleep(POLL_S)
    check_clients()


def check_clients(page: Page, launcher: Launcher) -> None:
    if page.words[Control.STOP]:  # a role that fails sets it, for its partners
        errors = [page.error(slot) for slot in range(page.roles) if page.word(slot, Word.STATE) == State.FAILED]
        if errors:
            raise StepFailed(errors[0])
    if launcher.process.poll() is not None:
        raise StepFailed(launcher.reason())


def all_done(page: Page) -> Callable[[], bool]:
    slot = 0

    def done() -> bool:
        nonlocal slot
        while slot < page.roles and page.word(slot, Word.STATE) >= State.DONE:  # states never go back
            slot += 1
        return slot == page.roles

    return done
