"""The grammar of `--pg`: labels of builds, and the names given to them.

16.3                       a label of `bench list builds`
16.3+fix.patch             that version with a patch file, called 16.3-fix
17.11+pgvector             with an extension, of contrib or of nixpkgs' sources
18.6+mine=~/src/ext        with an extension of a source tree, called 18.6-mine; trees take extensions, too
17.11:O3                   that version compiled differently, called 17.11-O3; see `VARIANTS`
mine=/opt/pg               an install, or a source tree with its uncommitted changes
new=git:~/src/postgres@REV a revision of a repository
fast=17.11:O3              another name for any of these; trees and revisions take variants, too
prod=postgresql://U@H/DB   an external server, by its connection string (a URI, or keywords with values)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engine.builds.compile_variants import CFLAGS, LAYOUT, VARIANTS, unknown_variant
from engine.builds.contrib import CONTRIB
from engine.core.errors import UserError
from engine.core.text import NAME, user_path

if TYPE_CHECKING:  # the screens need the grammar only
    from engine.builds.catalog import CatalogEntry
    from engine.builds.source_tree import Source
    from engine.core.model import Build


_SUFFIX = re.compile(rf":({'|'.join(VARIANTS)}|{LAYOUT.pattern}|{CFLAGS}[^:]*)$")
_EXTENSION = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(=.+)?")
_PATCH = re.compile(r"\.(patch|diff|txt)$")
_CONNECTION = re.compile(r"\s*(postgres(ql)?:|[a-z_]+\s*=)")
_CONNECTION_URI = re.compile(r"\s*postgres(ql)?:", re.I)
# In a URI between user and host, or by its keyword; errs on the side of yes.
_PASSWORD = re.compile(r"://[^@]*:[^@]*@|(?:^|[?&\s])(?:ssl)?password\s*=", re.I)
_SLUG_CHARS = 40
# A connection string that may go on after a comma: a URI whose hosts, or whose values after `?`, have not ended, and a
# keyword that takes a list. A word that may follow is not a release.
_OPEN = re.compile(r"postgres(ql)?:(//)?([^/?]*|[^?]*\?.*)|(.*\s)?(host|hostaddr|port)\s*=\s*[^\s=]*", re.I | re.DOTALL)
_RELEASE = re.compile(r"\d{1,2}(\.\d{1,2}|(alpha|beta|rc)\d+)([-+:].*)?")


@dataclass(frozen=True, slots=True)
class Label:
    """A build as the user names it; `resolve.check` adds the `origin`, `resolve.realise` makes a `Build` of it.

    `place` is a catalog label, a path, or an external server's connection string; `named`: the user chose the name
    (NAME=PLACE). `patches` are paths, `variants` and `extensions` stand as written. `origin` is a catalog entry, a
    source to compile, or an existing build; None for an external server.
    """

    name: str
    kind: Literal["label", "path", "revision", "server"]
    place: str
    revision: str = ""
    patches: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    named: bool = False
    origin: CatalogEntry | Source | Build | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing has to be built for it: every server has contrib's extensions."""
        return not self.patches and not self.variants and all(word in CONTRIB for word in self.extensions)

    @property
    def title(self) -> str:
        """The place with its patches, extensions and variants, spelled as a label, whatever the build is called."""
        patches = (_PATCH.sub("", Path(patch).name) for patch in self.patches)
        extensions = (word.partition("=")[0] for word in self.extensions)
        variants = (word.removeprefix(CFLAGS) for word in self.variants)
        return "-".join((self.place, *map(_slug, (*patches, *extensions, *variants))))

    @property
    def path(self) -> Path:
        return user_path(self.place)


