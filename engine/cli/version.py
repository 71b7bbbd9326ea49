"""The text of `bench --version`: the version, the revision, and the package set that servers are built of."""

from __future__ import annotations

import json
import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from engine.builds.source_tree import state_of
from engine.core.errors import UserError
from engine.core.text import visible
from engine.core.version import revision, version

SOURCE = Path(__file__).parents[2]


def version_line() -> str:
    packages = os.environ.get("PGBED_PACKAGES")  # set by the wrapper
    if packages:
        checkout = os.environ.get("PGBED_CHECKOUT", "")  # set by ./bench
        commit = revision() or (_commit(Path(checkout)) if checkout else "")
        return (
            f"bench {version()}, revision {commit or 'unknown (changed files or other inputs)'}, package set {packages}"
        )
    try:
        installed = distribution("pgbed")
    except PackageNotFoundError:
        commit = _commit(SOURCE) or "unknown (no git here)"
        return f"bench {version()}, revision {commit}, no package set (not built by Nix)"
    installer = (installed.read_text("INSTALLER") or "an installer").strip()
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id")
    where = f"from revision {commit}" if commit else "of no known revision"
    return visible(f"bench {version()}, installed by {installer}, {where}, no package set (not built by Nix)")


def _commit(checkout: Path) -> str:
    try:
        commit, changes = state_of("bench", checkout)
        return f"{commit} with changes" if changes else commit
    except UserError:
        return ""
