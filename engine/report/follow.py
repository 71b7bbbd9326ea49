"""The state of a run as plain text or JSON: `bench watch --once`, and the lines printed without a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.core.format import span
from engine.core.kernel import HOST
from engine.core.model import Cell
from engine.core.text import Visible, visible, visible_json
from engine.journal.rows import EventRow
from engine.report.console import PlainConsole
from engine.view.events import clients_words, event_words, incident_words, incidents_of, unlike
from engine.view.interleaved_step import InterleavedStep, so_far_words
from engine.view.player import Player
from engine.view.view_state import ViewState

LOOK_S = 1.0
LINE_S = 5.0
LINE_INTERLEAVED_S = 1.0  # a comparison under way is followed more closely
LINE_LOG_S = 60.0  # without a terminal: a line for each step, and a sign of life


def once(run: Path, *, as_json: bool) -> Visible:
    with Player(run) as player:
        view = player.look()
        return visible_json(record(view, player.notices()), allow_nan=True) if as_json else visible(line(view))


def record(view: ViewState, notices: Sequence[EventRow]) -> dict[str, Any]:
    """The state as JSON; unknown values are null, 0 or empty. `fraction` is null where work is not counted."""
    shown = view.state == "running" and view.cell is not None
    in_step = shown and view.step is not None and not view.doing
    doing, _, waiting_for = view.doing.partition(": ")
    return {
        "cells_done": view.cells_done,
        "cells_failed": view.cells_failed,
        "cells": view.cells,
        "running": view.state == "running",
        "subject": view.subject if shown else "",
        "repeat": view.cell.repeat if shown and view.cell else 0,
        "step_id": view.step.id if in_step and view.step else 0,
        "step": view.step.name if in_step and view.step else doing if shown else "",
        "doing": waiting_for if shown else "",
        "elapsed_s": view.length_s if in_step else 0.0,
        "fraction": view.fraction if shown else None,
        "eta_s": view.eta_s if in_step else None,
        "left_s": view.left_s if shown else None,
        "rate_per_s": (view.rate_per_s or 0.0) if in_step and _unit(view) else 0.0,
        "unit": _unit(view) if in_step else "",
        "relative": view.relative if in_step else None,
        "interleaved": _interleaved(view.interleaved) if in_step and view.interleaved is not None else None,
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
        "decisions": [event_words(event, view.at_ns) for event in view.decisions],
        "allocation": asdict(view.allocation) if view.allocation is not None else None,
        "failures": [
            {"id": attempt.id, "cell": attempt.cell, "reason": attempt.reason or ""} for attempt in view.failures
        ],
    }


def _interleaved(step: InterleavedStep) -> dict[str, Any]:
    """The servers side by side, the base first; bounds of a ratio hold at all moments at once (95%)."""
    return {
        "planned_s": step.planned_s or None,
        "blocks": step.blocks,
        "sides": [
            {
                "subject": side.name,
                "cell": side.cell.id,
                "step_id": side.step.id,
                "active_s": side.active_s,
                "rate_per_s": side.rate_per_s,
                "ratio": side.so_far.ratio if side.so_far is not None else None,
                "low": side.so_far.low if side.so_far is not None else None,
                "high": side.so_far.high if side.so_far is not None else None,
                "stalls": [asdict(stall) for stall in side.stalls],
            }
            for side in step.sides
        ],
    }


def line(view: ViewState) -> str:
    if view.state != "running" or view.cell is None:
        failed = f", {view.cells_failed} failed" if view.cells_failed else ""
        if view.state == "finished":
            return f"finished: {view.cells_done} of {view.cells} cells{failed}"
        gone = "" if view.state == "running" else ", engine not running"
        return f"{view.cells_done} of {view.cells} cells finished{failed}{gone}"
    if view.interleaved is not None and view.step is not None:
        return "  ".join(_interleaved_parts(view, view.interleaved, view.step.name))
    number = f"cell {view.cell.ordinal + 1}/{view.cells}{_left(view)}"
    parts = [number, f"{_of_cell(view, view.cell)} r{view.cell.repeat}"]
    if view.step is None or view.doing:
        return "  ".join([*parts, view.doing])
    parts.append(view.step.name)
    if view.fraction is not None and view.rate_per_s:
        parts.append(f"{view.fraction:4.0%}")
    if view.eta_s is not None and view.fraction != 1.0:
        parts.append(f"ETA {span(view.eta_s)}")
    if _unit(view) and view.rate_per_s is not None:  # not before the first second was counted
        parts.append(f"{view.rate_per_s:,.0f} {_unit(view)}")
    if view.relative is not None:
        parts.append(f"{view.relative:.3f} of base")
    parts += _stalls_now("", view.incidents_now, view.at_ns)
    return "  ".join(parts)


def _left(view: ViewState) -> str:
    return f", {span(view.left_s)} left" if view.left_s is not None else ""


def _of_cell(view: ViewState, cell: Cell) -> str:
    config = cell.subject.config if len({subject.config for subject in view.names}) > 1 else ""
    kernel = "" if cell.subject.kernel == HOST else cell.subject.kernel
    return " ".join(filter(None, (cell.subject.name, config, kernel)))


def _interleaved_parts(view: ViewState, interleaved: InterleavedStep, step: str) -> list[str]:
    parts = [
        f"cells {interleaved.numbers} of {view.cells}{_left(view)}",
        f"r{interleaved.shown.cell.repeat}",
        view.doing or step,
    ]
    if not view.doing and view.fraction is not None:
        parts.append(f"{view.fraction:4.0%}")
    if not view.doing:
        rates = [(side.name, side.rate_per_s) for side in interleaved.sides]
        parts += [f"{name} {rate:,.0f} {view.unit}" for name, rate in rates if rate is not None]
    parts += [words for side in interleaved.sides if (words := so_far_words(interleaved, side, ended=bool(view.doing)))]
    for shown in interleaved.sides:
        now = [incident for side, incident in interleaved.incidents_now() if side is shown]
        parts += _stalls_now(f"{shown.name} ", now, view.at_ns)
    return parts


def _stalls_now(name: str, incidents: Sequence[tuple[EventRow, ...]], at_ns: int) -> list[str]:
    """Current stalls, each once for all clients that share it."""
    return [f"! {name}{incident_words(incident, at_ns)}{clients_words(count)}" for incident, count in unlike(incidents)]


def _unit(view: ViewState) -> str:
    """The unit of the step's rate; empty while an index build runs, as its rows come in lumps."""
    primary = view.step.primary_metric if view.step is not None else None
    return primary.unit if primary is not None and primary.live else ""


