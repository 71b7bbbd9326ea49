"""Compiled files that are kept (by ccache): the next build of a source tree compiles only what has changed since.

Environment:
    PGBED_CCACHE  their folder; empty: none
"""

from __future__ import annotations

import grp
import os
from pathlib import Path

from engine.builds import nix
from engine.core.errors import UserError

SYSTEM_CCACHE = Path("/var/cache/ccache")  # as set by NixOS's programs.ccache
BUILDERS = "nixbld"


def folder() -> Path | None:
    """The folder of compilation caches, or None.

    A user without a Nix daemon compiles as himself. Root's builds run as Nix's build users, for whom a folder is made;
    other users' do too, but there only an administrator can make it. A build that cannot write there does without.
    """
    named = os.environ.get("PGBED_CCACHE")
    if named is not None:
        if named and not Path(named).is_dir():
            raise UserError(f"config.toml: ccache = {named}, which is not a folder")
        return Path(named).absolute() if named else None
    if os.geteuid() != 0 and os.access("/nix/store", os.W_OK):
        cache = nix.cache_folder() / "ccache"
        cache.mkdir(parents=True, exist_ok=True)
        return cache
    if SYSTEM_CCACHE.is_dir():
        return SYSTEM_CCACHE
    return _for_build_users(Path("/var/cache/pgbed-ccache")) if os.geteuid() == 0 else None


def _for_build_users(shared: Path) -> Path:
    shared.mkdir(parents=True, exist_ok=True)
    try:
        os.chown(shared, 0, grp.getgrnam(BUILDERS).gr_gid)
        shared.chmod(0o2770)
    except (KeyError, OSError):
        pass  # without such users, root's builds are run by root
    return shared
