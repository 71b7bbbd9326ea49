"""The command line that asks for what a request asks for."""

from __future__ import annotations

import shlex
from typing import Any

from engine.plan.request import Request
from workloads.options import options_of


def arguments(request: Request) -> tuple[str, ...]:
    """The options of `bench run` for a request."""
    words: list[str] = []
    for option in options_of(Request):
        value = getattr(request, option.name)
        if value != option.default or option.name == "builds":
            words += option.arguments(value)
        if option.name == "workload":
            words += [word for name, own in request.options.items() for word in _words(name, own)]
    return tuple(words)


def command(request: Request) -> str:
    """What one would type for the same run."""
    return shlex.join(("bench", *arguments(request)))


def _words(name: str, value: Any) -> tuple[str, ...]:
    """An option of the workload: its flag is its name."""
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return (flag,) if value else ()
    return (flag, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
