"""When a run ends before all its repeats: its time is over, or every step's result is known.

Each decision is an event of kind `plan` in the journal: the number of repeats, and why. It is made between repeats from
the journal alone, so that a resumed run follows the same rule.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from engine.analysis.interim_results import look, scatter_between
from engine.core.format import span
from engine.core.model import InterimAnalysis, Manifest
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt
from engine.journal.writer import JournalWriter
from engine.results.comparison import MIN_PAIRS

NAMED = 4  # steps that are named; others are counted


class StoppingRule:
    def __init__(self, run: Path, manifest: Manifest, journal: JournalWriter) -> None:
        self._run, self._manifest, self._journal = run, manifest, journal
        with JournalReader(run) as reader:
            decisions = reader.decisions()
        self.repeats = outcome.repeats(manifest, decisions)
        self._known = bool(decisions) and decisions[-1].data.get("unknown") == []
        self._looked = [event.data.get("pairs") for event in decisions if "level" in event.data]

    def decide(self, passed: int) -> None:
        """Decide again after repeats up to `passed`; a gap before later ones, in a resumed run, is filled first."""
        manifest = self._manifest
        if not (manifest.interim_analyses or manifest.minutes) or self._known or passed > self.repeats:
            return
        self._journal.commit()
        with JournalReader(self._run) as reader:
            attempts = reader.attempts(origins=False)
        took_s = _took_s(manifest, attempts)
        finished = outcome.finished(manifest, attempts)
        passed = max([passed, *(cell.repeat for cell in manifest.cells if cell.id in finished)])
        if passed and manifest.minutes:
            spent_s = self._spent_s(attempts)
            each_s = median(took_s) if took_s else spent_s / passed  # failed repeats count, too
            self._by_time(passed, each_s, 60 * manifest.minutes - spent_s, anew=len(took_s) == 1)
        for analysis in manifest.interim_analyses:
            if analysis.pairs == len(took_s) and analysis.pairs not in self._looked:
                self._look(passed, analysis)

    def scatter(self) -> float | None:
        """The scatter by which sliced steps may end early, or None if each has its planned length."""
        return scatter_between(self._run) if self._manifest.interim_analyses or self._manifest.minutes else None

    def _by_time(self, passed: int, each_s: float, left_s: float, *, anew: bool) -> None:
        """Plan the repeats that fit into the time left, at the mean time so far."""
        manifest = self._manifest
        repeats = min(manifest.repeats, passed + max(0, math.floor(left_s / max(each_s, 0.001))))
        if manifest.interleave == "cells" and repeats > passed:
            repeats = max(passed, repeats - repeats % 2)  # over two repeats a linear drift cancels
        if repeats == self.repeats and not anew:
            return
        what = "pair" if len(manifest.cells) > manifest.repeats else "repeat"
        text = f"a {what} takes {span(each_s)}, {span(max(0, left_s))} left: {repeats} in all"
        if repeats < MIN_PAIRS and what == "pair":
            text += f"; too few for a verdict, which takes {MIN_PAIRS} pairs: allow more --minutes"
        self._record(repeats, text)

    def _look(self, passed: int, at: InterimAnalysis) -> None:
        seen = look(self._run)
        unknown = list(seen.unknown)
        later = [other.pairs for other in self._manifest.interim_analyses if other.pairs > at.pairs]
        if unknown:
            text = f"after {at.pairs} pairs not known: {_named(unknown)}"
            text += f"; the next interim analysis is after {later[0]}" if later and self.repeats >= later[0] else ""
        else:
            text = f"every step is known after {at.pairs} pairs"
            text += f", except for those whose verdicts are withheld: {_named(seen.withheld)}" if seen.withheld else ""
        self._looked.append(at.pairs)
        self._known = not unknown
        repeats = self.repeats if unknown else passed
        self._record(repeats, text, pairs=at.pairs, level=seen.level, unknown=unknown)

    def _record(self, repeats: int, text: str, **details: Any) -> None:
        t_ns = time.monotonic_ns()
        self.repeats = repeats
        self._journal.add_event("plan", t_ns, {"repeats": repeats, "text": text, **details}, ended_ns=t_ns)
        self._journal.commit()

    def _spent_s(self, attempts: Sequence[Attempt]) -> float:
        """The time that the run has taken over all starts of the engine."""
        by_start: dict[int, list[Attempt]] = {}
        for attempt in attempts:
            by_start.setdefault(attempt.session_id, []).append(attempt)
        own = self._journal.session.id
        ends_ns = {
            start: time.monotonic_ns()
            if start == own
            else max(attempt.ended_ns or attempt.started_ns for attempt in group)
            for start, group in by_start.items()
        }
        return (
            sum(ends_ns[start] - min(attempt.started_ns for attempt in group) for start, group in by_start.items())
            / 1e9
        )


def _named(steps: Sequence[str]) -> str:
    return ", ".join(steps[:NAMED]) + (f" and {len(steps) - NAMED} more" if len(steps) > NAMED else "")


def _took_s(manifest: Manifest, attempts: Sequence[Attempt]) -> list[float]:
    finished, counting = outcome.finished(manifest, attempts), outcome.chosen(manifest, attempts)
    seconds = []
    for repeat in dict.fromkeys(cell.repeat for cell in manifest.cells):
        ids = [cell.id for cell in manifest.cells if cell.repeat == repeat]
        if finished.issuperset(ids):
            spans = [(counting[id].started_ns, counting[id].ended_ns or counting[id].started_ns) for id in ids]
            interleaved_ns = max(until for _, until in spans) - min(since for since, _ in spans)
            sequential_ns = sum(until - since for since, until in spans)
            seconds.append((interleaved_ns if manifest.interleave == "slices" else sequential_ns) / 1e9)
    return seconds
