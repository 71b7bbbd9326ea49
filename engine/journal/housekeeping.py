"""Tags of runs, and the removal of runs and of data of runs that never began."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.core.errors import UserError
from engine.core.record import parsed
from engine.host import disk
from engine.host.procfs import processes_in
from engine.journal.run_lock import held, is_locked
from engine.system.files import open_plain, read_plain
from workloads.api.base import UNBEGUN

TAGS = "tags.json"
DATA = ".data"  # beside the runs
WORD_MAX = 40
TAGS_MAX = 20
# Characters one cell wide on every terminal that separate neither lists nor a filter's words.
_WORD = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_+.:/-]*")


def read_tags(run: Path) -> tuple[str, ...]:
    """The tags of a run in the order given; empty if the file is missing or damaged."""
    try:
        words = parsed(read_plain(run / TAGS), TAGS)["tags"]
    except (OSError, UserError, LookupError, TypeError):
        return ()
    return tuple(word for word in words if isinstance(word, str)) if isinstance(words, list) else ()


def tag(run: Path, words: Sequence[str]) -> tuple[str, ...]:
    """Add tags to a run; return all its tags. Raises UserError for an invalid tag or too many."""
    for word in words:
        if not _WORD.fullmatch(word) or len(word) > WORD_MAX:
            raise UserError(f"tag '{word}': use only letters, digits and . _ + : / -, at most {WORD_MAX} characters")
    tags = tuple(dict.fromkeys((*read_tags(run), *words)))
    if len(tags) > TAGS_MAX:
        raise UserError(f"{run.name}: a run can have {TAGS_MAX} tags; remove some with --remove")
    return _keep(run, tags)


def untag(run: Path, words: Sequence[str]) -> tuple[str, ...]:
    """Remove tags from a run; return the rest. Raises UserError for a tag that the run does not have."""
    tags = read_tags(run)
    for word in words:
        if word not in tags:
            raise UserError(f"{run.name} has no tag '{word}' (it has: {', '.join(tags) or 'none'})")
    return _keep(run, tuple(tag for tag in tags if tag not in words))


def _text(path: Path) -> str:
    try:
        return read_plain(path, 4096).decode(errors="replace")
    except OSError as error:
        return str(error.strerror)


def _keep(run: Path, tags: tuple[str, ...]) -> tuple[str, ...]:
    part = run / f"{TAGS}.part"
    try:
        part.unlink(missing_ok=True)
        with part.open("x") as file:  # does not follow a planted symlink
            file.write(json.dumps({"tags": tags}) + "\n")
        part.rename(run / TAGS)
    except OSError as error:
        raise UserError(f"{run / TAGS}: cannot be written: {error.strerror}") from error
    return tags


def data_of(run: Path) -> Path:
    """The folder of files that are made for a run's workload while it is planned, before the run has a folder."""
    return run.parent / DATA / run.name


@contextmanager
def data_kept(run: Path) -> Iterator[Path]:
    """Remove the run's data folder again if no run comes of it: none would be left to delete."""
    try:
        yield data_of(run)
    except BaseException:
        if not (run / "manifest.json").exists():
            with suppress(OSError):
                forget_data(run)
        raise


def forget_data(run: Path) -> int:
    """Remove the data folder of a run, if it has one; return the bytes freed. Raises OSError."""
    folder = data_of(run)
    try:  # a link in the place of either folder would lead root to a stranger's choice
        beside = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        if not folder.is_dir() or folder.is_symlink():
            return 0
        freed = disk.occupied_bytes(folder)
        shutil.rmtree(folder.name, dir_fd=beside)
    finally:
        os.close(beside)
    with suppress(OSError):  # other runs have some, too
        folder.parent.rmdir()
    return freed


def keep_data(run: Path) -> None:
    """The run has begun: its data folder stays until the run is removed."""
    (data_of(run) / UNBEGUN).unlink(missing_ok=True)


def forget_abandoned(out: Path) -> None:
    """Remove the data folders of runs that never began, as the process that planned them was killed."""
    for mark in sorted((out / DATA).glob(f"*/{UNBEGUN}")):
        run = out / mark.parent.name
        if (run / "manifest.json").exists():
            continue
        with suppress(OSError):  # locked: its data are being made now
            lock = open_plain(mark, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                forget_data(run)
            finally:
                os.close(lock)


def removable(run: Path, out: Path) -> Path:
    """The folder of a run directly below `out`. Raises UserError for others, and while it is in use."""
    if run.is_symlink():
        raise UserError(f"{run}: a symlink; delete the run it points to, with --out and the folder that holds it")
    run = run.resolve()
    if run.parent != out.resolve():
        raise UserError(f"{run}: not in {out}; name the folder that holds it with --out")
    if not (run / "manifest.json").is_file():
        raise UserError(f"{run}: not a run's folder (no manifest.json); nothing removed")
    if not (run / "cells").is_dir():
        raise UserError(f"{run}: not a run (it has no cells); nothing removed, delete it by hand")
    if is_locked(run):
        raise UserError(f"{run.name}: its engine is running; stop it first with `bench stop {run.name}`")
    for cell in sorted((run / "cells").iterdir()):
        at_work = processes_in(cell / "data")
        if at_work:
            raise UserError(f"{run.name}: a server still runs on {cell.name}/data (process {min(at_work)}); stop it")
    return run


def delete(run: Path, out: Path, progress: Callable[[str], None] = lambda _: None) -> int:
    """Remove a run's data and folder, the manifest last, to be repeatable; return the bytes freed. Raises UserError."""
    run = removable(run, out)
    with held(run):
        freed = disk.occupied_bytes(run)
        for left in sorted((run / "cells").glob("*/database.json")):
            progress(f"{left.parent.name} has left its database on an external server: {_text(left)}")
        progress(f"removing {run}")
        try:
            freed += forget_data(run)
            last = ("cells", "manifest.json")
            for entry in sorted(run.iterdir(), key=lambda entry: last.index(entry.name) if entry.name in last else -1):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink(missing_ok=True)  # SQLite removes its own files when the last reader leaves
            run.rmdir()
        except OSError as error:
            at = error.filename or run
            raise UserError(f"{run.name}: {at} cannot be removed: {error.strerror}; the rest of it is kept") from error
    return freed
