"""What may be varied about the Insert Benchmark; recorded with the result, as each of it can change the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from workloads.insert.steps import Generation, Step
from workloads.limiter import LIMITERS
from workloads.names import UnknownName


@dataclass(frozen=True, slots=True)
class Knobs:
    """Departures from a generation; the defaults are none.

    An empty string or -1 stands for what the generation says. `insert_protocol`: "simple", or "prepared" for a
    server-side PREPARE and the text of an EXECUTE; `query_protocol` likewise. `placement`: "free" leaves client and
    backend to the scheduler, as the reference does and as a question about the scheduler needs; "paired" binds each
    role that talks back and forth with its backend to the same CPU as that backend, so that a round trip costs no
    wake-up of another, sleeping CPU, which in a virtual machine is dearer than a short query.
    """

    rows_per_statement: int = 0
    insert_protocol: str = "simple"
    query_protocol: str = "prepared"
    delete_form: str = ""
    limiter: str = "reference"
    lookup_connection: str = ""
    resync_rounds: int = -1
    indexes: int = 3
    query_workers: int = 1
    create_suffix: str = ""
    partitions: tuple[int, ...] = ()  # (P, width)
    open_transaction_s: float = 0
    placement: str = "free"

    def __post_init__(self) -> None:
        for kind, name, choices in (
            ("insert protocol", self.insert_protocol, ("simple", "prepared")),
            ("query protocol", self.query_protocol, ("simple", "prepared")),
            ("delete form", self.delete_form, ("", "range", "subselect")),
            ("limiter", self.limiter, tuple(LIMITERS)),
            ("lookup connection", self.lookup_connection, ("", "new", "kept")),
            ("placement", self.placement, ("free", "paired")),
        ):
            if name not in choices:
                raise UnknownName(kind, name, choices)

    def delete_form_of(self, generation: Generation) -> str:
        """The form of delete statements: this knob's or the generation's."""
        return self.delete_form or generation.delete_form

    def lookup_connection_of(self, generation: Generation) -> str:
        """Whether lookups use a new or a kept connection: this knob's or the generation's."""
        return self.lookup_connection or generation.lookup_connection

    def resync_rounds_of(self, generation: Generation) -> int:
        """How many rounds pass between two lookups of the low key: this knob's or the generation's."""
        return generation.resync_rounds if self.resync_rounds < 0 else self.resync_rounds

    def rows_per_statement_of(self, step: Step) -> int:
        """The rows of a statement: this knob's or the step's, never more than a rate limit allows in a second."""
        rows = self.rows_per_statement or step.rows_per_statement
        return min(rows, step.rate_per_s) if step.rate_per_s else rows

    def resolved(self, generation: Generation) -> dict[str, Any]:
        """Their names and values, with what the generation says in place of what stands for it."""
        return asdict(self) | {
            "delete_form": self.delete_form_of(generation),
            "lookup_connection": self.lookup_connection_of(generation),
            "resync_rounds": self.resync_rounds_of(generation),
        }

    def departures(self, generation: Generation) -> tuple[str, ...]:
        """What is not as the generation has it, in words: "placement paired", "query workers 2"."""
        usual, ours = Knobs().resolved(generation), self.resolved(generation)
        return tuple(f"{name.replace('_', ' ')} {value}" for name, value in ours.items() if value != usual[name])

    @classmethod
    def of(cls, record: dict[str, Any]) -> Knobs:
        """From the JSON form (`dataclasses.asdict`)."""
        return cls(**{**record, "partitions": tuple(record.get("partitions", ()))})
