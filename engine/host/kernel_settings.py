"""Settings of this machine's kernel, in files below /proc and /sys: set temporarily, then restored.

The previous values are kept in a file locked by the engine. If neither the engine nor its reaper (`engine.run.reaper`)
restored them, the next start does.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from engine.core.errors import UserError
from engine.core.text import visible

# Of all files, those that are ever restored.
PLACES = re.compile(
    r"/sys/block/[A-Za-z0-9_!-][A-Za-z0-9._!-]{0,63}/queue/\w+|/sys/kernel/(mm/\w+/enabled|debug/sched/\w+)"
    r"|/proc/sys/(vm/\w+|kernel/sched_\w+)"
)
VALUE = re.compile(r"\w{1,18}")  # of all values, those that are ever restored
CHOSEN = re.compile(r"\[(\w+)\]")  # of the words in a file, the one in force
LEFT = Path("/run/pgbed")  # a boot clears it, and resets the kernel
DEBUGFS = Path("/sys/kernel/debug")

Settings = Mapping[str, tuple[Path, str]]  # file and value, by the name that messages show


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting that a config may have; `section` and `name` are where the environment has it."""

    section: str
    name: str
    numbers: range = range(0)
    words: tuple[str, ...] = ()

    def accepts(self, text: str) -> bool:
        return text in self.words or (re.fullmatch("[0-9]{1,8}", text) is not None and int(text) in self.numbers)

    @property
    def values(self) -> str:
        words = f"one of {', '.join(self.words)}"
        return words if self.words else f"a whole number from 0 to {self.numbers[-1]}"


def without(environment: Mapping[str, Any], knobs: Iterable[Knob]) -> dict[str, Any]:
    """An environment's record without a config's settings: these are part of the config, not drift."""
    remaining = dict(environment)
    for knob in knobs:
        remaining[knob.section] = {**(remaining.get(knob.section) or {}), knob.name: None}
    return remaining


def check(settings: Settings) -> None:
    """Raise UserError for a file that this machine does not have, or that this user may not write."""
    for name, (file, _) in settings.items():
        try:
            os.close(os.open(file, os.O_RDWR))  # in debugfs, a stream to read and write cannot be opened
        except FileNotFoundError:
            mounted = not file.is_relative_to(DEBUGFS) or (DEBUGFS.is_dir() and any(DEBUGFS.iterdir()))
            why = f"this machine has no {file}" if mounted else f"mount -t debugfs debugfs {DEBUGFS} provides {file}"
            raise UserError(f"{name}: {why}") from None
        except OSError as error:
            raise UserError(f"{name}: {file}: {error.strerror}; start bench as root") from None


@contextmanager
def changed(settings: Settings) -> Iterator[None]:
    """Set files within the block. Raises UserError if the kernel refuses a value, or another run has set such files."""
    for name, (file, _) in settings.items():
        if not PLACES.fullmatch(str(file)):
            raise UserError(f"{name}: {file} is no setting of the kernel")
    check(settings)
    with _restored([file for file, _ in settings.values()]):
        for name, (file, value) in settings.items():
            try:
                file.write_text(value)
            except OSError as error:
                raise UserError(f"{name}={value}: {file} refused: {error.strerror}") from None
            if (now := _read(file)) != value:  # of huge pages the kernel gives those that it finds
                raise UserError(f"{name}={value}: {file} is {now} after it was set")
        yield


@contextmanager
def _restored(files: Iterable[Path]) -> Iterator[None]:
    """Write values back after the block; they are recorded within, and until that succeeds.

    Raises UserError if another run has changed them.
    """
    with ExitStack() as opened:
        for owner, group in groupby(sorted(files), key=lambda file: file.parts[3]):
            LEFT.mkdir(mode=0o700, exist_ok=True)
            file = opened.enter_context((LEFT / f"settings-{owner}.json").open("a+"))
            paths = tuple(group)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another run has changed {paths[0]} or others there: wait until it ends") from None
            if os.fstat(file.fileno()).st_nlink == 0:
                raise UserError(f"another run has just restored {paths[0]} or others there: start again")
            file.seek(0)
            left = restore(_kept(file))  # of an engine that was killed since the start, or a cell before
            values = {str(path): _read(path) for path in paths} | left
            _keep(values, file)
            opened.callback(lambda values, file: _keep(restore(values), file), values, file)
        yield


def restore(before: Mapping[str, str]) -> dict[str, str]:
    """Write values back to their files, and to no others; return those that could not be."""
    failed = {}
    for path, value in before.items():
        try:
            if not (PLACES.fullmatch(path) and VALUE.fullmatch(value)):
                raise PermissionError
            Path(path).write_text(value)
        except OSError:
            failed[path] = value
    return failed


def restore_left(folder: Path = LEFT) -> list[str]:
    """Restore what dead engines left behind; return a line for each value. One that cannot be is tried again."""
    lines = []
    for file in sorted(folder.glob("settings-*.json")) if _is_ours(folder) else ():
        with suppress(OSError), file.open("r+") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its engine is alive
            failed = restore(values := _kept(opened))
            lines += [
                f"{visible(path)} could not be restored to {visible(value)}, as it was before a run: set it yourself"
                if path in failed
                else f"restored {path} to {value}, as a run before had left it"
                for path, value in values.items()
            ]
            _keep(failed, opened)
    return lines


def _keep(values: Mapping[str, str], file: TextIO) -> None:
    """Replace the values in a file of `LEFT`, which goes if there are none."""
    file.truncate(0)
    file.seek(0)
    json.dump(values, file)
    file.flush()
    if not values:
        Path(file.name).unlink(missing_ok=True)


def _kept(file: TextIO) -> dict[str, str]:
    """The values in a file of `LEFT`; empty if it is empty or damaged."""
    with suppress(ValueError):
        if isinstance(values := json.load(file), dict):
            return {str(path): str(value) for path, value in values.items()}
    return {}


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() == 0 and not status.st_mode & 0o022 and folder.is_dir()


def _read(file: Path) -> str:
    try:
        text = file.read_text(errors="replace").strip()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    chosen = CHOSEN.search(text)
    value = chosen[1] if chosen else text
    if not VALUE.fullmatch(value):
        raise UserError(f"{file} is {visible(value)}, which could not be restored")
    return value
