"""Calls of `bench` for tasks that a screen may not do itself: plans, comparisons, probes on and off, stopping a run.

Each call is a process of its own, the same command that a person would type with `--json`, so that a screen never
loads the statistics and never talks to a server, and a slow answer never delays a paint.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakSet

from engine.core.errors import UserError

HOME = str(Path(__file__).parents[1])
ENDING_S = 2.0  # after which a terminated process is killed
_running: WeakSet[asyncio.subprocess.Process] = WeakSet()


async def ask(*arguments: str, console: Callable[[str], None] | None = None) -> str:
    """Return what `bench ARGUMENTS` prints. Raises UserError with the last line of its errors if it fails.

    `console` is called with each line of progress (standard error). Cancelling ends the process.
    """
    code, out, err = await run(*arguments, console=console)
    if code != 0:
        raise refusal(err, f"bench {arguments[0]} ended with code {code}")
    return out


async def ask_json(*arguments: str, console: Callable[[str], None] | None = None) -> Any:
    """Return the JSON that `bench ARGUMENTS --json` prints. Raises UserError if it fails or prints anything else."""
    answer = await ask(*arguments, "--json", console=console)
    try:
        return json.loads(answer)
    except ValueError:
        first = next(iter(answer.split("\n")), "")[:40]
        raise UserError(f"bench {arguments[0]} answered no JSON but '{first}'; is it another version?") from None


async def run(*arguments: str, console: Callable[[str], None] | None = None) -> tuple[int, str, str]:
    """Run `bench ARGUMENTS`; returns exit code, standard output and standard error."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([HOME, os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    started = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "engine", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    )
    try:
        process = await asyncio.shield(started)
        _running.add(process)
        assert process.stdout is not None and process.stderr is not None
        out, err = await asyncio.gather(process.stdout.read(), read_lines(process.stderr, console))
        code = await process.wait()
    except asyncio.CancelledError:
        await _end(await started)
        raise
    return code, out.decode(errors="replace"), err


def last_line(text: str, otherwise: str) -> str:
    return (text.strip() or otherwise).splitlines()[-1]


def refusal(err: str, otherwise: str) -> UserError:
    return UserError(last_line(err, otherwise).removeprefix("bench: "))


def end_all() -> None:
    """Kill all calls that have not ended, without waiting for them."""
    for process in _running:
        if process.returncode is None:
            process.kill()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process and drain its pipes: asyncio warns of pipes that outlive the loop.

    An application that ends cancels twice: first its workers, then every task that is still waiting.
    """
    while process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), ENDING_S)
        except TimeoutError:
            process.kill()
        except asyncio.CancelledError:
            continue


async def read_lines(stream: asyncio.StreamReader, console: Callable[[str], None] | None) -> str:
    """Read a stream to its end, and hand each line to the console as it comes."""
    lines: list[str] = []
    while line := await stream.readline():
        lines.append(line.decode(errors="replace").rstrip("\n"))
        if console is not None:
            console(lines[-1])
    return "\n".join(lines)
