"""The launcher of the OLTP tests' clients: `python -m workloads.oltp.launch`, one step's spec on stdin."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start an unused thread per core

import hashlib
import sys

import msgspec
from psycopg.pq import abc

from workloads.api.base import Role
from workloads.client.counter_page import Page
from workloads.client.launcher import Team, run
from workloads.client.process import Gates
from workloads.oltp import roles
from workloads.oltp.spec import LOAD, OltpSpec, role_list
from workloads.oltp.texts import ROW_BYTES


def main() -> int:
    parent_pid = os.getppid()
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=OltpSpec)
    kind = spec.step["kind"]
    team = role_list(kind, spec.options)
    page = Page(spec.page_fd, len(team))
    digests, tell = os.pipe()  # a table's digest takes 33 bytes, so that no load waits for a reader

    def work(slot: int, role: Role, connection: abc.PGconn, gates: Gates) -> None:
        context = roles.OltpContext(spec, role, page, slot, connection, gates, tell)
        (roles.load if kind == LOAD else roles.client)(context)

    code = run(Team("oltp", team, page, spec.dsn, work), parent_pid)
    os.close(tell)
    if code == 0 and kind == LOAD:
        report = {"rows": spec.options.rows, "bytes": spec.options.rows * ROW_BYTES, "sha256": _together(digests)}
        sys.stdout.buffer.write(msgspec.json.encode({"load": report}))
    return code


def _together(read_fd: int) -> str:
    """One digest of all tables' rows, from theirs in order."""
    with os.fdopen(read_fd, "rb") as source:
        digest = source.read()
    parts = sorted(digest[first : first + roles.TOLD_BYTES] for first in range(0, len(digest), roles.TOLD_BYTES))
    return hashlib.sha256(b"".join(part[1:] for part in parts)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
