"""The state of a run as plain text or JSON: `bench watch --once`, and the lines printed where there is no terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from engine.core.format import span
from engine.core.text import visible
from engine.journal.reader import EventRow
from engine.view.events import event_words, stall_words
from engine.view.player import Player
from engine.view.view_state import ViewState

LOOK_S = 1.0
LINE_S = 5.0


def once(run: Path, *, as_json: bool) -> str:
    """The state of a run at its last commit, as a line or as JSON."""
    with Player(run) as player:
        view = player.look()
        return json.dumps(record(view, player.notices())) if as_json else line(view)


def record(view: ViewState, notices: Sequence[EventRow]) -> dict[str, Any]:
    """The state as JSON; what is not known is null, 0 or empty. `fraction` is null where work is not counted."""
    shown = view.state == "running" and view.cell is not None
    in_step = shown and view.step is not None and not view.doing
    doing, _, waiting_for = view.doing.partition(": ")
    return {
        "cells_done": view.cells_done,
        "cells_failed": view.cells_failed,
        "cells": view.cells,
        "running": view.state == "running",
        "subject": view.cell.subject.name if shown and view.cell else "",
        "repeat": view.cell.repeat if shown and view.cell else 0,
        "step_id": view.step.id if in_step and view.step else 0,
        "step": view.step.name if in_step and view.step else doing if shown else "",
        "doing": waiting_for if shown else "",
        "elapsed_s": view.length_s if in_step else 0.0,
        "fraction": view.fraction if shown else None,
        "eta_s": view.eta_s if in_step else None,
        "rate_per_s": (view.rate_per_s or 0.0) if in_step and _unit(view) else 0.0,
        "unit": _unit(view) if in_step else "",
        "relative": view.relative if in_step else None,
        "roles": [
            {
                "name": role.name,
                "rate_per_s": role.rate_per_s,
                "in_flight_s": role.in_flight_s,
                "max_ms": role.max_us / 1000,
                "waits": [role.wait_event] if role.wait_event else [],
            }
            for role in (view.roles if in_step else ())
        ],
        "stalls": [asdict(stall) for stall in (view.stalls if in_step else ())],
        "probes": [asdict(notice) for notice in (notices if shown else ())],
        "decisions": [event_words(each, view.at_ns) for each in view.decisions],
        "failures": [{"id": each.id, "cell": each.cell, "reason": each.reason or ""} for each in view.failures],
    }


def line(view: ViewState) -> str:
    """The state as one line of plain text, for logs and scripts."""
    if view.state != "running" or view.cell is None:
        failed = f", {view.cells_failed} failed" if view.cells_failed else ""
        gone = "" if view.state == "running" else ", engine not running"
        return f"{view.cells_done} of {view.cells} cells finished{failed}{gone}"
    number = min(view.cells_done + view.cells_failed + 1, view.cells)
    parts = [f"cell {number}/{view.cells}", f"{view.cell.subject.name} r{view.cell.repeat}"]
    if view.step is None or view.doing:
        return visible("  ".join([*parts, view.doing]))
    parts.append(view.step.name)
    if view.fraction is not None and view.rate_per_s:
        parts.append(f"{view.fraction:4.0%}")
    if view.eta_s is not None and view.fraction != 1.0:
        parts.append(f"ETA {span(view.eta_s)}")
    if _unit(view) and view.rate_per_s is not None:  # not before the first second was counted
        parts.append(f"{view.rate_per_s:,.0f} {_unit(view)}")
    if view.relative is not None:
        parts.append(f"{view.relative:.3f} of base")
    parts += [f"! {stall_words(stall, view.at_ns)}" for stall in view.stalled]
    return visible("  ".join(parts))


def _unit(view: ViewState) -> str:
    """What the step's rate counts; empty where it has none while it runs, as index builds, whose rows come in lumps."""
    headline = view.step.headline if view.step is not None else None
    return headline.unit if headline is not None and headline.live else ""


class _News:
    """What is printed once, when it comes to light: stalls that ended, cells that failed, what probes reported."""

    def __init__(self, known: Iterable[str]) -> None:
        self._texts = set(known)  # what all cells report is printed once
        self._ids: set[tuple[str, int]] = set()

    def of(self, view: ViewState, notices: Sequence[EventRow]) -> list[str]:
        """The lines that are new."""
        found = []
        step = view.step.name if view.step is not None else ""
        ended = [stall for stall in view.stalls if stall.ended_ns is not None and self._is_new("event", stall.id)]
        found += [f"{step}: ! {stall_words(stall, view.at_ns)}" for stall in ended]
        for notice in notices:
            text = event_words(notice, view.at_ns)
            if self._is_new("event", notice.id) and text not in self._texts:
                self._texts.add(text)
                found.append(text)
        decided = [event for event in view.decisions if self._is_new("event", event.id)]
        found += [event_words(event, view.at_ns) for event in decided]
        new = [attempt for attempt in view.failures if self._is_new("attempt", attempt.id)]
        return [*found, *(f"! FAILED {each.cell}: {each.reason or 'no reason was recorded'}" for each in new)]

    def _is_new(self, table: str, id: int) -> bool:
        new = (table, id) not in self._ids
        self._ids.add((table, id))
        return new


def follow(run: Path, console: Console, known: Iterable[str] = ()) -> None:
    """Prints a line each five seconds, and what is found, until a run's engine has exited.

    `known` are lines that the person has read already.
    """

    def put(text: str) -> None:
        console.print(visible(text), highlight=False, soft_wrap=True, markup=False)

    news = _News(known)
    last_line_s, last_place = 0.0, ""
    with Player(run) as player:
        while True:
            view = player.look()
            for text in news.of(view, player.notices()):
                put(text)
            place = f"{view.state} {view.cell} {view.step.id if view.step else ''} {view.doing.partition(':')[0]}"
            if place != last_place or time.monotonic() - last_line_s >= LINE_S:
                put(line(view))
                last_line_s, last_place = time.monotonic(), place
            if view.state != "running":
                return
            time.sleep(LOOK_S)
