"""Installs whose `initdb` copies the cluster that the real one made for the same options before.

To make a cluster takes most of a second of CPU, and the tests start hundreds of servers, whose clusters would all be
alike. Each user has copies of their own, as nobody else may read a cluster. Tests of `initdb` itself use the installs
as they are (`by_itself`, BY_THEMSELVES), and so do builds by Nix and all nightly tests.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

from engine.core.model import Build
from tests.support import scripted

VARIABLE = "PGBED_SERVERS"
ORIGINALS = "PGBED_ORIGINAL_SERVERS"  # of the workers of a call of pytest, whose VARIABLE has been replaced
# For `bench` as a process: the installs as they are.
_ORIGINAL = os.environ.get(ORIGINALS) or os.environ.get(VARIABLE)
BY_THEMSELVES: dict[str, str] = {VARIABLE: _ORIGINAL} if _ORIGINAL else {}
REAL = "initdb.real"
INITDB = """#!/bin/sh
real={real} folder={made}
data= options=
for word; do
  case $word in
    --pgdata=*) data=${{word#--pgdata=}} ;;
    *) options="$options $word" ;;
  esac
done
case $options in */* | *--version*) exec "$real" "$@" ;; esac
made=$folder/$({id} -u)$options
if [ ! -d "$made" ]; then
  {mkdir} "$made.$$" || exit
  if ! "$real" --pgdata="$made.$$/data" $options > "$made.$$/log" 2>&1; then
    {cat} "$made.$$/log"
    {rm} -r "$made.$$"
    exit 1
  fi
  {mv} -T "$made.$$" "$made" 2> /dev/null || {rm} -r "$made.$$"  # another was first
fi
{cat} "$made/log"
exec {cp} -a --sparse=always "$made/data/." "$data"
"""


def installs(servers: Path, folder: Path) -> Path:
    """Such an install for each of a folder of LABEL -> install, in a folder that every user may enter."""
    folder.chmod(0o755)
    for real in servers.iterdir():
        one = folder / real.name
        copies = one / "made"
        programs = {name: shutil.which(name) for name in ("cat", "cp", "id", "mkdir", "mv", "rm")}
        words = {"real": (real / "bin" / "initdb").resolve(), "made": copies, **programs}
        script = INITDB.format(**{name: shlex.quote(str(word)) for name, word in words.items()})
        scripted.install(real.resolve(), one, "initdb", script)
        (one / "bin" / REAL).symlink_to(real.resolve() / "bin" / "initdb")
        copies.mkdir()
        copies.chmod(0o1777)
    return folder


def by_itself(build: Build) -> Build:
    """The build with its own `initdb`."""
    real = build.bin / REAL
    return replace(build, prefix=str(real.resolve().parents[1])) if real.exists() else build
