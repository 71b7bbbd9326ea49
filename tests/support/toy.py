"""A workload for tests: each client asks SELECT 1 so often. Also its launcher: `python -m tests.support.toy`.

PGBED_WORKLOADS=toy=tests.support.toy registers it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from psycopg.pq import abc

from workloads.api.base import Launch, Listing, Maintenance, Place, Plan, PrimaryMetric, Record, Role, Step, Workload
from workloads.api.options import Clients, about, given
from workloads.client.connection import TUPLES_OK, error_of
from workloads.client.counter_page import Control, Page, Word
from workloads.client.launcher import Team, run
from workloads.client.process import Gates, await_quota, await_slice, check_stop, clock, recorder


def computing(ms: int) -> str:
    """A query that computes for so long on any machine. Of a time in which it is stopped it counts 1 ms."""
    return f"""WITH RECURSIVE computing (at, done) AS (
        SELECT clock_timestamp(), interval '0'
        UNION ALL
        SELECT clock_timestamp(), done + least(clock_timestamp() - at, '1 ms') FROM computing WHERE done < '{ms} ms'
    ) SELECT max(done) >= '{ms} ms' FROM computing"""


ASKED = {"one": b"SELECT 1", "two": b"SELECT 2", "late": b"SELECT pg_sleep(0.004)", "long": computing(150).encode()}


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    clients: Clients = 1
    questions: Annotated[
        Annotated[int, Meta(ge=1, le=10**9)], about("Questions that each client asks.", metavar="N")
    ] = 1000
    answer: Annotated[Literal["one", "two", "late", "long"], about("What is asked for.")] = "one"


class Toy:
    """See `workloads.api.base.Workload`."""

    name = "toy"
    description = "SELECT 1, again and again"
    options = Options

    def plan(self, options: Options) -> Plan:
        step = {"name": "ask", "kind": "ask", "questions": options.questions}
        return Plan({"name": self.name, "title": f"{options.questions} questions", "clients": options.clients,
                     "steps": [step], "options": given(options)})  # fmt: skip

    def check(self, record: Record) -> None:
        return

    def written(self, record: Record) -> Mapping[str, str]:
        return {}

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        return dict(entries)

    def steps(self, record: Record) -> tuple[Step, ...]:
        clients = int(record["clients"])
        roles = tuple(Role(client, "ask") for client in range(1, clients + 1))
        return tuple(
            Step(step["name"], step["kind"], step, PrimaryMetric("ask", "questions/s"), roles, clients, sliced="time")
            for step in record["steps"]
        )

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        return Maintenance()

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        spec = {"dsn": place.dsn, "page_fd": place.page_fd, "clients": record["clients"],
                "questions": step.record["questions"], "answer": record["options"].get("answer", "one")}  # fmt: skip
        return Launch((sys.executable, "-m", "tests.support.toy"), msgspec.json.encode(spec).decode())

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        return frozenset()

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        return 64 << 20

    def identity(self, record: Record) -> dict[str, Any]:
        return {"answer": record["options"].get("answer", "one")}

    def non_default(self, record: Record) -> tuple[str, ...]:
        return ()

    def sizes(self) -> Listing:
        row = {"workload": self.name, "questions": 1000, "steps": "ask"}
        return Listing((row,), ("workload", "questions"), steps={"ask": "SELECT 1"})


WORKLOAD: Workload = Toy()


def main() -> int:
    """The launcher."""
    parent_pid = os.getppid()
    spec = msgspec.json.decode(sys.stdin.buffer.read())
    roles = tuple(Role(client, "ask") for client in range(1, spec["clients"] + 1))
    page = Page(spec["page_fd"], len(roles))
    sql = ASKED[spec["answer"]]

    def work(slot: int, role: Role, connection: abc.PGconn, gates: Gates) -> None:
        record = recorder(page, slot, 1)
        gates.await_start(page, slot)
        for number in range(spec["questions"]):
            check_stop(page)
            if number >= page.words[Control.QUOTA]:
                await_quota(page, slot, number)
            page.set_word(slot, Word.IN_FLIGHT_NS, began_ns := clock())
            if not page.words[Control.GATE]:
                began_ns = await_slice(page, slot)
            result = connection.exec_(sql)
            if result.status != TUPLES_OK:
                raise error_of(connection, result)
            record(began_ns, clock(), result.ntuples, 0)

    return run(Team("toy", roles, page, spec["dsn"], work), parent_pid)


if __name__ == "__main__":
    sys.exit(main())
