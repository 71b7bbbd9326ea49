"""Servers that may be lacking: compiled here, with USDT, frame pointers and every symbol, or of the newest major."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

_FOLDER = Path(os.environ.get("PGBED_SERVERS", "/nonexistent"))
_NONE = "no server compiled here is in PGBED_SERVERS: ./check says why"

# Labels of PGBED_SERVERS, as `servers` of conftest.py has them.
COMPILED_HERE = tuple(sorted(one.name for one in _FOLDER.glob("*") if "prebuilt" not in one.name))


def compiled_here() -> list[object]:
    """Labels as parameters of a test; without any, one that is skipped with the reason."""
    return [*COMPILED_HERE] or [pytest.param("compiled", marks=pytest.mark.skip(reason=_NONE))]


def major_at_hand(major: int) -> object:
    """A major version as a parameter, skipped where there is no such server."""
    if any(_major(one.name) == major for one in _FOLDER.glob("*")):
        return major
    return pytest.param(major, marks=pytest.mark.skip(reason=f"no server {major} in PGBED_SERVERS"))


def at_night(*majors: int) -> list[object]:
    """Major versions as parameters that the nightly tests have besides."""
    why = "each time the oldest version is tried, one between, and the newest"
    return [pytest.param(major, marks=pytest.mark.nightly(why)) for major in majors]


def from_major(first: int) -> list[str]:
    """The labels of a major version and later ones."""
    return sorted(one.name for one in _FOLDER.glob("*") if _major(one.name) >= first)


def _major(label: str) -> int:
    match = re.match(r"\d+", label)
    return int(match[0]) if match else 0


# As parameters of a test.
MAJORS = (12, 16, 18, major_at_hand(19), *at_night(14, 17))
