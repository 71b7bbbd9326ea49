"""Many clients: the server takes their connections, and too many are refused before anything starts."""

from __future__ import annotations

import json

from tests.support.benchcall import Bench


def settings(bench: Bench, *arguments: str) -> dict[str, str]:
    done = bench("run", *arguments, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    (config,) = json.loads(done.stdout)["manifest"]["configs"].values()
    return dict(config["settings"])


def test_more_clients_than_the_servers_default_are_run(bench: Bench, label: str) -> None:
    """Each of them needs four connections in a query step."""
    words = ("--rows", "1000", "--rows-written", "1000", "--query-seconds", "1", "--set", "shared_buffers=32MB")
    done = bench("run", "--pg", label, "--clients", "25", "--repeats", "1", "--steps", "qr100", *words, "--plain")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [attempt.state for attempt in bench.attempts()] == ["finished"]


def test_max_connections_is_set_where_the_default_is_too_low(bench: Bench, label: str) -> None:
    assert "max_connections" not in settings(bench, "--pg", label, "--clients", "4")
    assert int(settings(bench, "--pg", label, "--clients", "100")["max_connections"]) >= 500
    words = ("--pg", label, "--clients", "100", "--set", "max_connections=700")
    assert settings(bench, *words)["max_connections"] == "700"
