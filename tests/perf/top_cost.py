"""What `bench top` costs: CPU of the observer and of its backend, and the time until the first picture.

    PGBED_SERVERS=... PGBED_PGBENCH=... python -m tests.perf.top_cost [--server 16.3-prebuilt] [--seconds S]
        [--clients N] [--statements N]

A server with pg_stat_statements, where pgbench's clients execute some hundred statements a second, is watched by each
kind of role. `--statements` is how many different ones pg_stat_statements holds. The promise is at most 1 % of a CPU
for both together, and a picture within two seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine.builds.resolve import local_build
from engine.core.model import Config
from engine.postgres.server import SUPERUSER, Server
from tests.support.steprun import cpu_s
from tests.support.terminal import Terminal

PROMISE, PICTURE_S = 0.01, 2.0
SETTINGS = (
    ("shared_buffers", "128MB"),
    ("shared_preload_libraries", "pg_stat_statements"),
    ("compute_query_id", "auto"),
    ("max_connections", "300"),
)


def measure(label: str, seconds: int, clients: int, statements: int) -> int:
    build = local_build(label, Path(os.environ["PGBED_SERVERS"]) / label)
    settings = tuple(one for one in SETTINGS if build.major >= 14 or one[0] != "compute_query_id")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="pgbed-top-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        cell = Path(folder) / "cell"
        cell.mkdir(mode=0o755)
        with Server(build, Config("top", settings, "built in"), cell) as server:
            server.create_database()
            with server.connect("ib") as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements")
                for number in range(statements):
                    columns = ", ".join("1" for _ in range(number % 1500 + 1))
                    connection.execute(f"SELECT {columns} WHERE {' AND '.join(['true'] * (number // 1500 + 1))}")
            dsn = f"host={server.socket_dir} user={SUPERUSER} dbname=ib"
            pgbench = [os.environ["PGBED_PGBENCH"], "-h", str(server.socket_dir), "-U", SUPERUSER, "ib"]
            subprocess.run([*pgbench, "-i", "-q", "-s", "2"], check=True, stderr=subprocess.DEVNULL)
            load = [*pgbench, "-n", "-c", str(clients), "-R", "100", "-T", "100000"]
            with subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as pgbench_run:
                try:
                    for by in ("application", "user", *(("query",) if build.major >= 14 else ())):
                        missed += _watched(dsn, by, seconds, Path(folder) / "runs", server)
                    missed += _picture(dsn, Path(folder) / "runs")
                finally:
                    pgbench_run.terminate()
    return missed


def _watched(dsn: str, by: str, seconds: int, out: Path, server: Server) -> int:
    command = [sys.executable, "-m", "engine", "top", dsn, "--by", by, "--plain", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as top:
        try:
            time.sleep(5)
            with server.connect("ib") as connection:
                query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbed monitor' AND NOT query ~ 'ib'"
                (backend,) = connection.execute(query + " ORDER BY backend_start DESC").fetchall()[0]
            before = cpu_s(top.pid), cpu_s(backend)
            time.sleep(seconds)
            after = cpu_s(top.pid), cpu_s(backend)
        finally:
            top.terminate()
    observer, on_server = ((now - then) / seconds for now, then in zip(after, before, strict=True))
    whole = observer + on_server
    words = "kept" if whole <= PROMISE else "MISSED"
    print(f"by {by}: observer {observer:.2%}, its backend {on_server:.2%}, together {whole:.2%} of a CPU: {words}")
    return int(whole > PROMISE)


def _picture(dsn: str, out: Path) -> int:
    command = [sys.executable, "-m", "engine", "top", dsn, "--out", str(out)]
    terminal = Terminal(command)
    try:
        first_s = terminal.until(b"connections")
    finally:
        terminal.close()
    words = "kept" if first_s <= PICTURE_S else "MISSED"
    print(f"first picture with figures after {first_s:.2f} s: {words}")
    return int(words == "MISSED")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="16.3-prebuilt")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--statements", type=int, default=0)
    options = parser.parse_args()
    return measure(options.server, options.seconds, options.clients, options.statements)


if __name__ == "__main__":
    sys.exit(main())
