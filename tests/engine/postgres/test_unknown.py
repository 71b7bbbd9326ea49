"""A run of a version that pgbed does not know: see `tests.support.future`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.core.wait_kinds import by_kind
from engine.journal.reader import JournalReader
from engine.postgres.pgstat import Monitor
from engine.postgres.server import Server
from engine.postgres.unknown import unknown
from tests.support import future
from tests.support.benchcall import Bench
from tests.support.templates import BY_THEMSELVES

OLD = "18.6-prebuilt"


@pytest.mark.parametrize("label", ["12.11-prebuilt", "17.0-prebuilt", OLD])
def test_of_a_version_that_is_known_nothing_is_unknown(label: str, server: Callable[[int | str], Server]) -> None:
    with Monitor(server(label).dsn()) as monitor:
        assert unknown(monitor, ["of a later version"]) == ()


@pytest.mark.slow
def test_a_future_version_is_measured_and_gaps_reported(bench: Bench, new_folder: Callable[[], Path]) -> None:
    install = future.install(Path(BY_THEMSELVES["PGBED_SERVERS"]) / OLD, new_folder())
    toy = Bench(bench.out, {"PGBED_WORKLOADS": "toy=tests.support.toy"})
    done = toy("--pg", f"{OLD},new={install}", "--workload", "toy", "--questions", "200", "--answer", "late",
               "--config", "cx9a2_bee", "--set", "shared_buffers=32MB", "--set", "min_wal_size=64MB", "--repeats", "1",
               "--interleave", "cells", "--plain")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with JournalReader(toy.run) as reader:
        assert reader.manifest.build("new").version == future.VERSION
        old, new = (reader.origin(attempt.id)["server"]["unknown"] for attempt in reader.attempts())
    assert old == []
    expected = [
        'statistics of wal are left out: column "wal_fpi_bytes" does not exist',
        'statistics of lock are left out: relation "pg_stat_lock" does not exist',
        'statistics of database are left out: column "checksum_failures" does not exist',
        "there is no setting autovacuum_work_mem any more",
        "statistics view pg_stat_teleport",
        "wait event Timeout:PgSnore",
    ]
    assert [text for text in new if text in expected] == expected
    comparison = toy.comparison()
    seen = {cell["subject"]: by_kind(cell["waits"]["ask"]) for cell in comparison["cells"]}  # type: ignore[attr-defined]
    assert seen[OLD]["other"] > 0.5 and seen["new"]["unknown"] > 0.5 and "other" not in seen["new"]
    output = " ".join(toy("compare", "--all").stdout.split())
    assert "new has what pgbed does not know: statistics of wal are left out" in output and "pg_stat_teleport" in output
