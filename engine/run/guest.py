"""An attempt at a cell in a guest with another kernel: boots it, keeps its rows and files, says how it ended.

Server, clients, samplers and probes run in the guest, under one scheduler (`engine.run.guest_cell`). Its output
into its journal comes as lines and is applied here while it runs, so that it can be watched live.

    from the guest   {"booted": RELEASE, "s": SECONDS}, {"rows": …} (engine.journal.wire), {"file": NAME, "b64": TEXT}
                     (a piece of a log), {"clock": MONOTONIC NS} once a second, {"answer": {"ok"|"error": TEXT}}, at
                     last {"ended": STATE}, {"status": CODE}
    to the guest     {"probe": …}, {"mark": …}, as over the control socket; {"stop": REASON}
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shlex
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import engine
from engine.core.errors import UserError
from engine.core.kernel import BOOT
from engine.core.lines import LineError, decoded
from engine.core.model import Cell, Manifest
from engine.features import with_parts
from engine.guest import kernels, store_image, tools
from engine.guest.clock_check import GuestClock
from engine.guest.machine import DISK, Guest, Job, blank_disk
from engine.journal.wire import Receiver
from engine.run.control import Commands
from engine.run.stop import Stop
from engine.system.account import make_passable, unprivileged
from engine.system.files import is_name, open_plain

POLL_S = 0.1
BOOT_S = 60.0  # until it says that its kernel is up
BEGIN_S = 120.0  # until its engine has begun the cell
STOP_S = 6.0  # to end
ANSWER_S = 30.0
EMULATED = 10.0  # factor for time-outs where processors are emulated
TRIES = 2  # of a guest that sends nothing
FILES_MAX_BYTES = 64 << 20  # of logs that a guest may leave here
CONSOLE = "console.log"
# A guest has its own versions of these folders, with the host files it needs bound one by one.
OWN_FOLDERS = ("dev", "proc", "sys", "run", "tmp", "mnt", "media", "bench")
PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "PGBED_PACKAGE_SET", "PGBED_PROBE_HELPER", "PGBED_SERVER_PATH",
             "PGBED_STACK_TOOL", "PGBED_WORKLOADS")  # fmt: skip


class GuestAttempt:
    """An attempt at a cell in a guest booted for it. Whatever ends it is recorded, and ends this cell only."""

    def __init__(self, folder: Path, manifest: Manifest, cell: Cell, stop: Stop, commands: Commands) -> None:
        self.finished = False
        self._folder, self._manifest, self._cell, self._stop, self._commands = folder, manifest, cell, stop, commands
        self._journal = commands.journal
        self._builds = folder.parents[2] / ".builds"  # links to the builds that were realised for runs
        kernel, machine = manifest.kernel(cell.subject.kernel), manifest.boot.guest
        assert kernel is not None and machine is not None  # as read_manifest sees to
        self._kernel, self._machine = kernel, machine
        self._booted_s: float | None = None
        self._answer: dict[str, Any] | None = None
        self._status: int | None = None
        self._begun_s = time.monotonic()
        self._fault: Exception | None = None  # of a message of the guest

    def run(self) -> None:
        make_passable(self._folder)
        reason = ""
        self._keep_configuration()
        event = {"cell": self._cell.id, "after": self._journal.last_attempt()}
        self._journal.add_event(BOOT, time.monotonic_ns(), event)
        self._journal.commit()
        self._receiver = Receiver(self._journal.database, self._cell.id)
        try:
            for attempt in range(TRIES):
                with suppress(FileNotFoundError):
                    (self._folder / CONSOLE).rename(self._folder / f"{CONSOLE}.{attempt}")
                reason = self._boot()
                if self._booted_s is not None or self._stop.reason:
                    break
        except (UserError, sqlite3.Error, OSError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            self._journal.recover()
        finally:
            self._commands.guest = None
        self._record(reason)

    def _keep_configuration(self) -> None:
        """Write the kernel's full configuration, whose hash is in the manifest, to the run's folder."""
        path = self._folder.parents[1] / "kernels" / f"{self._kernel.label}.config"
        if is_name(path.name) and not path.exists():
            with suppress(OSError):
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(kernels.config_of(self._kernel))

    def _boot(self) -> str:
        machine = self._machine
        programs = tools.find(lambda _: None, self._builds)
        blank = blank_disk(programs, self._folder, machine.disk_mb) if machine.disk == "image" else nullcontext()
        with blank as image, self._programs(programs) as store:
            return self._run(programs, image, store)

    @contextmanager
    def _programs(self, programs: tools.Tools) -> Iterator[int | None]:
        """The descriptor of the image with the guest's programs, or None if they are shared by 9p."""
        if self._machine.share == "9p":
            yield None
            return
        if programs.erofs is None:
            raise UserError(f"the run's guests have their programs in images: {store_image.unavailable(None)}")
        with store_image.image(self.needed(), programs.erofs).open("rb") as file:
            yield file.fileno()

    def _run(self, programs: tools.Tools, image: int | None, store: int | None) -> str:
        machine = self._machine
        job = Job(
            command=self._script(),
            binds=_binds(self.needed()),
            files={"job.json": self._job()},
            disk=f"tmpfs:{machine.disk_mb}m" if image is None else "image",
            image=image,
            store=store,
            watchdog_s=300 if machine.emulated else 60,
        )
        self._begun_s = time.monotonic()
        self._guest = guest = Guest(self._kernel, machine, programs, job, self._folder / CONSOLE)
        self._ended, self._status, self._answer, self._room = "", None, None, FILES_MAX_BYTES
        self._clock, self._fault = GuestClock(), None
        with guest:
            self._commands.guest = self._ask
            asked_s: float | None = None
            while not self._over:
                self._hear(POLL_S)
                self._stop.poll_control()
                now_s = time.monotonic()
                if self._stop.reason and self._receiver.attempt is None:
                    return self._stop.reason  # nothing to shut down yet
                if self._stop.reason and asked_s is None:
                    asked_s = now_s
                    guest.send({"stop": self._stop.reason})
                if asked_s is not None and now_s - asked_s > STOP_S:
                    return f"{self._stop.reason}: the guest did not shut down"
                if late := self._late(now_s - self._begun_s):
                    return " | ".join([late, *guest.last_message()])
            self._hear(0)
            if self._fault is not None:
                raise self._fault
            return "" if self._ended else guest.ending(self._status)

    @property
    def _over(self) -> bool:
        return self._guest.over or self._fault is not None

    def _late(self, passed_s: float) -> str:
        if self._booted_s is None:
            limit_s = self._times(BOOT_S)
            return f"the guest did not come up within {limit_s:.0f} s" if passed_s > limit_s else ""
        limit_s = self._times(BOOT_S + BEGIN_S)
        late = self._receiver.attempt is None and passed_s > limit_s
        return f"the guest did not begin the cell within {limit_s:.0f} s" if late else ""

    def _hear(self, timeout_s: float) -> None:
        """Process received lines. An error in them ends the cell, even while a caller waits for an answer."""
        if self._fault is not None:
            return
        try:
            for line in self._guest.lines(timeout_s):
                self._take(decoded(line))
        except LineError as error:
            self._fault = UserError(f"the guest: {error}")
        except (UserError, OSError) as error:
            self._fault = error

    def _take(self, record: dict[str, Any]) -> None:
        match record:
            case {"rows": rows}:
                self._receiver.apply(rows)
            case {"file": str(name), "b64": str(text)}:
                self._keep(name, text)
            case {"clock": int(guest_ns)}:
                self._clock.read(guest_ns, time.monotonic_ns())
            case {"answer": dict(answer)}:
                self._answer = answer
            case {"booted": str(), "s": int() | float()}:
                self._booted_s = time.monotonic() - self._begun_s
                self._guest.pin(self._machine.pins)
            case {"ended": str(state)}:
                self._ended = state
            case {"status": int(status)}:
                self._status = status
            case _:
                raise UserError(f"the guest sent a line of an unknown kind: {str(record)[:200]}")

    def _keep(self, name: str, text: str) -> None:
        parts = name.split("/")
        if not all(map(is_name, parts)) or len(parts) > 2 or parts[0] in (CONSOLE, DISK, "data", "socket"):
            raise UserError(f"the guest sent a file with a forbidden name: {name[:100]}")
        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise UserError("the guest sent a file that is not base64") from None
        kept = data[: self._room]
        self._room -= len(kept)
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        with os.fdopen(open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "wb") as file:
            file.write(kept)

    def _ask(self, record: dict[str, Any]) -> str:
        """Let the guest answer a caller of the control socket. Raises UserError if it refuses or does not answer."""
        if self._receiver.attempt is None:
            raise UserError("the guest is starting; try again once a step runs")
        self._answer = None
        self._guest.send(record)
        until_s = time.monotonic() + ANSWER_S
        while self._answer is None and not self._over and time.monotonic() < until_s:
            self._hear(POLL_S)
        match self._answer:
            case {"ok": str(text)}:
                return text
            case {"error": str(text)}:
                raise UserError(text)
        raise UserError("the guest did not answer; it does not listen while it starts a server")

    def _record(self, reason: str) -> None:
        """Record how the attempt ended and where it ran; begin one first if the guest did not get that far."""
        journal = self._journal
        attempt = self._receiver.attempt or journal.begin_attempt(self._cell.id, time.monotonic_ns(), {})
        journal.extend_origin(attempt, {"guest": self._origin()})
        journal.commit()
        (state, ended_ns, why), last_ns = journal.ending(attempt), journal.last_ns(attempt)
        if state != "running" and not reason:
            self.finished = state == "finished"
            if state == "failed" and (trouble := self._guest.trouble()):
                # The server reports a killed process; only the guest's kernel reports that memory ran out.
                journal.end_attempt(
                    attempt, ended_ns or last_ns, "failed", " | ".join([*filter(None, [why]), *trouble])
                )
            return
        interrupted = self._stop.reason and state in ("running", "interrupted")
        journal.end_attempt(attempt, last_ns, "interrupted" if interrupted else "failed", reason or "it never ended")

    def _origin(self) -> dict[str, Any]:
        """The place where the cell ran, as the host knows it: a guest is not asked."""
        named = ("label", "release", "provenance", "package", "digest", "config_digest")
        return {
            **{name: getattr(self._kernel, name) for name in named},
            **asdict(self._machine),
            "boot_s": None if self._booted_s is None else round(self._booted_s, 1),
        }

    def _times(self, seconds: float) -> float:
        return seconds * (EMULATED if self._machine.emulated else 1)

    def _job(self) -> bytes:
        job = {
            "manifest": self._manifest.record(),
            "cell": self._cell.id,
            "last_ids": self._receiver.first,
            "found": self._journal.found(),
        }
        return json.dumps(job).encode()

    def _script(self) -> str:
        job = {
            "HOME": "/tmp", "TZ": "UTC", "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "PGBED_USER": unprivileged().name, "PGBED_PATIENCE": f"{self._times(1):g}",
        }  # fmt: skip
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        modules = os.pathsep.join(dict.fromkeys([str(_application()), *filter(None, [passed.get("PYTHONPATH")])]))
        environment = {**passed, **job, "PYTHONPATH": modules}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
        return f"#!/bin/sh\n{exports}cd /\nexec {shlex.quote(sys.executable)} -m engine.run.guest_cell /run/pgbed\n"

    def needed(self) -> Iterable[Path]:
        """The paths of programs and modules that the cell needs in the guest, of the store or not."""
        yield from (Path(sys.prefix), Path(sys.base_prefix), _application())
        for name in ("PGBED_PROBE_HELPER", "PGBED_SERVER_PATH", "PGBED_STACK_TOOL"):
            if os.environ.get(name, "").startswith("/"):
                yield Path(os.environ[name]).parent
        modules = map(Path, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        yield from (path for path in modules if path.is_relative_to(store_image.STORE))  # such as the user's workloads
        bpftrace = self._builds / "bpftrace"  # named by the probe helper, which does not depend on it
        if self._manifest.observation.observers and bpftrace.exists():
            yield bpftrace.resolve()
        for feature, part in with_parts(self._manifest.parts):
            yield from feature.programs(part)
        for build in self._manifest.builds:  # of all cells, so that they share one image
            yield Path(build.prefix)
        for program in (self._manifest.workload.get("programs") or {}).values():
            yield Path(program["path"]).parent


def _application() -> Path:
    return Path(engine.__file__).parents[1]


def _binds(needed: Iterable[Path]) -> tuple[str, ...]:
    """The folders that the guest's own folders would hide; the account must be able to enter them."""
    account = unprivileged()
    binds: dict[str, None] = {}
    for path in needed:
        for place in (path.absolute(), path.resolve()):
            barred = account.barred_at(place)
            if barred is not None:
                raise UserError(f"{place}: user {account.name}, who runs the guest, may not enter {barred}; move it")
            if place.parts[1] in OWN_FOLDERS or place.is_relative_to("/var/tmp"):
                binds[str(place)] = None
    return tuple(binds)
