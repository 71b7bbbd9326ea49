"""A server that is only watched, from the samples of one tick."""

from __future__ import annotations

from typing import Any

import pytest

from engine.journal.rows import StepRow
from engine.view.observed_server import connection_words, observed_server, record

PLAN = {"by": "user", "version": "17.6", "address": "host=db1", "notes": ["much is not visible"]}
STEP = StepRow(1, 1, 0, "observed", "observed", "running", 0, None, 0, PLAN, None)
ROLE = {"name": "joe", "connections_now": 7, "active_now": 2, "waiting_now": 1, "idle_in_transaction_now": 1,
        "unseen_now": 0, "oldest_s_now": 1.5, "wait": "Lock:tuple", "calls_per_s_now": 12.5}  # fmt: skip
SAMPLES: dict[str, tuple[int, dict[str, Any]]] = {
    "connections": (10**9, {**ROLE, "name": "server", "roles": [ROLE], "vacuums": [{"relation": "orders",
                            "phase": "scanning heap", "done": 0.34}]}),
    "database": (2 * 10**9, {"commits": 20, "rollbacks": 2, "inserted": 4, "updated": 6, "deleted": 0,
                             "hit": 99, "read": 1}),
    "wal": (10**9, {"bytes": 1 << 20}),
}  # fmt: skip


def test_counts_become_rates_and_roles_keep_what_is_not_counted_unknown() -> None:
    server = observed_server(STEP, SAMPLES)
    assert server.rates == {
        "commits": 10, "rollbacks": 1, "inserted": 2, "updated": 3, "deleted": 0, "wal_bytes": 1 << 20,
    }  # fmt: skip
    assert server.hit_share == 0.99 and server.vacuums == ("orders scanning heap 34%",)
    (joe,) = server.roles
    assert (joe.calls_per_s, joe.ms_per_call, joe.title) == (12.5, None, "joe")
    words = ("7 connections", "2 active", "1 waiting", "1 idle in transaction")
    assert tuple(connection_words(server.total)) == words
    assert record(server)["roles"][0]["wait"] == "Lock:tuple" and record(server)["not_visible"] == [
        "much is not visible"
    ]


def test_before_the_first_tick_nothing_is_known() -> None:
    server = observed_server(STEP, {})
    assert (server.roles, dict(server.rates), server.hit_share) == ((), {}, None)
    assert tuple(connection_words(server.total)) == ("0 connections",)


def test_counters_that_a_record_lacks_are_0() -> None:
    assert observed_server(STEP, {"database": (10**9, {"commits": 5})}).rates["rollbacks"] == 0


def test_a_damaged_sample_raises_what_its_reader_turns_into_words() -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        observed_server(STEP, {"connections": (1, {"roles": [3]})})
