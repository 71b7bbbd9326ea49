"""Tunables of the block device under a cluster and of memory, as part of a config: set temporarily, then restored.

The previous values are kept in a file locked by the engine. If neither the engine nor its reaper (`engine.run.reaper`)
restored them, the next start does.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.errors import UserError
from engine.host.machine_counters import device_of


@dataclass(frozen=True, slots=True)
class Knob:
    """A tunable: a whole number within bounds or one of `words`, in the file of memory at `place`, or of a device.

    `record` is where the environment has it: section and name.
    """

    bounds: tuple[int, int] = (0, 0)
    words: tuple[str, ...] = ()
    place: str = ""
    record: tuple[str, str] = ("", "")

    def accepts(self, text: str) -> bool:
        if self.words:
            return text in self.words
        return re.fullmatch("[0-9]{1,8}", text) is not None and self.bounds[0] <= int(text) <= self.bounds[1]

    @property
    def values(self) -> str:
        if self.words:
            return f"one of {', '.join(self.words)}"
        return f"a whole number from {self.bounds[0]} to {self.bounds[1]}"


KNOBS: Mapping[str, Knob] = {
    "read_ahead_kb": Knob((0, 65536), record=("storage", "read_ahead_kb")),
    "transparent_hugepage": Knob(
        words=("always", "madvise", "never"),
        place="/sys/kernel/mm/transparent_hugepage/enabled",
        record=("memory", "transparent_huge_pages"),
    ),
    "nr_hugepages": Knob((0, 1 << 24), place="/proc/sys/vm/nr_hugepages", record=("memory", "huge_pages")),
}
QUEUE = re.compile(r"/sys/block/[A-Za-z0-9_!-][A-Za-z0-9._!-]{0,63}/queue/(\w+)")
CHOSEN = re.compile(r"\[(\w+)\]")  # of the words in a file, the one that holds
LEFT = Path("/run/pgbed")  # a boot clears it, and resets the device

Settings = Sequence[tuple[str, str]]


def parsed(record: object, where: str) -> tuple[tuple[str, str], ...]:
    """NAME = VALUE pairs of a config's table. Raises UserError for an unknown name, or another value."""
    if not isinstance(record, Mapping):
        raise UserError(f"{where}: [device] must be a table such as read_ahead_kb = 128")
    settings = []
    for name, value in record.items():
        if name not in KNOBS:
            raise UserError(f"{where}: [device] has '{name}'; known: {', '.join(KNOBS)}")
        text = str(value)
        if isinstance(value, bool) or not KNOBS[name].accepts(text):
            raise UserError(f"{where}: {name} must be {KNOBS[name].values}")
        settings.append((str(name), text))
    return tuple(settings)


def check(settings: Settings, path: Path) -> None:
    """Raise UserError if the device under a path cannot be set: no device, no such setting, not root."""
    for name, place in _places(settings, path).items():
        try:
            place.open("r+").close()
        except FileNotFoundError:
            where = "this kernel" if KNOBS[name].place else f"{place.parts[3]}, on which {path} is,"
            raise UserError(f"{name}: {where} has no such setting") from None
        except OSError as error:
            raise UserError(f"{name}: {place}: {error.strerror}; start bench as root") from None


def values(settings: Settings, path: Path) -> dict[str, str]:
    """Current values by file. Raises UserError if one cannot be read."""
    current = {}
    for name, file in _places(settings, path).items():
        try:
            current[str(file)] = _read(file)
        except OSError as error:
            raise UserError(f"{name}: {file}: {error.strerror}") from None
    return current


@contextmanager
def tuned(settings: Settings, path: Path) -> Iterator[None]:
    """Set the device under a path within the block. Raises UserError if it refuses a value."""
    before = values(settings, path)
    with _kept(before):
        try:
            for name, place in _places(settings, path).items():
                value = dict(settings)[name]
                try:
                    place.write_text(value)
                except OSError as error:
                    raise UserError(f"{name}={value}: {place} refused: {error.strerror}") from None
                if (previous := _read(place)) != value:  # of huge pages the kernel gives those that it finds
                    raise UserError(f"{name}={value}: {place} is {previous}, which is all that the kernel could give")
            yield
        finally:
            restore(before)


def restore(before: Mapping[str, str]) -> None:
    """Write back what `values` returned, and to no other file."""
    for path, value in before.items():
        match = QUEUE.fullmatch(path)
        if (match and match[1] in KNOBS and re.fullmatch("[0-9]{1,9}", value)) or any(
            knob.place == path and knob.accepts(value) for knob in KNOBS.values()
        ):
            with suppress(OSError):
                Path(path).write_text(value)


def restore_left(folder: Path = LEFT) -> list[str]:
    """Restore what dead engines left behind; return a line for each restored value."""
    lines = []
    for file in sorted(folder.glob("device-*.json")) if _is_ours(folder) else ():
        with suppress(OSError, ValueError), file.open("r+") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its engine is alive
            before = json.load(opened)
            values = {str(path): str(value) for path, value in before.items()} if isinstance(before, dict) else {}
            restore(values)
            lines += [f"restored {path} to {value}, as a run before had left it" for path, value in values.items()]
            file.unlink()
    return lines


@contextmanager
def _kept(before: Mapping[str, str]) -> Iterator[None]:
    """Record values within the block; only root's record is read. Raises UserError if another run has the device."""
    with ExitStack() as opened:
        if before:
            LEFT.mkdir(mode=0o700, exist_ok=True)
        for device in sorted({Path(path).parts[3] for path in before}):
            file = opened.enter_context((LEFT / f"device-{device}.json").open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another run has changed settings of {device}: wait until it ends") from None
            if os.fstat(file.fileno()).st_nlink == 0:
                raise UserError(f"another run has just restored the settings of {device}: start again")
            file.truncate(0)
            json.dump({path: value for path, value in before.items() if Path(path).parts[3] == device}, file)
            file.flush()
            opened.callback(Path(file.name).unlink, missing_ok=True)
        yield


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() == 0 and not status.st_mode & 0o022 and folder.is_dir()


def without(environment: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """An environment's record without a config's settings: these are part of the config, not drift."""
    remaining = dict(environment)
    for section, name in (KNOBS[setting].record for setting, _ in settings):
        remaining[section] = {**(remaining.get(section) or {}), name: None}
    return remaining


def _read(file: Path) -> str:
    text = file.read_text(errors="replace").strip()
    chosen = CHOSEN.search(text)
    return chosen[1] if chosen else text


def _places(settings: Settings, path: Path) -> dict[str, Path]:
    return {name: Path(KNOBS[name].place) if KNOBS[name].place else _of_device(name, path) for name, _ in settings}


def _of_device(name: str, path: Path) -> Path:
    device = device_of(next(parent for parent in (path, *path.parents) if parent.exists()))
    if device is None:
        raise UserError(f"{name}: {path} is not on a block device that can be tuned")
    return Path("/sys/block", device, "queue", name)
