"""Names of a request's workload and its variants: NAME[:VALUE][+NAME…], the first of which gives the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workloads import modules, workload
from workloads.combined.names import Part, parts_of, variants_of
from workloads.options import options_of

DEFAULT = "insert"


def named_workloads(name: str | None, variants: Sequence[str]) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """The workload that gives the steps, the option that its name holds, and the names of all variants.

    The last is empty if that workload is run alone. Raises UnknownName or ValueError.
    """
    registered = modules()
    names = variants_of(variants, registered) or (name or DEFAULT,)
    parts = [parts_of(text, registered) for text in names]
    for text, other in zip(names[1:], parts[1:], strict=True):
        if other[0] != parts[0][0]:
            raise ValueError(
                f"--variants: {names[0]} and {text} begin with different workloads, whose steps cannot be compared"
            )
    if variants and name is not None and workload_argument(name)[0] != parts[0][0].name:
        raise ValueError(f"--workload {name} and --variants {','.join(names)} exclude each other")
    seen: dict[frozenset[Part], str] = {}
    for text, own in zip(names, parts, strict=True):
        background = frozenset(own[1:])
        if background in seen:
            twin = seen[background]
            raise ValueError(
                f"--variants: {text} is given twice" if twin == text else f"--variants: {twin} and {text} are the same"
            )
        seen[background] = text
        workload("+".join(part.name for part in own))  # refuses invalid combinations
        for part in own[1:]:
            workload_argument(part.text)
    labels = [variant_label(own) for own in parts]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"--variants: two of them would be called {label}: give their scripts different names")
    main, argument = workload_argument(parts[0][0].text)
    full = ["+".join((main, *(part.text for part in own[1:]))) for own in parts]
    return main, argument, () if full == [main] else tuple(full)


def variant_label(parts: Sequence[Part]) -> str:
    return "+".join((parts[0].name, *(part.label for part in parts[1:])))


def workload_argument(name: str) -> tuple[str, dict[str, Any]]:
    """Split NAME:VALUE into the workload's name and the option that VALUE gives. Raises UnknownName or ValueError."""
    name, colon, value = name.partition(":")
    if not colon:
        return name, {}
    for option in options_of(workload(name).options):
        if option.argument:
            return name, {option.name: option.parsed(value)}
    raise ValueError(f"workload {name} takes no value after its name: ':{value}'")
