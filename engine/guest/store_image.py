"""The programs of a guest from the Nix store, as one read-only image: read like a disk, without a host thread.

Programs outside the store, such as this machine's own Python over hostpkgs, come by 9p.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.builds.nix import cache_folder
from engine.core.errors import UserError
from engine.core.kernel import Share

STORE = Path("/nix/store")
KEPT = 3  # images, each of several hundred MB
# Owner root, and the store's own time: Python's byte code records its sources' times.
FORMAT = ("--quiet", "--all-root", "-T1")
SHELL = Path("/bin/sh")  # used by init.sh and initdb


def share() -> Share:
    """The way of programs into a guest with such an image: it alone suffices if Python itself is in the store."""
    return "erofs" if Path(sys.base_prefix).resolve().is_relative_to(STORE) else "erofs+9p"


def unavailable(mkfs: Path | None) -> str:
    if mkfs is None:
        return "mkfs.erofs is missing (erofs-utils)"
    return "" if shutil.which("nix-store") else "there is no nix-store here"


def image(needed: Iterable[Path], mkfs: Path) -> Path:
    """The image of everything in the store that these programs need, made unless it exists. Raises UserError."""
    places = (part for path in (*needed, SHELL) for part in (path.absolute(), path.resolve()))
    names = sorted({path.parts[3] for path in places if path.is_relative_to(STORE) and len(path.parts) > 3})
    digest = _run(["nix-store", "--query", "--requisites", *(str(STORE / name) for name in names)]) if names else ""
    closure = sorted(digest.split())
    folder = cache_folder() / "closures"
    folder.mkdir(exist_ok=True)
    image_path = folder / f"{hashlib.sha256(chr(10).join(closure).encode()).hexdigest()[:32]}.erofs"
    if not image_path.exists():
        with TemporaryDirectory(dir=folder) as work:
            tree = Path(work) / "store"
            tree.mkdir()
            for start in range(0, len(closure), 100):
                _run(["cp", "--archive", "--reflink=auto", "--", *closure[start : start + 100], str(tree)])
            _run([str(mkfs), *FORMAT, f"{work}/image", str(tree)])
            (Path(work) / "image").chmod(0o644)  # qemu reads it as another user
            _run(["chmod", "--recursive", "u+w", str(tree)])  # so that other users than root can remove it
            (Path(work) / "image").rename(image_path)
    image_path.touch()
    for old in sorted(folder.glob("*.erofs"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)
    return image_path


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        raise UserError(f"{command[0]}: {' '.join(done.stderr.split())[-300:] or f'exit code {done.returncode}'}")
    return done.stdout
