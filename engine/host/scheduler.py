"""Tunables of the kernel's scheduler: which kernels have them, where they are, and setting them temporarily."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import UserError
from engine.core.kernel import version_of

SYSCTL, DEBUG = "/proc/sys/kernel/sched_", "/sys/kernel/debug/sched/"
NO_DEBUGFS = "debugfs is not mounted: mount -t debugfs debugfs /sys/kernel/debug"
MOVED, EEVDF, LAST = (5, 13), (6, 6), (1000, 0)  # from sysctl to debugfs; from CFS to EEVDF

Tunables = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class TunablePath:
    since: tuple[int, int]
    until: tuple[int, int]
    path: str


def _moved(name: str, until: tuple[int, int]) -> tuple[TunablePath, ...]:
    return (TunablePath((0, 1), MOVED, f"{SYSCTL}{name}"), TunablePath(MOVED, until, f"{DEBUG}{name}"))


PLACES: dict[str, tuple[TunablePath, ...]] = {
    "base_slice_ns": (TunablePath(EEVDF, LAST, f"{DEBUG}base_slice_ns"),),
    "latency_ns": _moved("latency_ns", EEVDF),
    "min_granularity_ns": _moved("min_granularity_ns", EEVDF),
    "wakeup_granularity_ns": _moved("wakeup_granularity_ns", EEVDF),
    "migration_cost_ns": _moved("migration_cost_ns", LAST),
    "nr_migrate": _moved("nr_migrate", LAST),
    "autogroup_enabled": (TunablePath((0, 1), LAST, f"{SYSCTL}autogroup_enabled"),),
}


def known(release: str) -> dict[str, Path]:
    version = version_of(release)
    return {
        name: Path(place.path)
        for name, places in PLACES.items()
        for place in places
        if place.since <= version < place.until
    }


def parsed(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """NAME=NUMBER pairs. Raises UserError for an unknown or repeated name."""
    tunables: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in PLACES:
            raise UserError(f"--sched {name}: unknown; known: {', '.join(PLACES)}")
        if not equals or not value.isascii() or not value.isdecimal() or len(value) > 18:
            raise UserError(f"--sched {text}: give NAME=NUMBER, such as base_slice_ns=3000000")
        if name in tunables:
            raise UserError(f"--sched {name}: given twice")
        tunables[name] = value
    return tuple(tunables.items())


def check_recorded(tunables: Tunables) -> None:
    """Raise UserError for tunables that could not have been requested."""
    parsed([f"{name}={value}" for name, value in tunables])


def check(tunables: Tunables, release: str) -> None:
    """Raise UserError, listing a kernel's tunables, for one that its release lacks."""
    known_here = known(release)
    for name, _ in tunables:
        if name not in known_here:
            raise UserError(f"--sched {name}: Linux {release} does not have it; it has {', '.join(known_here)}")


def check_here(tunables: Tunables) -> None:
    """Raise UserError if this machine's own kernel cannot be tuned like this."""
    check(tunables, platform.release())
    values(tunables)
    for name, path in _here(tunables).items():
        try:
            path.open("r+").close()
        except OSError as error:
            raise UserError(f"--sched {name}: {path}: {error.strerror}; start bench as root") from None


def values(tunables: Tunables) -> dict[str, str]:
    """Current values of this machine's kernel, by path. Raises UserError if one cannot be read."""
    current = {}
    for name, path in _here(tunables).items():
        try:
            current[str(path)] = path.read_text(errors="replace").strip()
        except OSError as error:
            mounted = Path(DEBUG).parent.is_dir() and any(Path(DEBUG).parent.iterdir())
            why = error.strerror if mounted or not str(path).startswith(DEBUG) else NO_DEBUGFS
            raise UserError(f"--sched {name}: {path}: {why}") from None
    return current


@contextmanager
def tuned(tunables: Tunables) -> Iterator[None]:
    """Set tunables within the block. Raises UserError if the kernel refuses one."""
    check(tunables, platform.release())
    before, wanted = values(tunables), dict(tunables)
    try:
        for name, path in _here(tunables).items():
            try:
                path.write_text(wanted[name])
            except OSError as error:
                raise UserError(f"--sched {name}={wanted[name]}: the kernel refuses it: {error.strerror}") from None
        yield
    finally:
        restore(before)


def restore(before: Mapping[str, str]) -> None:
    allowed = {place.path for places in PLACES.values() for place in places}
    for path, value in before.items():
        if path in allowed:
            with suppress(OSError):
                Path(path).write_text(value)


def _here(tunables: Tunables) -> dict[str, Path]:
    there = known(platform.release())
    return {name: there[name] for name, _ in tunables if name in there}
