"""Asking `bench` for what a screen may not do itself: plans, comparisons, probes on and off, stopping a run.

Each question is a process of its own, the same command that a person would type with `--json`, so that a screen never
loads the statistics and never talks to a server, and a slow answer never holds up the picture.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import UserError

HOME = str(Path(__file__).parents[1])
ENDING_S = 2.0  # in which a process that was told to end has ended, or is killed


async def ask(*arguments: str, told: Callable[[str], None] | None = None) -> str:
    """What `bench ARGUMENTS` prints. Raises UserError with its last line when it fails.

    `told` hears each line of its progress (standard error). Cancelling ends the process.
    """
    code, out, err = await run(*arguments, told=told)
    if code != 0:
        lines = err.strip().splitlines()
        raise UserError(lines[-1].removeprefix("bench: ") if lines else f"bench {arguments[0]} ended with code {code}")
    return out


async def ask_json(*arguments: str, told: Callable[[str], None] | None = None) -> Any:
    """The JSON that `bench ARGUMENTS --json` prints. Raises UserError when it fails, or prints anything else."""
    answer = await ask(*arguments, "--json", told=told)
    try:
        return json.loads(answer)
    except ValueError:
        first = next(iter(answer.split("\n")), "")[:40]
        raise UserError(f"bench {arguments[0]} answered no JSON but '{first}'; is it another pgbed's?") from None


async def run(*arguments: str, told: Callable[[str], None] | None = None) -> tuple[int, str, str]:
    """Runs `bench ARGUMENTS`; its exit code, standard output and standard error."""
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
        assert process.stdout is not None and process.stderr is not None
        out, err = await asyncio.gather(process.stdout.read(), _lines(process.stderr, told))
        code = await process.wait()
    except asyncio.CancelledError:
        await _end(await started)
        raise
    return code, out.decode(errors="replace"), err


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a process and waits for its pipes: what outlives the loop is complained of when that has gone.

    An application that ends cancels twice: it gives up the work, and then all that is still being waited for.
    """
    while process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), ENDING_S)
        except TimeoutError:
            process.kill()
        except asyncio.CancelledError:
            continue


async def _lines(stream: asyncio.StreamReader, told: Callable[[str], None] | None) -> str:
    heard: list[str] = []
    while line := await stream.readline():
        heard.append(line.decode(errors="replace").rstrip("\n"))
        if told is not None:
            told(heard[-1])
    return "\n".join(heard)
