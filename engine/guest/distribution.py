"""Kernels of the machine's own distribution, by its package manager: fetched and unpacked, never installed.

apt is run with a configuration of its own in a temporary folder; the machine's is read and left alone. apt checks the
archives' signatures. Minor versions vanish from mirrors: which one it was, and its hash, are in the kernel's record.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.builds.nix import Progress
from engine.core.errors import UserError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INDEX = ("apt-get", "indextargets", "--format", "$(COMPONENT) $(RELEASE) $(REPO_URI)", "Created-By: Packages")
SECURITY = "-security"
# Modules that a guest's root may need. Sound and graphics are ten times as large.
KEPT = (
    "kernel/arch/", "kernel/block/", "kernel/crypto/", "kernel/fs/", "kernel/lib/", "kernel/mm/", "kernel/net/9p/",
    "kernel/drivers/block/virtio_blk", "kernel/drivers/char/", "kernel/drivers/misc/pvpanic", "kernel/drivers/virtio/",
    "kernel/drivers/watchdog/",
)  # fmt: skip
MEMBER = re.compile(
    r"(?:\./)?(?:boot/(?P<boot>vmlinuz|config)-[^/]+|(?:usr/)?lib/modules/(?P<release>[^/]+)/(?P<path>.+))"
)


@dataclass(frozen=True, slots=True)
class KernelSuites:
    """The suites that may have a kernel series, in the order in which they are tried."""

    series: str
    suites: tuple[str, ...]


DEBIAN = {
    "5.10-distro": KernelSuites("5.10", ("bullseye-security", "bullseye")),
    "6.1-distro": KernelSuites("6.1", ("bookworm",)),
    "6.12-distro": KernelSuites("6.12", ("bookworm-backports", "trixie")),
    "6.18-distro": KernelSuites("6.18", ("trixie-backports",)),
}


def known() -> dict[str, KernelSuites]:
    """The kernels that can be fetched here: none unless this is a Debian."""
    return DEBIAN if shutil.which("apt-get") and KEYRING.exists() else {}


def fetch(label: str, cache: Path, progress: Progress) -> Path:
    """The folder of a distribution's kernel, fetched unless cached. Raises UserError."""
    folder = cache / label
    if (folder / "kernel.json").is_file():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    reasons = []
    for suite in DEBIAN[label].suites:
        progress(f"kernel {label}: fetching from Debian's {suite}")
        with TemporaryDirectory(dir=cache) as work:
            try:
                unpacked = _fetched(DEBIAN[label].series, suite, Path(work))
            except _Failed as failed:
                reasons.append(f"{suite}: {failed}")
                continue
            unpacked.rename(folder)
            return folder
    raise UserError(f"kernel '{label}' is not available from this machine's package mirror ({'; '.join(reasons)})")


class _Failed(Exception):
    pass


def _fetched(series: str, suite: str, work: Path) -> Path:
    for folder in ("lists/partial", "cache/archives/partial", "debs", "made"):
        (work / folder).mkdir(parents=True)
    (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror(suite)} {suite} main\n")
    private = (
        "-qq", "-o", f"Dir::Etc::SourceList={work}/sources.list", "-o", "Dir::Etc::SourceParts=-",
        "-o", f"Dir::State::Lists={work}/lists", "-o", f"Dir::Cache={work}/cache", "-o", "APT::Sandbox::User=root",
        "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=2", "-o", "APT::Update::Error-Mode=any",
    )  # fmt: skip
    _run(("apt-get", *private, "update"), work)
    names = _run(("apt-cache", *private, "pkgnames", "linux-image-"), work).split()
    name = newest(names, series)
    if name is None:
        raise _Failed(f"it has no kernel {series}")
    depends = _run(("apt-cache", *private, "depends", name), work)
    needs = re.findall(r"Depends: (linux-(?:binary|modules)-\d\S*)", depends)
    # Since 7.0 the image and the modules are packages of their own.
    _run(("apt-get", *private, "download", name, *needs), work / "debs")
    archives = sorted((work / "debs").glob("*.deb"))
    for archive in archives:
        _unpack(archive, work / "made")
    if not (work / "made" / "bzImage").is_file():
        raise _Failed(f"{name} holds no kernel image")
    record = {
        "package": f"{name} {archives[0].name.split('_')[1]}",
        "archives": {archive.name: hashlib.sha256(archive.read_bytes()).hexdigest() for archive in archives},
    }
    (work / "made" / "kernel.json").write_text(json.dumps(record, indent=1) + "\n")
    return work / "made"


def newest(names: Sequence[str], series: str) -> str | None:
    """The newest package of a series, or None. `names` may include other flavours."""
    of_series = re.compile(rf"linux-image-{re.escape(series)}(?![0-9])[0-9.+a-z-]*-amd64")
    candidates = [
        name for name in names if of_series.fullmatch(name) and not re.search(r"-(cloud|rt)-|-dbg|-unsigned", name)
    ]
    return max(candidates, key=_order, default=None)


def _order(name: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", name)]


def _mirror(suite: str) -> str:
    lines = [line.split() for line in _run(INDEX, Path("/")).splitlines()]
    for part in lines:
        if len(part) == 3 and part[0] == "main" and not re.search(r"[-/]", part[1]):
            mirror = part[2]
            return mirror.rstrip("/").removesuffix("/debian") + "/debian-security" if SECURITY in suite else mirror
    raise _Failed("apt has no package mirror here")


def _run(command: Sequence[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise _Failed(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise _Failed(f"{command[0]}: {words[:300]}")
    return done.stdout


def _unpack(archive: Path, into: Path) -> None:
    """Unpack the image, its configuration and the modules that guests need."""
    with (
        subprocess.Popen(("dpkg-deb", "--fsys-tarfile", archive), stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as files,
    ):
        for member in files:
            place = place_of(member.name)
            if place is None or not member.isfile():
                continue
            source = files.extractfile(member)
            assert source is not None
            target = into / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(source, file)
            target.chmod(0o644)


def place_of(name: str) -> str | None:
    """A package file's path within the kernel's folder, or None to leave it out."""
    match = MEMBER.fullmatch(name)
    if match is None or ".." in name.split("/"):
        return None
    if match["boot"]:
        return "bzImage" if match["boot"] == "vmlinuz" else "config"
    path = match["path"]
    if path == "vmlinuz":  # of linux-binary, since 7.0
        return "bzImage"
    kept = path.startswith(KEPT) or path in ("config", "modules.builtin")
    return f"lib/modules/{match['release']}/{path}" if kept else None