class RunNews:
    """Lines that are printed once: stalls that ended, cells that failed, what probes reported."""

    def __init__(self, known: Iterable[str]) -> None:
        self._texts = set(known)  # what all cells report is printed once
        self._ids: set[tuple[str, int]] = set()

    def of(self, view: ViewState, notices: Sequence[EventRow]) -> list[str]:
        lines_of = []
        step = view.step.name if view.step is not None else ""
        sides = view.interleaved.sides if view.interleaved is not None else ()
        known = [(f"{side.name} ", incidents_of(side.stalls)) for side in sides] or [("", view.incidents)]
        for name, incidents in known:
            over = [incident for incident in incidents if all(stall.ended_ns is not None for stall in incident)]
            new = [incident for incident in over if self._is_new("event", min(stall.id for stall in incident))]
            for incident, count in unlike(new):
                lines_of.append(f"{step}: ! {name}{incident_words(incident, view.at_ns)}{clients_words(count)}")
        for notice in notices:
            text = event_words(notice, view.at_ns)
            if self._is_new("event", notice.id) and text not in self._texts:
                self._texts.add(text)
                lines_of.append(text)
        decided = [event for event in view.decisions if self._is_new("event", event.id)]
        lines_of += [event_words(event, view.at_ns) for event in decided]
        failed = [attempt for attempt in view.failures if self._is_new("attempt", attempt.id)]
        return [
            *lines_of,
            *(f"! FAILED {attempt.cell}: {attempt.reason or 'no reason was recorded'}" for attempt in failed),
        ]

    def _is_new(self, table: str, id: int) -> bool:
        new = (table, id) not in self._ids
        self._ids.add((table, id))
        return new


def follow(run: Path, console: PlainConsole, known: Iterable[str] = ()) -> None:
    """Print a line for each step, and on a terminal every five seconds, or every second while builds are compared.

    News that is not yet `known` comes at once.
    """

    def put(text: str) -> None:
        console.say(text)

    news = RunNews(known)
    last_line_s, last_place = 0.0, ""
    with Player(run) as player:
        while True:
            view = player.look()
            for text in news.of(view, player.notices()):
                put(text)
            place = f"{view.state} {view.cell} {view.step.id if view.step else ''} {view.doing.partition(':')[0]}"
            # This loop beats once a second, give or take the duration of a look.
            pause_s = LINE_S if view.interleaved is None or view.doing else LINE_INTERLEAVED_S
            if not console.is_terminal:
                pause_s = LINE_LOG_S
            if place != last_place or time.monotonic() - last_line_s >= pause_s - LOOK_S / 2:
                put(line(view))
                last_line_s, last_place = time.monotonic(), place
            if view.state != "running":
                return
            time.sleep(LOOK_S)
