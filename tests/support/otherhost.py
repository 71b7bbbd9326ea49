"""Another host for clients, as tests have it: a way there that is no ssh, for where there is no server of ssh.

The stand-in takes ssh's arguments and runs the command in a shell of this machine, with an environment of its own and
a folder of its own for temporary files. As with ssh, a process there sees the end of its input when the stand-in ends,
however that ends. It can hold all bytes back for a while, each way. The behaviour of real ssh is tested in
test_other_host.py, outside the Nix build.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from queue import Queue
from threading import Thread

BROUGHT_S = 200.0  # until clients work there: all that they need goes there first
WRAPPER = """#!/bin/sh
exec "{python}" -I "{script}" "{folder}" "$@"
"""


def stand_in(folder: Path, delay_ms: float = 0) -> dict[str, str]:
    """The environment in which `bench` goes to another host whose temporary files are in `folder`/there."""
    there = folder / "there"
    there.mkdir()
    program = folder / "ssh"
    program.write_text(WRAPPER.format(python=sys.executable, script=Path(__file__).resolve(), folder=there))
    program.chmod(0o755)
    return {"PGBED_SSH": str(program), "PGBED_TEST_DELAY_MS": f"{delay_ms}"}


def left_there(folder: Path) -> list[str]:
    """Remains on the other host: files in its folder, and processes that know of it."""
    there = folder / "there"
    remains = [str(path) for path in there.iterdir()]
    mark = f"TMPDIR={there}".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    remains.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return remains


def _carry(source: int, target: int, delay_s: float) -> None:
    """Everything from one descriptor to the other, each part so much later."""
    parts: Queue[tuple[float, bytes]] = Queue(maxsize=256)

    def read() -> None:
        part = b"-"
        while part:
            part = os.read(source, 65536)
            parts.put((time.monotonic() + delay_s, part))

    Thread(target=read, daemon=True).start()
    while True:
        due_s, part = parts.get()
        time.sleep(max(0.0, due_s - time.monotonic()))
        if not part:
            break
        try:
            while part:
                part = part[os.write(target, part) :]
        except BrokenPipeError:
            break
    os.close(target)


def main() -> int:
    """The stand-in: FOLDER, then ssh's arguments."""
    folder, *words = sys.argv[1:]
    command = words[words.index("--") + 2]
    delay_s = float(os.environ.get("PGBED_TEST_DELAY_MS", "0")) / 1000
    shell = subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "TMPDIR": folder},
        start_new_session=True,
    )
    assert shell.stdin is not None and shell.stdout is not None
    to, back = os.dup(shell.stdin.fileno()), os.dup(shell.stdout.fileno())
    shell.stdin.close()
    shell.stdout.close()
    Thread(target=_carry, args=(0, to, delay_s), daemon=True).start()
    _carry(back, 1, delay_s)
    return shell.wait()


if __name__ == "__main__":
    sys.exit(main())
