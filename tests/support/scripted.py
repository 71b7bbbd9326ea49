"""Installs that are another's but for one program."""

from __future__ import annotations

from pathlib import Path


def install(real: Path, folder: Path, program: str, script: str) -> Path:
    """An install of links to another's files, but for a program that is this script; returns the folder."""
    (folder / "bin").mkdir(parents=True)
    for entry in real.iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    for other in (real / "bin").iterdir():
        if other.name != program:
            (folder / "bin" / other.name).symlink_to(other)
    own = folder / "bin" / program
    own.write_text(script)
    own.chmod(0o755)
    return folder
