"""Calls of `bench` by a screen, answered by a process that has loaded it already."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from tests.support import warm
from tui import bench

own_interpreter = bench.run  # what a user has


async def run(*arguments: str, console: Callable[[str], None] | None = None) -> tuple[int, str, str]:
    """A stand-in for `tui.bench.run`."""
    environment = dict(os.environ)
    if not warm.suits(environment):
        return await own_interpreter(*arguments, console=console)
    command = warm.bench([sys.executable, "-m", "engine", *arguments], environment)
    process, pipes = command.process, (command.out, command.err)
    readers, transports = [], []
    try:
        for pipe in pipes:
            reader = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda reader=reader: asyncio.StreamReaderProtocol(reader),  # type: ignore[misc]
                os.fdopen(pipe, "rb", 0),
            )
            readers.append(reader)
            transports.append(transport)
        out, err = await asyncio.gather(readers[0].read(), bench.read_lines(readers[1], console))
    except BaseException:
        process.kill()
        raise
    finally:
        code = process.wait()  # nothing is said any more: it ends, or was killed
        for transport in transports:
            transport.close()
    return code, out.decode(errors="replace"), err
