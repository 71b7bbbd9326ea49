"""The command line of a request."""

from __future__ import annotations

import shlex

from engine.plan.request import Request, request_options
from workloads import workload
from workloads.api.options import options_of


def arguments(request: Request) -> tuple[str, ...]:
    words: list[str] = []
    entries = request.entries()
    for option in request_options():
        value = entries.get(option.name, option.default)
        if value != option.default or option.name == "builds":
            words += option.arguments(value)
        if option.name == "workload" and request.options:
            options = {option.name: option for option in options_of(workload(value).options)}
            words += [word for name, option in request.options.items() for word in options[name].arguments(option)]
    return tuple(words)


def command(request: Request) -> str:
    return shlex.join(("bench", *arguments(request)))
