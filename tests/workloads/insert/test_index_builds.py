"""Indexes that are built again and again, on a real server: the statements sent, and the indexes left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.support.ibdatabase import Database
from tests.support.steprun import run_step
from workloads.client.counter_page import Word
from workloads.insert.launch import times_of_all
from workloads.insert.maintenance import maintenance
from workloads.insert.options import Options
from workloads.insert.steps import plan_steps

NAMES = ("marketsegment", "registersegment", "pdc")
SETTINGS = "SELECT count(*) FROM pg_class WHERE reloptions::text LIKE '%autovacuum%'"


def test_each_index_build_begins_with_a_clean_table(database: Callable[[int | str], Database]) -> None:
    target = database(16)
    load, index = plan_steps("g24b", 1000, selected=("l.x",))
    run_step(target.dsn, load, "g24b")
    target.log_statements()
    done = run_step(target.dsn, replace(index, builds=3), "g24b")
    sent = [text.split(" ON ")[0] for text in target.logged() if not text.startswith("INSERT")]
    build = [f"CREATE INDEX pi1_{name}" for name in NAMES]
    before = [
        "ALTER TABLE pi1 SET (autovacuum_enabled = off)",
        f"DROP INDEX IF EXISTS {', '.join(f'pi1_{name}' for name in NAMES)}",
        "CHECKPOINT",
    ]
    assert sent == [*before, *build] * 3
    builder = done[1, "index"]
    assert done.exit_code == 0 and builder[Word.STATEMENTS] == 9 and builder[Word.ROWS] == 3 * index.rows_indexed
    assert builder[Word.SERVICE_NS] < done.seconds * 1e9, "what is between builds is not of them"
    for (statement,) in maintenance(Options(), replace(index, builds=3), 16).after:
        target.run(statement)
    assert target.one(SETTINGS) == 0
    assert target.one("SELECT count(*) FROM pg_index WHERE indrelid = 'pi1'::regclass") == 4


def test_the_time_of_a_repetition_is_the_mean_of_its_clients() -> None:
    assert times_of_all(b"[1.0,2.0]\n[3.0,2.0]\n") == [2.0, 2.0]
