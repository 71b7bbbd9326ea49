"""Processes of the project without their start: one that has loaded everything forks for each.

To load a command of `bench` takes several times longer than to do what it says, and the tests call a thousand; so it
is with the clients' launcher. A forked command is a process of its own: it has the environment, the folder and pipes
that it is given, and runs its module as `python -m` does. A `bench` that was forked forks its engine, and that forks
its reaper, launchers and conductors. The modules that a command loads, signals and terminals are tested with
interpreters of their own, down to the launchers: in tests/tui, test_imports, test_opening, test_bench and
test_terminal*; in tests/engine, run/test_faults and test_wheel.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
MESSAGE_MAX_BYTES = 1 << 17
PIPES_MAX = 8
HIGH_FD = 500
COMMAND_MAX_BYTES = 4096
HIGHEST_FD = os.sysconf("SC_OPEN_MAX")
PR_SET_DUMPABLE = 4
LOAD_TIMEOUT_S = 120.0
# Names of variables that are obeyed once, when Python or the list of workloads is loaded, begin with these.
SETTLED = ("PYTHON", "LC_", "LANG", "LD_", "SSL_")
# So it is with these, but those of the tests have a forker of their own.
ADDED = {"PGBED_WORKLOADS": "toy=tests.support.toy",
         "PGBED_FEATURES": "tests.support.toy_feature,tests.support.noting_feature"}  # fmt: skip
SLOW_TO_START = (".launch", ".toy", ".conductor", ".reaper")
_asking = threading.Lock()


def settled(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that cannot be changed for a process that has begun."""
    return {name: value for name, value in environment.items() if name.startswith(SETTLED) and name != "PYTHONPATH"}


_SETTLED = settled(os.environ)


@dataclass
class Process:
    """A process that runs; `status` tells its end."""

    pid: int
    status: socket.socket
    code: int | None = None

    def wait(self, timeout_s: float | None = None) -> int:
        """The exit code; negative the signal that ended it. Raises TimeoutError when it does not end in time."""
        if self.code is None:
            self.status.settimeout(timeout_s)
            (self.code,) = _number(self.status)
            self.status.close()
        return self.code

    def send_signal(self, number: int) -> None:
        """Nothing, where it has ended."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of `bench` under way, with the pipes of its output and its errors."""

    process: Process
    out: int
    err: int

    def communicate(self, timeout_s: float) -> tuple[int, str, str]:
        """Its exit code, its output and its errors. Raises subprocess.TimeoutExpired once it is killed."""
        heard = dict.fromkeys((self.out, self.err), b"")
        waiting, end_s = set(heard), time.monotonic() + timeout_s
        try:
            while waiting:
                ready, _, _ = select.select(waiting, [], [], max(0.0, end_s - time.monotonic()))
                if not ready:
                    self.process.kill()
                    raise subprocess.TimeoutExpired("bench", timeout_s)
                for pipe in ready:
                    part = os.read(pipe, 1 << 16)
                    heard[pipe] += part
                    if not part:
                        waiting.discard(pipe)
            code = self.process.wait()
        finally:
            for pipe in heard:
                os.close(pipe)
        out, err = (text.decode().replace("\r\n", "\n") for text in heard.values())
        return code, out, err


def bench(command: Sequence[str], environment: dict[str, str]) -> Command:
    """Starts a command, [PYTHON, "-m", "engine", …], which has nothing to read."""
    assert [*command[:3]] == [sys.executable, "-m", "engine"]
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    process = start("engine", {1: out_end, 2: err_end}, environment, command[3:])
    os.close(out_end)
    os.close(err_end)
    return Command(process, out, err)


