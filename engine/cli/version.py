"""What `bench --version` says: the version, the revision, and what servers are built of."""

from __future__ import annotations

import json
import os
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from engine.builds.source_tree import git
from engine.core.errors import UserError
from engine.core.text import visible
from engine.core.version import revision, version

SOURCE = Path(__file__).parents[2]


def version_line() -> str:
    packages = os.environ.get("PGBED_PACKAGES")  # set by the wrapper
    if packages:
        return f"bench {version()}, {_named(revision(), 'built from changed files')}, package set {packages}"
    try:
        installed = distribution("pgbed")
    except PackageNotFoundError:
        return f"{_of_source()}, no package set (not built by Nix)"
    installer = (installed.read_text("INSTALLER") or "an installer").strip()
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id")
    where = f"from revision {commit}" if commit else "of no known revision"
    return visible(f"bench {version()}, installed by {installer}, {where}, no package set (not built by Nix)")


def _of_source() -> str:
    number = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]["version"]
    try:
        commit = git(SOURCE, "rev-parse", "HEAD", failing=True).strip()
        changed = bool(commit and git(SOURCE, "status", "--porcelain"))
    except UserError:
        commit, changed = "", False
    return f"bench {number}, {_named(commit, 'no git here')}{' with changes' if changed else ''}"


def _named(commit: str, otherwise: str) -> str:
    return f"revision {commit}" if commit else f"revision unknown ({otherwise})"
