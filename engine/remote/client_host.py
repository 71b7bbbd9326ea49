"""The host that clients run on, as an open connection: one ssh, which carries everything.

Processes started there end with the connection, for whatever reason: the agent ends when its input does, and then the
remote shell removes the private folder.

PGBED_SSH (`ssh` in config.toml) names another ssh.
"""

from __future__ import annotations

import os
import platform
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

import engine
from engine.core.errors import UserError
from engine.core.lines import LineError
from engine.core.record import converted
from engine.core.route import Route
from engine.remote import clock_offset, deployment
from engine.remote.channel import ANSWER_S, PAGE_FD, PASSFILE, Channel, code_digest
from engine.remote.clock_offset import Offset
from engine.remote.relay import RemoteStep
from engine.system.account import bound_to_engine
from engine.system.addresses import listening
from workloads.api.base import Launch

CONNECT_S = 30.0
COPY_S = 600.0  # for all copies, over a slow line
CLOSE_S = 5.0  # for all to end there
END_S = 2.0  # then for ssh itself
MOST_UNREAD = 1 << 20
ACCEPT_S = 6.0
GREETING_LINES = 200  # that a login shell may print before
OPTIONS = ("BatchMode=yes",)
USUAL = ("ClearAllForwardings=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3")
# One line without single quotes, for any login shell. The folder goes when the agent ends, for whatever reason.
SHELL = (
    'umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/pgbed-clients-XXXXXXXX") || exit 1; trap "" HUP INT TERM; '
    "n=none; command -v tar >/dev/null 2>&1 && command -v head >/dev/null 2>&1 && n=tar; "
    "command -v nix-store >/dev/null 2>&1 && n=$n,nix; "
    'printf "%s\\n" "pgbed $(uname -m) $n $d"; '
    'if read -r size how && { [ "$size" = 0 ] || head -c "$size" | tar -xf - -C "$d"; }; then eval "$how"; fi; '
    'rm -rf "$d"'
)
GREETING = re.compile(rb"pgbed (\S+) (\S+) (/\S+)$")


