"""A cell in a guest, as the guest sees it: an attempt as everywhere, whose journal's rows go to the host.

python -m engine.run.guest_cell FOLDER

FOLDER holds job.json: {"manifest", "cell", "last_ids", "found"}, and channel, the port to the host.
"""

from __future__ import annotations

import base64
import os
import sys
import time
from pathlib import Path
from typing import Any

from engine.core.errors import UserError
from engine.core.lines import LineChannel, decoded
from engine.core.record import parsed
from engine.features import around_cells
from engine.journal.manifest import manifest_of
from engine.journal.wire import Wire
from engine.journal.writer import JournalWriter
from engine.postgres.server_environment import ignore_libpq_variables
from engine.run.attempt import CellAttempt
from engine.run.control import Commands
from engine.run.remote_clients import RemoteClients
from engine.run.stop import Stop
from engine.system.account import make_passable

RUN = Path("/bench/run")
PIECE_BYTES = 1 << 20
FILE_MAX_BYTES = 16 << 20
CLOCK_NS = 1_000_000_000


def main(folder: Path) -> int:
    job = parsed((folder / "job.json").read_bytes(), "job.json")
    manifest = manifest_of(job["manifest"], folder)
    cell = next(cell for cell in manifest.cells if cell.id == job["cell"])
    ignore_libpq_variables()
    port, place = os.open(folder / "channel", os.O_RDWR), RUN / "cells" / cell.id
    host = LineChannel(port, port)  # no other process in the guest has it open
    make_passable(place)
    journal = JournalWriter(RUN, Wire(host.send, job["last_ids"], job["found"]))
    commands, stop = Commands(journal), Stop()
    told_ns = 0

    def hear() -> None:
        nonlocal told_ns
        now_ns = time.monotonic_ns()
        if now_ns - told_ns > CLOCK_NS:
            host.send({"clock": now_ns})
            told_ns = now_ns
        for line in host.waiting():
            match decoded(line):
                case {"stop": str(reason)}:
                    stop.ask(reason)
                case record:
                    host.send({"answer": _answered(commands, record)})

    stop.poll_control = hear
    attempt = CellAttempt(place, manifest, cell, stop, commands, RemoteClients(manifest))
    with around_cells(manifest.parts, manifest.config(cell.subject), RUN):
        attempt.run()
    journal.close()
    _send_files(host, place)
    host.send({"ended": "finished" if attempt.finished else "not finished"})
    return 0 if attempt.finished else 1


def _answered(commands: Commands, record: dict[str, Any]) -> dict[str, str]:
    try:
        return {"ok": commands.answer(record)}
    except UserError as error:
        return {"error": str(error)}


def _send_files(host: LineChannel, place: Path) -> None:
    """Send the logs and the probes' output. The cluster disappears with the guest."""
    for path in sorted((*place.glob("*"), *place.glob("*/*"))):
        name = path.relative_to(place)
        if path.is_symlink() or not path.is_file() or name.parts[0] in ("data", "socket"):
            continue
        with path.open("rb") as file:
            left = FILE_MAX_BYTES
            while left and (piece := file.read(min(PIECE_BYTES, left))):
                left -= len(piece)
                host.send({"file": str(name), "b64": base64.b64encode(piece).decode()})


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except UserError as error:
        sys.exit(f"bench: {error}")  # on the console, whose last lines the host reports
