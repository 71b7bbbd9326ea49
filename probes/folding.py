"""Names for sampled addresses: folded lines for flame graphs, and the share of each phase of a statement.

Backends are forked from the postmaster and share its mappings, so that even exited ones get their names. Binaries
without frame pointers give only the innermost function; the frames above it are discarded.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from probes import elf
from probes.errors import ProbeError, visible
from probes.frames import Stack

MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+\s*(.*)$")
KERNEL_MARK = "_[k]"
UNKNOWN = "[unknown]"
WAIT_FRAMES = {"runq": "[waiting for a CPU]", "asleep": "[asleep]", "disk": "[disk]"}
FOR_CLIENT = frozenset({"secure_read", "secure_write"})  # a backend with these on its stack waits for its client
# The outermost of these on a stack gives the sample's phase, as in the published tables.
PHASE_ROOTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("parse", re.compile(r"pg_parse_query|raw_parser")),
    ("analyze", re.compile(r"pg_analyze_and_rewrite.*|parse_analyze.*|pg_rewrite_query")),
    ("plan", re.compile(r"pg_plan_quer(y|ies)|planner|standard_planner|GetCachedPlan")),
    ("execute", re.compile(r"Portal(Start|Run|Drop)")),
)
OTHER = "other"


@dataclass(frozen=True, slots=True)
class CodeMapping:
    """An executable mapping: `start` to `end` in memory is the file from `offset` on."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True, slots=True)
class Symbols:
    file: elf.Elf
    functions: tuple[elf.Symbol, ...]

    def name(self, offset: int) -> str | None:
        address = self.file.address_of(offset)
        if address is None:
            return None
        index = bisect.bisect_right(self.functions, address, key=lambda symbol: symbol.address)
        symbol = self.functions[index - 1] if index else None
        if symbol is None or (symbol.size and address >= symbol.address + symbol.size):
            return None
        return plain_name(symbol.name)


@dataclass(frozen=True, slots=True)
class Space:
    """An address space: its mappings, and the symbols of the files. `complete` stacks can be walked."""

    mappings: tuple[CodeMapping, ...]
    symbols: Mapping[str, Symbols]
    complete: bool

    def name(self, address: int, *, caller: bool) -> str | None:
        """Function at an address: `[file]` if the file has no name for it, None if no code is mapped.

        For a `caller`, the byte before: its return address may be the next function's first byte.
        """
        at = address - 1 if caller else address
        for mapping in self.mappings:
            if mapping.start <= at < mapping.end:
                symbols = self.symbols.get(mapping.path)
                name = symbols.name(at - mapping.start + mapping.offset) if symbols else None
                return name or visible(f"[{Path(mapping.path).name.strip('[]')}]")
        return None


def parse_maps(text: str) -> tuple[CodeMapping, ...]:
    mappings = []
    for line in text.splitlines():
        match = MAPPING.match(line)
        if match and "x" in match[3]:
            path = match[5].removesuffix(" (deleted)") or "[anonymous]"
            mappings.append(CodeMapping(int(match[1], 16), int(match[2], 16), int(match[4], 16), path))
    return tuple(mappings)


@lru_cache(maxsize=elf.KEPT)
def symbols_of(file: elf.Elf) -> Symbols:
    """Functions of a file, indexed for look-up; the shortest of several names for an address."""
    best: dict[int, elf.Symbol] = {}
    for symbol in (*file.functions, *file.exported):
        known = best.get(symbol.address)
        if known is None or (len(symbol.name), symbol.name) < (len(known.name), known.name):
            best[symbol.address] = symbol
    return Symbols(file, tuple(best[address] for address in sorted(best)))


def space(maps: str, *, complete: bool, read: Callable[[Path], elf.Elf] = elf.read) -> Space:
    """Address space of a process from the text of its maps. Unreadable files give `[file]` for a name."""
    mappings = parse_maps(maps)
    symbols = {}
    for path in dict.fromkeys(mapping.path for mapping in mappings if mapping.path.startswith("/")):
        try:
            symbols[path] = symbols_of(read(Path(path)))
        except ProbeError:
            continue
    return Space(mappings, symbols, complete)


def frames_of(stack: Stack, known: Space | None) -> tuple[str, ...]:
    """Names of a stack, outermost first; kernel functions are marked. Ends where no code is mapped."""
    user: list[str] = []
    for depth, address in enumerate(stack.user if known else ()):
        assert known is not None
        if depth and not known.complete:
            break
        name = known.name(address, caller=depth > 0)
        if name is None:
            break
        user.append(name)
    if not user and stack.user:
        user = [UNKNOWN]
    return (*reversed(user), *(f"{name}{KERNEL_MARK}" for name in reversed(stack.kernel)))


def fold(
    stacks: Iterable[Stack], role_of: Callable[[int], str], space_of: Callable[[int], Space | None]
) -> dict[str, int]:
    """Folded lines and their counts: `role;outermost;...;leaf`.

    The outermost frame of a wait is its kind (`WAIT_FRAMES`); waits for a client are left out.
    `space_of` maps a pid to its address space, the postmaster's for all backends; None if unknown (a client, say).
    """
    folded: dict[str, int] = {}
    for stack in stacks:
        frames = frames_of(stack, space_of(stack.pid))
        if stack.kind:
            if stack.kind == "asleep" and not FOR_CLIENT.isdisjoint(frames):
                continue  # a signal came meanwhile, so the client did not end the wait
            frames = (WAIT_FRAMES[stack.kind], *frames)
        line = ";".join((role_of(stack.pid), *frames))
        folded[line] = folded.get(line, 0) + stack.count
    return folded


def functions(
    leaves: Iterable[Stack], role_of: Callable[[int], str], space_of: Callable[[int], Space | None]
) -> dict[str, dict[str, int]]:
    """Samples by role and function that ran; the arguments are those of `fold`. Kernel functions are marked."""
    by_role: dict[str, dict[str, int]] = {}
    for leaf in leaves:
        names = frames_of(leaf, space_of(leaf.pid))
        counts, name = by_role.setdefault(role_of(leaf.pid), {}), names[-1] if names else UNKNOWN
        counts[name] = counts.get(name, 0) + leaf.count
    return by_role


def lines(folded: Mapping[str, int]) -> str:
    return "".join(f"{line} {count}\n" for line, count in sorted(folded.items()))


def phase_of(frames: Iterable[str]) -> str:
    """The phase whose function is outermost on the stack, else `other`."""
    for frame in frames:
        for phase, pattern in PHASE_ROOTS:
            if pattern.fullmatch(frame):
                return phase
    return OTHER


def phase_samples(folded: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Samples by role and phase. Valid only for binaries with complete stacks."""
    by_role: dict[str, dict[str, int]] = {}
    for line, count in folded.items():
        role, *frames = line.split(";")
        phases = by_role.setdefault(role, {})
        phase = phase_of(frames)
        phases[phase] = phases.get(phase, 0) + count
    return by_role


def quality(known: Space) -> str:
    """One line on how far this server's stacks can be trusted."""
    if known.complete:
        return "complete stacks (frame pointers)"
    return (
        "flat profile: the binary keeps no frame pointers, so only the innermost function is known and there are no "
        "phase shares; use a build from source, or add the phases probe"
    )


def plain_name(name: str) -> str:
    """Strip what compilers append to clones, for use in a folded line."""
    return re.sub(r"\.(isra|part|constprop|cold|lto_priv)\b.*$", "", name).replace(";", ":")
