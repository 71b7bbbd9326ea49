"""Plays the engine's part for one step: page, launcher, barrier, end snapshot, release."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.support import warm
from workloads.api.base import Role
from workloads.client import histogram
from workloads.client.counter_page import RESPONSE_OFFSET, SERVICE_OFFSET, Control, Page, State, Word
from workloads.insert.options import Options
from workloads.insert.spec import InsertSpec, role_list
from workloads.insert.steps import InsertStep

ROOT = Path(__file__).resolve().parents[2]
Launcher = subprocess.Popen[bytes] | warm.Process
SETTLED = (State.DONE, State.FAILED, State.STOPPED)


@dataclass
class RoleResult:
    """The contents of a role's slot at the end of the step."""

    words: dict[Word, int]
    state: State
    error: str
    service: dict[int, int]
    response: dict[int, int]
    reference: list[int]
    client_cpu_s: float = 0
    backend_cpu_s: float = 0

    def __getitem__(self, word: Word) -> int:
        return self.words[word]


@dataclass
class StepResult:
    """A finished step."""

    exit_code: int
    seconds: float
    roles: dict[Role, RoleResult] = field(default_factory=dict)

    def __getitem__(self, role: tuple[int, str]) -> RoleResult:
        return self.roles[Role(*role)]


class StepRun:
    """A step under way; the caller may look at the page, set STOP or kill processes."""

    def __init__(self, name: str, page: Page, roles: tuple[Role, ...], launcher: Launcher) -> None:
        self.name, self.page, self.roles, self.launcher = name, page, roles, launcher

    def slot(self, client: int, name: str) -> int:
        return self.roles.index(Role(client, name))

    def word(self, client: int, name: str, word: Word) -> int:
        return self.page.word(self.slot(client, name), word)

    def state(self, slot: int) -> State:
        return State(self.page.word(slot, Word.STATE))

    def until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        """Waits for a condition; an error when it does not come about."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: {[self.state(s).name for s in range(len(self.roles))]}")
            time.sleep(0.002)

    def all_in(self, *states: State) -> bool:
        return all(self.state(slot) in states for slot in range(len(self.roles)))

    def start(self) -> None:
        """Opens the barrier when all roles are ready, or one has failed."""
        self.until(lambda: self.all_in(State.READY) or bool(self.page.words[Control.STOP]))
        self.page.words[Control.START_NS] = time.monotonic_ns() + 1_000_000

    def finish(self, seconds: float = 120) -> StepResult:
        """Waits for all roles to settle, takes the end snapshot, releases them."""
        self.until(lambda: self.all_in(*SETTLED), seconds)
        result = StepResult(0, self._seconds())
        for slot, role in enumerate(self.roles):
            result.roles[role] = self._role(slot)
        self.page.words[Control.RELEASE] = 1
        result.exit_code = self.launcher.wait(30)
        return result

    def _seconds(self) -> float:
        ends = [self.page.word(slot, Word.ENDED_NS) for slot in range(len(self.roles))]
        return (max(ends) - self.page.words[Control.START_NS]) / 1e9

    def _role(self, slot: int) -> RoleResult:
        page = self.page
        result = RoleResult(
            words={word: page.word(slot, word) for word in Word},
            state=self.state(slot),
            error=page.error(slot),
            service={b: n for b, n in enumerate(page.counts(slot, SERVICE_OFFSET)) if n},
            response={b: n for b, n in enumerate(page.counts(slot, RESPONSE_OFFSET)) if n},
            reference=[
                page.words[page.slot(slot) + Word.BUCKET_0 + n] for n in range(len(histogram.REFERENCE_BUCKETS))
            ],
        )
        result.client_cpu_s = cpu_s(result[Word.CLIENT_PID])
        result.backend_cpu_s = cpu_s(result[Word.BACKEND_PID])
        return result


def cpu_s(pid: int) -> float:
    """CPU seconds of a process's main thread, to the nanosecond; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return 0.0


@contextmanager
def running(
    dsn: str,
    step: InsertStep,
    generation_name: str,
    *,
    clients: int = 1,
    seed: int = 1,
    options: Options | None = None,
    launcher_module: str = "workloads.insert.launch",
) -> Iterator[StepRun]:
    """A step whose roles are being started; whatever is left of it is killed at the end."""
    chosen = msgspec.structs.replace(options or Options(), generation=generation_name, clients=clients)
    roles = role_list(step, chosen)
    page = Page.create(len(roles))
    spec = InsertSpec(page.fd, dsn, step, chosen, seed, 0)
    launcher = start_launcher(launcher_module, page.fd, msgspec.json.encode(spec))
    try:
        yield StepRun(step.name, page, roles, launcher)
    finally:
        launcher.kill()
        launcher.wait()


def interpreter(module: str, page_fd: int, spec: bytes) -> Launcher:
    """A launcher as the engine starts it."""
    launcher = subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=(page_fd,), cwd=ROOT
    )
    assert launcher.stdin is not None
    launcher.stdin.write(spec)
    launcher.stdin.close()
    return launcher


def forked(
    module: str, page_fd: int, spec: bytes, given: Mapping[int, int] = {}, identity: Mapping[str, Any] = {}
) -> warm.Process:
    """A launcher that has been loaded already: for tests, not for measurements."""
    its_end, our_end = os.pipe()
    launcher = warm.start(module, {0: its_end, page_fd: page_fd, **given}, dict(os.environ), identity=identity)
    os.close(its_end)
    with os.fdopen(our_end, "wb") as pipe:
        pipe.write(spec)
    return launcher


start_launcher: Callable[[str, int, bytes], Launcher] = interpreter


def run_step(
    dsn: str, step: InsertStep, generation_name: str, *, clients: int = 1, seed: int = 1, options: Options | None = None
) -> StepResult:
    """Runs one step from start to end."""
    with running(dsn, step, generation_name, clients=clients, seed=seed, options=options) as run:
        run.start()
        return run.finish()
