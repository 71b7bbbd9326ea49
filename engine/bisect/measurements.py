"""The builds and runs of a search: begun, resumed, and shown meanwhile."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

from rich.text import Text

from engine.analysis.cells.run_results import load
from engine.builds import resolve
from engine.builds.commit_log import Commit
from engine.core.text import visible
from engine.journal.run_lock import is_locked
from engine.journal.runs import is_run, reference
from engine.plan import planfile
from engine.plan.prepare import Prospect, prepare
from engine.report import follow
from engine.report.console import PlainConsole
from engine.run.stop import STOPPED
from engine.system.files import is_name

LOG = "runs.log"
STOPPED_TEXT = "stopped; the same command continues the search"
SPINNER_CHARS = 2
LOOK_S = 0.2  # between checks whether a run's engine is still there
Start = Callable[[Prospect, Path, PlainConsole], int]
ENDED = ("finished", "alone", "failed", "damaged")


class _Log(io.TextIOBase):
    def __init__(self, file: TextIO, show: Callable[[str], None]) -> None:
        self._file, self._show = file, show

    def write(self, text: str) -> int:
        if lines := text.strip().splitlines():
            self._show(lines[-1])
        return self._file.write(text)

    def flush(self) -> None:
        self._file.flush()


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The environment of a search. `start` runs a prepared run to its end and returns the exit code."""

    repository: Path
    folder: Path
    say: Callable[[str], None]
    console: PlainConsole
    start: Start

    def note(self, text: str) -> None:
        self.console.say(text)


@contextmanager
def placed(repository: Path, folder: Path, say: Callable[[str], None], start: Start) -> Iterator[SearchContext]:
    """Yield a search's place, with a log in its folder; a terminal also shows the newest line of that."""
    terminal = PlainConsole(stderr=True)
    with (folder / LOG).open("a") as log:
        if not terminal.is_terminal:
            yield SearchContext(repository, folder, say, PlainConsole(force_terminal=False, file=log), start)
            return
        with terminal.status("") as status:

            def show(line: str) -> None:
                text = Text(visible(line))
                text.truncate(terminal.width - SPINNER_CHARS, overflow="ellipsis")
                status.update(text)

            def say_between(text: str) -> None:
                status.stop()  # removes its line from the screen
                say(text)
                status.start()

            console = PlainConsole(force_terminal=False, file=cast(TextIO, _Log(log, show)))
            yield SearchContext(repository, folder, say_between, console, start)


def build(place: SearchContext, name: str, commit: Commit) -> str:
    spec = f"{name}=git:{place.repository}@{commit.hash}"
    resolve.resolve([spec], place.note, place.folder / ".builds")
    return spec


def measured(
    place: SearchContext, entries: Mapping[str, Any], commits: Mapping[str, Commit], begun: Callable[[str], None]
) -> str:
    """Run a plan of labelled commits and return its name, which `begun` gets before the run begins."""
    request = planfile.request({**entries, "builds": [build(place, name, commit) for name, commit in commits.items()]})
    prospect = prepare(request, place.folder, place.note)
    begun(prospect.manifest.run)
    code = place.start(prospect, place.folder, place.console)
    if code == STOPPED:
        place.say(STOPPED_TEXT)
        sys.exit(code)
    return prospect.manifest.run


def ended(place: SearchContext, run: str) -> bool:
    """Whether a run has ended; waits for one that is still being measured."""
    path = place.folder / run
    if not is_name(run) or not is_run(path):
        return False
    if is_locked(path):
        place.say(f"  waiting for run {run}, which was begun before and is still measured")
        try:
            follow.follow(path, place.console)
            while is_locked(path):
                time.sleep(LOOK_S)
        except KeyboardInterrupt:
            place.say(f"run {run} continues; to stop it: bench stop {reference(path)}")
            raise
    if all(cell.state in ENDED for cell in load(path).cells):
        place.say(f"  taking the result of run {run}, which was begun before")
        return True
    place.say(f"  run {run} was stopped before its end; measuring again")
    return False