def run(command: Sequence[str], environment: dict[str, str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """A call like `subprocess.run` with pipes for the command's output."""
    return subprocess.CompletedProcess(command, *bench(command, environment).communicate(timeout_s))


@cache
def ready() -> None:
    """Waits until everything is loaded, for who cannot wait in the midst of something."""
    run([sys.executable, "-m", "engine", "--version"], dict(os.environ), LOAD_TIMEOUT_S)


def start(
    module: str,
    given: Mapping[int, int],
    environment: dict[str, str],
    words: Sequence[str] = (),
    identity: Mapping[str, Any] = {},
) -> Process:
    """Starts a module as a program. `given` are its open files besides the standard ones: number there, number here.

    `identity` are a user and groups, as `subprocess.Popen` takes them.
    """
    request = {"module": module, "words": words, "environment": environment, "folder": str(Path.cwd()),
               "identity": dict(identity)}  # fmt: skip
    status, status_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with status_end, _asking:
        forker, _ = _forker(os.getpid(), *(environment.get(name, "") for name in ADDED))
        message = json.dumps({"given": [*given], "request": request}).encode()
        socket.send_fds(forker, [message], [*given.values(), status_end.fileno()])
    (pid,) = _number(status)
    return Process(pid, status)


def suits(environment: Mapping[str, str]) -> bool:
    """Whether the loaded modules would be loaded in this environment."""
    known = all(environment.get(name, "") in ("", value) for name, value in ADDED.items())
    return known and settled(environment) == _SETTLED


def _number(sender: socket.socket) -> array.array[int]:
    return array.array("i", sender.recv(16))


@cache
def _forker(_: int, *added: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that forks for this one, and the socket by which it is asked; it ends when that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    others = os.environ.keys() - settled(os.environ).keys()
    environment = {name: os.environ[name] for name in others} | _SETTLED | dict(zip(ADDED, added, strict=True))
    with theirs:
        forker = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm", str(theirs.fileno()), "." * COMMAND_MAX_BYTES],
            cwd=ROOT,
            env=environment | {"OPENBLAS_NUM_THREADS": "1"},  # who forks has one thread
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    return ours, forker


# -- the process that forks


def serve(asked: socket.socket) -> dict[str, Any] | None:
    """Returns in each child, with its command; and with None when nobody asks any more."""
    running: dict[int, socket.socket] = {}
    while True:
        for ready in select.select([asked.fileno(), *running], [], [])[0]:
            if ready != asked.fileno():
                ended = os.waitid(os.P_PIDFD, ready, os.WEXITED)
                assert ended is not None
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                with running.pop(ready) as status, suppress(OSError):
                    status.send(array.array("i", [code]))
                os.close(ready)
                continue
            text, files, _, _ = socket.recv_fds(asked, MESSAGE_MAX_BYTES, PIPES_MAX)
            if not text:
                return None
            message = json.loads(text)
            pid = os.fork()
            if not pid:
                for there in (asked, *running.values()):
                    there.close()
                for number in running:
                    os.close(number)
                _take(message["given"], files)
                request: dict[str, Any] = message["request"]
                return request
            *pipes, number = files
            for pipe in pipes:
                os.close(pipe)
            status = socket.socket(fileno=number)
            with suppress(OSError):
                status.send(array.array("i", [pid]))
            running[os.pidfd_open(pid)] = status


def _take(numbers: Sequence[int], files: Sequence[int]) -> None:
    """Gives open files the numbers that they are to have, and closes the one behind them."""
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, HIGH_FD) for file in files[:-1]]
    for file in files:
        os.close(file)
    for number, file in zip(numbers, high, strict=True):
        os.dup2(file, number)
        os.close(file)


def load() -> None:
    """Imports what any command could."""
    for package in ("engine", "probes", "workloads"):
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    gc.collect()
    gc.freeze()


class Forking(subprocess.Popen[bytes]):
    """A Popen; but an engine, or a process that it starts, is this process forked, in which all is loaded already."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        preexec_fn: Callable[[], object] | None = None,
        **options: Any,
    ) -> None:
        as_asked = preexec_fn

        def instead_of_exec() -> None:
            if as_asked is not None:
                as_asked()
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after exec, also where the user has changed
            gc.freeze()  # or an object that is left closes a file of the new program
            gc.enable()
            kept = sorted({2, *pass_fds})
            for file, following in zip(kept, (*kept[1:], HIGHEST_FD), strict=True):
                os.closerange(file + 1, following)
            for number in signal.valid_signals():
                if callable(signal.getsignal(number)):
                    signal.signal(number, signal.SIG_DFL)
            end(become(command[2], command[3:], dict(env or os.environ), str(Path.cwd())))

        interpreter, flag, module, *words = (*command, "", "", "")
        of_slow_start = module.endswith(SLOW_TO_START) or (module, words[0]) == ("engine", "engine")
        if (interpreter, flag) == (sys.executable, "-m") and of_slow_start:
            sys.stdout.flush()
            sys.stderr.flush()
            preexec_fn = instead_of_exec
        super().__init__(command, env=env, pass_fds=pass_fds, preexec_fn=preexec_fn, **options)


def name_process(words: Sequence[str]) -> None:
    """Show these words as the process's command line, in place of those of the one that forked first."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = (int(after_name[place]) for place in (45, 46))
    shown = "\0".join(words).encode()[: end - begin - 1]
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)


def become(
    module: str, words: Sequence[str], environment: dict[str, str], folder: str, identity: Mapping[str, Any] = {}
) -> int:
    """Runs a module as a program; its exit code."""
    name_process([sys.executable, "-m", module, *words])
    subprocess.Popen = Forking  # type: ignore[misc, assignment]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    time.tzset()
    if identity:
        os.setgroups(identity["extra_groups"])
        os.setgid(identity["group"])
        os.setuid(identity["user"])
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    sys.argv = [module, *words]
    sys.modules.pop(module if module != "engine" else "", None)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """The child that `_forker` starts. It ends without unloading modules, which takes as long as a command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal's, which is for the tests
    load()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        return
    end(become(**request))


def end(code: int) -> NoReturn:
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
