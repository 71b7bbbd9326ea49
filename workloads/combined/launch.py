"""The launcher of a workload with background workloads: starts each one's launcher on one page, and waits for all.

They share barrier, STOP and RELEASE, so that all begin at once and all stop if one fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO

import msgspec

from workloads.combined.spec import PartSpec, Spec
from workloads.counter_page import Control, Page, State, Word
from workloads.process import PYTHON, die_with_parent, name_process, stop_on_signals


def main() -> int:
    """Exit with the worst child's code; print the main one's report, with the others' in `background`."""
    die_with_parent(os.getppid())
    name_process("loads launcher")
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=Spec)
    page = Page(spec.page_fd, spec.roles)
    stop_on_signals(page)
    with ExitStack() as opened:
        outputs = [opened.enter_context(TemporaryFile()) for _ in spec.parts]
        running: dict[int, int] = {}
        for place, (part, output) in enumerate(zip(spec.parts, outputs, strict=True)):
            command = (os.environ.get(PYTHON, part.command[0]), *part.command[1:])
            # Pass on this process's own input, the page and a password.
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, close_fds=False)
            running[process.pid] = place
            assert process.stdin is not None
            try:
                process.stdin.write(part.stdin.encode())
                process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended, which is handled below
        codes = _wait(spec, page, running)
        if not any(codes):
            report, *others = [_report(output) for output in outputs]
            beside = {part.name: own for part, own in zip(spec.parts[1:], others, strict=True) if own}
            sys.stdout.buffer.write(msgspec.json.encode({**report, **({"background": beside} if beside else {})}))
    return 1 if 1 in codes else max(codes)


def _wait(spec: Spec, page: Page, running: dict[int, int]) -> list[int]:
    """Wait for all parts and return their exit codes (1: killed); one that fails stops the others."""
    codes = [0] * len(spec.parts)
    while running:
        pid, status = os.wait()
        place = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        codes[place] = code if code >= 0 else 1
        if code and not page.words[Control.STOP]:
            _fail(page, spec.firsts[place], spec.parts[place], code)
    return codes


def _report(output: IO[bytes]) -> dict[str, msgspec.Raw]:
    output.seek(0)
    return msgspec.json.decode(output.read() or b"{}", type=dict[str, msgspec.Raw])


def _fail(page: Page, slot: int, part: PartSpec, code: int) -> None:
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    page.set_error(slot, f"the client launcher of {part.name} ended: {ended}")
    page.set_word(slot, Word.STATE, State.FAILED)
    page.words[Control.STOP] = 1


if __name__ == "__main__":
    sys.exit(main())
