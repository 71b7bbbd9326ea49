"""Releases that are not labels: `16` stands for its newest minor; `v16.3`, `REL_16_3`, `postgres:16.3`, `master` and
`latest` get the one hint that helps.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence

from engine.builds.catalog import CatalogEntry, age, catalog, newest_of
from engine.builds.user_builds import RELEASE

_BRANCH = re.compile(r"(master|main|trunk|head|devel)|(?:postgresql-?)?(\d\d)[-_.]?(?:devel|dev|snapshot)", re.I)
_STABLE = re.compile(r"(?:origin/)?REL_?(\d\d)_STABLE", re.I)
_NEWEST = re.compile(r"(?:(?:postgres|postgresql|pg)[:@ ])?(latest|newest|current|stable|lts)", re.I)
# A word for PostgreSQL or its tags, up to three numbers, a pre-release, and a suffix: of an image (-alpine), of a
# distribution's package (-1.pgdg120+1), or of the output of `postgres --version` and `SELECT version()`.
_TYPED = re.compile(
    r"(?:refs/tags/|(?:docker\.io/)?library/)?(?:postgresql|postgres|pgsql|psql|pg|release|rel|version|v)?"
    r"(?:\s*\(postgresql\))?[\s:@_/-]*v?"
    r"(?P<major>\d{1,2})(?:[._](?P<minor>\d{1,3}|x))?(?:[._](?P<patch>\d{1,3}|x))?"
    r"(?:[\s._-]*(?P<stage>alpha|beta|rc)[\s._-]*(?P<number>\d{1,2})?)?"
    r"(?:-(?:(?:alpine|bookworm|bullseye|trixie|slim)|\d+[.+~])[\w.+~-]*|\s+(?:on\s|\().*)?",
    re.I | re.ASCII,
)
# A bare major version, alone or after NAME=, and additions to it: a patch, an extension, a variant.
_MAJOR = re.compile(r"(?P<name>[^=/]*=)?(?P<major>\d{2})(?P<added>[+:].*)?", re.DOTALL)
_MINOR = re.compile(r"(?:[^=/]*=)?((?:1[2-9]|[2-9]\d)\.\d{1,2})(?:[+:].*)?", re.DOTALL)


def missing(texts: Sequence[str]) -> tuple[str, ...]:
    """Releases that items of `--pg` name and no table of builds has; none where there is no table."""
    known = {entry.label for entry in catalog()}
    matches = filter(None, map(_MINOR.fullmatch, texts if known else ()))
    return tuple(dict.fromkeys(match[1] for match in matches if match[1] not in known))


def with_minor(text: str) -> str:
    """An item of `--pg`; a bare major version in it is replaced by the newest release of it, if one is known."""
    match = _MAJOR.fullmatch(text)
    release = newest_of(int(match["major"])) if match else None
    return f"{match['name'] or ''}{release}{match['added'] or ''}" if match and release else text


def hint(text: str, entries: Sequence[CatalogEntry]) -> str:
    """The label to type instead, as one line; empty if the text does not look like a release or is the label of one.

    The text may have patches, extensions and variants after it.
    """
    return _hint(text.strip(), entries) or _hint(re.split("[+:]", text)[0].strip(), entries)


def _hint(text: str, entries: Sequence[CatalogEntry]) -> str:
    releases = [entry.version for entry in entries if entry.label == entry.version]  # oldest first
    finished = [version for version in releases if re.fullmatch(r"\d+\.\d+", version)]
    if not finished or text in releases:
        return ""
    if match := _BRANCH.fullmatch(text) or _STABLE.fullmatch(text):
        major = match[match.lastindex or 0]
        branch = f"REL_{major}_STABLE" if major.isdecimal() and int(major) <= age(finished[-1])[0] else "master"
        return f"'{text}' is a branch: build it from a repository, NAME=git:~/src/postgres@{branch}"
    if _NEWEST.fullmatch(text):
        return f"'{text}' names no release: the newest here is '{finished[-1]}'"
    match = _TYPED.fullmatch(text)
    if match is None:
        return ""
    major, minor, stage = match["major"], match["minor"], match["stage"]
    oldest = age(releases[0])[0]
    if int(major) < oldest:
        named = f"{major}.{minor}" if minor and int(major) < 10 else major
        return f"PostgreSQL {named} is too old: {oldest} is the oldest that can be compared"
    near = [version for version in releases if age(version)[0] == int(major)]
    if stage:
        wanted = f"{major}{stage.lower()}{match['number'] or 1}"
    elif minor is None or minor.lower() == "x":
        if not near:
            return f"unknown build '{text}': no release of PostgreSQL {major} is here; {_pin(f'{major}.0')}"
        newest = next((version for version in reversed(near) if version in finished), near[-1])
        return f"'{text}' is a major version: name a release of it, such as '{newest}'"
    else:
        wanted = f"{major}.{int(minor)}"
    if wanted in releases:
        return f"unknown build '{text}': PostgreSQL {wanted} is '{wanted}' here"
    if not RELEASE.fullmatch(wanted):
        return ""
    place = bisect([age(version) for version in near], age(wanted)) - 0.5
    nearest = sorted(near, key=lambda version: (abs(near.index(version) - place), -near.index(version)))[:3]
    known = f"nearest: {', '.join(nearest)}" if near else f"known: {oldest} to {age(releases[-1])[0]}"
    return f"unknown build '{text}' ({known}); {_pin(wanted)}"


def _pin(version: str) -> str:
    return f"if it is a release, bench pin {version} adds it"
