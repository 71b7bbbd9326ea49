"""The end of a run before all its repeats: its time is over, or every step's result is known.

Each decision is an event of kind `plan` in the journal: the number of repeats, and why; in an adaptive run also which
steps the rest is for, and how its time is divided among them (`engine.plan.allocation`). It is made between repeats
from the journal alone, so that a resumed run follows the same rule.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from engine.analysis.answer.interim_results import Seen, look
from engine.core.format import span
from engine.core.model import Manifest
from engine.journal import outcome
from engine.journal.outcome import MOST_WIDTH, Allocation, State, StepPlan
from engine.journal.reader import JournalReader
from engine.journal.rows import Attempt
from engine.journal.writer import JournalWriter
from engine.plan import allocation
from engine.plan.allocation import Budget, OpenStep, Rest
from engine.results.ratio import MIN_PAIRS

NAMED = 4  # steps listed by name; others are counted


class StoppingRule:
    def __init__(self, run: Path, manifest: Manifest, journal: JournalWriter) -> None:
        self._run, self._manifest, self._journal = run, manifest, journal
        with JournalReader(run) as reader:
            decisions = reader.decisions()
        self.repeats = outcome.repeats(manifest, decisions)
        self._planned = allocation.planned_lengths(manifest) if manifest.design.adaptive else {}
        self._allocation = outcome.allocation(manifest, decisions)
        if self._allocation is not None:
            allocation.check(self._allocation.seconds, self._planned)
        self._known = bool(decisions) and decisions[-1].data.get("unknown") == []
        self._looked = [event.data.get("pairs") for event in decisions if "level" in event.data]

    def decide(self, passed: int) -> None:
        """Decide again after repeats up to `passed`; a gap before later ones, in a resumed run, is filled first."""
        manifest, design = self._manifest, self._manifest.design
        if not (design.adaptive or design.minutes) or self._known or passed > self.repeats:
            return
        self._journal.commit()
        with JournalReader(self._run) as reader:
            attempts = reader.attempts(origins=False)
        took_s = _took_s(manifest, attempts)
        finished = outcome.finished(manifest, attempts)
        passed = max([passed, *(cell.repeat for cell in manifest.cells if cell.id in finished)])
        if passed and design.adaptive:
            self._divide(passed, len(took_s), attempts)
        elif passed and design.minutes:
            spent_s = self._spent_s(attempts)
            each_s = median(took_s) if took_s else spent_s / passed  # failed repeats count, too
            self._by_time(passed, each_s, 60 * design.minutes - spent_s, anew=len(took_s) == 1)

    @property
    def seconds(self) -> Mapping[str, int]:
        """Steps that have another length than planned from now on; 0: they are left out."""
        return self._allocation.seconds if self._allocation is not None else {}

    def _divide(self, passed: int, done: int, attempts: Sequence[Attempt]) -> None:
        """Divide the rest, after the pairs that are `done`, among the steps that are undecided."""
        design = self._manifest.design
        analysed = done not in self._looked and any(done == analysis.pairs for analysis in design.interim_analyses)
        seen = look(self._run, on_the_way=analysed and passed < design.repeats)
        states = self._states(seen, analysed=analysed)
        budget = self._budget(passed, attempts)
        unknown = [name for name, state in states.items() if state == "open"]
        free = {
            name: OpenStep(self._planned[name], *_noise_of(seen, name)) for name in unknown if name in self._planned
        }
        most = 0 if states and not unknown else design.repeats - passed
        fixed = max(len(unknown) - len(free), not free)
        rest = allocation.divide(free, fixed, budget, seen.tau, done, most)
        steps = {name: _step_plan(seen, name, state, rest, self._planned, done) for name, state in states.items()}
        self._allocation = Allocation(done, rest.pair_s, steps)
        repeats, details = passed + rest.pairs, asdict(self._allocation)
        if analysed:
            self._looked.append(done)
            self._known = not unknown
            details |= {"level": seen.level, "unknown": unknown}
        text = _words(self._allocation, rest, repeats, budget.left_s, analysed=analysed)
        self._record(repeats, text, **details)

    def _states(self, seen: Seen, *, analysed: bool) -> dict[str, State]:
        """The state of each step by this interim analysis or, between two, by the one before."""
        if not analysed:
            known = self._allocation.steps if self._allocation is not None else {}
            return {step: known.get(step, StepPlan()).state for step in seen.steps}
        states: dict[str, State] = dict.fromkeys(seen.steps, "known")
        return {**states, **dict.fromkeys(seen.undecided, "open"), **dict.fromkeys(seen.withheld, "withheld")}

    def _budget(self, passed: int, attempts: Sequence[Attempt]) -> Budget:
        """The time left, and the times of pairs so far: failed ones count, too."""
        manifest, servers = self._manifest, len(self._manifest.subjects)
        finished, counting = outcome.finished(manifest, attempts), outcome.chosen(manifest, attempts)
        spans: dict[tuple[int, str], list[tuple[int, int, float]]] = {}
        with JournalReader(self._run) as reader:
            for cell in (cell for cell in manifest.cells if cell.id in finished and self._planned):
                for step in reader.steps(counting[cell.id].id):
                    if step.name in self._planned and step.ended_ns is not None:
                        one = (step.started_ns, step.ended_ns, step.planned_s)
                        spans.setdefault((cell.repeat, step.name), []).append(one)
        took_s = sum(max(end for _, end, _ in rows) - min(start for start, *_ in rows) for rows in spans.values()) / 1e9
        active_s = sum(rows[0][2] for rows in spans.values())
        spent_s = self._spent_s(attempts)
        minutes = manifest.design.minutes
        left_s = 60 * minutes - spent_s if minutes else math.inf
        per_second = max(servers, took_s / active_s) if active_s else servers
        return Budget(left_s, max(0.001, spent_s - took_s) / passed, per_second)

    def _by_time(self, passed: int, each_s: float, left_s: float, *, anew: bool) -> None:
        """Plan the repeats that fit into the time left, at the mean time so far."""
        manifest, design = self._manifest, self._manifest.design
        repeats = min(design.repeats, passed + max(0, math.floor(left_s / max(each_s, 0.001))))
        if design.interleave == "cells" and repeats > passed:
            repeats = max(passed, repeats - repeats % 2)  # over two repeats a linear drift cancels
        if repeats == self.repeats and not anew:
            return
        what = "pair" if len(manifest.cells) > design.repeats else "repeat"
        text = f"a {what} takes {span(each_s)}, {span(max(0, left_s))} left: {repeats} in all"
        if repeats < MIN_PAIRS and what == "pair":
            text += f"; too few for a verdict, which takes {MIN_PAIRS} pairs: allow more --minutes"
        self._record(repeats, text)

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
        session_id = self._journal.session.id
        ends_ns = {
            start: time.monotonic_ns()
            if start == session_id
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
            seconds.append((interleaved_ns if manifest.design.sliced else sequential_ns) / 1e9)
    return seconds


def _noise_of(seen: Seen, step: str) -> tuple[float | None, tuple[float, ...]]:
    noise = seen.noise.get(step)
    return (noise.per_root_second, noise.lengths_s) if noise is not None else (None, ())


def _step_plan(seen: Seen, name: str, state: State, rest: Rest, planned: Mapping[str, int], pairs: int) -> StepPlan:
    width = min(seen.widths[name], MOST_WIDTH) if name in seen.widths else None
    free = name in planned
    narrowing = 1.0 if free and state != "open" else rest.narrowing.get(name) or allocation.shrinks(pairs, rest.pairs)
    seconds = rest.seconds.get(name, 0) if free else None
    return StepPlan(state, width, None if width is None else width * narrowing, seconds)


def _words(divided: Allocation, rest: Rest, repeats: int, left_s: float, *, analysed: bool) -> str:
    """The decision, in words for people."""
    unknown, withheld = divided.open, [name for name, step in divided.steps.items() if step.state == "withheld"]
    besides = f", except for those whose verdicts are withheld: {_named(withheld)}" if withheld else ""
    if analysed and not unknown:
        return f"every step is decided after {divided.pairs} pairs{besides}"
    known = len(divided.steps) - len(unknown) - len(withheld)
    text = f"after {divided.pairs} pairs {known} of {len(divided.steps)} steps decided; " if analysed else ""
    if math.isinf(left_s) and not rest.pairs:
        return f"{text}undecided: {_named(unknown)}"
    left = ": at most" if math.isinf(left_s) else f", {span(max(0.0, left_s))} left:"
    text += f"a pair will take {span(rest.pair_s)}{left} {repeats} in all"
    if repeats < MIN_PAIRS:
        text += f"; too few for a verdict, which takes {MIN_PAIRS} pairs: allow more --minutes"
    if rest.pairs:
        lengths = [f"{name} {seconds} s" for name, seconds in rest.seconds.items()]
        left_out = [name for name, step in divided.steps.items() if step.seconds == 0]
        text += f"; each server: {_named(lengths)}" if lengths else ""
        text += f"; without {_named(left_out)}" if left_out else ""
    return text
