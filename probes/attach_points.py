"""Attach points of a probe's logical events in a given binary.

The order is USDT, then .symtab, then .dynsym; a function is taken only if the kernel can emulate its first
instruction. A uprobe replaces that instruction: emulated, a hit costs about 0.5 us, single-stepped about 10 us.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from probes.elf import Elf, Symbol
from probes.errors import ProbeError
from probes.table import Candidate, Probe, ServerEvent

# Suffixes of functions that compilers specialise.
CLONE = r"(\.(isra|part|constprop|cold|lto_priv)\.?\d*)*"
NOP5_KERNEL = (6, 18)  # from this version on, the kernel emulates the 5-byte nop, too

# First bytes of instructions on x86-64 that the kernel emulates.
CHEAP: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("push", re.compile(rb"\x41?[\x50-\x57]")),
    ("nop", re.compile(rb"\x90")),
    ("jmp", re.compile(rb"[\xe9\xeb]")),
    ("call", re.compile(rb"\xe8")),
)
NOP5 = re.compile(rb"\x0f\x1f\x44\x00\x00")
# Names for the others, for messages only.
SLOW: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("endbr64", re.compile(rb"\xf3\x0f\x1e\xfa")),
    ("sub", re.compile(rb"[\x48-\x4f]?(\x83[\xe8-\xef]|\x81[\xe8-\xef]|[\x28-\x2d])", re.DOTALL)),
    ("mov", re.compile(rb"[\x40-\x4f]?[\x88-\x8b\xb8-\xbf\xc7]", re.DOTALL)),
    ("xor", re.compile(rb"[\x40-\x4f]?[\x30-\x35]")),
    ("cmp", re.compile(rb"[\x40-\x4f]?([\x38-\x3d]|[\x80\x81\x83][\x38-\x3f\x78-\x7f\xb8-\xbf\xf8-\xff])", re.DOTALL)),
    ("test", re.compile(rb"[\x40-\x4f]?[\x84\x85]")),
    ("lea", re.compile(rb"[\x40-\x4f]?\x8d")),
)


@dataclass(frozen=True, slots=True)
class Attachment:
    """Attach point of one event.

    `kind` is "usdt" or "function"; `symbol` the probe's name or the function's exact spelling. `at_return` asks for
    the return of the function. `slow` marks an entry that the kernel must single-step, taken on explicit request.
    """

    event: str
    kind: str
    symbol: str
    at_return: bool = False
    slow: bool = False
    instruction: str = ""

    def point(self, binary: str) -> str:
        if self.kind == "usdt":
            return f"usdt:{binary}:postgresql:{self.symbol}"
        return f"{'uretprobe' if self.at_return else 'uprobe'}:{binary}:{self.symbol}"


def entry(code: bytes, machine: str, kernel: tuple[int, int]) -> tuple[str, bool]:
    """The first instruction of a function, by name if known, and whether a hit is slow (measured on x86-64 only)."""
    if machine != "x86_64":
        return "unknown", False
    for name, pattern in CHEAP:
        if pattern.match(code):
            return name, False
    if NOP5.match(code):
        return "nop5", kernel < NOP5_KERNEL
    return next((name for name, pattern in SLOW if pattern.match(code)), code[:4].hex(" ")), True


def find(elf: Elf, function: str) -> Symbol | None:
    """The function of that name or a compiler's clone of it; the plain name wins, and `.cold` parts are skipped."""
    pattern = re.compile(re.escape(function) + CLONE)
    for table in (elf.functions, elf.exported):
        symbols = [symbol for symbol in table if symbol.name.startswith(function) and pattern.fullmatch(symbol.name)]
        symbols = [symbol for symbol in symbols if ".cold" not in symbol.name]
        if symbols:
            return min(symbols, key=lambda symbol: (len(symbol.name), symbol.name))
    return None


