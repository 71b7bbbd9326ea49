"""Generations and steps of the Insert Benchmark, as tables, and the plan of steps for one cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from workloads.insert.sizes import Sizes, pause_seconds, sizes_of
from workloads.names import pick

MARKETSEGMENT, REGISTERSEGMENT, PDC = "marketsegment", "registersegment", "pdc"
Index = tuple[str, tuple[str, ...]]
PDC_COLUMNS = ("price", "dateandtime", "customerid")


@dataclass(frozen=True, slots=True)
class Generation:
    """One published form of the benchmark; results are comparable only within a generation.

    `first_lookup` says when the low key is looked up first: "before-start", "round-0" or None (no deletes).
    A lookup is repeated every `resync_rounds` + 1 rounds; 0 means never. `drains`: both streams finish their
    queues; otherwise each gives up as soon as the other has finished. `index_rows_total` are the rows that l.x
    inserts over all tables before it builds; 0 means 100 for every table.
    """

    name: str
    price_type: str
    indexes: tuple[Index, ...]
    delete_form: str  # none, range, subselect
    first_lookup: str | None
    resync_rounds: int
    lookup_connection: str  # new, kept
    drains: bool
    steps: tuple[str, ...]
    index_rows_total: int
    vacuum_analyze: bool
    vacuum_index_cleanup: bool
    checkpoint_and_sleep: bool
    vacuum_between_queries: bool

    @property
    def deletes(self) -> bool:
        """Whether every insert statement has a delete statement beside it."""
        return self.delete_form != "none"


INDEXES_2024: tuple[Index, ...] = (
    (MARKETSEGMENT, ("productid", "customerid", "price")),
    (REGISTERSEGMENT, ("cashregisterid", "customerid", "price")),
    (PDC, PDC_COLUMNS),
)
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
    delete_form="none",
    first_lookup=None,
    resync_rounds=0,
    lookup_connection="new",
    drains=True,
    steps=("l.i0", "l.x", "l.i1", "pause", "q100.1", "q500.1", "q1000.1"),
    index_rows_total=100_000,
    vacuum_analyze=False,
    vacuum_index_cleanup=False,
    checkpoint_and_sleep=False,
    vacuum_between_queries=True,
)
G24A = Generation(
    name="g24a",
    price_type="integer",
    indexes=INDEXES_2024,
    delete_form="range",
    first_lookup="before-start",
    resync_rounds=0,
    lookup_connection="new",
    drains=False,
    steps=STEPS_2024,
    index_rows_total=0,
    vacuum_analyze=True,
    vacuum_index_cleanup=False,
    checkpoint_and_sleep=True,
    vacuum_between_queries=False,
)
# As the reference is today: since June 2025 lookups are made on kept connections. The May 2024 results had "new".
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
class Step:
    """Everything that one step needs; the same for every client.

    `kind` is load (inserts into fresh tables), index (inserts, then index builds), write (inserts and deletes),
    pause, or query. Rows and rates are per client. `rate_per_s` 0 is unlimited. `query` is None, "range" or
    "point". `rows_indexed` counts, for kind index, the rows that the build covers. `seconds` is the nominal length
    of a query step or the longest pause; a query step ends when its rows are done. `background_vacuum`: g22's
    vacuums are started in the background before the step.
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

    @property
    def rounds(self) -> int:
        """Insert statements of one client, and as many delete statements where there are deletes."""
        if self.rows_per_client == 0:
            return 0
        return -(-self.rows_per_client // self.rows_per_statement)

    @property
    def rows(self) -> int:
        """Rows that one client really inserts: whole statements, so up to rows_per_statement - 1 more than asked."""
        return self.rounds * self.rows_per_statement

    @classmethod
    def of(cls, record: dict[str, Any]) -> Step:
        """From the JSON form (`dataclasses.asdict`)."""
        return cls(**record)


@dataclass(frozen=True, slots=True)
class Shape:
    """A row of the table of steps: what a step's name stands for."""

    kind: str
    rows_per_statement: int = 0
    rate_per_s: int = 0
    query: str | None = None
    written_fifths: int = 0  # of the rows written by l.i1 and l.i2 together


SHAPES: dict[str, Shape] = {
    "l.i0": Shape("load", 100),
    "l.x": Shape("index", 100),
    "l.i1": Shape("write", 50, written_fifths=4),
    "l.i2": Shape("write", 5, written_fifths=1),
    "pause": Shape("pause"),
    **{f"q{letter}{rate}": Shape("query", 50, rate, query)
       for rate in (100, 500, 1000) for letter, query in (("r", "range"), ("p", "point"))},
    **{f"q{rate}.1": Shape("query", 50, rate, "range") for rate in (100, 500, 1000)},
}  # fmt: skip


def generation(name: str) -> Generation:
    """A generation by name; `UnknownName` otherwise."""
    return pick("generation", name, GENERATIONS)


def plan_steps(
    generation_name: str = DEFAULT_GENERATION,
    scale: str | int = "quick",
    clients: int = 1,
    selected: Iterable[str] | None = None,
    *,
    rows_written: int | None = None,
    query_seconds: float | None = None,
) -> tuple[Step, ...]:
    """The steps of one cell in their order.

    `scale` is a scale's name or N1, the rows that each client loads in l.i0. `rows_written` is N2 (l.i1 and l.i2
    together) and `query_seconds` S; both replace the scale's. `selected` steps are put into the generation's
    order, and the load and the index build that they stand on are added. Unknown names raise `UnknownName`.
    """
    form = generation(generation_name)
    sizes = sizes_of(form.name, scale).override(rows_written, query_seconds)
    names = form.steps if selected is None else _with_prerequisites(form, selected)
    loaded = _step(form, sizes, "l.i0", clients, 0).rows
    return tuple(_step(form, sizes, name, clients, loaded) for name in names)


def _with_prerequisites(form: Generation, selected: Iterable[str]) -> tuple[str, ...]:
    """The chosen steps in order, led by those without which a fresh cluster could not run them."""
    wanted = {pick("step", name, {step: step for step in form.steps}) for name in selected}
    if wanted:
        wanted.add("l.i0")
    if wanted - {"l.i0"}:
        wanted.add("l.x")
    return tuple(name for name in form.steps if name in wanted)


def _step(form: Generation, sizes: Sizes, name: str, clients: int, loaded_per_client: int) -> Step:
    """One row of the plan: a shape filled with sizes."""
    shape = SHAPES[name]
    per_statement = shape.rows_per_statement
    rows, indexed, seconds = 0, 0, 0.0
    if shape.kind == "load":
        rows = sizes.rows_loaded
    elif shape.kind == "index":
        total = form.index_rows_total if sizes.full_index_rows else min(form.index_rows_total, 1000 * clients)
        rows = max(100, total // clients)
        indexed = loaded_per_client + -(-rows // per_statement) * per_statement
    elif shape.kind == "write":
        # Without an l.i2 all rows are l.i1's.
        rows = sizes.rows_written * shape.written_fifths // 5 if "l.i2" in form.steps else sizes.rows_written
    elif shape.kind == "query":
        per_statement = min(per_statement, shape.rate_per_s)
        seconds = sizes.query_seconds
        rows = round(seconds * shape.rate_per_s)
    elif form.checkpoint_and_sleep:
        seconds = pause_seconds(loaded_per_client * clients, sizes.pause_scale)
    queries = [step for step in form.steps if SHAPES[step].kind == "query"]
    return Step(
        name=name,
        kind=shape.kind,
        rows_per_client=rows,
        rows_per_statement=per_statement,
        rate_per_s=shape.rate_per_s,
        deletes=form.deletes and shape.kind in ("write", "query"),
        query=shape.query,
        rows_indexed=indexed,
        seconds=seconds,
        background_vacuum=form.vacuum_between_queries and name in queries[1:],
    )
