"""The launcher of the Insert Benchmark's clients: `python -m workloads.insert.launch`, one step's spec on stdin."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start an unused thread per core

import sys

import msgspec
from psycopg.pq import abc

from workloads import seeds
from workloads.base import Role, role_kind
from workloads.counter_page import Page
from workloads.insert import row_values
from workloads.insert.coupling import Partners
from workloads.insert.roles import ROLES, RoleContext
from workloads.insert.spec import StepSpec, places, role_list
from workloads.launcher import Team, run
from workloads.process import Gates


def main() -> int:
    parent_pid = os.getppid()
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=StepSpec)
    form = spec.options.form
    roles = role_list(spec.step, spec.options)
    page = Page(spec.page_fd, len(roles))
    text = row_values.text_buffer(seeds.stream(spec.seed, spec.repeat, "text"))
    row_values.tables(form.price_type)
    partners = partners_of(roles, form.drains)
    place_of = places(roles)

    def work(slot: int, role: Role, connection: abc.PGconn, gates: Gates) -> None:
        context = RoleContext(spec, role, page, slot, connection, gates, place_of[role], partners[role.client], text)
        ROLES[role_kind(role.name)](context)

    def ended(role: Role) -> None:
        for wake_fd in (partners[role.client].wake_insert, partners[role.client].wake_delete):
            os.eventfd_write(wake_fd, 1)

    return run(Team("ib", roles, page, spec.dsn, work, ended), parent_pid)


def partners_of(roles: tuple[Role, ...], drains: bool) -> dict[int, Partners]:
    """For each client, its streams' slots and two eventfds that its roles inherit."""
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
