"""What a person does to whole runs: gives them words to find them by, and removes them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.cluster import processes_in
from engine.errors import UserError
from engine.journal import TAGS, is_locked, read_tags

WORD_MAX = 40
TAGS_MAX = 20
# What is one cell wide on every terminal, and neither a separator of lists nor of a filter's words.
_WORD = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9_+.:/-]*")


def tag(run: Path, words: Sequence[str]) -> tuple[str, ...]:
    """Adds words to a run's tags; returns all of them. Raises UserError for what is no word, or too many."""
    for word in words:
        if not _WORD.fullmatch(word) or len(word) > WORD_MAX:
            raise UserError(
                f"tag '{word}': give a word of letters, digits and . _ + : / - with at most {WORD_MAX} characters"
            )
    tags = tuple(dict.fromkeys((*read_tags(run), *words)))
    if len(tags) > TAGS_MAX:
        raise UserError(f"{run.name}: a run can have {TAGS_MAX} tags; remove some with --remove")
    return _keep(run, tags)


def untag(run: Path, words: Sequence[str]) -> tuple[str, ...]:
    """Takes words from a run's tags; returns those that are left. Raises UserError for one that it does not have."""
    tags = read_tags(run)
    for word in words:
        if word not in tags:
            raise UserError(f"{run.name} has no tag '{word}' (it has: {', '.join(tags) or 'none'})")
    return _keep(run, tuple(tag for tag in tags if tag not in words))


def _keep(run: Path, tags: tuple[str, ...]) -> tuple[str, ...]:
    part = run / f"{TAGS}.part"
    try:
        part.write_text(json.dumps({"tags": tags}) + "\n")
        part.rename(run / TAGS)
    except OSError as error:
        raise UserError(f"{run / TAGS}: cannot be written: {error.strerror}") from error
    return tags


def removable(run: Path, out: Path) -> Path:
    """The resolved folder of a run that may be removed: right below `out`, and a run indeed.

    Raises UserError for everything else, and while an engine or a server is at work in it.
    """
    if run.is_symlink():
        raise UserError(f"{run}: a link; remove what it leads to in the folder where that lies, with --out")
    run = run.resolve()
    if run.parent != out.resolve():
        raise UserError(f"{run}: not in {out}; name the folder that holds it with --out")
    if not (run / "manifest.json").is_file():
        raise UserError(f"{run}: not a run directory (no manifest.json), so it is left alone")
    if not (run / "cells").is_dir():
        raise UserError(f"{run}: not a run but an export (no cells in it), so it is left alone; remove it by hand")
    if is_locked(run):
        raise UserError(f"{run.name}: its engine is at work; stop it first with `bench stop {run.name}`")
    for cell in sorted((run / "cells").iterdir()):
        at_work = processes_in(cell / "data")
        if at_work:
            raise UserError(f"{run.name}: a server still runs over {cell.name}/data (process {min(at_work)}); stop it")
    return run


def delete(run: Path, out: Path, progress: Callable[[str], None] = lambda _: None) -> int:
    """Removes a run's folder; returns how many bytes of disk that freed.

    What makes the folder a run goes last, so that a removal that was cut short can be repeated. Raises UserError as
    `removable`, and when something cannot be removed.
    """
    run = removable(run, out)
    with _kept_from_engines(run):
        freed = disk_bytes(run)
        progress(f"removing {run}")
        try:
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


def disk_bytes(folder: Path) -> int:
    """What a folder and all in it take on the disk; less than the sizes where files have holes."""
    places = [place for place, _, _ in os.walk(folder)]
    files = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)  # noqa: PTH118
    return sum(_blocks_bytes(path) for path in (*places, *files))


def _blocks_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:  # gone meanwhile
        return 0


@contextmanager
def _kept_from_engines(run: Path) -> Iterator[None]:
    """Holds a run's lock, so that no engine starts on it. Raises UserError when one has it."""
    lock = os.open(run / "engine.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(f"{run.name}: an engine has just started on it; stop it first") from None
    finally:
        os.close(lock)
