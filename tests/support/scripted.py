"""Installs that are another's but for some of its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(real: Path, folder: Path, program: str, script: str) -> Path:
    """An install of links to another's files, but for a program that is this script; returns the folder."""
    return changed(real, folder, {Path("bin") / program: script.encode()})


def changed(real: Path, folder: Path, files: Mapping[Path, bytes]) -> Path:
    """An install of links to another's files, but for these, relative to its folder; returns the folder."""
    folders = {parent for file in files for parent in file.parents}
    for parent in folders:
        (folder / parent).mkdir(parents=True, exist_ok=True)
        for entry in (real / parent).iterdir():
            if parent / entry.name not in {*folders, *files}:
                (folder / parent / entry.name).symlink_to(entry)
    for file, content in files.items():
        (folder / file).write_bytes(content)
        (folder / file).chmod(0o755)
    return folder
