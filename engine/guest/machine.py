"""A guest: qemu over this machine's files, read-only, with one channel of lines each way and a console that is kept.

qemu runs as the account that runs servers, opens nothing for writing but the cluster's disk, and ends with the engine.
Channel and console are sockets that it inherits: no path, no network. How it ended:

    qemu 0 after a status        the program in it ended, and it powered off
    qemu 0 without a status      the watchdog: nothing in it ran any more
    qemu 1 without a status      its kernel panicked, as console.log then says; else qemu could not go on
    a signal                     qemu itself was killed
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from engine.core.errors import UserError
from engine.core.kernel import GuestMachine, Kernel
from engine.core.lines import LineChannel, LineError
from engine.guest import initrd, kernels
from engine.guest.tools import Tools
from engine.system.account import bound_to_engine, unprivileged

# The same for all kernels, whatever their defaults. Without earlyprintk an early panic prints nothing. With
# `tsc=reliable` an emulated guest's clock is off by a factor of up to 2.7.
KERNEL_LINE = (
    "console=ttyS0 earlyprintk=serial,ttyS0,115200 loglevel=5 panic=-1 oops=panic nokaslr transparent_hugepage=madvise"
)
CPU = {"kvm": "host,migratable=off", "tcg": "max"}
ACCELERATOR = {"kvm": "kvm", "tcg": "tcg,thread=multi"}
KVM = Path("/dev/kvm")
DISK = "disk.img"
# Without an ext4 feature that only newer kernels would use.
DISK_FORMAT = ("-q", "-F", "-O", "^orphan_file", "-E", "lazy_itable_init=0,lazy_journal_init=0")
LINE_MAX_BYTES = 64 << 20
CONSOLE_MAX_BYTES = 4 << 20
TAIL_LINES = 200
END_TIMEOUT_S = 10.0
PANIC = "Kernel panic"
NOISE = ("clocksource", "tsc:", "hrtimer:", "random:", "perf: interrupt")  # kernels' complaints about a slow emulator
TROUBLE = (PANIC, "BUG:", "Out of memory", "No working init", "Unable to mount root")


@dataclass(frozen=True, slots=True)
class Job:
    """A guest's work: `command` is a shell script, `binds` the folders it needs, `files` are put next to it.

    `disk` is for init.sh; `image` is the descriptor of that disk's image, or None; `store` is the descriptor of the
    programs' image (engine.guest.store_image).
    """

    command: str
    binds: Sequence[str]
    files: Mapping[str, bytes]
    disk: str
    image: int | None = None
    store: int | None = None
    watchdog_s: int = 60

    def archive(self) -> bytes:
        for path in self.binds:
            if not path.isprintable():
                raise UserError(f"{path}: a guest cannot have a folder of that name")
        options = f"DISK={self.disk}\nSTORE={'9p' if self.store is None else 'erofs'}\nWATCHDOG_S={self.watchdog_s}\n"
        environment = {
            "options": options,
            "binds": "".join(f"{path}\n" for path in self.binds),
            "command": self.command,
        }
        return initrd.job({**{name: text.encode() for name, text in environment.items()}, **self.files})


def command(
    tools: Tools, machine: GuestMachine, fds: tuple[int, int], paths: Sequence[str | None], job: Job, parameters: str
) -> list[str]:
    """qemu's command line; `fds` are its ends of channel and console, `parameters` are added to the kernel's own.

    `paths` are those of the kernel's image, its archive, the disk's image and the programs' image.
    """
    channel, console = fds
    image, archive, disk, store = paths
    words = [
        str(tools.qemu), "-nodefaults", "-no-user-config", "-display", "none", "-name", "pgbed,debug-threads=on",
        "-machine", "q35", "-accel", ACCELERATOR[machine.accelerator], "-cpu", CPU[machine.accelerator],
        "-smp", str(machine.cpus), "-m", f"{machine.memory_mb}M",
        "-kernel", str(image), "-initrd", str(archive), "-append", f"{KERNEL_LINE} {parameters}".strip(),
        "-chardev", f"socket,id=console,fd={console}", "-serial", "chardev:console",
        "-device", "virtio-serial-pci", "-chardev", f"socket,id=channel,fd={channel}",
        "-device", "virtserialport,chardev=channel,name=pgbed",
        "-fsdev", "local,id=host,path=/,security_model=none,multidevs=remap,readonly=on",
        "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
        "-no-reboot", "-device", "pvpanic-pci", "-device", "i6300esb",
        "-action", "panic=exit-failure,watchdog=poweroff",
    ]  # fmt: skip
    if machine.huge_pages:
        memory = f"memory-backend-memfd,id=memory,size={machine.memory_mb}M,hugetlb=on,prealloc=on"
        words += ["-object", memory, "-machine", "memory-backend=memory"]
    drives = (("disk", disk, "cache=none,aio=native"), ("store", store, "readonly=on"))
    for name, path, how in drives:
        if path is not None:
            words += ["-drive", f"if=none,id={name},format=raw,{how},file={path}"]
            words += ["-device", f"virtio-blk-pci,drive={name},serial={name}"]
    return words


@contextmanager
def blank_disk(tools: Tools, folder: Path, size_mb: int) -> Iterator[int]:
    """An empty file system, as the descriptor of an unlinked sparse image, so nothing is left. Raises UserError."""
    image = folder.absolute() / DISK
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    done = subprocess.run(
        (tools.mkfs, *DISK_FORMAT, image), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        image.unlink()
        raise UserError(f"{image}: cannot be formatted: {' '.join(done.stderr.split())[:300]}")
    unprivileged().chown(image)
    descriptor = os.open(image, os.O_RDWR)
    try:
        image.unlink()
        yield descriptor
    finally:
        os.close(descriptor)


class Guest:
    """A running guest, as a context manager that ends it; the thread that makes it must outlive it.

    `console_log` gets the kernel's output, up to a limit; `tail` holds its last lines.
    """

    def __init__(self, kernel: Kernel, machine: GuestMachine, tools: Tools, job: Job, console_log: Path) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._console = bytearray()
        self._log = console_log.open("wb")
        self._room = CONSOLE_MAX_BYTES
        self._selector = selectors.DefaultSelector()
        archive = os.memfd_create("initrd")
        image = os.open(kernel.image, os.O_RDONLY)
        channel, console = socket.socketpair(), socket.socketpair()
        try:
            with os.fdopen(os.dup(archive), "wb") as file:
                file.write(initrd.base(kernels.modules_of(kernel), tools.busybox) + job.archive())
            fds = (channel[1].fileno(), console[1].fileno())
            # By descriptor: the folders on the way may be closed to the account.
            files = (image, archive, job.image, job.store)
            paths = [None if descriptor is None else f"/proc/self/fd/{descriptor}" for descriptor in files]
            self.process = subprocess.Popen(
                command(tools, machine, fds, paths, job, kernel.command_line),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=console[1].fileno(),  # qemu's own messages are kept with the kernel's
                pass_fds=(*fds, *(descriptor for descriptor in files if descriptor is not None)),
                start_new_session=True,
                preexec_fn=bound_to_engine(signal.SIGKILL),
                **_identity(machine),
            )
        except BaseException:
            self._log.close()
            for end in (channel[0], console[0]):
                end.close()
            raise
        finally:
            os.close(archive)
            os.close(image)
            channel[1].close()
            console[1].close()
        self._channel, self._serial = channel[0], console[0]
        for end in (self._channel, self._serial):
            end.setblocking(False)
            self._selector.register(end, selectors.EVENT_READ)
        self._lines = LineChannel(self._channel.fileno(), self._channel.fileno(), LINE_MAX_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._selector.close()
        self._channel.close()
        self._serial.close()
        self._log.close()

    def lines(self, timeout_s: float) -> list[bytes]:
        """Wait for lines over the channel and return them. Raises UserError for an unterminated line."""
        lines = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._channel:
                try:
                    lines = self._lines.waiting()
                except LineError as error:
                    raise UserError(f"the guest: {error}") from None
                ended = self._lines.ended
            else:
                ended = self._read_console()
            if ended:
                self._selector.unregister(key.fileobj)
        return lines

    @property
    def over(self) -> bool:
        return not self._selector.get_map()

    def send(self, record: Mapping[str, Any]) -> None:
        """Send a short record at once. Raises UserError if the guest does not accept it."""
        try:
            self._lines.send(record, 0)
        except LineError as error:
            raise UserError(f"the guest takes no commands: {error}") from None

    def pin(self, cpus: Sequence[int]) -> None:
        """Pin each virtual CPU to one of the host's; qemu's other threads stay where they are."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(OSError):
                threads = re.match(r"CPU (\d+)/", (task / "comm").read_text(errors="replace"))
                if threads and int(threads[1]) < len(cpus):
                    os.sched_setaffinity(int(task.name), {cpus[int(threads[1])]})

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def ending(self, status: int | None) -> str:
        """The reason why the guest ended without reporting; `status`: its program's exit code, if reported."""
        try:
            code = self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -signal.SIGKILL
        trouble = self.trouble()
        if status is not None:
            why = "the program in the guest was killed" if status == 137 else f"it ended with exit code {status}"
        elif code < 0:
            why = f"qemu was ended by {signal.Signals(-code).name}"
        else:
            panicked = any(PANIC in line for line in self.tail)
            why = "the guest stopped answering, or powered off" if code == 0 else f"qemu ended with exit code {code}"
            why = "the guest's kernel panicked" if panicked else why
        return " | ".join([why, *(trouble or self.last_message())])

    def trouble(self) -> list[str]:
        """The first of the console's last lines that reports trouble, if any."""
        return [line for line in self.tail if any(word in line for word in TROUBLE)][:1]

    def last_message(self) -> list[str]:
        return [line for line in self.tail if line.strip() and not any(word in line for word in NOISE)][-1:]

    def _read_console(self) -> bool:
        try:
            received = self._serial.recv(1 << 20)
        except BlockingIOError:
            return False
        except OSError:
            return True
        kept = received[: self._room]
        self._room -= len(kept)
        self._log.write(kept)
        self._log.flush()
        self._console += received
        *lines, rest = bytes(self._console).split(b"\n")
        self._console = bytearray(rest[-LINE_MAX_BYTES:])
        plain = (re.sub(rb"\x1b\[[0-9;]*m|\r", b"", line).decode(errors="replace") for line in lines)
        self.tail += [line[:300] for line in plain]
        return not received


def _identity(machine: GuestMachine) -> dict[str, Any]:
    """Popen's arguments for the servers' account, with access to the accelerator's device."""
    identity = unprivileged().identity()
    if identity and machine.accelerator == "kvm":
        identity["extra_groups"] = [KVM.stat().st_gid]
    return identity
