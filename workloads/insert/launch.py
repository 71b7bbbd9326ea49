"""The launcher of the Insert Benchmark's clients: `python -m workloads.insert.launch`, one step's spec on stdin."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start an unused thread per core

import sys
from statistics import fmean

import msgspec
from psycopg.pq import abc

from workloads.api.base import Role
from workloads.api.report import Report, Timing
from workloads.client import seeds
from workloads.client.counter_page import Page
from workloads.client.launcher import Team, report_file, reported, run
from workloads.client.process import Gates
from workloads.insert import row_values
from workloads.insert.coupling import Partners
from workloads.insert.index_builds import index
from workloads.insert.roles import RoleContext, delete, insert, query
from workloads.insert.spec import InsertSpec, places, role_list

ROLES = {role.__name__: role for role in (insert, delete, query, index)}


def main() -> int:
    parent_pid = os.getppid()
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=InsertSpec)
    form = spec.options.form
    roles = role_list(spec.step, spec.options)
    page = Page(spec.page_fd, len(roles))
    text = row_values.text_buffer(seeds.stream(spec.seed, spec.repeat, "text"))
    row_values.tables(form.price_type)
    partners = partners_of(roles, form.drains)
    place_of = places(roles)
    report_fd = report_file()

    def work(slot: int, role: Role, connection: abc.PGconn, gates: Gates) -> None:
        place, coupled = place_of[role], partners[role.client]
        context = RoleContext(spec, role, page, slot, connection, gates, place, coupled, text, report_fd)
        ROLES[role.name](context)

    def ended(role: Role) -> None:
        for wake_fd in (partners[role.client].wake_insert, partners[role.client].wake_delete):
            os.eventfd_write(wake_fd, 1)

    code = run(Team("ib", roles, page, spec.dsn, work, ended), parent_pid)
    if times := reported(report_fd):
        sys.stdout.buffer.write(msgspec.json.encode(Report(timing=Timing(times_s=tuple(times_of_all(times))))))
    return code


def times_of_all(lines: bytes) -> list[float]:
    """The time of each repetition, as the mean of the clients: each line has one client's times."""
    clients = [msgspec.json.decode(line, type=list[float]) for line in lines.splitlines()]
    return [fmean(client_times) for client_times in zip(*clients, strict=True)]


def partners_of(roles: tuple[Role, ...], drains: bool) -> dict[int, Partners]:
    """Each client's slots of its streams, and two eventfds that its roles inherit."""
    slots = {role: slot for slot, role in enumerate(roles)}
    flags = os.EFD_NONBLOCK | os.EFD_CLOEXEC
    return {
        client: Partners(
            insert_slot=slots[Role(client, "insert")],
            delete_slot=slots.get(Role(client, "delete")),
            wake_insert=os.eventfd(0, flags),
            wake_delete=os.eventfd(0, flags),
            drains=drains,
        )
        for client in {role.client for role in roles}
    }


if __name__ == "__main__":
    sys.exit(main())
