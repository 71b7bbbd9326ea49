"""Shared memory of servers, as the kernel shows it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from engine.host.procfs import children
from engine.postgres.server import Server


def segments_of(server: Server) -> set[Path]:
    """A server's shared memory: its System V segment, and the dynamic ones of all its processes."""
    rows = [row.split() for row in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    segments = {Path("sysv", row[1]) for row in rows if row[4] == str(server.pid)}
    for pid in (server.pid, *children(server.pid)):
        with suppress(FileNotFoundError, ProcessLookupError):
            maps = Path(f"/proc/{pid}/maps").read_text().split()
            segments |= {Path(word) for word in maps if word.startswith("/dev/shm/PostgreSQL.")}
    return segments


def still_there(segments: set[Path]) -> set[Path]:
    rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    ids = {Path("sysv", row.split()[1]) for row in rows}
    return {segment for segment in segments if segment in ids or (segment.is_absolute() and segment.exists())}