def parsed(text: str) -> Label:
    """Parse one item of `--pg`. Raises UserError; reads no file."""
    if is_external(text):
        return Label(text.partition("=")[0], "server", text.partition("=")[2], named=True)
    check_named(text)
    name, rest = _halves(text)
    if "\0" in text:
        raise UserError(f"'{text}': no name or path holds a null character")
    if not rest:
        raise UserError(f"'{text}' names no build: NAME=LABEL, NAME=PATH or NAME=git:PATH@REVISION")
    rest, variants = _variants(rest)
    if rest.startswith("git:"):
        path, at, revision = _repository(rest.removeprefix("git:"))
        if name is None:
            raise UserError(f"{text} needs a name before it: NAME={text}")
        if not path or not at or not revision or revision.startswith("-"):
            raise UserError(f"{text}: a revision is named as NAME=git:PATH@REVISION")
        return Label(name, "revision", path, revision, variants=variants, named=True)
    base, *added = rest.split("+") if _is_label(rest, name is not None) else [rest]
    if name is not None and ("/" in base or not _is_label(base, True)):
        place, words = _tree_and_extensions(rest)
        place, more = _variants(place) if words else (place, ())
        return Label(name, "path", place, variants=(*more, *variants), extensions=words, named=True)
    base, more = _variants(base)
    if not all(added):
        raise UserError(f"{text}: a patch is named as LABEL+FILE, an extension as LABEL+NAME or LABEL+NAME=PATH")
    if ":" in base:
        raise unknown_variant(next(word for word in base.split(":")[1:] if not _SUFFIX.fullmatch(f":{word}")))
    label = Label(
        "",
        "label",
        base,
        patches=tuple(word for word in added if not _is_extension(word)),
        variants=(*more, *variants),
        extensions=tuple(filter(_is_extension, added)),
        named=name is not None,
    )
    return replace(label, name=label.title if name is None else name)


def joined(texts: Sequence[str]) -> tuple[str, ...]:
    """Rejoin items that a comma has split: it also stands between the hosts of a connection string."""
    items: list[str] = []
    for text in texts:
        begun = items[-1].partition("=")[2].strip() if items and is_external(items[-1]) else ""
        name, named, _ = text.partition("=")
        new = _RELEASE.fullmatch(text) or (named and NAME.fullmatch(name.strip()))
        if _OPEN.fullmatch(begun) and not new:
            items[-1] += f",{text}"
        else:
            items.append(text)
    return tuple(items)


@cache  # Launch asks for all builds at each key
def name_of(text: str) -> str:
    """The build's name, even if its label is invalid."""
    try:
        return parsed(text).name
    except UserError:
        return text.partition("=")[0]


def is_external(text: str) -> bool:
    return _CONNECTION.match(text.partition("=")[2]) is not None


def shown(text: str) -> str:
    """A label for printing: without the connection string, which may hold a password."""
    return f"{text.partition('=')[0]}=…" if is_external(text) else text


def check_named(text: str) -> None:
    """Raise UserError for a connection string without a name before it; the message does not quote it."""
    if not is_external(text) and (_CONNECTION_URI.match(text) or _PASSWORD.search(text)):
        raise UserError("a connection string needs a name before it: NAME=postgresql://…")


def refuse_password(text: str) -> None:
    check_named(text)
    if is_external(text) and _PASSWORD.search(text.partition("=")[2]):
        raise UserError(
            f"{name_of(text)}: leave the password out, because it would be shown here; keep it in ~/.pgpass or in a "
            "service file"
        )


def _halves(text: str) -> tuple[str | None, str]:
    # In a label, a `=` behind the first `:` or `+` belongs to a variant or to a patch's file name.
    name, sign, rest = text.partition("=")
    return (name, rest) if sign and not re.search("[:+]", name) else (None, text)


def _variants(text: str) -> tuple[str, tuple[str, ...]]:
    variants: list[str] = []
    while match := _SUFFIX.search(text):
        variants.insert(0, match[1])
        text = text[: match.start()]
    return text, tuple(variants)


def _repository(text: str) -> tuple[str, str, str]:
    """Part PATH@REVISION: either can have an `@`, as in workspaces such as job@2 and in HEAD@{1}."""
    ends = [at.start() for at in re.finditer("@", text)]
    longest = next((end for end in reversed(ends) if user_path(text[:end]).is_dir()), None)
    return text.partition("@") if longest is None else (text[:longest], "@", text[longest + 1 :])


def _is_label(text: str, named: bool) -> bool:
    # Labels begin with a digit; a folder of that name takes precedence.
    head = re.split("[+:]", text, maxsplit=1)[0]
    return not named or (head[:1].isdigit() and "/" not in head and not Path(text).is_dir())


def _is_extension(word: str) -> bool:
    return _EXTENSION.fullmatch(word) is not None and not _PATCH.search(word)


def _tree_and_extensions(text: str) -> tuple[str, tuple[str, ...]]:
    """A folder's name can have a `+`: a folder that exists as it is written takes precedence."""
    place, *words = text.split("+")
    if not all(map(_is_extension, words)) or user_path(text).exists():
        return text, ()
    folder = user_path(_variants(place)[0])
    return (place, tuple(words)) if folder.is_dir() else (text, ())


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:_SLUG_CHARS] or "changed"
