"""The guests of a run: their kernels, their machine, and whether it fits on this one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.core.errors import UserError
from engine.core.format import size, size_bytes
from engine.core.kernel import HOST, GuestMachine, Kernel
from engine.core.model import Boot
from engine.guest import accelerator, initrd, kernels, store_image, tools
from engine.host.environment import Machine
from engine.plan.request import Request

SYSTEM_MB = 512  # of a guest's memory, for its kernel, page tables and the engine
LEAST_MB = 768
MEMINFO = Path("/proc/meminfo")
SPARE_MB = 512  # of the host's memory, for qemu, and for the host
MB = 1 << 20


def check(request: Request) -> None:
    """Check names and numbers. Raises UserError; fetches and boots nothing."""
    kernels.check_names(request.kernels)
    if request.in_guests and (request.route.tcp or request.route.client_host):
        flag = "--tcp" if request.route.tcp else "--client-host"
        raise UserError(f"{flag}: not with --kernel: a guest has no network")
    if request.keep and request.in_guests:
        raise UserError("--keep: a guest's cluster goes with the guest; leave out --keep, or --kernel")
    asked, pins = request.guest, request.guest.guest_pin
    away = sorted(set(pins) - os.sched_getaffinity(0))
    if away:
        raise UserError(f"--guest-pin: this machine has no CPU {', '.join(map(str, away))} for bench")
    if len(set(pins)) < len(pins) or (pins and asked.guest_cpus not in (None, len(pins))):
        raise UserError("--guest-pin: name as many different CPUs as the guest has (--guest-cpus)")
    if asked.guest_memory is not None:
        try:
            memory = _memory_bytes(asked.guest_memory)
        except UserError as error:
            raise UserError(f"--guest-memory {error}") from None
        if memory < LEAST_MB * MB:
            raise UserError(f"--guest-memory {asked.guest_memory}: a guest needs at least {LEAST_MB} MB")


def _check_huge_pages(wanted_mb: int) -> None:
    meminfo = dict(
        re.findall(r"^(HugePages_Free|HugePages_Total|Hugepagesize): +(\d+)", MEMINFO.read_text(errors="replace"), re.M)
    )
    size_kb, free, total = (int(meminfo.get(name, 0)) for name in ("Hugepagesize", "HugePages_Free", "HugePages_Total"))
    needed = -(-wanted_mb * 1024 // size_kb) if size_kb else 0
    if not size_kb or free < needed:
        missing = f": sysctl vm.nr_hugepages={total + needed - free}" if size_kb else ": this kernel has none"
        raise UserError(f"--guest-huge-pages: {needed} free ones are needed, and {free} are there{missing}")


def _memory_bytes(text: str) -> int:
    """Bytes of 1GB, 1G, 1GiB or 1g; without a unit, MB. Raises UserError."""
    match = re.fullmatch(r"([\d.]+)\s*([mgt])(i?b)?", text.strip(), re.I)
    return size_bytes(f"{match[1]}{match[2].upper()}B" if match else text, "MB")


def memory_mb(request: Request, machine: Machine) -> int:
    most = machine.memory_bytes // MB - SPARE_MB
    text = request.guest.guest_memory
    wanted = _memory_bytes(text) // MB if text else max(LEAST_MB, machine.memory_bytes // MB // 2)
    if wanted > most:
        raise UserError(
            f"--guest-memory: a guest of {size(wanted * MB)} does not fit into {size(machine.memory_bytes)} with the "
            f"host: give it at most {max(0, most)}MB"
        )
    if request.guest.guest_huge_pages:
        _check_huge_pages(wanted)
    return wanted


def share(machine: Machine, request: Request) -> Machine:
    """Memory of each server: a guest's, even on the host, so that settings agree."""
    if not request.in_guests:
        return machine
    return Machine((memory_mb(request, machine) - SYSTEM_MB // 2) * MB, machine.free_disk_bytes)


def prepare(
    request: Request,
    machine: Machine,
    cell_bytes: int,
    settings: Sequence[Mapping[str, str]],
    progress: Callable[[str], None],
    out: Path,
) -> tuple[Boot, Sequence[str]]:
    """Fetch kernels and tools, and boot one to choose an accelerator; return both, and notices.

    Raises UserError for an impossible request.
    """
    if not request.in_guests:
        return Boot(), ()
    roots = out / ".builds"
    booted = tuple(kernels.resolve(spec, progress, roots) for spec in request.kernels if spec != HOST)
    asked = request.guest
    programs = tools.find(progress, roots)
    runs, why = accelerator.choose(asked.accelerator, booted[0], programs, progress)
    by_9p = _why_9p(booted, programs)
    guest = GuestMachine(
        accelerator=runs,
        cpus=asked.guest_cpus or len(asked.guest_pin or os.sched_getaffinity(0)),
        memory_mb=memory_mb(request, machine),
        disk=asked.guest_disk,
        disk_mb=cell_bytes // MB + 256,
        emulator=f"qemu {programs.version}",
        pins=asked.guest_pin,
        huge_pages=asked.guest_huge_pages,
        share="9p" if by_9p else store_image.share(),
    )
    _check_memory(guest, settings)
    return Boot(booted, guest), _notices(request, booted, guest, why, by_9p)


def _why_9p(booted: Sequence[Kernel], programs: tools.Tools) -> str:
    """Reason for serving programs by 9p; empty if guests get an image."""
    without = [kernel.label for kernel in booted if initrd.EROFS not in kernels.modules(kernel)]
    return store_image.unavailable(programs.erofs) or (f"kernel {without[0]} has no erofs" if without else "")


def _check_memory(guest: GuestMachine, settings: Sequence[Mapping[str, str]]) -> None:
    buffers = max(size_bytes(values.get("shared_buffers", "128MB"), "8kB") for values in settings)
    needed = SYSTEM_MB + buffers // MB + (guest.disk_mb if guest.disk == "tmpfs" else 0)
    if needed > guest.memory_mb:
        of_disk = f", {size(guest.disk_mb * MB)} of data in memory (--guest-disk image leaves that out)"
        raise UserError(
            f"a guest of {size(guest.memory_mb * MB)} is too small for shared_buffers of {size(buffers)}"
            f"{of_disk if guest.disk == 'tmpfs' else ''} and {SYSTEM_MB} MB for itself: --guest-memory {needed}MB"
        )


def _notices(request: Request, booted: Sequence[Kernel], guest: GuestMachine, why: str, by_9p: str) -> list[str]:
    cpus = f"{guest.cpus} CPU{'s' if guest.cpus > 1 else ''}"
    how = f"{cpus}, {size(guest.memory_mb * MB)}, {guest.emulator} with {guest.accelerator}"
    notices = [f"kernel {kernel.label}: {kernel.release}, {kernel.scheduler}, in a guest of {how}" for kernel in booted]
    if guest.emulated:
        notices.append(f"emulated, not KVM: {why}; 10 to 250 times slower, and no verdict is given")
    if by_9p:
        notices.append(f"programs reach the guests by 9p, which takes the host's time while they run: {by_9p}")
    if HOST in request.kernels:
        notices.append("host against a guest gets no verdict: virtualisation would be compared")
    if len({kernel.provenance for kernel in booted}) > 1:
        notices.append("kernels of unlike provenance get no verdict: their configurations also differ")
    return notices
