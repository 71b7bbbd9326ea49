"""Options of the Insert Benchmark; recorded with the result, since each can change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from workloads.api.options import Clients, PresetName, Steps, about, checked, options_of
from workloads.insert.steps import Generation, InsertStep, generation

Rows = Annotated[int, Meta(ge=1000, le=10**12)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]

# Options that the steps of a plan imply, so that they are not compared by themselves.
SHAPE = ("generation", "scale", "rows", "rows_written", "query_seconds", "preset", "steps", "clients")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the Insert Benchmark. Amounts are per client; "generation" and None stand for its values."""

    generation: Annotated[Literal["g24b", "g24a", "g22"], about("Published version of the benchmark to follow.")] = (
        "g24b"
    )
    scale: Annotated[
        str | None,
        about(
            "Named size: quick, cached or io (see bench list workloads).",
            metavar="NAME",
            unset="quick",
            excludes=["rows"],
            brief="Named size: quick, cached or io [quick].",
        ),
    ] = None
    rows: Annotated[
        Rows | None,
        about("Rows loaded per client, instead of a scale.", metavar="N", unset="the scale's", excludes=["scale"]),
    ] = None
    rows_written: Annotated[
        Rows | None, about("Rows of l.i1 and l.i2 together, per client.", metavar="N", unset="the scale's")
    ] = None
    query_seconds: Annotated[
        Count | None, about("Nominal length of each query step.", metavar="S", unset="the scale's", unit="s")
    ] = None
    steps: Steps = ()
    preset: PresetName = None
    clients: Clients = 1
    delete_form: Annotated[
        Literal["generation", "range", "subselect"], about("Form of delete statements.", rare=True)
    ] = "generation"
    placement: Annotated[
        Literal["free", "paired"],
        about("paired binds each client and its backend to one CPU: less noise, but no scheduling to measure."),
    ] = "free"
    rows_per_statement: Annotated[
        Count | None, about("Rows of each insert and delete statement.", metavar="N", unset="the step's", rare=True)
    ] = None
    lookup_connection: Annotated[
        Literal["generation", "new", "kept"],
        about("Whether the lowest and highest keys are looked up on a new or a kept connection.", rare=True),
    ] = "generation"
    resync_rounds: Annotated[
        Annotated[int, Meta(ge=0, le=10**9)] | None,
        about("Rounds between two lookups of the lowest key.", metavar="N", unset="the generation's", rare=True),
    ] = None
    indexes: Annotated[int, Meta(ge=0, le=3), about("Secondary indexes that l.x builds.", metavar="N", rare=True)] = 3
    index_builds: Annotated[
        Annotated[int, Meta(ge=1, le=100)],
        about(
            "How often l.x builds them: before each time they are dropped, and there is a checkpoint. In slices, small "
            "tables are indexed up to four times.",
            metavar="N",
            rare=True,
        ),
    ] = 1
    before_writes: Annotated[
        Literal["nothing", "vacuum"],
        about(
            "Maintenance of the tables before l.i1 and l.i2, uncounted. vacuum, with ANALYZE, is usual in slices; the "
            "reference client does nothing.",
            rare=True,
        ),
    ] = "nothing"

    @property
    def form(self) -> Generation:
        return generation(self.generation)

    @property
    def effective_delete_form(self) -> str:
        return self.form.delete_form if self.delete_form == "generation" else self.delete_form

    @property
    def effective_lookup_connection(self) -> str:
        """The connection of lookups, new or kept: this option's value or the generation's."""
        return self.form.lookup_connection if self.lookup_connection == "generation" else self.lookup_connection

    @property
    def effective_resync_rounds(self) -> int:
        """Rounds between two lookups of the low key: this option's value or the generation's."""
        return self.form.resync_rounds if self.resync_rounds is None else self.resync_rounds

    def rows_per_statement_of(self, step: InsertStep) -> int:
        """Rows per statement: this option's value or the step's, at most one second's worth of the rate limit."""
        rows = self.rows_per_statement or step.rows_per_statement
        return min(rows, step.rate_per_s) if step.rate_per_s else rows

    def effective(self) -> dict[str, Any]:
        """All options except those that the steps imply, with the generation's values filled in."""
        plain = msgspec.to_builtins(self)
        return {name: value for name, value in plain.items() if name not in SHAPE} | {
            "delete_form": self.effective_delete_form,
            "lookup_connection": self.effective_lookup_connection,
            "resync_rounds": self.effective_resync_rounds,
        }

    def non_default(self) -> tuple[str, ...]:
        """Differences from the generation, in words: "placement paired", "indexes 2"."""
        usual, ours = Options(generation=self.generation).effective(), self.effective()
        return tuple(f"{name.replace('_', ' ')} {value}" for name, value in ours.items() if value != usual[name])


def recorded(record: Mapping[str, Any]) -> Options:
    """The options of a plan's record; unknown ones are ignored. Raises UnknownName or ValueError."""
    known = {option.name for option in options_of(Options)}
    return checked(Options, {name: value for name, value in record["options"].items() if name in known})
