"""Every screen over a recorded run, and the keys that lead there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine.core.clock import Clock
from engine.tracing import stacks
from tests.conftest import unpacked
from tests.support.journal import growing
from tests.support.screens import NEW, OLD, STALLED, STOPPED, stalling, text_of, until

FRAMES = {OLD: {"PostgresMain;ExecDelete": 40, "PostgresMain;pg_plan_query": 40}, NEW: {"PostgresMain;ExecDelete": 40}}


@dataclass(frozen=True, slots=True)
class Case:
    """A screen over a run: its mode, the moment replayed, keys, and the words awaited before each and at the end."""

    mode: str
    words: str
    keys: tuple[tuple[str, str], ...] = ()
    run: str = "two-builds"
    replayed: tuple[str, str] | None = None


def at(seconds: str) -> tuple[tuple[str, str], ...]:
    """Keys that pause a replay at a time of its step."""
    return (("space", "REPLAY"), ("g", "REPLAY"), *((key, "Go to a time") for key in (*seconds, "enter")))


L_I1 = (STALLED, "l.i1")
CASES = {
    "launch": Case("launch", "preflight"),
    "live": Case("live", "qr100"),
    "live-replay": Case("live", "l.i1", at("10"), replayed=L_I1),
    "live-stalled": Case("live", "STALL", run="growing"),
    "live-detail": Case("live", "n/N next", (*at("13"), ("enter", "l.i1")), replayed=L_I1),
    "live-interleaved": Case("live", "qr100", run="interleaved"),
    "compare": Case("compare", "Comparable?"),
    "compare-cells": Case("compare", "the chosen cell", (("enter", "Comparable?"),)),
    "compare-slices": Case("compare", "blocks", (("end", "Comparable?"), ("l", "qr100")), run="in-slices"),
    "flame": Case(
        "compare", "ExecDelete", (("end", "Comparable?"), ("f", "qr100"), ("enter", "role"), ("down", "ExecDelete"))
    ),
    "history": Case("history", "finished"),
    "history-cells": Case("history", "qr100", (("enter", "finished"),)),
    "probes": Case("probes", "probe"),
}


@contextmanager
def run_of(case: Case, tmp_path: Path) -> Iterator[tuple[Path, Clock]]:
    if case.run == "growing":
        with growing(tmp_path) as live:
            stalling(live)
            yield live.run, live.hand.clock
        return
    run = unpacked(case.run, tmp_path / "20261120-131303-14.10_prebuilt-16.3_prebuilt")
    for place, label in enumerate((OLD, NEW) if case.run == "two-builds" else ()):
        stacks.write_folded(run / "cells" / f"00{place + 1}-{label}-auto-r1", "qr100", "query", FRAMES[label])
    yield run, STOPPED


async def open_case(pilot: Pilot[Any], case: Case) -> None:
    """Press the keys, each once its words are there."""
    for key, words in (*case.keys, ("", case.words)):
        await until(pilot, lambda words=words: words in text_of(pilot))  # type: ignore[misc]
        await pilot.press(*filter(None, (key,)))
    await until(pilot, lambda: "comparing..." not in text_of(pilot))
