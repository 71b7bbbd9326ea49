"""Values that shells complete: labels, configs, kernels, steps, presets and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from engine.core.errors import UserError
from workloads import workloads
from workloads.api.names import NotRegistered, UnknownName
from workloads.api.options import Option, options_of

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def values_of(option: Option) -> Completer | None:
    """Completion for the values of an option; None if only the user knows them."""
    names = NAMES.get(option.name)
    if option.choices:
        return _completer(lambda _: option.choices, several=option.many)
    return _completer(names, several=option.many) if names else None


def rare_options(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    name = ctx.params.get("workload") or "insert"
    options = (option for known in workloads() if known.name == name for option in options_of(known.options))
    return [CompletionItem(f"{option.name}=") for option in options if option.name.startswith(incomplete)]


def steps(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in _steps({}) if name.startswith(incomplete)]


def _completer(names: Callable[[Mapping[str, Any]], Iterable[str]], *, several: bool) -> Completer:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        try:
            matching = [name for name in dict.fromkeys(names(ctx.params)) if name.startswith(last)]
        except (UserError, UnknownName, NotRegistered):
            return []
        return [CompletionItem(f"{before}{comma}{name}") for name in matching]

    return complete


def _builds(_: Mapping[str, Any]) -> Iterable[str]:
    from engine.builds.catalog import catalog

    return [entry.label for entry in catalog()]


def _configs(_: Mapping[str, Any]) -> Iterable[str]:
    from engine.postgres.configs import catalog

    return [spec.name for spec in catalog()]


def _kernels(_: Mapping[str, Any]) -> Iterable[str]:
    from engine.core.kernel import HOST
    from engine.guest.kernels import catalog

    return [HOST, *(entry.label for entry in catalog())]


def _workloads(_: Mapping[str, Any]) -> Iterable[str]:
    return [known.name for known in workloads()]


def _steps(values: Mapping[str, Any]) -> Iterable[str]:
    wanted = values.get("workload")
    sizes = [known.sizes() for known in workloads() if wanted in (None, known.name)]
    return [name for size in sizes for name in dict(size.steps)]


def _presets(_: Mapping[str, Any]) -> Iterable[str]:
    from workloads.presets import presets

    return list(presets())


NAMES: dict[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "builds": _builds,
    "base": _builds,
    "configs": _configs,
    "kernels": _kernels,
    "workload": _workloads,
    "steps": _steps,
    "preset": _presets,
}
