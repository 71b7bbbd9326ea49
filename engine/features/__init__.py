"""Features: all that a run may have beyond which server is slower, by how much, and how sure that is.

A feature is a package in this folder and a line of `REGISTRY`: it goes with both. It may import any other package, but
no other feature, and no package imports it: this registry alone knows features by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.features.feature import Feature, MeasuredStep
from workloads.api.options import checked, options_of

if TYPE_CHECKING:
    from engine.core.model import Config
    from engine.features.feature import Tables
    from engine.host.kernel_settings import Knob

__all__ = ["MeasuredStep", "around_cells", "chosen_options", "conditions", "features", "knobs", "tables",
           "with_options", "with_parts"]  # fmt: skip

# Modules, with a FEATURE in each; PGBED_FEATURES adds to them.
REGISTRY = [
    "engine.features.counters",
    "engine.features.device",
    "engine.features.published",
    "engine.features.response_times",
    "engine.features.scheduler",
    "engine.features.time_parts",
    "engine.features.transactions",
]


def features() -> tuple[Feature, ...]:
    added = filter(None, os.environ.get("PGBED_FEATURES", "").split(","))
    return tuple(import_module(module).FEATURE for module in (*REGISTRY, *added))


def chosen_options(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The options of features that differ from their defaults, by feature. Raises UnknownName or ValueError."""
    chosen = {}
    for feature in features():
        names = {option.name for option in options_of(feature.options)}
        options = checked(feature.options, {name: value for name, value in entries.items() if name in names})
        if options != feature.options():
            chosen[feature.name] = options
    return chosen


def with_options(values: Mapping[str, Any]) -> Iterator[tuple[Feature, Any]]:
    """Each feature with its options among those of a request, by feature."""
    return ((feature, values.get(feature.name, feature.options())) for feature in features())


def with_parts(values: Mapping[str, Any]) -> Iterator[tuple[Feature, Any]]:
    """Each feature with its part among those of a manifest, by feature."""
    return ((feature, values.get(feature.name, feature.part())) for feature in features())


def knobs() -> dict[str, Knob]:
    """Settings of the machine that a config may have, by name."""
    return {name: knob for feature in features() for name, knob in feature.knobs.items()}


def tables() -> Tables:
    """The functions of all features' tables, by key."""
    return {key: table for feature in features() for key, table in feature.tables().items()}


def conditions(parts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Names and values of all that features set in a whole run, which is the same in runs that are compared."""
    return tuple(pair for feature, part in with_parts(parts) for pair in feature.conditions(part))


@contextmanager
def around_cells(parts: Mapping[str, Any], config: Config, run: Path) -> Iterator[None]:
    """Enter the contexts of all features around cells that run together. Raises UserError."""
    with ExitStack() as entered:
        for feature, part in with_parts(parts):
            entered.enter_context(feature.around_cells(part, config, run))
        yield
