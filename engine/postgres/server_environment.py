"""Environment variables of servers, and the engine's own that libpq would obey."""

from __future__ import annotations

import os
from collections.abc import Mapping

from engine.core.model import Build


def environment_of(build: Build, environ: Mapping[str, str]) -> dict[str, str]:
    """The servers' environment, without the user's variables that could change a cluster.

    PATH is where initdb finds `locale`, which lists collations; the wrapper names it. Only an install of the user's own
    may need the user's LD_LIBRARY_PATH.
    """
    seen = {"PATH": environ.get("PGBED_SERVER_PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    if build.provenance == "local" and "LD_LIBRARY_PATH" in environ:
        seen["LD_LIBRARY_PATH"] = environ["LD_LIBRARY_PATH"]
    return seen


def ignore_libpq_variables() -> None:
    """Remove PGHOST, PGOPTIONS … from the environment: connections of the engine and of clients would obey them."""
    for name in [*os.environ]:
        if name.startswith("PG") and not name.startswith("PGBED_"):
            del os.environ[name]
