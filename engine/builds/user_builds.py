"""The user's own table of builds, besides pgbed's: ~/.config/pgbed/builds.toml (XDG_CONFIG_HOME).

    [builds."18.7"]                       # as `bench pin 18.7` adds it
    source = "sha256-…"                   # of postgresql-18.7.tar.bz2

    [builds."17.11-mine"]                 # another build, made of a known one
    from = "17.11"
    patches = ["~/patches/mine.patch"]
    cflags = ["-O3"]
    configure_flags = ["--enable-cassert"]

It is read strictly, since its builds are compiled and run.
"""

from __future__ import annotations

import os
import re
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

import msgspec
import tomli_w

from engine.builds.compile_variants import FLAG
from engine.core.errors import UserError
from engine.core.record import converted, parsed, parsed_toml
from engine.system.files import read_text

RELEASES = "https://ftp.postgresql.org/pub/source"
VERSIONS = "https://www.postgresql.org/versions.json"
RELEASE = re.compile(r"[1-9]\d?(\.\d{1,2})?((alpha|beta|rc)[1-9]\d?)?")
ANSWER_MAX_BYTES = 1 << 20
TIMEOUT_S = 20.0


class OwnBuild(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One entry: a release by its tarball's hash, or a build derived from another."""

    source: str = ""
    base: str = msgspec.field(default="", name="from")
    patches: tuple[str, ...] = ()
    cflags: tuple[str, ...] = ()
    configure_flags: tuple[str, ...] = ()


class _BuildTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    builds: dict[str, OwnBuild] = {}


class Release(msgspec.Struct, frozen=True):
    """A major version as postgresql.org lists it: its newest minor, and whether it is supported."""

    major: str
    newest: str
    supported: bool


def table_path() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pgbed" / "builds.toml"


def own_builds() -> dict[str, OwnBuild]:
    """The table's entries by label. Raises UserError with the file and the invalid entry."""
    path = table_path()
    if not os.path.lexists(path):
        return {}
    text = read_text(path, "table of builds")
    builds = converted(parsed_toml(text, str(path)), _BuildTable, str(path)).builds
    for label, build in builds.items():
        _check(f"{path}: build '{label}'", label, build)
    return builds


def pin(version: str, sha256: str = "") -> tuple[Path, str]:
    """Add a release, by its published checksum unless given; returns table and checksum. Raises UserError."""
    if not RELEASE.fullmatch(version):
        raise UserError(f"'{version}' is not a release of PostgreSQL such as 18.7 or 19beta1")
    table = own_builds()
    checksum = sha256.lower() or _published(version)
    if not re.fullmatch("[0-9a-f]{64}", checksum):
        raise UserError(f"'{checksum}' is not a sha256: expected 64 hexadecimal digits")
    table[version] = OwnBuild(source="sha256-" + b64encode(bytes.fromhex(checksum)).decode())
    path = table_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".builds-", delete=False) as file:
            tomli_w.dump({"builds": msgspec.to_builtins(table)}, file)
        Path(file.name).replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    return path, checksum


def tarball_url(version: str) -> str:
    """The URL of a release's source; `releases` in config.toml names a mirror of postgresql.org's pub/source."""
    return f"{_mirror() or RELEASES}/v{version}/postgresql-{version}.tar.bz2"


def releases() -> tuple[Release, ...]:
    """The releases listed by postgresql.org, newest major first. Raises UserError if it cannot be reached."""
    url = f"{_mirror()}/versions.json" if _mirror() else VERSIONS
    rows = converted(parsed(_fetched(url), url), list[dict[str, object]], url)
    listed = []
    for row in rows:
        major, minor = str(row.get("major", "")), str(row.get("latestMinor", ""))
        newest = f"{major}.{minor}"
        if RELEASE.fullmatch(newest) and int(major) >= 12:
            listed.append(Release(major, newest, row.get("supported") is True))
    if not listed:
        raise UserError(f"{url}: lists no release")
    return tuple(sorted(listed, key=lambda release: -int(release.major)))


def _published(version: str) -> str:
    url = f"{tarball_url(version)}.sha256"
    text = _fetched(url, f", and bench pin {version} --sha256 HEX needs none").decode(errors="replace")
    match = re.fullmatch(rf"([0-9a-f]{{64}})\s+\*?postgresql-{re.escape(version)}\.tar\.bz2\s*", text)
    if match is None:
        raise UserError(f"{url} holds no checksum of postgresql-{version}.tar.bz2, but '{text[:60]}'")
    return match[1]


def _fetched(url: str, otherwise: str = "") -> bytes:
    import urllib.error  # slow to import (HTTP, TLS), and rarely needed
    import urllib.request
    from http.client import HTTPException

    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read(ANSWER_MAX_BYTES)
    except urllib.error.HTTPError as error:
        missing = "there is no such release" if error.code == 404 else f"the server answers {error.code}"
        raise UserError(f"{url}: {missing}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{url} cannot be reached: {reason}; releases in config.toml names a mirror{otherwise}"
        ) from None
    return body


def _mirror() -> str:
    return os.environ.get("PGBED_RELEASES", "").rstrip("/")


def _check(where: str, label: str, build: OwnBuild) -> None:
    if wrong := [flag for flag in (*build.cflags, *build.configure_flags) if not FLAG.fullmatch(flag)]:
        raise UserError(f"{where}: '{wrong[0]}' is not a flag")
    if bool(build.source) == bool(build.base):
        raise UserError(
            f"{where}: needs either source, the hash of a release's tarball, or from, another build's label"
        )
    if not build.source:
        return
    if not RELEASE.fullmatch(label):
        raise UserError(f"{where}: has a source, so its label must be a release, such as 18.7")
    if _changes(build):
        raise UserError(
            f'{where}: a release cannot be changed; put the changes under another label with from = "{label}"'
        )
    try:
        valid = build.source.startswith("sha256-") and len(b64decode(build.source[7:], validate=True)) == 32
    except ValueError:
        valid = False
    if not valid:
        raise UserError(f"{where}: source '{build.source}' must be sha256- and 32 bytes in base64")


def _changes(build: OwnBuild) -> Mapping[str, object]:
    return {name: value for name in ("patches", "cflags", "configure_flags") if (value := getattr(build, name))}
