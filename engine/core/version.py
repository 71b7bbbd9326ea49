"""The version of this program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


def version() -> str:
    """As it was installed; `uninstalled` where it runs from a source checkout."""
    try:
        return installed_version("pgbed")
    except PackageNotFoundError:
        return "uninstalled"
