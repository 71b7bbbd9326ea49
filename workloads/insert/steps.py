"""Generations and steps of the Insert Benchmark, as tables, and the plan of steps for one cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from workloads.api.names import pick
from workloads.insert.sizes import Sizes, pause_seconds, sizes_of

MARKETSEGMENT, REGISTERSEGMENT, PDC = "marketsegment", "registersegment", "pdc"
Index = tuple[str, tuple[str, ...]]
PDC_COLUMNS = ("price", "dateandtime", "customerid")


@dataclass(frozen=True, slots=True)
class Generation:
    """One published form of the benchmark; results are comparable only within a generation.

    `first_lookup` says when the low key is first looked up: "before-start", "round-0" or None (no deletes). A lookup is
    repeated every `resync_rounds` + 1 rounds; 0 means never. `drains`: both streams finish their queues; otherwise each
    stops as soon as the other has finished. `index_rows_total` are the rows that l.x inserts over all tables before it
    builds; 0 means 100 for every table.
    """

    name: str
    price_type: str
    indexes: tuple[Index, ...]
    steps: tuple[str, ...]
    delete_form: str = "none"  # none, range, subselect
    first_lookup: str | None = None
    resync_rounds: int = 0
    lookup_connection: str = "new"  # new, kept
    drains: bool = False
    index_rows_total: int = 0
    vacuum_analyze: bool = False
    vacuum_index_cleanup: bool = False
    checkpoint_and_sleep: bool = False
    vacuum_between_queries: bool = False

    @property
    def deletes(self) -> bool:
        return self.delete_form != "none"


STEPS_2024 = (
    "l.i0", "l.x", "l.i1", "l.i2", "pause", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000",
)  # fmt: skip

G22 = Generation(
    name="g22",
    price_type="real",
    indexes=(
        (MARKETSEGMENT, ("price", "customerid")),
        (REGISTERSEGMENT, ("cashregisterid", "price", "customerid")),
        (PDC, PDC_COLUMNS),
    ),
    steps=("l.i0", "l.x", "l.i1", "pause", "q100.1", "q500.1", "q1000.1"),
    drains=True,
    index_rows_total=100_000,
    vacuum_between_queries=True,
)
G24A = Generation(
    name="g24a",
    price_type="integer",
    indexes=(
        (MARKETSEGMENT, ("productid", "customerid", "price")),
        (REGISTERSEGMENT, ("cashregisterid", "customerid", "price")),
        (PDC, PDC_COLUMNS),
    ),
    steps=STEPS_2024,
    delete_form="range",
    first_lookup="before-start",
    vacuum_analyze=True,
    checkpoint_and_sleep=True,
)
# The present reference: since June 2025 lookups use kept connections. The May 2024 results had "new".
G24B = replace(
    G24A,
    name="g24b",
    delete_form="subselect",
    first_lookup="round-0",
    resync_rounds=1000,
    lookup_connection="kept",
    drains=True,
    vacuum_index_cleanup=True,
)
GENERATIONS: dict[str, Generation] = {g.name: g for g in (G22, G24A, G24B)}
DEFAULT_GENERATION = "g24b"


@dataclass(frozen=True, slots=True)
class InsertStep:
    """Everything that one step needs; the same for every client.

    `kind` is load (inserts into fresh tables), index (inserts, then index builds), write (inserts and deletes), pause,
    or query. Rows and rates are per client. `rate_per_s` 0 is unlimited. `query` is None, "range" or "point".
    `rows_indexed` counts, for kind index, the rows that the build covers. `seconds` is the nominal length of a query
    step or the longest pause; a query step ends when its rows are done. `background_vacuum`: g22's vacuums are started
    in the background before the step. `builds` is how often kind index builds all indexes.
    """

    name: str
    kind: str
    rows_per_client: int = 0
    rows_per_statement: int = 0
    rate_per_s: int = 0
    deletes: bool = False
    query: str | None = None
    rows_indexed: int = 0
    seconds: float = 0
    background_vacuum: bool = False
    builds: int = 1

    @property
    def rounds(self) -> int:
        """Insert statements of one client, and, with deletes, as many delete statements."""
        if self.rows_per_client == 0:
            return 0
        return -(-self.rows_per_client // self.rows_per_statement)

    def rounds_of(self, rows_per_statement: int) -> int:
        return -(-self.rows_per_client // rows_per_statement)

    @property
    def rows(self) -> int:
        """Rows that one client really inserts: whole statements, thus up to rows_per_statement - 1 extra."""
        return self.rounds * self.rows_per_statement


RATES_PER_S = (100, 500, 1000)
# Steps by name; generation and sizes give the rest.
SHAPES = {
    step.name: step
    for step in (
        InsertStep("l.i0", "load", rows_per_statement=100),
        InsertStep("l.x", "index", rows_per_statement=100),
        InsertStep("l.i1", "write", rows_per_statement=50),
        InsertStep("l.i2", "write", rows_per_statement=5),
        InsertStep("pause", "pause"),
        *(InsertStep(f"qr{rate}", "query", 0, 50, rate, query="range") for rate in RATES_PER_S),
        *(InsertStep(f"qp{rate}", "query", 0, 50, rate, query="point") for rate in RATES_PER_S),
        *(InsertStep(f"q{rate}.1", "query", 0, 50, rate, query="range") for rate in RATES_PER_S),
    )
}
WRITTEN_FIFTHS = {"l.i1": 4, "l.i2": 1}  # of the rows that both write together

TEXTS = {
    "load": "load the table in key order, without indexes",
    "index": "build the secondary indexes",
    "write": "inserts and deletes of {rows} rows each",
    "pause": "vacuum, checkpoint and rest",
    "query": "{query} queries while {rate} rows/s are inserted and deleted",
}


def describe(step: str) -> str:
    shape = SHAPES[step]
    return TEXTS[shape.kind].format(rows=shape.rows_per_statement, query=shape.query, rate=shape.rate_per_s)


def generation(name: str) -> Generation:
    return pick("generation", name, GENERATIONS)


def plan_steps(
    generation_name: str = DEFAULT_GENERATION,
    scale: str | int = "quick",
    clients: int = 1,
    selected: Iterable[str] | None = None,
    *,
    rows_written: int | None = None,
    query_seconds: float | None = None,
) -> tuple[InsertStep, ...]:
    """The steps of one cell in their order. Raises UnknownName.

    `scale` is a scale's name or N1, the rows that each client loads in l.i0. `rows_written` is N2 (l.i1 and l.i2
    together) and `query_seconds` S; both replace the scale's. `selected` steps are put into the generation's order,
    and the load and index build that they require are added.
    """
    form = generation(generation_name)
    given: dict[str, Any] = {"rows_written": rows_written, "query_seconds": query_seconds}
    sizes = replace(sizes_of(form.name, scale), **{name: value for name, value in given.items() if value is not None})
    names = form.steps if selected is None else _with_prerequisites(form, selected)
    loaded = _step(form, sizes, "l.i0", clients, 0).rows
    return tuple(_step(form, sizes, name, clients, loaded) for name in names)


def _with_prerequisites(form: Generation, selected: Iterable[str]) -> tuple[str, ...]:
    wanted = {pick("step", name, {step: step for step in form.steps}) for name in selected}
    if wanted:
        wanted.add("l.i0")
    if wanted - {"l.i0"}:
        wanted.add("l.x")
    return tuple(name for name in form.steps if name in wanted)


def _step(form: Generation, sizes: Sizes, name: str, clients: int, loaded_per_client: int) -> InsertStep:
    shape = SHAPES[name]
    rows, indexed, seconds = 0, 0, 0.0
    if shape.kind == "load":
        rows = sizes.rows_loaded
    elif shape.kind == "index":
        total = form.index_rows_total if sizes.full_index_rows else min(form.index_rows_total, 1000 * clients)
        rows = max(100, total // clients)
        indexed = loaded_per_client + replace(shape, rows_per_client=rows).rows
    elif shape.kind == "write":
        # Without an l.i2, l.i1 has all rows.
        rows = sizes.rows_written * WRITTEN_FIFTHS[name] // 5 if "l.i2" in form.steps else sizes.rows_written
    elif shape.kind == "query":
        seconds = sizes.query_seconds
        rows = round(seconds * shape.rate_per_s)
    elif form.checkpoint_and_sleep:
        seconds = pause_seconds(loaded_per_client * clients, sizes.pause_scale)
    queries = [step for step in form.steps if SHAPES[step].kind == "query"]
    return replace(
        shape,
        rows_per_client=rows,
        deletes=form.deletes and shape.kind in ("write", "query"),
        rows_indexed=indexed,
        seconds=seconds,
        background_vacuum=form.vacuum_between_queries and name in queries[1:],
    )
