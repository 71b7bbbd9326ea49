"""Versions: of this program, and the order of PostgreSQL's."""

from __future__ import annotations

import os
import re


def version() -> str:
    """The installed version; `uninstalled` in a source checkout."""
    from importlib.metadata import PackageNotFoundError  # here: these load a parser of mails
    from importlib.metadata import version as installed_version

    try:
        return installed_version("pgbed")
    except PackageNotFoundError:
        return "uninstalled"


def order_of(postgres: str) -> tuple[int, ...]:
    """A sort key for PostgreSQL versions: 17beta1 before 17.0."""
    first, *more = [int(part) for part in re.findall(r"\d+", postgres)] or [0]
    return (first, -1, *more) if re.search("[a-z]", postgres) else (first, *more)


def revision() -> str:
    return os.environ.get("PGBED_REVISION", "")
