"""The launcher of a step of the TPC-C-like workload: `python -m workloads.tpcc.launch`, the step's spec on stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from workloads.api.base import CLIENT_FOLDER
from workloads.client.connection import Session, scalar
from workloads.client.counter_page import Control, Page, Word
from workloads.pgbench.initialization import as_step, run_once
from workloads.pgbench.launch import PgbenchStep
from workloads.pgbench.launcher import serve
from workloads.pgbench.program import PgbenchFailed
from workloads.pgbench.scripts import timed
from workloads.tpcc.conditions import conditions, schema
from workloads.tpcc.spec import CAPACITY, CHECK, INIT, TpccSpec

VACUUM = "VACUUM (FREEZE, ANALYZE)"


def _run(spec: TpccSpec, page: Page) -> None:
    with TemporaryDirectory(prefix=CLIENT_FOLDER, dir=spec.folder) as name:
        folder, kind = Path(name), spec.step["kind"]
        for script in spec.scripts:
            (folder / script.name).write_text(timed(script))
        if kind == INIT:
            as_step(spec.dsn, page, lambda session: _initialize(spec, folder, session))
        elif kind == CHECK:
            as_step(spec.dsn, page, _check)
        else:
            report = PgbenchStep(spec, page, folder).run()
            if kind == CAPACITY:
                report["found"] = {"capacity_per_s": _per_s(page)}
            sys.stdout.buffer.write(msgspec.json.encode(report))


def _initialize(spec: TpccSpec, folder: Path, session: Session) -> None:
    settle = (VACUUM, "CHECKPOINT") if spec.checkpoint else (VACUUM,)
    for statement in (*schema(spec.options.pgbench_scale, spec.rows_seed), *settle):
        session.run(statement)
    for script in spec.scripts:
        run_once(spec, folder, script, session.check)


def _check(session: Session) -> None:
    """Raises Failed for the first condition that does not hold."""
    for condition in conditions():
        session.check()
        if wrong := scalar(session.connection, condition.query.encode()):
            raise PgbenchFailed(f"not consistent: {condition.text}, but not in {wrong:,} of them")


def _per_s(page: Page) -> float:
    """The transactions of all clients, in their server's own time."""
    done = sum(page.word(slot, Word.STATEMENTS) for slot in range(page.roles))
    whole_ns = page.word(0, Word.ENDED_NS) - page.words[Control.START_NS] - page.words[Control.PAUSED_NS]
    return max(1.0, done * 1e9 / max(1, whole_ns))


if __name__ == "__main__":
    sys.exit(serve(TpccSpec, _run))
