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
    """The JSON that `bench ARGUMENTS --json` prints. Raises UserError when it fails."""
    return json.loads(await ask(*arguments, "--json", told=told))


async def run(*arguments: str, told: Callable[[str], None] | None = None) -> tuple[int, str, str]:
    """Runs `bench ARGUMENTS`; its exit code, standard output and standard error."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([HOME, os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engine", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        out, err = await asyncio.gather(process.stdout.read(), _lines(process.stderr, told))
        code = await process.wait()
    except asyncio.CancelledError:
        if process.returncode is None:
            process.terminate()
        raise
    return code, out.decode(errors="replace"), err


async def _lines(stream: asyncio.StreamReader, told: Callable[[str], None] | None) -> str:
    heard: list[str] = []
    while line := await stream.readline():
        heard.append(line.decode(errors="replace").rstrip("\n"))
        if told is not None:
            told(heard[-1])
    return "\n".join(heard)
