"""Questions that are asked again and again, as named plans: steps, settings, probes."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.insert.steps import Step


@dataclass(frozen=True, slots=True)
class Preset:
    """A named plan. `settings` go on top of every config, `probes` are attached; `question` is what it answers."""

    name: str
    question: str
    generation: str
    steps: tuple[Step, ...]
    settings: tuple[str, ...]
    probes: tuple[str, ...]


LOADED_ROWS = 3_000_000  # so many that what is deleted stays below 2 % of the table: see below
RATE_PER_S = 1000
GROW_S, AFTER_S = 45, 20


def _write(name: str, seconds: int) -> Step:
    rows = RATE_PER_S * seconds
    return Step(name, "write", rows, rows_per_statement=50, rate_per_s=RATE_PER_S, deletes=True, seconds=seconds)


# A queue: rows come in at the high end and are deleted at the low end by key range. The planner looks up the lowest
# key that is still there whenever the constant lies in the first bucket of the histogram, and steps over the dead
# entries that vacuum has not removed. So there is no vacuum while they pile up, and so many analyzes that the
# constant never leaves the first bucket (one in a hundred rows). What vacuum then does differs by version: from 14 on
# it leaves the indexes alone when fewer than 2 % of the heap's pages hold dead rows, and the cost of planning stays.
PLANNER_DELETE = Preset(
    name="planner-delete",
    question="what does planning a DELETE cost while dead index entries pile up, and after vacuum?",
    generation="g24a",
    steps=(
        Step("l.i0", "load", LOADED_ROWS, rows_per_statement=100),
        Step("l.x", "index", 100, rows_per_statement=100, rows_indexed=LOADED_ROWS + 100),
        _write("grow", GROW_S),
        Step("vacuum", "pause"),
        _write("after", AFTER_S),
    ),
    settings=(
        "autovacuum_naptime=1s",
        "autovacuum_vacuum_threshold=1000000000",
        "autovacuum_vacuum_insert_threshold=-1",
        "autovacuum_analyze_threshold=20000",
        "autovacuum_analyze_scale_factor=0",
    ),
    probes=("endpoint",),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in (PLANNER_DELETE,)}
