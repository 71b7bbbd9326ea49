"""Distribution packages that only some plans need, installed by the first plan that does.

Environment:
    PGBED_INSTALL   the program that installs them, called with PROGRAM=PACKAGE…; set by ./bench if Nix does not
                    provide its programs
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping

VARIABLE = "PGBED_INSTALL"


def install(packages: Mapping[str, str], progress: Callable[[str], None]) -> None:
    """Install packages by program. Never raises: the caller that looks for a program reports its absence."""
    installer = os.environ.get(VARIABLE)
    if not installer or not packages:
        return
    progress(f"installing {', '.join(packages.values())}")
    pairs = [f"{program}={package}" for program, package in packages.items()]
    try:
        done = subprocess.run([installer, *pairs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as error:
        progress(f"{installer}: {error.strerror}")
        return
    if done.returncode:
        output = done.stdout.decode(errors="replace").strip().splitlines()
        progress(f"not installed: {output[-1] if output else f'exit code {done.returncode}'}")