@dataclass(eq=False)
class ClientHost:
    """An open connection. `folder` is its private folder on the host, `programs` the paths of programs there."""

    route: Route
    process: subprocess.Popen[bytes]
    channel: Channel
    complaints: IO[bytes]  # ssh's
    folder: str = ""
    copied: str = ""  # how the programs were copied: nix, tar
    not_by_nix: str = ""  # why Nix could not copy them, if tried
    name: str = ""  # its own hostname
    ssh_connection: tuple[str, ...] = ()  # client, port, server, port
    offset: Offset | None = None
    programs: dict[str, str] = field(default_factory=dict)

    # -- questions

    def ask(self, question: dict[str, Any], timeout_s: float = CONNECT_S) -> dict[str, Any]:
        try:
            return self.channel.ask(question, timeout_s)
        except LineError as error:
            raise self.failed(str(error)) from None

    def environment(self) -> dict[str, Any]:
        """The host's hardware and settings, without its disks, which no client uses."""
        answer = self.ask({"do": "environment"}).get("environment")
        sections = converted(answer, dict[str, dict[str, Any] | None], f"the environment of {self.route.host}")
        shown = {key: part for key, part in sections.items() if key != "storage"}
        assert self.offset is not None
        link = {"copied": self.copied, "not_by_nix": self.not_by_nix, "round_trip_ms": 2 * self.offset.error_ns / 1e6}
        return {**shown, "link": link}

    def reaches(self, address: str, port: int) -> str:
        """The address from which the host reaches a port of this machine. Raises UserError if it does not."""
        try:
            with listening(address, port) as socket:
                socket.settimeout(ACCEPT_S)
                there = socket.getsockname()[1]
                error = self.ask({"do": "reach", "address": address, "port": there}).get("error")
                if not error:
                    accepted, peer = socket.accept()
                    accepted.close()
                    return str(peer[0]).partition("%")[0]
        except TimeoutError:
            error = "its connection did not arrive"
        except OSError as problem:
            raise UserError(f"{address} port {port or 'any'}: {problem.strerror}") from None
        raise UserError(
            f"--client-host {self.route.host}: clients there cannot connect to {address} port {there} "
            f"({error}): name another address with --listen, or with --port one that is let through"
        )

    def check_programs(self, programs: Mapping[str, Mapping[str, str]]) -> None:
        for name, record in programs.items():
            run = self.programs[name]
            file = f"{run}.d/bin/{name}" if self.copied == "tar" else run
            answer = self.ask({"do": "program", "run": [run], "file": file})
            if answer.get("error"):
                raise self.failed(f"{name} does not start there: {answer['error']}")
            for key in ("version", "digest"):
                if answer.get(key) != record[key]:
                    raise self.failed(f"its {name} is another one: {key} {answer.get(key)}, here {record[key]}")

    def relayed(self, launch: Launch, page_fd: int, roles: int, pass_line: str) -> Launch:
        """The launch that starts a step's clients there and mirrors their page in the local one."""
        question = {
            "do": "step", "roles": roles, "command": launch.command, "stdin": launch.stdin, "password": pass_line,
        }  # fmt: skip
        spec = RemoteStep(page_fd, roles, self.channel.reading, self.channel.writing, self.route.host, question)
        return Launch((sys.executable, "-m", "engine.remote.relay"), msgspec.json.encode(spec).decode())

    def workload(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a workload with the programs' paths there."""
        programs = {
            name: {**program, "path": self.programs.get(name, program["path"])}
            for name, program in record.get("programs", {}).items()
        }
        return {**record, **({"programs": programs} if programs else {})}

    @property
    def passfile(self) -> str:
        return f"{self.folder}/{PASSFILE}"

    @property
    def page_fd(self) -> int:
        return PAGE_FD

    # -- life

    def close(self) -> None:
        """End the connection and the processes there, with a time limit."""
        os.close(self.channel.writing)
        until_s, reading, size = time.monotonic() + CLOSE_S, self.channel.reading, 0
        while size < MOST_UNREAD and select.select([reading], [], [], max(0.0, until_s - time.monotonic()))[0]:
            part = os.read(reading, 65536)
            size += len(part)
            if not part:  # the shell there has ended: all is removed
                break
        else:
            self.process.terminate()
        os.close(reading)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()

    def failed(self, what: str) -> UserError:
        """An error of this host in one line, with ssh's own message."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0 if "ended" in what else 0.0)
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        lines = [line for line in lines if not line.startswith("Warning: Permanently added")]
        said = lines[-1].strip()[:300].removeprefix("ssh: ") if lines else ""
        if self.process.poll() == 255 or "ended" in what:
            asks = "; ssh must get there without asking for anything" if "denied" in said else ""
            return UserError(f"--client-host {self.route.host}: {said or 'the ssh connection has ended'}{asks}")
        return UserError(f"--client-host {self.route.host}: {what}")

    # -- the beginning

    def greet(self) -> tuple[str, Sequence[str]]:
        """Wait for the remote shell; return its architecture, and the ways to copy programs: nix, tar."""
        try:
            for _ in range(GREETING_LINES):
                greeting = GREETING.search(self.channel.receive(CONNECT_S))
                if greeting:
                    machine, means, folder = (word.decode(errors="replace") for word in greeting.groups())
                    self.folder = folder
                    return machine, means.split(",")
        except LineError as error:
            raise self.failed(str(error)) from None
        raise self.failed("its shell does not execute commands")

    def equip(
        self,
        launchers: Sequence[str],
        programs: Mapping[str, Mapping[str, str]],
        means: Sequence[str],
        progress: Callable[[str], None],
    ) -> None:
        """Copy what clients need, and start the agent. Raises UserError."""
        paths = {name: Path(record["path"]) for name, record in programs.items()}
        stored = deployment.in_store(paths.values()) if "nix" in means and shutil.which("nix") else None
        if stored and (why := deployment.nix_copy(self.route.host, stored, ssh_options(self.route))):
            self.not_by_nix = why
            progress(
                f"--client-host {self.route.host}: Nix cannot copy there ({self.not_by_nix}): an archive goes there"
            )
        if stored and not self.not_by_nix:
            self.copied, self.programs = "nix", {name: str(path) for name, path in paths.items()}
            code = Path(engine.__file__).parents[1]
            python = f"env PYTHONPATH={shlex.quote(str(code))} PYTHONSAFEPATH=1 {shlex.quote(sys.executable)}"
            self._start(0, python, None)
        elif "tar" not in means:
            why = f": {self.not_by_nix}" if self.not_by_nix else ""
            raise self.failed(f"it has no tar, and Nix cannot copy the clients there{why}")
        else:
            self.copied = "tar"
            self.programs = {name: f"{self.folder}/programs/{name}" for name in paths}
            with tempfile.TemporaryFile() as archive:
                deployment.archive(archive, launchers, paths)
                size = archive.tell()
                archive.seek(0)
                self._start(size, 'sh "$d/python"', archive)
        answer = self.ask({"do": "hello"}, COPY_S)
        self.name = str(answer.get("name", ""))
        self.ssh_connection = tuple(str(answer.get("ssh", "")).split())
        if answer.get("code") != code_digest():
            raise self.failed("the clients' code there is another than here")
        try:
            self.offset = self.channel.offset()
        except LineError as error:
            raise self.failed(str(error)) from None
        if why := clock_offset.uncertain(self.offset):
            raise self.failed(why)

    def _start(self, size: int, python: str, archive: IO[bytes] | None) -> None:
        try:
            self.channel.write(f'{size} {python} -m engine.remote.agent "$d" {python}\n'.encode(), ANSWER_S)
            while archive is not None and (part := archive.read(1 << 20)):
                self.channel.write(part, COPY_S)
        except LineError as error:
            raise self.failed(str(error)) from None


def ssh_options(route: Route) -> list[str]:
    """ssh's options; of repeated ones, the first counts."""
    return [*OPTIONS, *route.ssh_options, *USUAL]


@contextmanager
def shell(route: Route) -> Iterator[tuple[ClientHost, Sequence[str]]]:
    """Yield a connection to the host's shell, before anything is copied, and the ways to copy. Raises UserError."""
    ssh = os.environ.get("PGBED_SSH") or "ssh"
    options = (word for option in ssh_options(route) for word in ("-o", option))
    # Not sh -c '…' alone: the login shell would stay, and some would get the signals.
    command = [ssh, "-T", "-a", "-x", *options, "--", route.host, f"exec sh -c '{SHELL}'"]
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the connection)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,
            preexec_fn=bound_to_engine(signal.SIGTERM),
        )
    except OSError as error:
        complaints.close()
        raise UserError(f"{ssh} cannot be run: {error.strerror}; --client-host needs it") from None
    assert process.stdin is not None and process.stdout is not None
    ends = [os.dup(pipe.fileno()) for pipe in (process.stdout, process.stdin)]
    process.stdin.close()
    process.stdout.close()
    os.set_blocking(ends[1], False)
    host = ClientHost(route, process, Channel(*ends), complaints)
    try:
        machine, means = host.greet()
        if machine != platform.machine():
            raise host.failed(
                f"it is {machine}, this machine {platform.machine()}: the same programs cannot run on both"
            )
        yield host, means
    finally:
        host.close()


@contextmanager
def connected(
    route: Route, launchers: Sequence[str], programs: Mapping[str, Mapping[str, str]], progress: Callable[[str], None]
) -> Iterator[ClientHost]:
    """Yield a connection with everything that clients need; nothing is left on the host. Raises UserError."""
    with shell(route) as (host, means):
        host.equip(launchers, programs, means, progress)
        host.check_programs(programs)
        yield host
