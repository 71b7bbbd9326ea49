"""Features: all that a run may have beyond which server is slower, by how much, and how sure that is.

A feature is a package in this folder and a line of `REGISTRY`: it goes with both. It may import any other package, but
no other feature, and no package imports it: this registry alone knows features by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from engine.features.feature import Feature, MeasuredStep

__all__ = ["Feature", "MeasuredStep", "features", "with_options", "with_parts"]

REGISTRY = ["engine.features.counters"]  # modules, with a FEATURE in each


def features() -> tuple[Feature, ...]:
    return tuple(import_module(module).FEATURE for module in REGISTRY)


def with_options(values: Mapping[str, Any]) -> Iterator[tuple[Feature, Any]]:
    """Each feature with its options among those of a request, by feature."""
    return ((feature, values.get(feature.name, feature.options())) for feature in features())


def with_parts(values: Mapping[str, Any]) -> Iterator[tuple[Feature, Any]]:
    """Each feature with its part among those of a manifest, by feature."""
    return ((feature, values.get(feature.name, feature.part())) for feature in features())
