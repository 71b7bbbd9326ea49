"""The agent of a run on the clients' host: answers requests, and starts the clients of one step at a time.

    python -m engine.remote.agent FOLDER PYTHON…     FOLDER is a private one, PYTHON the command for launchers

It ends with its standard input, and its clients with it: the connection and the engine are gone. While clients work it
also ends after a silence, as when a cable was pulled.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

import workloads
from engine.core.lines import LineChannel, LineError, decoded
from engine.host import environment
from engine.host.procfs import Task, TaskReader
from engine.remote.channel import PAGE_FD, PASSFILE, code_digest
from workloads.client.counter_page import (
    CONTROL_WORDS,
    RING_OFFSET,
    SERVICE_OFFSET,
    SLOT_WORDS,
    Control,
    Page,
    State,
    Word,
)
from workloads.client.process import name_process

NEWS_S = 0.02  # between checks for news
SILENCE_S = 30.0  # without a request, while clients work
END_S = 8.0  # for clients that are to stop
REACH_S = 5.0
PROGRAM_S = 10.0
PRINTED_BYTES = 1 << 20
ERROR_BYTES = 4096
ORDERS = (Control.START_NS, Control.STOP, Control.RELEASE)


@dataclass(eq=False)
class AgentStep:
    """A step's clients, and the state of their page at the last answer."""

    page: Page
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]
    readers: dict[int, TaskReader | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._told = np.array(self.page.words, dtype=np.int64)
        self._states: list[int] = []

    @classmethod
    def begin(cls, question: dict[str, Any], folder: Path, python: Sequence[str]) -> AgentStep:
        page = Page.create(int(question["roles"]))
        os.dup2(page.fd, PAGE_FD, inheritable=True)
        passfile = folder / PASSFILE
        passfile.unlink(missing_ok=True)
        with os.fdopen(os.open(passfile, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(question["password"])
        output, errors = TemporaryFile(dir=folder), TemporaryFile(dir=folder)  # noqa: SIM115 (closed by `end`)
        process = subprocess.Popen(
            [*python, *question["command"][1:]],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            pass_fds=(PAGE_FD,),
            cwd=Path(workloads.__file__).parents[1],
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            start_new_session=True,
        )
        os.close(PAGE_FD)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(question["stdin"].encode())
            process.stdin.close()
        return cls(page, process, output, errors)

    def poll(self, question: dict[str, Any]) -> dict[str, Any]:
        """Pass on the orders, wait for news until the time is over, and report the state."""
        for word in ORDERS:
            if value := int(question[word.name]):
                self.page.words[word] = value
        until_s = time.monotonic() + question["wait_ms"] / 1000
        while not (news := self._news()) and time.monotonic() < until_s:
            time.sleep(NEWS_S)
        answer: dict[str, Any] = {}
        if news or question["full"]:
            ended = self.process.poll() is not None
            answer = {"words": self._changed(), "stop": int(self.page.words[Control.STOP])}
            if ended:
                answer["ended"] = self._ending()
        in_flight = [self.page.word(slot, Word.IN_FLIGHT_NS) for slot in range(self.page.roles)]
        return {**answer, "in_flight": in_flight}

    def end(self) -> None:
        self.page.words[Control.STOP] = self.page.words[Control.RELEASE] = 1
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for reader in self.readers.values():
            if reader is not None:
                reader.close()
        self.output.close()
        self.errors.close()
        self.page.close()

    def _news(self) -> bool:
        states = [self.page.word(slot, Word.STATE) for slot in range(self.page.roles)]
        changed, self._states = states != self._states, states
        return changed or self.process.poll() is not None

    def _changed(self) -> list[list[int]]:
        self._count_clients()
        now = np.array(self.page.words, dtype=np.int64)
        places = np.flatnonzero(now != self._told)
        within = (places - CONTROL_WORDS) % SLOT_WORDS  # of its slot; the turns behind the slots are unused here
        ring = (within >= RING_OFFSET) & (within < SERVICE_OFFSET)
        places = places[(places >= CONTROL_WORDS) & (places < self.page.slot(self.page.roles)) & ~ring]
        self._told = now
        return [places.tolist(), now[places].tolist()]

    def _count_clients(self) -> None:
        """Write the kernel's counts of the client processes to the page."""
        page = self.page
        tasks: dict[int, Task | None] = {}
        for slot in range(page.roles):
            pid = page.word(slot, Word.CLIENT_PID)
            if not pid or page.word(slot, Word.STATE) < State.READY:
                continue
            if pid not in tasks:
                tasks[pid] = self._read(pid)
            task = tasks[pid]
            if task is not None:
                page.set_word(slot, Word.CLIENT_CPU_NS, task.cpu_ns)
                page.set_word(slot, Word.CLIENT_RUNQ_NS, task.runq_ns)
                page.set_word(slot, Word.CLIENT_VOLUNTARY, task.voluntary)
                page.set_word(slot, Word.CLIENT_INVOLUNTARY, task.involuntary)
                page.set_word(slot, Word.CLIENT_STATE, ord(task.state or " "))

    def _read(self, pid: int) -> Task | None:
        if pid not in self.readers:
            try:
                self.readers[pid] = TaskReader(pid)
            except OSError:
                self.readers[pid] = None
        reader = self.readers[pid]
        return reader.read() if reader is not None else None

    def _ending(self) -> dict[str, Any]:
        self.output.seek(0)
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - ERROR_BYTES))
        return {
            "code": self.process.returncode,
            "report": self.output.read(PRINTED_BYTES).decode(errors="replace"),
            "errors": self.errors.read().decode(errors="replace"),
        }


@dataclass(eq=False)
class Agent:
    folder: Path
    python: Sequence[str]
    step: AgentStep | None = None
    lines: LineChannel = field(default_factory=lambda: LineChannel(0, 1))

    def serve(self) -> None:
        try:
            while True:
                line = self.lines.receive(SILENCE_S if self.step is not None else None)
                came_ns = time.monotonic_ns()
                answer = self._answer(decoded(line))
                self.lines.send(answer | {"came_ns": came_ns, "left_ns": time.monotonic_ns()})
        except LineError:
            pass
        finally:
            self._end_step()

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        what = question["do"]
        if what == "hello":
            return {"name": platform.node(), "ssh": os.environ.get("SSH_CONNECTION", ""), "code": code_digest()}
        if what == "environment":
            return {"environment": environment.record(self.folder)}
        if what == "reach":
            return {"error": _reach(question["address"], question["port"])}
        if what == "program":
            return _program(question["run"], question["file"])
        if what == "step":
            self._end_step()
            self.step = AgentStep.begin(question, self.folder, self.python)
        if what == "poll" and self.step is not None:
            answer = self.step.poll(question)
            if "ended" in answer:
                self._end_step()
            return answer
        return {}

    def _end_step(self) -> None:
        if self.step is not None:
            self.step.end()
            self.step = None
        (self.folder / PASSFILE).unlink(missing_ok=True)


def _reach(address: str, port: int) -> str:
    try:
        socket.create_connection((address, port), REACH_S).close()
    except TimeoutError:
        return f"no answer within {REACH_S:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _program(run: Sequence[str], file: str) -> dict[str, Any]:
    try:
        result = subprocess.run(
            [*run, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PROGRAM_S, check=False
        )
        with Path(file).open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    text = (result.stderr if result.returncode else result.stdout).decode(errors="replace").strip()
    return {"error": text} if result.returncode else {"version": text.partition("\n")[0], "digest": digest}


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of its input ends it
    name_process("pgbed clients")
    Agent(Path(sys.argv[1]), sys.argv[2:]).serve()


if __name__ == "__main__":
    main()