def resolve(
    elf: Elf, event: ServerEvent, major: int, *, kernel: tuple[int, int], allow_slow: bool = False
) -> tuple[Attachment, ...]:
    """Attachments of an event: the first candidate whose entry is not slow.

    A candidate is a group of names that belong together (start and end, or the twins of one function). Raises
    ProbeError if no candidate exists, or only slow ones and `allow_slow` is not given; an optional event may lack one.
    """
    candidates = [candidate for candidate in event.candidates if candidate.since <= major <= candidate.until]
    slow: tuple[Attachment, ...] = ()
    for candidate in candidates:
        attached = _attachments(elf, event, candidate, kernel)
        if attached is None:
            continue
        if event.rare or not any(one.slow for one in attached):
            return attached
        slow = slow or attached
    if slow and allow_slow:
        return slow
    if event.optional:
        return ()
    if slow:
        one = next(one for one in slow if one.slow)
        raise ProbeError(
            f"probes: {one.symbol} starts with '{one.instruction}', which the kernel must single-step (about 10 us per "
            "call). Pass --allow-slow-probes to use it anyway."
        )
    usdt = ", ".join(dict.fromkeys(name for candidate in candidates for name in candidate.usdt)) or "none"
    functions = ", ".join(dict.fromkeys(name for candidate in candidates for name in candidate.functions)) or "none"
    raise ProbeError(
        f"probes: {elf.path}: no attach point for '{event.name}' (looked for USDT {usdt}, then {functions}). "
        "Build with --enable-dtrace or keep the symbol table (no strip --strip-all)."
    )


def resolve_all(
    elf: Elf, events: Iterable[ServerEvent], major: int, *, kernel: tuple[int, int], allow_slow: bool = False
) -> dict[str, tuple[Attachment, ...]]:
    return {event.name: resolve(elf, event, major, kernel=kernel, allow_slow=allow_slow) for event in events}


def keeps_frame_pointers(elf: Elf) -> bool:
    """Whether this binary's user stacks can be walked: most large functions begin by pushing the frame pointer."""
    if elf.machine != "x86_64":
        return True  # aarch64's calling convention keeps them
    large = [symbol for symbol in elf.functions or elf.exported if symbol.size >= 512][:500]
    prologue = re.compile(rb"(\xf3\x0f\x1e\xfa)?\x55\x48\x89\xe5")
    kept = sum(bool(prologue.match(elf.bytes_at(symbol.address, 8))) for symbol in large)
    return bool(large) and kept > 0.5 * len(large)


def origin(probe: Probe, bpftrace: str, elf: Elf, attachments: Mapping[str, tuple[Attachment, ...]]) -> dict[str, Any]:
    """Origin of a probe's figures: program, kernel, binary, attach points by event, and their kind as `attach`."""
    rare = {event.name for event in probe.events if event.rare}
    measured = [one for event, points in attachments.items() if event not in rare for one in points]
    kinds = "+".join(sorted({one.kind for one in measured}))
    return {
        "probe": probe.id,
        "bpftrace": bpftrace,
        "kernel": os.uname().release,
        "binary": elf.path,
        "build_id": elf.build_id,
        "attach": kinds or ("timer" if probe.id == "stacks" else "tracepoint"),
        "slow_entry": any(one.slow for one in measured),
        "frame_pointers": keeps_frame_pointers(elf),
        "points": {event: [one.point(elf.path) for one in points] for event, points in attachments.items()},
    }


def _attachments(
    elf: Elf, event: ServerEvent, candidate: Candidate, kernel: tuple[int, int]
) -> tuple[Attachment, ...] | None:
    attachments: list[Attachment] = []
    for name in candidate.usdt:
        if f"postgresql:{name}" not in elf.usdt:
            return None
        attachments.append(Attachment(event.name, "usdt", name))
    for name in candidate.functions:
        symbol = find(elf, name)
        if symbol is None:
            return None
        instruction, slow = entry(elf.bytes_at(symbol.address, 8), elf.machine, kernel)
        attachments.append(Attachment(event.name, "function", symbol.name, candidate.at_return, slow, instruction))
    return tuple(attachments)
