"""Versions: of this program, and the order of PostgreSQL's."""

from __future__ import annotations

import os
import re
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def version() -> str:
    """The installed version, or this source tree's."""
    from importlib.metadata import PackageNotFoundError  # here: these load a parser of mails
    from importlib.metadata import version as installed_version

    try:
        return installed_version("pgbed")
    except PackageNotFoundError:
        import tomllib

        project = tomllib.loads(PROJECT.read_text("utf-8")).get("project", {}) if PROJECT.is_file() else {}
        return str(project.get("version", "unknown"))


def order_of(postgres: str) -> tuple[int, ...]:
    """A sort key for PostgreSQL versions: 17beta1 before 17rc1, and that before 17.0."""
    first, *more = [int(part) for part in re.findall(r"\d+", postgres)] or [0]
    early = re.search("[a-z]+", postgres)
    return (first, {"rc": -1, "beta": -2}.get(early[0], -3), *more) if early else (first, *more)


def revision() -> str:
    return os.environ.get("PGBED_REVISION", "")
