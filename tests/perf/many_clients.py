"""How soon many clients are ready, and how much memory they take: `python -m tests.perf.many_clients [CLIENTS] [STEP]`.

Prints the time from the launcher's start until all roles stand at the barrier, and the private memory of the client
processes, in all and for each (Private_Clean + Private_Dirty of smaps_rollup; PSS beside it).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from engine.builds import resolve
from engine.core.model import Config
from engine.postgres.server import DATABASE, Server
from tests.support.steprun import cpu_s, run_step, running
from workloads.counter_page import Control, State, Word
from workloads.insert.options import Options
from workloads.insert.steps import plan_steps
from workloads.insert.workload import WORKLOAD

GOAL_READY_S, GOAL_MB = 30.0, 8.0


def measure(server: Server, clients: int, name: str) -> tuple[float, int, float, float]:
    """(seconds until ready, processes, private MB of one, PSS in MB of one), after the steps before have been run."""
    steps = plan_steps("g24b", 1000, clients, [name], rows_written=1000, query_seconds=1)
    for step in steps[:-1]:
        began = time.monotonic()
        result = run_step(server.dsn(DATABASE), step, "g24b", clients=clients)
        assert result.exit_code == 0, [role.error for role in result.roles.values() if role.error][:1]
        print(f"{step.name}: {time.monotonic() - began:.1f} s", flush=True)
    began = time.monotonic()
    with running(server.dsn(DATABASE), steps[-1], "g24b", clients=clients) as run:
        run.until(lambda: run.all_in(State.READY) or bool(run.page.words[Control.STOP]), 600)
        ready_s = time.monotonic() - began
        errors = [run.page.error(slot) for slot in range(len(run.roles)) if run.page.error(slot)]
        assert not errors, errors[0]
        pids = [run.page.word(slot, Word.CLIENT_PID) for slot in range(len(run.roles))]
        memory = [sizes(pid) for pid in pids]
        for kind in sorted({role.name for role in run.roles}):
            slots = [slot for slot, role in enumerate(run.roles) if role.name == kind]
            client = sum(cpu_s(run.page.word(slot, Word.CLIENT_PID)) for slot in slots) / len(slots)
            backend = sum(cpu_s(run.page.word(slot, Word.BACKEND_PID)) for slot in slots) / len(slots)
            print(f"{kind}: {client * 1000:.1f} ms CPU of the client, {backend * 1000:.1f} ms of its backend, each")
        return ready_s, len(pids), sum(own for own, _ in memory) / len(pids), sum(pss for _, pss in memory) / len(pids)


def sizes(pid: int) -> tuple[float, float]:
    """(private, proportional) memory of a process in MB."""
    found: dict[str, float] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, value = line.split(":")
        found[key] = int(value.split()[0]) / 1024
    return found["Private_Clean"] + found["Private_Dirty"], found["Pss"]


def main() -> int:
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    name = sys.argv[2] if len(sys.argv) > 2 else "qr100"
    (build,) = resolve.resolve([os.environ.get("PGBED_PG", "16.3")], print)
    needed = max(s.connections for s in WORKLOAD.steps(WORKLOAD.plan(Options(clients=clients)).record)) + 20
    settings = (("max_connections", str(needed)), ("shared_buffers", "128MB"), ("fsync", "off"))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)  # the server runs as another user
        with Server(build, Config("many", settings, "test"), Path(folder) / "cell") as server:
            server.create_database()
            ready_s, processes, private_mb, pss_mb = measure(server, clients, name)
    print(
        f"{clients} clients, {processes} processes: ready after {ready_s:.1f} s (goal {GOAL_READY_S:.0f}), "
        f"{private_mb:.1f} MB private (goal {GOAL_MB:.0f}), {pss_mb:.1f} MB PSS each"
    )
    return 0 if ready_s <= GOAL_READY_S and private_mb <= GOAL_MB else 1


if __name__ == "__main__":
    sys.exit(main())
