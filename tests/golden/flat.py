"""Records as lines, so that a difference reads as the keys that changed: one line per key, `PATH: VALUE`.

Objects of a list become columns, one line per key with the values of all objects, by step where each has one. Empty
values are left out, long lists are cut, and numbers are rounded, as libraries differ in the last digits.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

DIGITS = 5
MOST = 4  # values in a line
EMPTY: tuple[Any, ...] = (None, "", [], {})


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path and the text of each value."""
    if value in EMPTY:
        return
    if isinstance(value, dict):
        for key in sorted(value):
            yield from flat(value[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
        if all("step" in row for row in value):
            steps = dict.fromkeys(row["step"] for row in value)
            for step in steps:
                yield from _columns([row for row in value if row["step"] == step], f"{path}[{step}]")
        else:
            yield from _columns(value, path)
    elif isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        yield from flat({str(name): entry for name, entry in value}, path)
    elif isinstance(value, list):
        yield path, _joined(value)
    else:
        yield path, _text(value)


def _columns(rows: Sequence[dict[str, Any]], path: str) -> Iterator[tuple[str, str]]:
    for key in sorted({key for row in rows for key in row}):
        values = [row.get(key) for row in rows]
        if all(value in EMPTY for value in values):
            continue
        if all(isinstance(value, dict) for value in values if value not in EMPTY):
            yield from _columns([value or {} for value in values], f"{path}.{key}")
        else:
            yield f"{path}.{key}", _joined(values)


def _joined(values: Sequence[Any]) -> str:
    """The first values; equal ones that follow each other are counted."""
    runs = [(text, len(list(same))) for text, same in itertools.groupby(_text(value) for value in values[:MOST])]
    more = f" … {len(values)} in all" if len(values) > MOST else ""
    return " ".join(text if count == 1 else f"{text} *{count}" for text, count in runs) + more


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    if isinstance(value, list):
        return f"({_joined(value)})"
    if isinstance(value, dict):
        return "{" + " ".join(f"{path}: {text}" for path, text in flat(value)) + "}"
    return json.dumps(value, ensure_ascii=False)
