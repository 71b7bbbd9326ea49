"""What `--pg` names, taken apart: a label, a patched or differently compiled one, an install, a tree, a revision.

16.3                       a label of `bench list builds`
16.3+fix.patch             that version with a patch file, called 16.3-fix
17.11:O3                   that version compiled in another way, called 17.11-O3; see `VARIANTS`
mine=/opt/pg               an install, or a source tree with its uncommitted changes
new=git:~/src/postgres@REV a revision of a repository
fast=17.11:O3              another name for what has one; variants go with trees and revisions, too
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from engine.core.errors import UserError
from engine.core.text import visible


@dataclass(frozen=True, slots=True)
class Variant:
    """Another way to compile: what is added to the recipe's CFLAGS and to the arguments of configure."""

    cflags: tuple[str, ...] = ()
    configure_flags: tuple[str, ...] = ()


CFLAGS = "CFLAGS="
VARIANTS: Mapping[str, Variant] = {
    "O3": Variant(cflags=("-O3",)),
    # Fat, because not every `ar` has the plugin that reads the other ones.
    "lto": Variant(cflags=("-flto=auto", "-ffat-lto-objects")),
    "cassert": Variant(configure_flags=("--enable-cassert",)),
}
FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9=+._,/-]*")  # one that no shell reads otherwise
_SUFFIX = re.compile(rf":({'|'.join(VARIANTS)}|{CFLAGS}[^:]*)$")
_SLUG_CHARS = 40


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """One build as the user named it.

    `label` is how it is called. `place` is a label of the catalog, or a path; `named` says whether it came as
    NAME=PLACE. `patches` are paths, `variants` as they were written.
    """

    label: str
    kind: Literal["label", "path", "revision"]
    place: str
    revision: str = ""
    patches: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    named: bool = False

    @property
    def plain(self) -> bool:
        """Whether nothing about it is changed."""
        return not self.patches and not self.variants

    @property
    def title(self) -> str:
        """What it is, whatever it is called: the place with its patches and variants, as a label can have them."""
        return "-".join((self.place, *map(_patch_slug, self.patches), *map(_variant_slug, self.variants)))

    @property
    def path(self) -> Path:
        """The place as a path, `~` being the user's home."""
        return Path(self.place).expanduser()


def parsed_build(spec: str) -> BuildSpec:
    """One item of `--pg`. Raises UserError for what cannot be understood; looks at no file."""
    name, rest = _halves(spec)
    rest, variants = _variants(rest)
    if rest.startswith("git:"):
        path, at, revision = rest.removeprefix("git:").partition("@")
        if name is None:
            raise UserError(f"{visible(spec)} needs a name before it: NAME={visible(spec)}")
        if not path or not at or not revision or revision.startswith("-"):
            raise UserError(f"{visible(spec)}: a revision is named as NAME=git:PATH@REVISION")
        return BuildSpec(name, "revision", path, revision, variants=variants, named=True)
    base, *patches = rest.split("+") if _is_label(rest, name is not None) else [rest]
    if name is not None and ("/" in base or not _is_label(base, True)):
        return BuildSpec(name, "path", rest, variants=variants, named=True)
    base, more = _variants(base)
    if not all(patches):
        raise UserError(f"{visible(spec)}: a patch is named as LABEL+FILE")
    if ":" in base:
        raise unknown_variant(base.partition(":")[2].partition(":")[0])
    variants = (*more, *variants)
    found = BuildSpec("", "label", base, patches=tuple(patches), variants=variants, named=name is not None)
    return replace(found, label=found.title if name is None else name)


def build_label(spec: str) -> str:
    """How a build is called, also one that cannot be."""
    try:
        return parsed_build(spec).label
    except UserError:
        return spec.partition("=")[0]


def unknown_variant(word: str) -> UserError:
    """The error for a way to compile that there is not."""
    return UserError(f"unknown variant ':{visible(word)}' (known: {', '.join(VARIANTS)}, {CFLAGS}FLAGS)")


def variant(word: str) -> Variant:
    """What a variant changes, by its word. Raises UserError."""
    if word.startswith(CFLAGS):
        flags = tuple(word.removeprefix(CFLAGS).split())
        if not flags or not all(map(FLAG.fullmatch, flags)):
            raise UserError(f":{visible(word)}: expected flags of the compiler, as in :CFLAGS=-march=native")
        return Variant(cflags=flags)
    if word not in VARIANTS:
        raise unknown_variant(word)
    return VARIANTS[word]


def _halves(spec: str) -> tuple[str | None, str]:
    """The name and what it names; None for a label, behind whose first `:` or `+` a `=` is no such sign."""
    name, sign, rest = spec.partition("=")
    return (name, rest) if sign and not re.search("[:+]", name) else (None, spec)


def _variants(text: str) -> tuple[str, tuple[str, ...]]:
    found: list[str] = []
    while match := _SUFFIX.search(text):
        found.insert(0, match[1])
        text = text[: match.start()]
    return text, tuple(found)


def _is_label(text: str, named: bool) -> bool:
    """Whether it is a label rather than a path: labels begin with a digit, and a folder of that name comes first."""
    head = re.split("[+:]", text, maxsplit=1)[0]
    return not named or (head[:1].isdigit() and "/" not in head and not Path(text).is_dir())


def _patch_slug(patch: str) -> str:
    return _slug(re.sub(r"\.(patch|diff|txt)$", "", Path(patch).name))


def _variant_slug(word: str) -> str:
    return _slug(word.removeprefix(CFLAGS))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:_SLUG_CHARS] or "changed"
