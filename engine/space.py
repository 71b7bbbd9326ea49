"""How much disk a cell needs, and whether there is that much."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from engine.errors import UserError
from engine.model import Config
from workloads.insert.steps import Step

# Bytes on disk per live row, heap and indexes, measured on a table of a million rows: after l.x, and when
# l.i1 and l.i2 have replaced every row once (355 to 375; freed space is reused only after vacuum).
ROW_LOADED_BYTES = 206
ROW_WRITTEN_BYTES = 375
# WAL of one row: 218 in l.i0 without indexes; with full-page images of three indexes' leaves many times that.
ROW_WAL_LOADED_BYTES = 400
ROW_WAL_WRITTEN_BYTES = 4000
CLUSTER_BYTES = 64 << 20  # a fresh cluster with its first WAL segments, log included
SLACK = 1.15  # the WAL limit is a soft one, and a run that ends at the last byte has failed

_UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB)?")


def estimate_bytes(steps: Iterable[Step], clients: int, config: Config) -> int:
    """The largest size of a cell's cluster over its steps.

    Rows that a step inserts without deleting stay; where it deletes as many, the table grows only by what
    vacuum cannot give back in time. WAL is what the rows make, but no more than max_wal_size.
    """
    live = replaced = made = 0
    for step in steps:
        rows = step.rows * clients
        live += 0 if step.deletes else rows
        replaced += rows if step.deletes else 0
        made += rows * (ROW_WAL_LOADED_BYTES if step.kind in ("load", "index") else ROW_WAL_WRITTEN_BYTES)
    grown = min(live, replaced) * (ROW_WRITTEN_BYTES - ROW_LOADED_BYTES)
    data = live * ROW_LOADED_BYTES + grown
    return int((CLUSTER_BYTES + data + min(made, max_wal_bytes(config))) * SLACK)


def max_wal_bytes(config: Config) -> int:
    """The config's max_wal_size; the server's default of 1GB when it does not set it."""
    return size_bytes(dict(config.settings).get("max_wal_size", "1GB"), default_unit="MB")


def size_bytes(value: str, default_unit: str) -> int:
    """A size as PostgreSQL writes it (`40GB`); a bare number is in the setting's own unit. UserError if it is none."""
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise UserError(f"'{value}' is not a size such as 40GB")
    return int(float(match[1]) * _UNITS[match[2] or default_unit])


def free_bytes(path: Path) -> int:
    """Free space for an ordinary user on the filesystem that holds, or will hold, `path`."""
    return shutil.disk_usage(existing(path)).free


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that is there."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return place


def check(path: Path, needed_bytes: int) -> None:
    """Raises UserError, saying need and have, when there is not that much free space for `path`."""
    free = free_bytes(path)
    if free < needed_bytes:
        raise UserError(
            f"{path} has {readable(free)} free, and {readable(needed_bytes)} are needed: "
            f"free some, choose another folder with --out, or a smaller --scale or --rows"
        )


def readable(size_bytes: int) -> str:
    """A size for people: `1.5 GB` (binary units, named as PostgreSQL names them)."""
    unit = next((name for name in ("TB", "GB", "MB", "kB") if size_bytes >= _UNITS[name]), "B")
    return f"{size_bytes / _UNITS[unit]:.1f} {unit}" if unit != "B" else f"{size_bytes} B"


def folder_bytes(folder: Path) -> int:
    """The apparent size of all files below a folder; what vanishes meanwhile is not counted."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (many files, often)
    return total
