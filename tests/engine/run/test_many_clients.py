"""Many clients: the server takes their connections, and what is too many is refused before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.benchcall import Bench


def refused(bench: Bench, *arguments: str) -> str:
    done = bench(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert not bench.out.exists() or not list(bench.out.iterdir())
    return line


def settings(bench: Bench, *arguments: str) -> dict[str, str]:
    done = bench("run", *arguments, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    (config,) = json.loads(done.stdout)["manifest"]["configs"].values()
    return dict(config["settings"])


def test_more_clients_than_the_servers_default_are_run(bench: Bench, label: str) -> None:
    """Each of them needs four connections in a query step."""
    words = ("--rows", "1000", "--rows-written", "1000", "--query-seconds", "1", "--set", "shared_buffers=32MB")
    done = bench("run", "--pg", label, "--clients", "30", "--repeats", "1", "--steps", "qr100", *words, "--plain")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [attempt.state for attempt in bench.attempts()] == ["finished"]


def test_max_connections_is_set_where_the_default_is_too_low(bench: Bench, label: str) -> None:
    assert "max_connections" not in settings(bench, "--pg", label, "--clients", "4")
    assert int(settings(bench, "--pg", label, "--clients", "100")["max_connections"]) >= 500
    words = ("--pg", label, "--clients", "100", "--set", "max_connections=700")
    assert settings(bench, *words)["max_connections"] == "700"


def test_settings_that_take_too_few_connections_are_refused(bench: Bench, label: str, tmp_path: Path) -> None:
    words = ("run", "--pg", label, "--clients", "40")
    line = refused(bench, *words, "--set", "max_connections=50")
    assert "--set: max_connections=50 is too low: this plan needs 220 connections" in line
    config = tmp_path / "few.conf"
    config.write_text("max_connections = 60\n")
    assert "config 'few': max_connections=60 is too low" in refused(bench, *words, "--config", str(config))


@pytest.mark.parametrize("form", ["--dry-run", "--estimate"])
def test_a_huge_plan_is_refused_before_it_is_laid_out(bench: Bench, label: str, form: str) -> None:
    builds = ",".join(f"b{number}=/nonexistent" for number in range(50))
    assert "50,000 cells are more than a run may have" in refused(
        bench, "run", "--pg", builds, "--repeats", "1000", form
    )
    words = ("--clients", "256", "-o", "query_workers=32")
    assert "connections in a step are more than the maximum" in refused(bench, "run", "--pg", label, *words, form)
